"""Ids of samples: a str or an int each, no two alike. The only check of them, and which row has which."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cual.data.compact import Column, Consecutive, Mixed, Numbers, numbers
from cual.data.listed import listed
from cual.errors import BadFeatures, DuplicateIds
from cual.types import AnyArray, IntArray, Label


class _Order(NamedTuple):
    """Rows in the order of a number of each id: the id itself, or a hash of it."""

    keys: IntArray
    rows: AnyArray | None
    """None where they are in that order already."""

    @classmethod
    def of(cls, keys: IntArray) -> "_Order":
        if bool((keys[1:] >= keys[:-1]).all()):
            return cls(keys, None)
        rows = np.argsort(keys, kind="stable")
        return cls(keys[rows], rows.astype(np.uint32) if len(rows) < 2**32 else rows)

    def row(self, place: int) -> int:
        return place if self.rows is None else int(self.rows[place])

    def doubtful(self) -> list[int]:
        """Rows that share their number with another one, ascending."""
        same = np.flatnonzero(self.keys[1:] == self.keys[:-1])
        places = np.union1d(same, same + 1)
        return np.sort(places if self.rows is None else self.rows[places]).tolist()


class Ids(Column[Label]):
    """Ids by row, and rows by id, without an object for each of them.

    >>> ids = Ids(["a.jpg", "b.jpg", "c.jpg"])
    >>> ids[1], ids.rows_of(["c.jpg", "a.jpg"]).tolist(), "d.jpg" in ids
    ('b.jpg', [2, 0], False)
    >>> Ids.consecutive(3), Ids.consecutive(3).rows_of([2]).tolist()
    ((0, 1, 2), [2])
    """

    @classmethod
    def consecutive(cls, n: int) -> "Ids":
        """0 … n−1."""
        return cls.of(Consecutive(n))

    def listed(self) -> list[Label] | None:
        """All of them, where neither `state` nor their number tells them."""
        return list(self) if isinstance(self.store, Mixed) else None

    @cached_property
    def _order(self) -> _Order:
        if isinstance(self.store, Numbers):
            return _Order.of(self.store.array)
        return _Order.of(np.fromiter(map(hash, self), np.int64, len(self)))

    @cached_property
    def _first_row(self) -> dict[Label, int]:
        return {sample: row for row, sample in reversed(list(enumerate(self)))}

    def rows_of(self, samples: Iterable[Label]) -> IntArray:
        """The row of each sample; `KeyError` for one that is not there."""
        wanted = list(samples)
        if isinstance(self.store, Consecutive):
            return np.array([self._itself(sample) for sample in wanted], np.int64)
        if isinstance(self.store, Mixed):
            return np.array([self._first_row[sample] for sample in wanted], np.int64)
        keys = [self._key(sample) for sample in wanted]
        places = np.searchsorted(self._order.keys, np.array(keys, np.int64))
        if isinstance(self.store, Numbers):
            return self._at_once(wanted, keys, places)
        places = places.tolist()
        return np.array([self._at(*pair) for pair in zip(wanted, keys, places, strict=True)], np.int64)

    def _itself(self, sample: Label) -> int:
        if isinstance(sample, str) or not 0 <= sample < len(self) or int(sample) != sample:
            raise KeyError(sample)
        return int(sample)

    def _key(self, sample: Label) -> int:
        if not isinstance(self.store, Numbers):
            return hash(sample)
        if isinstance(sample, str) or not -(2**63) <= sample < 2**63 or int(sample) != sample:
            raise KeyError(sample)
        return int(sample)

    def _at_once(self, wanted: Sequence[Label], keys: Sequence[int], places: IntArray) -> IntArray:
        """The rows of samples whose numbers are at these places of the order, if they are anywhere."""
        order = self._order
        there = np.append(order.keys, 0)[places] == keys
        there &= places < len(self)
        if not there.all():
            raise KeyError(wanted[int(np.argmin(there))])
        return places if order.rows is None else order.rows[places].astype(np.int64)

    def _at(self, sample: Label, key: int, place: int) -> int:
        """The row of a sample that is at this place of the order or, if hashes are alike, soon after it."""
        order = self._order
        while place < len(self) and order.keys[place] == key:
            row = order.row(place)
            if self[row] == sample:
                return row
            place += 1
        raise KeyError(sample)

    def __contains__(self, sample: object) -> bool:
        try:
            self.rows_of([sample])  # pyright: ignore[reportArgumentType]
        except (KeyError, TypeError):
            return False
        return True

    def repeated(self) -> tuple[Label, int, int] | None:
        """The first id that stands in an earlier row already, and both rows."""
        first_row: dict[Label, int] = {}
        for row in self._doubtful():
            sample = self[row]
            if first_row.setdefault(sample, row) != row:
                return sample, first_row[sample], row
        return None

    def last_of_each(self) -> IntArray | None:
        """Rows that no later row with the same id replaces, in order; None where that is all of them."""
        doubtful = self._doubtful()
        last = {self[row]: row for row in doubtful}
        replaced = sorted({*doubtful} - {*last.values()})
        return np.delete(np.arange(len(self)), replaced) if replaced else None

    def _doubtful(self) -> list[int]:
        """All rows whose id may stand in another one, too, ascending."""
        if isinstance(self.store, Consecutive):
            return []
        return list(range(len(self))) if isinstance(self.store, Mixed) else self._order.doubtful()


def check_ids(ids: Sequence[Any] | AnyArray, n: int, what: str) -> Ids:
    """The ids of `n` rows of `what`, or an error that names the row at fault.

    >>> check_ids(np.array(["a", "b"]), 2, "pool")
    ('a', 'b')
    >>> check_ids(["a", "b", "a"], 3, "pool")
    Traceback (most recent call last):
    cual.errors.DuplicateIds: the id 'a' stands in pool rows 0 and 2; ids must be unique
    """
    checked = ids if isinstance(ids, Ids) else _read(ids, n, what)
    _check_number(len(checked), n, what)
    repeated = checked.repeated()
    if repeated is not None:
        sample, first, again = repeated
        raise DuplicateIds(f"the id {sample!r} stands in {what} rows {first} and {again}; ids must be unique")
    return checked


def _check_number(given: int, n: int, what: str) -> None:
    if given != n:
        raise BadFeatures(f"{n} {what} samples came with {given} ids")


def _read(ids: Sequence[Any] | AnyArray, n: int, what: str) -> Ids:
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu" and ids.dtype != np.uint64:
        return Ids.of(numbers(ids.astype(np.int64)))
    values = listed(ids)
    if values is None:
        raise BadFeatures(f"{what} ids come as a list or array, one for each row, not as {ids!r:.200}")
    _check_number(len(values), n, what)
    for row, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise BadFeatures(f"the id of {what} row {row} is {value!r}; an id is a str or an int")
    return Ids(str(value) if isinstance(value, str) else int(value) for value in values)
