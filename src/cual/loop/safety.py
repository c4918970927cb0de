"""Whether the next version of an agent does worse than the one before: by labels of people, learned by neither.

Only compared here; what follows is decided in `Adaptation.finish`.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from cual.data.pool import Pool
from cual.heads import Samples
from cual.learners import Accepted
from cual.loop.evidence import Predicts, without_themselves
from cual.loop.machine import Composed
from cual.types import BoolArray, Row

FOLDS = 5
"""Groups of answers that are left out."""
SURE = 1.64
"""Standard deviations: in one of twenty comparisons chance would have it so."""


class Comparable(Composed, Predicts, Protocol):
    """An agent, as far as two versions of it are compared."""

    @property
    def verified_samples(self) -> Samples: ...


@dataclass(frozen=True)
class Comparison:
    """Labels that two versions predict.

    Attributes
    ----------
    answers
        How many of the answers only the version before predicts rightly, and how many only the one after it.
        The one before never learned them; after it, the learner predicts each without having been told it.
    held_out
        The same of first labels that were held out.

    >>> Comparison(answers=(9, 1), held_out=(0, 0)).worse, Comparison((3, 2), (1, 1)).worse
    (True, False)
    """

    answers: tuple[int, int]
    held_out: tuple[int, int]

    @property
    def worse(self) -> bool:
        """Whether the version after it does worse on either, by more than chance would have it."""
        return any(lost - won > SURE * math.sqrt(lost + won) for lost, won in (self.answers, self.held_out))

    def __str__(self) -> str:
        (lost, won), (forgotten, gained) = self.answers, self.held_out
        return (
            f"of the answers, {lost} are predicted by the version before only and {won} by this one only; "
            f"of the first labels that were held out, {forgotten} and {gained}"
        )


def told_of(row: Row) -> str | None:
    """What a row of an agent's history says of guesses that were not learned.

    >>> told_of({"unlearned": 3})
    'It would have done worse than the version before, so 3 guesses about known classes were not learned.'
    """
    if "unlearned" not in row:
        return None
    guesses = f"{row['unlearned']} guesses about known classes"
    return f"It would have done worse than the version before, so {guesses} were not learned."


def comparison(before: Comparable, after: Predicts, pool: Pool, accepted: Accepted) -> Comparison:
    """Compare two versions by what was `accepted` in between, and by held-out samples of the one before.

    It takes as long as `FOLDS` last rounds.
    """
    answers = accepted.only(accepted.human == 1)
    told = (0, 0)
    if len(answers.rows):
        own = before.names.encode(before.predict(pool.take(answers.rows)).tolist())
        left_out = without_themselves(before, pool, answers, FOLDS)
        told = _changed(own == answers.classes, left_out == answers.classes)
    held_out = before.verified_samples
    labels = before.names.decode(held_out.y.cpu().numpy())
    first, now = (agent.predict(held_out.X) == labels for agent in (before, after))
    return Comparison(told, _changed(first, now))


def _changed(before: BoolArray, after: BoolArray) -> tuple[int, int]:
    """How many are right only before, and only after."""
    return int((before & ~after).sum()), int((after & ~before).sum())
