"""Which arriving samples are nearly those that are kept: cosines against the latest ones, block by block.

In memory only, and bounded: what is kept is in files and the database.
"""

from dataclasses import dataclass, field

import numpy as np

from cual.types import AnyArray, IntArray

COMPARED = 16_384
"""Kept samples, the latest, that an arriving one is compared with: 40 MiB for 1280 features."""
BLOCK = 256
"""Arriving samples that are compared at once."""
_ROWS = 4096


def unit(X: AnyArray) -> AnyArray:
    """Rows of length one, in float32; a row of zeros stays, and is like no other.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    rows = np.asarray(X, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


@dataclass
class Latest:
    """Features of the samples that were kept last, by their ids.

    Half precision, which moves a cosine by less than 0.0005: thresholds are no sharper than that.
    """

    inbox: int | None = None
    last: int = 0
    """The highest id that was seen, of those that were dropped too."""
    _n: int = 0
    _ids: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    _units: AnyArray = field(default_factory=lambda: np.empty((0, 0), np.float16))

    def add(self, ids: list[int], units: AnyArray) -> None:
        """Remember samples; the earliest are forgotten where there are too many."""
        if not ids:
            return
        self.last = max(self.last, *ids)
        ids, units = ids[-COMPARED:], units[-COMPARED:]
        if self._n + len(ids) > len(self._ids):
            self._make_room(len(ids), units.shape[1])
        new = slice(self._n, self._n + len(ids))
        self._ids[new], self._units[new] = ids, units
        self._n += len(ids)

    def _make_room(self, more: int, width: int) -> None:
        """Twice the room, so that adding is cheap on the whole; the earliest stay behind."""
        held = slice(max(0, self._n - COMPARED + more), self._n)
        n = held.stop - held.start
        room = min(2 * COMPARED, 2 * (n + more))
        ids, units = np.full(room, -1, np.int64), np.zeros((room, width), np.float16)
        if n:
            ids[:n], units[:n] = self._ids[held], self._units[held]
        self._ids, self._units, self._n = ids, units, n

    def drop(self, ids: list[int]) -> None:
        """Forget samples: rows of zeros are like nothing."""
        if ids:
            gone = np.isin(self._ids[: self._n], np.array(ids, np.int64))
            self._units[: self._n][gone] = 0

    def nearest(self, units: AnyArray) -> tuple[AnyArray, IntArray]:
        """Of each row the highest cosine with a remembered sample, and its id; −1 where there is none."""
        best, ids = np.full(len(units), -1.0, np.float32), np.full(len(units), -1, np.int64)
        for start in range(max(0, self._n - COMPARED), self._n, _ROWS):
            part = slice(start, min(start + _ROWS, self._n))
            cosines = units @ self._units[part].astype(np.float32).T
            at = cosines.argmax(axis=1)
            highest = cosines[np.arange(len(units)), at]
            higher = highest > best
            best[higher], ids[higher] = highest[higher], self._ids[part][at[higher]]
        return best, ids
