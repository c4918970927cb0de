"""The continual protocol: which rows of a features file each task holds. Index arithmetic, no learning.

A stream depends on labels, protocol and seed alone, so it is the same for every method. Streams of looks, which
depend on those as well, are in `looks`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cual.bench.drift import DRIFT, Drift
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
    turn
        By how many places the order of classes that the seed draws is turned, so that others come last.
    drift
        How known classes change from task to task, if they do.

    >>> Protocol(first=2, increment=1).old_per_new
    2.0
    >>> Protocol(first=0)
    Traceback (most recent call last):
    cual.errors.BadOption: first (0) and increment (1) must be at least 1
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
    turn: int = 0
    drift: Drift | None = None

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
        if self.turn < 0:
            raise BadOption(f"turn ({self.turn}) must be at least 0")


@dataclass(frozen=True)
class Task:
    """One pool U(t): its rows in a random order, and which classes are new and old in it.

    Attributes
    ----------
    look, test
        Of a stream of looks: that of this pool, and its rows to test on per class.
    """

    number: int
    rows: IntArray
    new: tuple[int, ...]
    old: tuple[int, ...]
    look: str | None = None
    test: Mapping[int, IntArray] | None = None


@dataclass(frozen=True)
class Stream:
    """What a run sees: rows to fit on, one pool per task, and per class the rows to test on.

    Attributes
    ----------
    look
        Of a stream of looks: the one of the rows to fit on, and of those in `test`.

    >>> y = np.repeat([0, 1, 2, 3], 50)
    >>> stream = make_stream(y, Protocol(first=2, increment=1), seed=0)
    >>> [(task.number, len(task.new), len(task.old)) for task in stream.tasks]
    [(1, 1, 2), (2, 1, 3)]
    >>> len(stream.introduced(0)), len(stream.introduced(2)), len(stream.tested(1))
    (2, 4, 3)
    >>> bool(np.isin(stream.test_rows(2), stream.met_before(2)).any())  # none that was learned
    False
    """

    order: tuple[int, ...]
    first: IntArray
    tasks: tuple[Task, ...]
    test: Mapping[int, IntArray]
    look: str | None = None

    def introduced(self, task: int) -> tuple[int, ...]:
        """Classes that have appeared up to and including a task, in order (0: before all tasks)."""
        last = self.tasks[max(task, 1) - 1]
        return last.old if task == 0 else last.old + last.new

    def met_before(self, task: int) -> IntArray:
        """Rows that were learned from or in a pool before a task."""
        return np.unique(np.concatenate([self.first, *(t.rows for t in self.tasks[: task - 1])]))

    def tested(self, task: int) -> tuple[int, ...]:
        """Classes introduced so far that there are test rows of: in the look of the task, all or some."""
        return tuple(c for c in self.introduced(task) if c in self._test(task))

    def test_rows(self, task: int) -> IntArray:
        """Test rows of all classes introduced so far, in the look of the task."""
        test = self._test(task)
        return np.concatenate([test[c] for c in self.tested(task)])

    def _test(self, task: int) -> Mapping[int, IntArray]:
        own = self.tasks[task - 1].test if task else None
        return self.test if own is None else own


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
    order = class_order(classes, protocol, seed)
    rng = generator(seed, 0, 0, "bench split")
    parts = {c: _split(np.flatnonzero(y == c), c, protocol, rng) for c in classes}
    if protocol.imbalance is not None:
        ranks = generator(seed, 0, 0, "bench frequencies").permutation(len(classes))
        kept = (ranks + 1.0) ** -(math.log(protocol.imbalance) / math.log(len(classes)))
        parts = {c: parts[c].thinned(share) for c, share in zip(classes, kept.tolist(), strict=True)}
    starts = range(protocol.first, len(order), protocol.increment)
    tasks: list[Task] = []
    drifts_only = protocol.drift is not None and protocol.drift.pools == DRIFT
    for number, start in enumerate(starts, 1):
        old, new = order[:start], order[start : start + protocol.increment]
        wanted = round(protocol.old_per_new * sum(len(parts[c].train) for c in new))
        if drifts_only:  # as many old samples as beside the new ones
            old, new = order[: protocol.first], ()
        holdouts = [_available(parts[c].holdout, order.index(c), number, starts, protocol) for c in old]
        rows = _pool([parts[c].train for c in new], holdouts, wanted, protocol, seed, number)
        tasks.append(Task(number, rows, new, old))
    first = np.concatenate([parts[c].train for c in order[: protocol.first]])
    return Stream(order, first, tuple(tasks), {c: parts[c].test for c in classes})


def class_order(classes: Sequence[int], protocol: Protocol, seed: int) -> tuple[int, ...]:
    """The order in which classes appear.

    >>> order = class_order([0, 1, 2, 3], Protocol(), seed=0)
    >>> turned = class_order([0, 1, 2, 3], Protocol(turn=1), seed=0)
    >>> turned == order[1:] + order[:1]
    True
    """
    order = generator(seed, 0, 0, "bench class order").permutation(list(classes)).tolist()
    turn = protocol.turn % len(order)
    return (*order[turn:], *order[:turn])


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
    new: Sequence[IntArray], old: Sequence[IntArray], wanted: int, protocol: Protocol, seed: int, number: int
) -> IntArray:
    rng = generator(seed, number, 0, "bench old")
    if protocol.natural or protocol.imbalance is not None:
        every = np.concatenate(old)
        drawn_old = rng.choice(every, min(wanted, len(every)), replace=False)
    else:
        drawn_old = _draw_evenly(old, wanted, rng)
    drawn_new = thinned_new(new, len(drawn_old), protocol, seed, number)
    return generator(seed, number, 0, "bench shuffle").permutation(np.concatenate([drawn_new, drawn_old]))


def thinned_new(new: Sequence[IntArray], n_old: int, protocol: Protocol, seed: int, number: int) -> IntArray:
    """New samples of a pool with so many old ones: all of them, or as rare as the protocol says."""
    if protocol.rarity is None or not new:
        return np.concatenate([np.empty(0, np.int64), *new])
    rng = generator(seed, number, 0, "bench new")
    return _draw_evenly(new, max(len(new), round(n_old / protocol.rarity)), rng)


def _draw_evenly(groups: Sequence[IntArray], n: int, rng: np.random.Generator) -> IntArray:
    """`n` rows, or all there are, the same number from each group as far as its size allows."""
    counts = shares([len(rows) for rows in groups], n)
    return np.concatenate([rng.choice(g, int(k), replace=False) for g, k in zip(groups, counts, strict=True)])
