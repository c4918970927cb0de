"""More labels for an adaptation that is going on, or whose questions have ended."""

from typing import Any

from cual.errors import BadBudget
from cual.loop import events
from cual.loop.budget import count_labels
from cual.loop.state import State
from cual.methods import Method
from cual.types import Row


def extending(
    state: State, method: Method, budget: float | int, pool_size: int, person: Any = None
) -> list[Row]:
    """The events that raising the budget to `budget`, a share of the pool or a count, comes to.

    What the learner did since somebody was asked last counts no more: it asks instead. Open questions that
    nobody answered because it was stopped are asked again.
    """
    state.check_going()
    labels = count_labels(budget, pool_size, method.budget_factor)
    if labels <= state.budget:
        most = f"; the pool has {pool_size} samples" if labels == pool_size else ""
        raise BadBudget(f"the budget is {state.budget} labels already, and can only be raised{most}")
    if method.ends_below_threshold and state.ended == "nothing lies above T_inner":
        raise BadBudget(
            "nothing in the pool looks novel any more, and the method ends there: more labels would not be used"
        )
    asked = 1 + max((question.round for question in state.questions.values()), default=-1)
    again = asked if state.ended is not None or state.opened > asked else None
    rounds = method.rounds if asked >= method.rounds + state.rounds_added else 0
    rows = [events.extended(labels - state.budget, rounds, again, person)]
    after = state.after(rows)
    unanswered = next((after.questions[sample] for sample in after.open), None)
    if unanswered is not None and after.closed == asked:
        rows.append(events.reopened(asked - 1, unanswered.query, person))
    return rows
