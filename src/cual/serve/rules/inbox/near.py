"""Which arriving samples are nearly those that are kept: cosines against the latest ones, block by block.

In memory only, and bounded: what is kept is in files and the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cual.types import AnyArray, IntArray

COMPARED = 16_384
"""Kept samples, the latest, that an arriving one is compared with: 40 MiB for 1280 features."""
BLOCK = 256
"""Arriving samples that are compared at once."""
SKETCH = 64
"""Random directions in which distances are looked at first: most samples are far apart, which that shows."""
SLACK = 2.0
"""A squared distance in these directions is above twice the true one in four of a million cases."""


def unit(X: AnyArray) -> AnyArray:
    """Rows of length one, in float32; a row of zeros stays, and is like no other.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    rows = np.asarray(X, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def sketch(units: AnyArray) -> AnyArray:
    """Rows in few directions, in which their distances are about what they were.

    >>> units = np.eye(512, dtype=np.float32)[:2]
    >>> sketch(units).shape[1] < 512, round(float(np.linalg.norm(sketch(units)[0] - sketch(units)[1])), 1)
    (True, 1.3)
    """
    width = units.shape[1]
    if width <= SKETCH:
        return units
    directions = np.random.default_rng(width).normal(size=(width, SKETCH)) / np.sqrt(SKETCH)
    return units @ directions.astype(np.float32)


@dataclass
class Latest:
    """Features of the samples that were kept last, by their ids.

    Half precision, which moves a cosine by less than 0.0005: thresholds are no sharper than that.

    >>> latest = Latest()
    >>> latest.add([7, 8], np.eye(2, dtype=np.float32))
    >>> latest.nearest(np.array([[0.999, 0.01], [0.7, 0.7]], np.float32), near=0.99), latest.last
    ([7, -1], 8)
    >>> latest.drop([7])
    >>> latest.nearest(np.array([[1.0, 0.0]], np.float32), near=0.99)
    [-1]
    """

    inbox: int | None = None
    last: int = 0
    """The highest id that was seen, of those that were dropped too."""
    _n: int = 0
    _ids: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    _units: AnyArray = field(default_factory=lambda: np.empty((0, 0), np.float16))
    _sketches: AnyArray = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def add(self, ids: Sequence[int], units: AnyArray) -> None:
        """Remember samples; the earliest are forgotten where there are too many."""
        if not ids:
            return
        self.last = max(self.last, *ids)
        ids, units = ids[-COMPARED:], units[-COMPARED:]
        sketches = sketch(units)
        if self._n + len(ids) > len(self._ids):
            self._make_room(len(ids), units.shape[1], sketches.shape[1])
        new = slice(self._n, self._n + len(ids))
        self._ids[new], self._units[new], self._sketches[new] = ids, units, sketches
        self._n += len(ids)

    def _make_room(self, more: int, width: int, directions: int) -> None:
        """Twice the room, so that adding is cheap on the whole; the earliest stay behind."""
        held = slice(max(0, self._n - COMPARED + more), self._n)
        n = held.stop - held.start
        room = min(2 * COMPARED, 2 * (n + more))
        ids, units = np.full(room, -1, np.int64), np.zeros((room, width), np.float16)
        sketches = np.zeros((room, directions), np.float32)
        if n:
            ids[:n], units[:n], sketches[:n] = self._ids[held], self._units[held], self._sketches[held]
        self._ids, self._units, self._sketches, self._n = ids, units, sketches, n

    def drop(self, ids: Sequence[int]) -> None:
        """Forget samples: rows of zeros are like nothing."""
        if ids:
            gone = np.isin(self._ids[: self._n], np.array(ids, np.int64))
            self._units[: self._n][gone] = 0
            self._sketches[: self._n][gone] = 0

    def nearest(self, units: AnyArray, near: float) -> list[int]:
        """Of each row the id of the remembered sample that is most alike, if above `near`; else −1."""
        nearest = [-1] * len(units)
        start = max(0, self._n - COMPARED)
        if start == self._n or not len(units):
            return nearest
        sketches, seen = sketch(units), self._sketches[start : self._n]
        distances = (sketches**2).sum(axis=1)[:, None] + (seen**2).sum(axis=1) - 2 * sketches @ seen.T
        close = distances <= SLACK * 2 * (1 - near) + 1e-3
        for row in np.flatnonzero(close.any(axis=1)).tolist():
            at = np.flatnonzero(close[row]) + start
            cosines = self._units[at].astype(np.float32) @ units[row]
            best = int(cosines.argmax())
            if cosines[best] > near:
                nearest[row] = int(self._ids[at[best]])
        return nearest
