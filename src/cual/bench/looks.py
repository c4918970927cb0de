"""Streams whose pools come in other looks than the first samples: rows by class and look. No learning.

Like any stream it depends on labels, looks, protocol and seed alone.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cual.bench.drift import DRIFT, LOOKS, NOVELTY, Drift
from cual.bench.streams import Protocol, Stream, Task, class_order, thinned_new
from cual.errors import BadOption, TooFewSamples
from cual.seeds import generator
from cual.types import AnyArray, IntArray

Cells = Mapping[tuple[int, str], IntArray]
"""Rows of a class in a look."""


def look_stream(y: AnyArray, looks: AnyArray, protocol: Protocol, seed: int) -> Stream:
    """The stream of one seed over integer labels `y` and the `looks` of the same rows.

    The first classes are learned from the first look; the pool of each task is what the next look has of the
    classes so far. New in a task are the next classes, in the seed's order, that its look has; once the classes
    are used up pools hold old ones only, and where the looks end first, some classes never appear. No row is in
    two pools: those of a look that comes again are dealt out over its tasks. Classes need not be in every look,
    but the first ones are in the first.

    >>> y, looks = np.tile(np.arange(3), 100), np.repeat(["photo", "sketch"], 150)
    >>> stream = look_stream(y, looks, Protocol(first=2), seed=0)
    >>> len(stream.first), [(task.look, len(task.rows), len(task.new)) for task in stream.tasks]
    (80, [('sketch', 120, 1)])
    """
    drift = protocol.drift or Drift(LOOKS)
    if protocol.imbalance is not None:
        raise BadOption("imbalance thins out classes, not looks: it cannot be combined with drift looks")
    there = [str(name) for name in np.unique(looks)]
    names = checked_names(drift.looks or there, there)
    visited = [names[0] if drift.pools == NOVELTY else name for name in names[1:]]
    test, rest = _split(y, looks, there, protocol, seed)
    order, train, rest = _first_classes(y, names[0], names[0] in visited, rest, protocol, seed)
    classes = _by_task(order, visited, rest, protocol, drift)
    tasks: list[Task] = []
    for number, (look, (old, new)) in enumerate(zip(visited, classes, strict=True), 1):
        chances = {c: _chances(c, look, visited, classes) for c in old + new}
        dealt = {
            c: np.array_split(rest[c, look], len(chances[c]))[chances[c].index(number)]
            for c in old + new
            if (c, look) in rest
        }
        drawn_old = _together(dealt[c] for c in old if c in dealt)
        drawn_new = thinned_new([dealt[c] for c in new], len(drawn_old), protocol, seed, number)
        rows = generator(seed, number, 0, "bench shuffle").permutation(_together([drawn_new, drawn_old]))
        if not len(rows):
            raise TooFewSamples(
                f"look {look!r} has no samples of the classes so far for the pool of task {number}"
            )
        tasks.append(Task(number, rows, new, old, look, {c: test[c, look] for c in order if (c, look) in test}))
    first = np.concatenate([train[c] for c in order[: protocol.first]])
    tested = {c: test[c, names[0]] for c in order if (c, names[0]) in test}
    return Stream(order, first, tuple(tasks), tested, names[0])


def checked_names(names: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """Looks that a stream goes through, all of which the file has.

    >>> checked_names(["photo", "sketch"], ["photo", "sketch", "clipart"])
    ('photo', 'sketch')
    >>> checked_names(["photo", "scetch"], ["photo", "sketch"])
    Traceback (most recent call last):
    cual.errors.BadOption: no look is called scetch; the file has photo, sketch
    """
    unknown = [name for name in names if name not in there]
    if unknown:
        raise BadOption(f"no look is called {', '.join(unknown)}; the file has {', '.join(there)}")
    if len(names) < 2:
        raise BadOption(f"the file has one look, {names[0]!r}: there is nothing to drift to")
    return tuple(names)


def _split(
    y: AnyArray, looks: AnyArray, there: Sequence[str], protocol: Protocol, seed: int
) -> tuple[Cells, Cells]:
    """Of each class in each look, the rows to test on and the others; the same whichever looks are named."""
    test: dict[tuple[int, str], IntArray] = {}
    rest: dict[tuple[int, str], IntArray] = {}
    for place, look in enumerate(there):
        for c in np.unique(y[looks == look]).tolist():
            rows = generator(seed, c, place, "bench look split").permutation(
                np.flatnonzero((y == c) & (looks == look))
            )
            n_test = max(1, round(protocol.test * len(rows)))
            test[c, look] = rows[:n_test]
            if n_test < len(rows):
                rest[c, look] = rows[n_test:]
    return test, rest


def _first_classes(
    y: AnyArray, look: str, comes_again: bool, rest: Cells, protocol: Protocol, seed: int
) -> tuple[tuple[int, ...], dict[int, IntArray], Cells]:
    """The order of classes, what the first ones are learned from, and what is left for pools.

    Classes that the first look has come before the others. Only where it comes again is something held out.
    """
    least = 3 if comes_again else 2
    given = class_order([int(c) for c in np.unique(y)], protocol, seed)
    learnable = [c for c in given if len(rest.get((c, look), ())) >= least]
    if len(learnable) < protocol.first:
        raise TooFewSamples(
            f"look {look!r} has enough samples of {len(learnable)} classes, but first is {protocol.first}"
        )
    order = (*learnable, *(c for c in given if c not in learnable))
    train: dict[int, IntArray] = {}
    left = dict(rest)
    for c in order[: protocol.first]:
        rows = left.pop((c, look))
        n_held = max(1, round(protocol.holdout * len(rows))) if comes_again else 0
        train[c] = rows[n_held:]
        if n_held:
            left[c, look] = rows[:n_held]
    return order, train, left


def _by_task(
    order: Sequence[int], visited: Sequence[str], rest: Cells, protocol: Protocol, drift: Drift
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Old and new classes of each task."""
    known = tuple(order[: protocol.first])
    classes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for look in visited:
        there = [c for c in order if c not in known and (c, look) in rest]
        new = () if drift.pools == DRIFT else tuple(there[: protocol.increment])
        classes.append((known, new))
        known += new
    return classes


def _chances(
    c: int, look: str, visited: Sequence[str], classes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
) -> list[int]:
    """Tasks in whose pool a class may be in this look."""
    pairs = zip(visited, classes, strict=True)
    return [n for n, (name, (old, new)) in enumerate(pairs, 1) if name == look and c in old + new]


def _together(groups: Iterable[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, np.int64), *groups])
