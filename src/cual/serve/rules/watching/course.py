"""How a version's predictions go: what came first, what came last, which alerts there are. A pure function.

The arithmetic is in `evidence`. Who stores the course and tells of alerts is in `noting`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from cual.serve.rules.watching.evidence import (
    OTHER,
    Baseline,
    Evidence,
    Interval,
    Moments,
    added,
    mix_change,
    share,
    shift,
)
from cual.types import BoolArray, FloatArray, IntArray

BLOCK = 100
"""Samples after which drift is looked at, and whether an alert is over."""
BLOCKS = 10
"""Blocks that are "now": so many samples are behind each figure of the present."""
FIRST = 2000
"""The first samples of a version, which later ones are compared with."""
MOST_CLASSES = 256
"""Classes that are counted by themselves, the most frequent ones."""
SURE_SHIFT = 4.0
"""Deviations that known samples must have moved by beyond chance: each block is another look."""
LEAST_SHIFT = 0.2
"""Deviations of known samples below which a shift is nothing to tell of."""
LEAST_CHANGE = 0.1
"""The same for the class mix: the share of samples that have changed class."""
WRONG_CHANGE = 1e-4
"""How often a class mix is thought to have changed that has not, at each look."""


@dataclass(frozen=True)
class Yardstick:
    """What a version's validation samples say of its threshold: what predictions are compared with.

    Attributes
    ----------
    rate
        The rate of false alarms that was set; None for the method's own threshold.
    above, n
        Validation samples above the threshold, and all of them.
    known
        Scores of those below it.

    >>> stick = Yardstick.of(np.array([0.1, 0.3, 0.9]), threshold=0.5, rate=0.05)
    >>> stick.above, stick.n, stick.known.n
    (1, 3, 2)
    """

    rate: float | None
    above: int
    n: int
    known: Moments

    @classmethod
    def of(cls, scores: FloatArray, threshold: float, rate: float | None) -> "Yardstick":
        """
        >>> Yardstick.of(np.array([0.1, 0.2, 0.9]), 0.5, 0.05).above
        1
        """
        over = scores > threshold
        return cls(rate, int(over.sum()), len(scores), Moments.of(scores[~over]))


@dataclass(frozen=True)
class Judged:
    """Samples that were judged, in the order in which they came.

    Attributes
    ----------
    unlike
        Whether each is unlike anything known, by the agent's own threshold.
    scores
        Novelty.
    classes
        Numbers of predicted classes; `OTHER` where none was predicted.
    unsure
        How many are known, but of an uncertain class.

    >>> judged = Judged(np.array([False, True, False]), np.array([0.1, 0.9, 0.2]), np.array([0, 0, 1]))
    >>> len(judged), judged.part(1, 3).scores.tolist()
    (3, [0.9, 0.2])
    """

    unlike: BoolArray
    scores: FloatArray
    classes: IntArray
    unsure: int = 0

    def __len__(self) -> int:
        return len(self.unlike)

    def part(self, start: int, stop: int) -> "Judged":
        return Judged(self.unlike[start:stop], self.scores[start:stop], self.classes[start:stop])


@dataclass(frozen=True)
class Tally:
    """What some samples add up to.

    >>> judged = Judged(np.array([False, True, False]), np.array([0.1, 0.9, 0.2]), np.array([0, 0, 1]))
    >>> both = Tally.of(judged) + Tally.of(judged)
    >>> both.seen, both.unlike, dict(both.mix), round(both.share.value, 2)
    (6, 2, {0: 2, 1: 2}, 0.33)
    """

    seen: int = 0
    unlike: int = 0
    known: Moments = field(default_factory=Moments)
    """Scores of those that look known."""
    mix: Mapping[int, int] = field(default_factory=dict[int, int])
    """Classes of those that look known."""

    @classmethod
    def of(cls, judged: Judged) -> "Tally":
        known = ~judged.unlike
        numbers, counts = np.unique(judged.classes[known & (judged.classes != OTHER)], return_counts=True)
        mix = {int(number): int(n) for number, n in zip(numbers, counts, strict=True)}
        return cls(len(judged), int(judged.unlike.sum()), Moments.of(judged.scores[known]), mix)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.seen + other.seen,
            self.unlike + other.unlike,
            self.known + other.known,
            added(self.mix, other.mix, most=MOST_CLASSES),
        )

    @property
    def share(self) -> Interval:
        return share(self.unlike, self.seen)


AlertKind = Literal["novelty", "drift"]


@dataclass(frozen=True)
class Turn:
    """An alert begins or ends: after how many samples of the version, and what was known then."""

    kind: AlertKind
    begins: bool
    after: int
    facts: dict[str, Any]


@dataclass(frozen=True)
class Course:
    """All that is remembered of a version's predictions.

    Attributes
    ----------
    yardstick
        None before the first sample.
    first
        The first samples, without an alert.
    blocks
        The last complete blocks, the oldest first, and the one that is being filled.
    novelty, drift
        After how many samples the alert began; None while there is none.

    >>> rng = np.random.default_rng(0)
    >>> stick = Yardstick.of(rng.normal(size=500), threshold=1.645, rate=0.05)
    >>> usual, new = rng.normal(size=1000), rng.normal(2.5, 1, size=200)
    >>> course, turns = Course(version=3), []
    >>> for scores in (usual, new):
    ...     judged = Judged(scores > 1.645, scores, np.zeros(len(scores), np.int64))
    ...     course, more = course.after(judged, stick)
    ...     turns += more
    >>> [(turn.kind, turn.begins) for turn in turns], course.seen, course.novelty > 1000
    ([('novelty', True)], 1200, True)
    >>> round(course.baseline.rate, 2), course.recent.share.value > course.first.share.value
    (0.05, True)
    """

    version: int
    yardstick: Yardstick | None = None
    seen: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    first: Tally = field(default_factory=Tally)
    blocks: tuple[Tally, ...] = ()
    filling: Tally = field(default_factory=Tally)
    novelty: int | None = None
    drift: int | None = None

    @property
    def recent(self) -> Tally:
        """The last samples: `BLOCKS` blocks, and the one that is being filled."""
        return sum((*self.blocks, self.filling), Tally())

    @property
    def baseline(self) -> Baseline:
        """How many known samples are called unlike anything known, by all that is known of that."""
        if self.yardstick is None:
            return Baseline(1.0, 1.0)
        baseline = Baseline.of(self.yardstick.above, self.yardstick.n)
        return baseline.seen(self.first.unlike, self.first.seen) if self.first.seen >= FIRST else baseline

    @property
    def shift(self) -> Interval | None:
        """Of the last known-looking samples against the validation samples."""
        return None if self.yardstick is None else shift(self.recent.known, self.yardstick.known)

    @property
    def change(self) -> Interval | None:
        """Of the class mix of the last samples against that of the first."""
        return mix_change(self.recent.mix, self.first.mix) if self._has_first else None

    @property
    def _has_first(self) -> bool:
        return self.first.seen >= FIRST and self.seen >= FIRST + BLOCK * BLOCKS

    def after(self, judged: Judged, yardstick: Yardstick) -> "tuple[Course, list[Turn]]":
        """The course once these samples have come, and the alerts that began or ended with them."""
        course = self if self.yardstick == yardstick else Course(self.version, yardstick)
        turns = self._given_up() if course is not self else []
        start = 0
        while start < len(judged):
            stop = min(len(judged), start + BLOCK - course.filling.seen)
            course, more = course._next(judged.part(start, stop))
            turns += more
            start = stop
        return course, turns

    def _given_up(self) -> list[Turn]:
        """Alerts that end because another threshold was set."""
        kinds: tuple[tuple[AlertKind, int | None], ...] = (("novelty", self.novelty), ("drift", self.drift))
        return [Turn(kind, False, self.seen, {}) for kind, since in kinds if since is not None]

    def _next(self, judged: Judged) -> "tuple[Course, list[Turn]]":
        """The same for samples that fit into the block."""
        tally = Tally.of(judged)
        course, turns = replace(self, seen=self.seen + len(judged), filling=self.filling + tally), list[Turn]()
        if self.novelty is None:
            told = self.evidence.after(judged.unlike.tolist(), self.baseline.most)
            course = replace(course, evidence=told.evidence)
            if told.at is not None:
                course = replace(course, evidence=Evidence(), novelty=course.seen)
                turns.append(Turn("novelty", True, self.seen + told.at + 1, course.facts()))
            elif self.first.seen < FIRST:
                course = replace(course, first=course.first + tally)
        if course.filling.seen < BLOCK:
            return course, turns
        course = replace(course, blocks=(*course.blocks, course.filling)[-BLOCKS:], filling=Tally())
        return course._looked(turns)

    def _looked(self, turns: list[Turn]) -> "tuple[Course, list[Turn]]":
        """At the end of a block: whether an alert of novelty is over, and whether there is drift."""
        course = self
        full = BLOCK * BLOCKS
        over = self.recent.share.value <= self.baseline.most
        if self.novelty is not None and self.seen - self.novelty >= full and over:
            course = replace(course, novelty=None, evidence=Evidence())
            turns.append(Turn("novelty", False, self.seen, course.facts()))
        moved = course._has_drifted()
        if (moved is True) and self.drift is None and len(self.blocks) == BLOCKS:
            course = replace(course, drift=self.seen)
            turns.append(Turn("drift", True, self.seen, course.facts()))
        elif moved is False and self.drift is not None:
            course = replace(course, drift=None)
            turns.append(Turn("drift", False, self.seen, course.facts()))
        return course, turns

    def _has_drifted(self) -> bool | None:
        """Whether there is drift; None where it is neither certain nor over."""
        if self.yardstick is None:
            return None
        moved = shift(self.recent.known, self.yardstick.known, SURE_SHIFT)
        changed = mix_change(self.recent.mix, self.first.mix, WRONG_CHANGE) if self._has_first else None
        if (moved is not None and moved.low > LEAST_SHIFT) or (
            changed is not None and changed.low > LEAST_CHANGE
        ):
            return True
        gone = moved is None or moved.value < LEAST_SHIFT
        return False if gone and (changed is None or changed.value < LEAST_CHANGE) else None

    def facts(self) -> dict[str, Any]:
        """What is told with an alert."""
        recent, baseline = self.recent, self.baseline
        return {
            "samples": recent.seen,
            "unlike": recent.unlike,
            "share": _plain(recent.share),
            "false_alarms": baseline.rate,
            "false_alarms_at_most": baseline.most,
            "shift": _plain(self.shift),
            "mix_change": _plain(self.change),
        }


def _plain(interval: Interval | None) -> dict[str, float] | None:
    if interval is None:
        return None
    return {name: round(value, 6) for name, value in vars(interval).items() if math.isfinite(value)}
