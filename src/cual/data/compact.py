"""Long columns of names, whole numbers or nothing, in few bytes per row. What they mean is others' business."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self, TypeVar, overload

import numpy as np

from cual.types import AnyArray, IntArray

T_co = TypeVar("T_co", covariant=True)
_AT_ONCE = 4096
_SHOWN = 1000


class Store(Protocol):
    """Where the values of a column are."""

    def __len__(self) -> int: ...

    def values(self, start: int, stop: int) -> list[Any]:
        """Those of some rows, as Python has them."""
        ...


@dataclass(frozen=True)
class Consecutive:
    """0 … n−1, which takes no room.

    >>> Consecutive(1_000_000).values(5, 8)
    [5, 6, 7]
    """

    n: int

    def __len__(self) -> int:
        return self.n

    def values(self, start: int, stop: int) -> list[Any]:
        return list(range(start, stop))


@dataclass(frozen=True)
class Blank:
    """None in every row."""

    n: int

    def __len__(self) -> int:
        return self.n

    def values(self, start: int, stop: int) -> list[Any]:
        return [None] * (stop - start)


@dataclass(frozen=True)
class Numbers:
    """Whole numbers that fit into 64 bits.

    >>> Numbers(np.array([30, 10, 20])).values(1, 3)
    [10, 20]
    """

    array: IntArray

    def __len__(self) -> int:
        return len(self.array)

    def values(self, start: int, stop: int) -> list[Any]:
        return self.array[start:stop].tolist()


@dataclass(frozen=True)
class Texts:
    """Names, one after the other, and where each of them begins and the last one ends.

    >>> names = Texts.joined([Texts.of(["a.jpg"]), Texts.of(["île.jpg", ""])])
    >>> names.values(0, 3), len(names.data)
    (['a.jpg', 'île.jpg', ''], 13)
    """

    data: AnyArray
    bounds: AnyArray

    @classmethod
    def of(cls, values: Sequence[str]) -> "Texts":
        # Names of files may hold what is no text at all.
        encoded = [value.encode(errors="surrogatepass") for value in values]
        ends = np.cumsum([0, *map(len, encoded)])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), _small(ends))

    @classmethod
    def joined(cls, parts: Sequence["Texts"]) -> "Texts":
        starts = np.cumsum([0, *(len(part.data) for part in parts)]).tolist()
        bounds = [part.bounds[1:].astype(np.int64) + start for part, start in zip(parts, starts, strict=False)]
        whole = np.concatenate([np.zeros(1, np.int64), *bounds])
        return cls(np.concatenate([part.data for part in parts]), _small(whole))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def values(self, start: int, stop: int) -> list[Any]:
        bounds: list[int] = self.bounds[start : stop + 1].tolist()
        text, first = self.data[bounds[0] : bounds[-1]].tobytes(), bounds[0]
        return [text[a - first : b - first].decode(errors="surrogatepass") for a, b in pairwise(bounds)]


@dataclass(frozen=True)
class Mixed:
    """Whatever is not of one kind, as it came.

    >>> store(["a.jpg", 7]).values(0, 2)
    ['a.jpg', 7]
    """

    items: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.items)

    def values(self, start: int, stop: int) -> list[Any]:
        return list(self.items[start:stop])


def _small(bounds: IntArray) -> AnyArray:
    return bounds.astype(np.uint32) if bounds[-1] < 2**32 else bounds


def store(values: Sequence[Any]) -> Store:
    """The smallest store for values, all in memory.

    >>> store([0, 1, 2]), store([None, None])
    (Consecutive(n=3), Blank(n=2))
    >>> store(["a.jpg", "b.jpg"]).values(1, 2)
    ['b.jpg']
    """
    kinds = set(map(type, values))
    if kinds == {str}:
        return Texts.of(values)
    if kinds == {type(None)}:
        return Blank(len(values))
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return numbers(np.array(values, np.int64))
    return Mixed(tuple(values))


def numbers(array: IntArray) -> Store:
    """A store of whole numbers.

    >>> numbers(np.arange(1000)), numbers(np.array([3, 1]))
    (Consecutive(n=1000), Numbers(array=array([3, 1])))
    """
    n = len(array)
    if n and array[0] == 0 and array[-1] == n - 1 and bool((array[1:] > array[:-1]).all()):
        return Consecutive(n)
    return Numbers(array)


def _joined(stores: Sequence[Store]) -> Store:
    """One store for the values of several."""
    if len(stores) == 1:
        return stores[0]
    if all(isinstance(part, Texts) for part in stores):
        return Texts.joined([part for part in stores if isinstance(part, Texts)])
    if all(isinstance(part, Blank) for part in stores):
        return Blank(sum(map(len, stores)))
    if all(isinstance(part, Numbers | Consecutive) for part in stores):
        arrays = [part.array if isinstance(part, Numbers) else np.arange(len(part)) for part in stores]
        return numbers(np.concatenate(arrays))
    return Mixed(tuple(value for part in stores for value in part.values(0, len(part))))


class Column(Sequence[T_co]):
    """A column that behaves like the tuple of its values; 0 … n−1 and nothing but None take no room.

    Indexed by an array, it gives an array, as one would.

    >>> names = Column(["a.jpg", "b.jpg"])
    >>> names, names[1], names == ["a.jpg", "b.jpg"]
    (('a.jpg', 'b.jpg'), 'b.jpg', True)
    >>> column = Column.joined([store([0, 1]), store([7])])
    >>> column[1:], Column.of(Blank(2))
    ((1, 7), (None, None))
    """

    def __init__(self, values: Iterable[T_co] = ()) -> None:
        self.store = store(list(values))

    @classmethod
    def of(cls, kept: Store) -> Self:
        """The column of a store."""
        column = cls()
        column.store = kept
        return column

    @classmethod
    def joined(cls, parts: Sequence[Store]) -> Self:
        """One column of several stores."""
        present = [part for part in parts if len(part)]
        return cls.of(_joined(present)) if present else cls()

    def __len__(self) -> int:
        return len(self.store)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: AnyArray) -> AnyArray: ...
    def __getitem__(self, index: int | slice | AnyArray) -> Any:
        if isinstance(index, np.ndarray) and index.ndim:
            return np.array([self[row] for row in np.arange(len(self))[index].tolist()])
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return type(self)(self.store.values(start, max(start, stop)))
            return type(self)(self[row] for row in range(start, stop, step))
        row = operator.index(index)
        row += len(self) if row < 0 else 0
        if not 0 <= row < len(self):
            raise IndexError(f"there are {len(self)} rows; asked for {index}")
        return self.store.values(row, row + 1)[0]

    def __iter__(self) -> Iterator[T_co]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self.store.values(start, min(len(self), start + _AT_ONCE))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        shown = repr(tuple(self[:_SHOWN]))
        return shown if len(self) <= _SHOWN else f"{shown[:-1]}, … {len(self)} in all)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.array(self.tolist(), dtype=dtype)

    def tolist(self) -> list[T_co]:
        return list(self)

    def take(self, rows: IntArray) -> Self:
        """Some of the rows, as a column of their own."""
        return type(self)(self[row] for row in rows.tolist())

    def state(self) -> dict[str, AnyArray]:
        """The values as arrays, to be saved; none where their number tells them, or they have to be listed."""
        if isinstance(self.store, Texts):
            return {"data": self.store.data, "bounds": self.store.bounds.astype(np.int64)}
        return {"numbers": self.store.array} if isinstance(self.store, Numbers) else {}

    @classmethod
    def from_state(cls, state: Mapping[str, AnyArray]) -> Self:
        """The column that `state` was taken from."""
        if "numbers" in state:
            return cls.of(numbers(state["numbers"]))
        return cls.of(Texts(state["data"], _small(state["bounds"])))
