"""The continual protocol: which rows of a features file each task holds. Index arithmetic, no learning.

A stream depends on labels, protocol and seed alone, so it is the same for every method.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cual.errors import BadOption, TooFewSamples
from cual.replay import shares
from cual.seeds import generator
from cual.types import AnyArray, IntArray


@dataclass(frozen=True)
class Protocol:
    """How classes arrive.

    Parameters
    ----------
    first, increment
        Classes known before deployment, and classes new in each task (the last task takes what is left).
    test
        Share of each class that is only ever tested on.
    holdout
        Share of a class's remaining samples that is set aside to appear as "old" in later pools.
    old_per_new
        Old samples per new one in a pool, drawn evenly over the old classes. Where the holdout is too small for
        that (early tasks with few old classes), the pool takes what there is.
    rarity
        If given, new samples are thinned out until there are `rarity` old ones for each (1:10, 1:50).
    reuse
        Redraw old samples from the whole holdout for each task. Otherwise each class's holdout is dealt out
        over the tasks in which the class is old, and every sample appears in one pool at most.
    natural
        Draw old samples as frequent as their classes are, instead of evenly.
    imbalance
        If given, classes are thinned out by a power law: one keeps all of its samples, one a share of
        1 / `imbalance`, the others shares in between; the seed draws which. Of equally large classes, the
        largest is then so many times the smallest. Test rows stay; old samples are drawn as with `natural`.
    """

    first: int = 2
    increment: int = 1
    test: float = 0.2
    holdout: float = 0.35
    old_per_new: float = 2.0
    rarity: float | None = None
    reuse: bool = True
    natural: bool = False
    imbalance: float | None = None

    def __post_init__(self) -> None:
        if self.first < 1 or self.increment < 1:
            raise BadOption(f"first ({self.first}) and increment ({self.increment}) must be at least 1")
        if not (0 < self.test < 1 and 0 < self.holdout < 1):
            raise BadOption(f"test ({self.test}) and holdout ({self.holdout}) must be shares between 0 and 1")
        if self.old_per_new <= 0 or (self.rarity is not None and self.rarity <= 0):
            raise BadOption(f"old_per_new ({self.old_per_new}) and rarity ({self.rarity}) must be above 0")
        if self.imbalance is not None and not 1 <= self.imbalance < math.inf:
            raise BadOption(
                f"imbalance ({self.imbalance}) must be at least 1: the largest class in smallest ones"
            )


@dataclass(frozen=True)
class Task:
    """One pool U(t): its rows in a random order, and which classes are new and old in it."""

    number: int
    rows: IntArray
    new: tuple[int, ...]
    old: tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """What a run sees: rows to fit on, one pool per task, and per class the rows to test on."""

    order: tuple[int, ...]
    first: IntArray
    tasks: tuple[Task, ...]
    test: dict[int, IntArray]

    def introduced(self, task: int) -> tuple[int, ...]:
        """Classes that have appeared up to and including a task, in order (0: before all tasks)."""
        last = self.tasks[max(task, 1) - 1]
        return last.old if task == 0 else last.old + last.new

    def met_before(self, task: int) -> IntArray:
        """Rows that were learned from or in a pool before a task."""
        return np.unique(np.concatenate([self.first, *(t.rows for t in self.tasks[: task - 1])]))

    def test_rows(self, task: int) -> IntArray:
        """Test rows of all classes introduced so far."""
        return np.concatenate([self.test[c] for c in self.introduced(task)])


@dataclass(frozen=True)
class _Parts:
    """One class cut in three; no row is in two parts."""

    test: IntArray
    holdout: IntArray
    train: IntArray

    def thinned(self, share: float) -> "_Parts":
        """A share of what is learned from and met later; all that is tested on."""
        holdout, train = (
            rows[: max(least, round(share * len(rows)))] for rows, least in ((self.holdout, 1), (self.train, 2))
        )
        return _Parts(self.test, holdout, train)


def make_stream(y: AnyArray, protocol: Protocol, seed: int) -> Stream:
    """The stream of one seed over integer labels `y`.

    >>> stream = make_stream(np.repeat(np.arange(4), 100), Protocol(first=2, increment=1), seed=0)
    >>> len(stream.first), [len(task.rows) for task in stream.tasks]
    (104, [108, 136])
    """
    classes = [int(c) for c in np.unique(y)]
    if len(classes) <= protocol.first:
        raise BadOption(f"{len(classes)} classes are too few for {protocol.first} first classes and a task")
    order = tuple(int(c) for c in generator(seed, 0, 0, "bench class order").permutation(classes))
    rng = generator(seed, 0, 0, "bench split")
    parts = {c: _split(np.flatnonzero(y == c), c, protocol, rng) for c in classes}
    if protocol.imbalance is not None:
        ranks = generator(seed, 0, 0, "bench frequencies").permutation(len(classes))
        kept = (ranks + 1.0) ** -(math.log(protocol.imbalance) / math.log(len(classes)))
        parts = {c: parts[c].thinned(share) for c, share in zip(classes, kept.tolist(), strict=True)}
    starts = range(protocol.first, len(order), protocol.increment)
    tasks: list[Task] = []
    for number, start in enumerate(starts, 1):
        old, new = order[:start], order[start : start + protocol.increment]
        holdouts = [_available(parts[c].holdout, order.index(c), number, starts, protocol) for c in old]
        rows = _pool([parts[c].train for c in new], holdouts, protocol, seed, number)
        tasks.append(Task(number, rows, new, old))
    first = np.concatenate([parts[c].train for c in order[: protocol.first]])
    return Stream(order, first, tuple(tasks), {c: parts[c].test for c in classes})


def _split(rows: IntArray, label: int, protocol: Protocol, rng: np.random.Generator) -> _Parts:
    rows = rng.permutation(rows)
    n_test = max(1, round(protocol.test * len(rows)))
    n_holdout = max(1, round(protocol.holdout * (len(rows) - n_test)))
    if len(rows) - n_test - n_holdout < 2:
        raise TooFewSamples(f"class {label} has {len(rows)} samples, too few to test, hold out and train on")
    return _Parts(*np.split(rows, [n_test, n_test + n_holdout]))


def _available(
    holdout: IntArray, place: int, number: int, starts: Sequence[int], protocol: Protocol
) -> IntArray:
    """Held-out rows of an old class that this task may draw from; `place` is the class's place in the order."""
    if protocol.reuse:
        return holdout
    chances = [t for t, start in enumerate(starts, 1) if start > place]  # tasks in which the class is old
    return np.array_split(holdout, len(chances))[chances.index(number)]


def _pool(
    new: Sequence[IntArray], old: Sequence[IntArray], protocol: Protocol, seed: int, number: int
) -> IntArray:
    rng_old, rng_new = generator(seed, number, 0, "bench old"), generator(seed, number, 0, "bench new")
    wanted = round(protocol.old_per_new * sum(len(rows) for rows in new))
    if protocol.natural or protocol.imbalance is not None:
        every = np.concatenate(old)
        drawn_old = rng_old.choice(every, min(wanted, len(every)), replace=False)
    else:
        drawn_old = _draw_evenly(old, wanted, rng_old)
    if protocol.rarity is None:
        drawn_new = np.concatenate(new)
    else:
        drawn_new = _draw_evenly(new, max(len(new), round(len(drawn_old) / protocol.rarity)), rng_new)
    return generator(seed, number, 0, "bench shuffle").permutation(np.concatenate([drawn_new, drawn_old]))


def _draw_evenly(groups: Sequence[IntArray], n: int, rng: np.random.Generator) -> IntArray:
    """`n` rows, or all there are, the same number from each group as far as its size allows."""
    counts = shares([len(rows) for rows in groups], n)
    return np.concatenate([rng.choice(g, int(k), replace=False) for g, k in zip(groups, counts, strict=True)])
