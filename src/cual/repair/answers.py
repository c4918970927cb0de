"""Taking back what people answered in an adaptation: one person, or some samples, as if it had not been said.

Which answers count without these, and what is believed then, is the loop's own rule (`cual.loop.state`).
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from cual.data.labels import SKIP
from cual.errors import BadOption, Conflict, UnknownSample
from cual.loop import events
from cual.loop.adaptation import Adaptation
from cual.loop.state import State
from cual.repair.base import A, By, Draft, Repairable, version_of
from cual.repair.samples import Given, entries_of, taken_back, without_emptied
from cual.repair.teaching import Taught, learned
from cual.types import BoolArray, Label, Progress, Row


class Standing(NamedTuple):
    """What an adaptation made of a sample."""

    label: Label
    weight: float


def answers_forgotten(
    agent: A,
    task: Adaptation,
    person: Any,
    samples: Collection[Label] | None,
    by: By,
    progress: Progress | None = None,
    checked: bool = False,
) -> A:
    """The next version, without what one person, or anybody, answered in an adaptation that led to the agent.

    Samples about which others have answered are learned as these say: where that is what was learned, nothing
    changes. What was believed of a class that nobody names any more goes with its answers. `checked` says that
    the caller knows that the adaptation led to the agent.
    """
    if not isinstance(task, Adaptation):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadOption(f"task is {task!r:.200}, but takes an Adaptation")
    if not checked:
        _check_led_to(agent, task)
    if person is not None and not any(_is_answer(row) and row.get("person") == person for row in task.journal):
        raise UnknownSample(f"{person!r} answered nothing in this adaptation")
    before = _standing(task.state)
    after = _standing(_state_without(task, person, samples))
    changed = [sample for sample, standing in before.items() if after.get(sample) != standing]
    rows = task.pool.ids.rows_of(changed)
    given = Given.of(task.pool.take(rows, agent.device), changed)
    draft = Draft.of(agent)
    held_out = given.within(draft.validation.X)
    entries = entries_of(draft, given)
    still = held_out | np.isin(np.arange(len(changed)), entries.rows)  # the others were taken back before
    draft = taken_back(draft, given, entries)
    relearned = _relearned(agent, task, given, [after.get(sample) for sample in changed], still)
    draft, how = learned(agent, draft, relearned, progress)
    draft, emptied = without_emptied(draft, entries.classes.tolist())
    change = {
        "change": "forgot",
        "samples": int(still.sum()),
        "answers_of": None if person is None else "one person",
        "learned_otherwise": len(relearned.codes),
        "adaptation": task.agent.version + 1,
        "new_classes": list(relearned.names.names[len(agent.names) :]),
        "removed_classes": emptied,
        **how,
    }
    return version_of(agent, draft, change, by, progress)


def _check_led_to(agent: Repairable, task: Adaptation) -> None:
    """An adaptation led to an agent if the agent's history has it, after that of the agent it started from."""
    before = tuple(task.agent.history)
    rest = agent.history[len(before) :]
    same = agent.history[: len(before)] == before and agent.seed == task.agent.seed
    outcome: Row = {"version": task.agent.version + 1, **task.outcome}
    # An earlier release wrote down less of an outcome.
    if not same or not rest or any(outcome.get(name) != value for name, value in rest[0].items()):
        raise Conflict("this adaptation did not lead to this agent: its history does not have it")


def _standing(state: State) -> dict[Label, Standing]:
    weights = state.weights
    answers = {
        sample: Standing(answer, weights.get(sample, 1.0))
        for sample, answer in state.answers.items()
        if answer is not SKIP
    }
    return {**{sample: Standing(label, 1.0) for sample, label in state.believed.items()}, **answers}


def _state_without(task: Adaptation, person: Any, samples: Collection[Label] | None) -> State:
    """What the journal implies without some answers; of samples without a person, nothing at all."""
    chosen = None if samples is None else set(samples)
    if chosen is not None:
        unknown = [sample for sample in samples or () if sample not in task.pool.ids]
        if unknown:
            raise UnknownSample(f"the pool of the adaptation has no sample {unknown[0]!r}")
    state = State.of(_kept(task.journal, person, chosen))
    if person is None and chosen is not None:
        state.pseudo_labels = {s: label for s, label in state.pseudo_labels.items() if s not in chosen}
    return state


def _is_answer(row: Row) -> bool:
    return row["event"] in (*events.ANSWERS, "undone")


def _kept(rows: Sequence[Row], person: Any, chosen: set[Label] | None) -> list[Row]:
    """Events without some people's answers; a sample that only such an answer brought up is gone with it."""
    kept: list[Row] = []
    gone: set[Label] = set()
    for row in rows:
        answers = _is_answer(row)
        theirs = answers and (person is None or row.get("person") == person)
        dropped = theirs and (chosen is None or row["sample"] in chosen)
        if dropped and row["event"] == "volunteered":
            gone.add(row["sample"])
        if not dropped and not (answers and row["sample"] in gone):
            kept.append(row)
    return kept


def _relearned(
    agent: Repairable, task: Adaptation, given: Given, labels: Sequence[Standing | None], still: BoolArray
) -> Taught:
    """Samples that others have answered, as what they say, under the names that classes have now."""
    codes = np.full(len(labels), -1)
    weights = np.ones(len(labels), np.float32)
    names = agent.names
    for row, standing in enumerate(labels):
        name = None if standing is None else present_name(agent.history, standing.label, task.agent.version + 1)
        if standing is not None and name is not None and still[row]:
            names = names.plus(name)
            codes[row] = names.index(name)
            weights[row] = standing.weight
    lesson = Taught(given, codes, names, weights if task.state.several else None)
    return lesson.only(codes >= 0)


def present_name(history: Sequence[Row], label: Label, since: int) -> Label | None:
    """What a class is called now that had a name in some version; None where it was removed.

    >>> rows = [{"version": 1}, {"version": 2, "change": "renamed", "class": "cat", "to": "tomcat"}]
    >>> rows += [{"version": 3, "change": "merged", "into": "pet", "classes": ["tomcat", "dog"]}]
    >>> present_name(rows, "cat", since=1), present_name(rows, "fox", since=1)
    ('pet', 'fox')
    """
    name: Label | None = label
    for row in history:
        if row["version"] <= since:
            continue
        change = row.get("change")
        if change == "renamed" and row["class"] == name:
            name = row["to"]
        elif change == "merged" and name in row["classes"]:
            name = row["into"]
        elif (change == "removed" and row["class"] == name) or name in row.get("removed_classes", ()):
            name = None
    return name
