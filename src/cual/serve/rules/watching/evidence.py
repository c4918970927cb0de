"""The arithmetic of watching: is more unlike anything known than should be, and has what is known moved?

Pure functions of counts and scores, each with the error that it may make. Nothing is stored, nobody is told.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cual.types import AnyArray, FloatArray

ODDS = (1.5, 2.0, 4.0, 10.0)
"""By how much the odds of "unlike anything known" may have grown: what the rule looks for, all at once."""
RARITY = 100_000
"""Known samples until a false alert of novelty, on average, or more."""
CAUTION = 0.99
"""How surely the share of known samples above the threshold is no more than `Baseline.most`."""
SURE = 1.959964
"""Deviations of a normal distribution between which 95 % of it lies."""
OTHER = -1
"""The number of all classes together that are too rare to be counted by themselves."""


@dataclass(frozen=True)
class Interval:
    """A number that was measured, and between which it really lies."""

    value: float
    low: float
    high: float


def share(part: int, whole: int, sure: float = SURE) -> Interval:
    """A share and its interval (Wilson, 1927).

    >>> found = share(5, 100)
    >>> found.value, round(found.low, 4), round(found.high, 4)
    (0.05, 0.0215, 0.1118)
    >>> share(0, 0)
    Interval(value=0.0, low=0.0, high=1.0)
    """
    if whole <= 0:
        return Interval(0.0, 0.0, 1.0)
    value, square = part / whole, sure**2
    middle = (value + square / (2 * whole)) / (1 + square / whole)
    half = sure / (1 + square / whole) * math.sqrt(value * (1 - value) / whole + square / (4 * whole**2))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Interval(value, 0.0 if not part else low, 1.0 if part == whole else high)


# -- novelty ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Baseline:
    """How many known samples lie above an agent's threshold.

    Attributes
    ----------
    rate
        Probably: (above + 1) / (n + 1), where `above` of n validation samples lie above it.
    most
        At most, with `CAUTION`: the share is Beta(above + 1, n - above), because the validation samples that
        set the threshold are a draw themselves.
    """

    rate: float
    most: float

    @staticmethod
    @cache
    def of(above: int, n: int) -> "Baseline":
        """
        >>> Baseline.of(above=4, n=99)
        Baseline(rate=0.05, most=0.112789)
        >>> Baseline.of(above=0, n=0)
        Baseline(rate=1.0, most=1.0)
        """
        if n <= 0 or above >= n:
            return Baseline(1.0, 1.0)
        from scipy.stats import beta

        return Baseline((above + 1) / (n + 1), round(float(beta.ppf(CAUTION, above + 1, n - above)), 6))

    def seen(self, unlike: int, n: int) -> "Baseline":
        """The same once a time without an alert is known: what comes later is compared with that, too.

        A class that was there from the start only shows against the validation set; one that appears later
        shows against the samples before it, of which there are more.

        >>> round(Baseline(0.05, 0.113).seen(unlike=55, n=1000).most, 4)
        0.0743
        >>> Baseline(0.05, 0.113).seen(unlike=300, n=1000).most
        0.113
        """
        if n <= 0:
            return self
        above = share(unlike, n, sure=2.326348).high  # CAUTION of a normal distribution lies below
        return Baseline(self.rate, max(min(self.most, above), self.rate))


@dataclass(frozen=True)
class Evidence:
    """The sequential test for novelty: the statistic of Shiryaev and Roberts, averaged over `ODDS`.

    Each sample multiplies (1 + R) by the likelihood ratio of "the odds have grown" to "the share is `most`".
    While the share is no more than that, R - n is a supermartingale, so the mean number of samples until R
    reaches `RARITY` is at least `RARITY`, however often one looks.

    Attributes
    ----------
    logs
        log R for each of `ODDS`.

    >>> told = Evidence().after([True] * 10, most=0.05)
    >>> told.at, told.evidence.log > Evidence().log
    (6, True)
    """

    logs: tuple[float, ...] = (-math.inf,) * len(ODDS)

    @property
    def log(self) -> float:
        """log R, averaged over `ODDS`."""
        return float(_mean_of_logs(np.array([self.logs]))[0])

    def after(self, unlike: Sequence[bool] | FloatArray, most: float, rarity: float = RARITY) -> "Told":
        """What the next samples add, in the order in which they came.

        >>> Evidence().after([True] * 20, most=0.05).at
        6
        >>> Evidence().after([True] + [False] * 19, most=0.05).at is None
        True
        """
        seen = np.asarray(unlike, dtype=bool)
        if not len(seen) or not 0 < most < 1:
            return Told(self, None)
        odds = np.array(ODDS) * most / (1 - most)
        grown = odds / (1 + odds)
        ratios = np.where(seen[:, None], np.log(grown / most), np.log((1 - grown) / (1 - most)))
        sums = np.cumsum(ratios, axis=0)
        before = np.vstack([np.zeros(len(ODDS)), sums[:-1]])
        first = np.logaddexp(np.array(self.logs), -before[0])
        begun = np.logaddexp.accumulate(np.vstack([first, -before[1:]]), axis=0)
        logs = sums + begun
        reached = np.flatnonzero(_mean_of_logs(logs) >= math.log(rarity))
        return Told(Evidence(tuple(logs[-1].tolist())), int(reached[0]) if len(reached) else None)


@dataclass(frozen=True)
class Told:
    """What some samples have said: the evidence after them, and at which of them there was enough of it."""

    evidence: Evidence
    at: int | None


def _mean_of_logs(logs: FloatArray) -> FloatArray:
    return np.logaddexp.reduce(logs, axis=1) - math.log(logs.shape[1])


# -- drift -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """How many scores there were, their sum, and the sum of their squares. They add up.

    >>> m = Moments.of(np.array([1.0, 3.0])) + Moments.of(np.array([5.0]))
    >>> m.n, m.mean, round(m.variance, 2)
    (3, 3.0, 4.0)
    """

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, scores: FloatArray) -> "Moments":
        exact = scores.astype(np.float64)
        return cls(len(exact), float(exact.sum()), float((exact**2).sum()))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.n + other.n, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0

    @property
    def variance(self) -> float:
        return max(0.0, (self.squares - self.n * self.mean**2) / (self.n - 1)) if self.n > 1 else 0.0


LEAST = 8
"""Scores of either side without which no shift is told, as in `cual.learners.prototypes.drift`."""


def shift(now: Moments, known: Moments, sure: float = SURE) -> Interval | None:
    """How far known-looking samples lie further from their classes than validation samples, in deviations.

    None where there are too few. Both are scores below the threshold, so that what is novel is not among them.

    >>> known = Moments.of(np.linspace(0, 1, 101))
    >>> moved = shift(Moments.of(np.linspace(0.5, 1.5, 101)), known)
    >>> round(moved.value, 2), moved.low > 0
    (1.71, True)
    """
    if min(now.n, known.n) < LEAST or known.variance <= 0:
        return None
    spread = math.sqrt(known.variance)
    value = (now.mean - known.mean) / spread
    half = sure * math.sqrt(1 / known.n + now.variance / known.variance / now.n)
    return Interval(value, value - half, value + half)


Mix = Mapping[int, int]
"""How many samples were taken for each class, by the class's number."""


def mix_change(now: Mix, before: Mix, wrong: float = 0.05) -> Interval | None:
    """The total variation distance of two class mixes: which share of samples would have to change class.

    The interval is that distance, give or take how far either side may lie from its true mix: the mean
    deviation of a multinomial, and McDiarmid's bound for what is beyond it, wrong in a share `wrong` of cases
    or fewer.

    >>> change = mix_change({0: 900, 1: 100}, {0: 500, 1: 500})
    >>> round(change.value, 2), round(change.low, 2), round(change.high, 2)
    (0.4, 0.29, 0.51)
    >>> mix_change({0: 3}, {}) is None
    True
    """
    n, m = sum(now.values()), sum(before.values())
    if min(n, m) < LEAST:
        return None
    classes = sorted({*now, *before})
    here = np.array([now.get(c, 0) for c in classes]) / n
    there = np.array([before.get(c, 0) for c in classes]) / m
    value = float(np.abs(here - there).sum() / 2)
    half = _mix_error(here, n, wrong / 2) + _mix_error(there, m, wrong / 2)
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def _mix_error(mix: AnyArray, n: int, wrong: float) -> float:
    mean = float(np.sqrt(mix * (1 - mix) / n).sum() / 2 * math.sqrt(2 / math.pi))
    return mean + math.sqrt(math.log(1 / wrong) / (2 * n))


def added(*mixes: Mix, most: int | None = None) -> dict[int, int]:
    """Mixes put together; past the `most` frequent classes, the rest is `OTHER`.

    >>> added({0: 2, 1: 1}, {1: 5}, {7: 1}, most=2)
    {1: 6, 0: 2, -1: 1}
    """
    counts: dict[int, int] = {}
    for mix in mixes:
        for number, n in mix.items():
            counts[number] = counts.get(number, 0) + n
    if most is None or len(counts) <= most:
        return counts
    rest = counts.pop(OTHER, 0)
    order = sorted(counts, key=lambda number: (-counts[number], number))
    kept = {number: counts[number] for number in order[:most]}
    rest += sum(counts[number] for number in order[most:])
    return {**kept, OTHER: rest} if rest else kept
