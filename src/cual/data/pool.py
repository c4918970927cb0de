"""Unlabelled features with their ids, read in float32 chunks. Nothing here knows of classes."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from cual import options as check
from cual import storage
from cual.data.ahead import read_ahead
from cual.data.frames import index_of, values_of
from cual.data.ids import Ids, check_ids
from cual.data.table import Table, check_rows
from cual.errors import BadFeatures, EmptyPool
from cual.types import AnyArray, ArrayLike, IntArray, Label, LazyRows, Row

CHUNK_BYTES = 64 * 2**20
"""Float32 bytes of one chunk of features."""
LARGEST = 1e15
"""Of larger values, squares and their sums over a row do not fit into float32: distances would be NaN."""
SMALLEST = 1e-15
"""Where no value is larger, squares vanish in float32: all distances would be 0."""
_KEEP_ON_DEVICE_BYTES = 4 * 2**30
T = TypeVar("T")


def _nothing(part: slice) -> tuple[Any, ...]:
    del part
    return ()


class Elsewhere(Protocol):
    """Other processes that work on the chunks of a pool."""

    def map(
        self, work: Callable[..., T], folder: Row | None, pieces: Iterator[tuple[Any, ...]], total: int
    ) -> Iterator[T]:
        """What ``work(features, *others)`` gives for each of `total` pieces ``(features, *others)``, in order.

        Where the features lie in a `folder`, as `LazyRows.reference` tells of it, a piece has row numbers, or a
        slice, in their place.
        """
        ...


class Pool:
    """Unlabelled features with stable ids; arrays stay in the type they came in (a memory map stays on disk).

    Parameters
    ----------
    X
        (n, d) array, memory map or tensor of any float type, or the `X` of a features folder; or a DataFrame.
    ids
        One id per row, str or int, no two alike; by default 0 … n−1, or the index of a DataFrame.
    encoder
        Fingerprint of the encoder that made `X`, where it is known; that of a features folder is.

    >>> pool = Pool(np.eye(3, dtype=np.float16), ids=["a", "b", "c"])
    >>> len(pool), pool.width, pool.take(np.array([2])).dtype
    (3, 3, torch.float32)
    >>> [(rows, X.shape) for rows, X in pool.chunks()], pool.data.dtype
    ([(slice(0, 3, None), torch.Size([3, 3]))], dtype('float16'))
    """

    def __init__(
        self, X: ArrayLike, ids: Sequence[Any] | AnyArray | None = None, encoder: str | None = None
    ) -> None:
        ids = index_of(X) if ids is None else ids
        self._data = _as_2d(X, "pool")
        if not len(self._data):
            raise EmptyPool("the pool holds no samples")
        n = len(self._data)
        self.ids = Ids.consecutive(n) if ids is None else check_ids(ids, n, "pool")
        self.encoder = encoder_of(self._data) if encoder is None else check.text("encoder", encoder)
        """Fingerprint of the encoder that made the features, where it is known."""
        self.elsewhere: Elsewhere | None = None
        """Where `map` works; None for here."""
        self._on_device: Tensor | None = None
        for rows, data in self._read(None, self.width):
            check_finite(_float32(data), "pool", offset=rows.start, ids=self.ids)

    @classmethod
    def of(cls, table: Table) -> "Pool":
        """The rows of a table, with its ids and its encoder; labels are left behind.

        >>> Pool.of(Table(np.eye(2), ids=np.array(["a", "b"]), encoder="dino-vits16@0123456789ab")).encoder
        'dino-vits16@0123456789ab'
        """
        return cls(table.X, table.ids, table.encoder)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"<Pool: {len(self)} samples, features {self.width} wide>"

    @property
    def width(self) -> int:
        return int(self._data.shape[1])

    @property
    def data(self) -> ArrayLike:
        """The features as they came."""
        return self._data

    def take(self, rows: IntArray, device: torch.device | str = "cpu") -> Tensor:
        """Features of `rows`, float32, on `device`."""
        target = torch.device(device)
        if self._stays_on(target):
            if self._on_device is None or self._on_device.device != target:
                self._on_device = _float32(self._data, target)
            return self._on_device[torch.from_numpy(rows).to(target)]
        return read_rows(self._data, rows).to(target)

    def chunks(
        self, rows: IntArray | None = None, device: torch.device | str = "cpu", width: int = 0
    ) -> Iterator[tuple[slice, Tensor]]:
        """Go through `rows`, or all, in chunks of bounded memory: positions within `rows`, and their features.

        What lies on disk is read one chunk ahead. `width` is that of what is made of the features, where they
        become wider.
        """
        width = max(self.width, width)
        if isinstance(self._data, LazyRows) and not self._stays_on(torch.device(device)):
            for part, data in self._read(rows, width):
                yield part, _float32(data, device)
            return
        for part in chunks(len(self) if rows is None else len(rows), width):
            yield part, self.take(np.arange(part.start, part.stop) if rows is None else rows[part], device)

    def map(
        self,
        work: Callable[..., T],
        rows: IntArray | None = None,
        device: torch.device | str = "cpu",
        width: int = 0,
        beside: Callable[[slice], tuple[Any, ...]] = _nothing,
    ) -> Iterator[tuple[slice, T]]:
        """Positions of the chunks that `chunks` gives, and what `work` makes of their features, in order.

        Here, or `elsewhere` with the same bits: `work` must bring along all that it needs. A single chunk is
        worked on here.

        Parameters
        ----------
        beside
            Further arguments of `work` for a chunk, by its positions within `rows`.

        Examples
        --------
        >>> [sums.tolist() for _, sums in Pool(np.eye(2)).map(torch.sum)]
        [2.0]
        """
        parts = list(chunks(len(self) if rows is None else len(rows), max(self.width, width)))
        if self.elsewhere is None or len(parts) < 2:
            for part, X in self.chunks(rows, device, width):
                yield part, work(X, *beside(part))
            return
        data, folder = self._data, self._data.reference() if isinstance(self._data, LazyRows) else None

        def piece(part: slice) -> tuple[Any, ...]:
            chosen = part if rows is None else rows[part]
            features = chosen if folder is not None else read_rows(data, chosen)
            return (features, *beside(part))

        yield from zip(parts, self.elsewhere.map(work, folder, map(piece, parts), len(parts)), strict=True)

    def _read(self, rows: IntArray | None, width: int) -> Iterator[tuple[slice, ArrayLike]]:
        """Features as they are, in chunks."""

        def read(part: slice) -> ArrayLike:
            return self._data[part if rows is None else rows[part]]

        parts = chunks(len(self) if rows is None else len(rows), width)
        if isinstance(self._data, LazyRows):
            return read_ahead(read, parts)
        return ((part, read(part)) for part in parts)

    def _stays_on(self, device: torch.device) -> bool:
        """Whether the features are kept on a GPU."""
        return device.type == "cuda" and len(self) * self.width * 4 <= _KEEP_ON_DEVICE_BYTES

    def save(self, path: Path) -> None:
        """Write features, ids and encoder to one file; of a features folder, where it lies.

        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "pool"
        >>> Pool(np.eye(2, dtype=np.float16), ids=["a.jpg", "b.jpg"]).save(file)
        >>> list(Pool.load(file).ids), Pool.load(file).data.dtype
        (['a.jpg', 'b.jpg'], torch.float16)
        """
        body: Row = {"ids": self.ids.listed(), "encoder": self.encoder}
        if isinstance(self._data, LazyRows):
            body["folder"] = self._data.reference()
        with warnings.catch_warnings():  # torch warns of memory maps that it must not write to; nobody does
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            tensors = {f"ids.{name}": torch.from_numpy(array) for name, array in self.ids.state().items()}
            if isinstance(self._data, Tensor):
                tensors["X"] = self._data
            elif not isinstance(self._data, LazyRows):
                tensors["X"] = torch.from_numpy(np.ascontiguousarray(self._data))
        storage.write(path, "pool", body, tensors)

    @classmethod
    def load(cls, path: Path) -> "Pool":
        """Read a pool that `save` wrote."""
        body, tensors = storage.read(path, "pool")
        with storage.rebuilding(path):
            saved = {name: t.numpy() for name, t in storage.section(tensors, "ids.").items()}
            ids = Ids.from_state(saved) if saved else body["ids"]
            if "folder" in body:
                from cual.data.folder import reopen

                return cls(reopen(body["folder"]), ids, body.get("encoder"))
            return cls(tensors["X"], ids, body.get("encoder"))  # files of release 0.1.0 name no encoder


def chunks(n: int, width: int) -> Iterator[slice]:
    """Slices of 0 … n whose float32 rows of `width` take at most `CHUNK_BYTES`.

    >>> [(part.start, part.stop) for part in chunks(20_000, width=2048)]
    [(0, 8192), (8192, 16384), (16384, 20000)]
    """
    step = max(1, CHUNK_BYTES // (4 * max(1, width)))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def read_rows(data: ArrayLike, rows: IntArray | slice) -> Tensor:
    """Some rows, float32.

    >>> read_rows(np.eye(3, dtype=np.float16), np.array([2, 0]))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if isinstance(data, Tensor) and not isinstance(rows, slice):
        return _float32(data[torch.from_numpy(rows).to(data.device)])
    return _float32(data[rows])


def as_features(X: ArrayLike, what: str, width: int | None = None) -> Tensor:
    """Check features that fit in memory and give them as float32.

    >>> as_features(np.zeros((2, 3)), "X", width=4)
    Traceback (most recent call last):
    cual.errors.BadFeatures: X is 3 wide, but the agent's features are 4 wide; use the same encoder
    """
    data = _as_2d(X, what)
    if width is not None:
        check_width(int(data.shape[1]), width, what)
    features = _float32(data)
    check_finite(features, what)
    return features


def check_width(width: int, expected: int, what: str) -> None:
    """Refuse features of another width than the agent's.

    >>> check_width(512, 384, "pool")
    Traceback (most recent call last):
    cual.errors.BadFeatures: pool is 512 wide, but the agent's features are 384 wide; use the same ...
    """
    if width != expected:
        raise BadFeatures(
            f"{what} is {width} wide, but the agent's features are {expected} wide; use the same encoder"
        )


def encoder_of(X: Any) -> str | None:
    """Fingerprint of the encoder that made `X`, where it is known."""
    return X.encoder if isinstance(X, LazyRows) else None


def check_finite(X: Tensor, what: str, offset: int = 0, ids: Sequence[Label] | None = None) -> None:
    """Raise `BadFeatures` naming the first row with NaN, infinite or too large values, and how many have any.

    >>> check_finite(torch.tensor([[0.0, 1e19]]), "X")
    Traceback (most recent call last):
    cual.errors.BadFeatures: X row 0 holds values too large to be squared (above 1e+15) in 1 of 2 columns; ...
    """
    if not X.numel():
        return
    least, most = torch.aminmax(X)
    if float(least) >= -LARGEST and float(most) <= LARGEST:  # not so where one is NaN
        return
    sound = X.abs() <= LARGEST
    bad = (~sound.all(dim=1)).nonzero().flatten()
    first = int(bad[0])
    name = f" (id {ids[offset + first]!r})" if ids is not None and ids[offset + first] != offset + first else ""
    raise BadFeatures(
        f"{what} row {offset + first}{name} holds {_unsound(X[first])} in {int((~sound[first]).sum())} of "
        f"{X.shape[1]} columns; {len(bad)} rows {'of this chunk ' if offset else ''}are affected. "
        "Drop them or make their features again."
    )


def _unsound(row: Tensor) -> str:
    """What is wrong with a row that cannot be used."""
    if bool(torch.isnan(row).any()):
        return "NaN"
    if bool(torch.isinf(row).any()):
        return "infinite (or too large for float32) values"
    return f"values too large to be squared (above {LARGEST:g})"


def check_not_vanishing(X: Tensor, what: str) -> None:
    """Refuse features that are all so small that nothing is told by their distances; zeros are meant so.

    >>> check_not_vanishing(torch.tensor([[1e-20]]), "X")
    Traceback (most recent call last):
    cual.errors.BadFeatures: X holds no value larger than 1e-20, so that squares vanish in float32; ...
    """
    most = float(X.abs().max()) if X.numel() else 0.0
    if 0 < most < SMALLEST:
        raise BadFeatures(
            f"{what} holds no value larger than {most:.1g}, so that squares vanish in float32; "
            "multiply all features, of pools too, by the same large number"
        )


def _as_2d(X: Any, what: str) -> ArrayLike:
    data = X if isinstance(X, Tensor | np.ndarray | LazyRows) else _as_array(X, what)
    if isinstance(data, Tensor) and (data.layout != torch.strided or data.device.type == "meta"):
        raise BadFeatures(f"{what} is a tensor that holds no plain numbers ({data.layout}, on {data.device})")
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        raise BadFeatures(f"{what} is an array in which values are masked; drop those rows, or fill them")
    numeric = not data.is_complex() if isinstance(data, Tensor) else data.dtype.kind in "fiub"
    check_rows(data, numeric, what)
    return data


def _as_array(X: Any, what: str) -> AnyArray:
    try:
        return values_of(X)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise BadFeatures(
            f"{what} is no table of numbers: rows of different lengths, or odd ones ({error})"
        ) from None


def _float32(data: ArrayLike, device: torch.device | str | None = None) -> Tensor:
    """As a float32 tensor on `device`, or where it is; row by row: sums in another order have other bits."""
    if isinstance(data, Tensor):
        return data.detach().to(device).to(torch.float32).contiguous()
    if isinstance(data, np.ndarray) and data.dtype == np.float16:  # half as many bytes on their way
        return torch.from_numpy(np.array(data, order="C")).to(device).to(torch.float32)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is reported by check_finite
        return torch.from_numpy(np.array(data, dtype=np.float32, order="C")).to(device)
