"""Plain columns of features files: further arrays of a `.npz`, further columns of a parquet file.

They are read a few rows at a time. Features are read elsewhere; what is kept of these, `plain` says.
"""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from cual.data import columns
from cual.data.npz import ARRAYS
from cual.data.parquet import feature_columns
from cual.data.plain import MOST_NAMES, PlainColumns, chosen
from cual.errors import DamagedFile, ForeignFile

AT_ONCE = 1000
"""Rows that are read together."""
_MOST_BYTES = 2**20
_WIDEST = 4 * 10**6
"""Bytes of one value of an array."""
_KINDS = "biufUSM"
_INDEX = "__index_level_"
"""How pandas begins the name of a column that nobody brought."""


def plain_columns(path: Path, n: int, wanted: Sequence[str] | None = None) -> PlainColumns:
    """The plain columns of a features file of `n` rows; other files than .npz and parquet have none.

    Parameters
    ----------
    wanted
        Columns that somebody named; by default all, but for features, ids and labels.
    """
    if path.suffix == ".npz":
        return _of_npz(path, n, wanted)
    if path.suffix in (".parquet", ".pq"):
        return _of_parquet(path, wanted)
    names, notes = chosen(path.name, {}, wanted)
    return PlainColumns(names, notes, lambda: iter(()))


# -- npz -------------------------------------------------------------------------------------------------------


def _of_npz(path: Path, n: int, wanted: Sequence[str] | None) -> PlainColumns:
    try:
        with zipfile.ZipFile(path) as packed:
            names = [name.removesuffix(".npy") for name in packed.namelist() if name.endswith(".npy")]
            types = {name: _type(packed, name, n) for name in names[:MOST_NAMES] if name not in ARRAYS}
    except (zipfile.BadZipFile, OSError) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    candidates = {**dict.fromkeys(ARRAYS, True), **{name: dtype is not None for name, dtype in types.items()}}
    kept, notes = chosen(path.name, candidates, wanted, taken=ARRAYS)
    dtypes = [dtype for name in kept if (dtype := types[name]) is not None]
    return PlainColumns(kept, notes, lambda: _array_rows(path, kept, dtypes, n))


def _type(packed: zipfile.ZipFile, name: str, n: int) -> np.dtype[Any] | None:
    """The type of an array of one number or text for each row; None for any other. Only its header is read."""
    try:
        with packed.open(f"{name}.npy") as file:
            shape, dtype = _header(file)
    except (ForeignFile, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return None
    return dtype if shape == (n,) and dtype.kind in _KINDS and 0 < dtype.itemsize <= _WIDEST else None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    formats = np.lib.format
    readers: dict[tuple[int, int], Callable[[Any], Any]] = {
        (1, 0): formats.read_array_header_1_0,
        (2, 0): formats.read_array_header_2_0,
    }
    try:
        shape, _, dtype = readers[formats.read_magic(cast(Any, file))](file)
    except Exception as error:  # headers are Python literals, which can be wrong in many ways
        raise ForeignFile(f"not a .npy array: {type(error).__name__}") from error
    return tuple(shape), dtype


def _array_rows(path: Path, names: Sequence[str], dtypes: Sequence[np.dtype[Any]], n: int) -> Iterator[Any]:
    """Rows of arrays that lie side by side in a zip; so many at a time that they fit in little memory."""
    widest = max((dtype.itemsize for dtype in dtypes), default=1)
    step = max(1, min(AT_ONCE, _MOST_BYTES // widest))
    try:
        with ExitStack() as opened:
            packed = opened.enter_context(zipfile.ZipFile(path))
            files = [opened.enter_context(packed.open(f"{name}.npy")) for name in names]
            for file in files:
                _header(file)
            for start in range(0, n, step):
                rows = min(step, n - start)
                parts = (_read(file, dtype, rows) for file, dtype in zip(files, dtypes, strict=True))
                yield from zip(*parts, strict=True) if names else [()] * rows
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error


def _read(file: IO[bytes], dtype: np.dtype[Any], rows: int) -> Any:
    data = file.read(rows * dtype.itemsize)
    if len(data) < rows * dtype.itemsize:
        raise EOFError("an array is cut short")
    return np.frombuffer(data, dtype)


# -- parquet ---------------------------------------------------------------------------------------------------


def _of_parquet(path: Path, wanted: Sequence[str] | None) -> PlainColumns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = cast(Any, pq).read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedFile(f"{path} is not a whole parquet file: {error}") from error
    names: list[str] = schema.names
    ids = columns.column(path, names, None, columns.IDS)
    labels = columns.column(path, names, None, columns.LABELS)
    features = feature_columns(path, schema, [name for name in names if name not in (ids, labels)])
    own = [name for name in names if names.count(name) == 1 and not name.startswith(_INDEX)]
    candidates = {name: is_plain(schema.field(name).type) for name in own[:MOST_NAMES]}
    kept, notes = chosen(path.name, candidates, wanted, taken={*features, *([] if ids is None else [ids])})
    return PlainColumns(kept, notes, lambda: arrow_rows(path, kept))


def is_plain(kind: Any) -> bool:
    """Whether a type of Arrow is one of numbers, text, dates or times.

    >>> import pyarrow as pa
    >>> is_plain(pa.date32()), is_plain(pa.dictionary(pa.int8(), pa.string())), is_plain(pa.binary())
    (True, True, False)
    """
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(kind):
        return is_plain(kind.value_type)
    simple = (t.is_string, t.is_large_string, t.is_boolean, t.is_integer, t.is_floating)
    return any(is_kind(kind) for is_kind in simple) or _is_moment(kind)


def _is_moment(kind: Any) -> bool:
    import pyarrow as pa

    t = pa.types
    return any(is_kind(kind) for is_kind in (t.is_decimal, t.is_date, t.is_time, t.is_timestamp))


def arrow_rows(path: Path, names: Sequence[str]) -> Iterator[Any]:
    """Values of some columns of a parquet file, row by row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with cast(Any, pq).ParquetFile(path) as file:
            for batch in file.iter_batches(columns=list(names), batch_size=AT_ONCE):
                yield from batch_rows(batch, names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedFile(f"{path} is not a whole parquet file: {error}") from error


def batch_rows(batch: Any, names: Sequence[str]) -> Iterator[Any]:
    """Values of some columns of a record batch, row by row; dates and such as text, for nobody to convert.

    >>> import datetime
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"day": [datetime.date(2026, 3, 1)], "n": [7]})
    >>> list(batch_rows(batch, ["n", "day"]))
    [(7, '2026-03-01')]
    """
    import pyarrow as pa

    lists: list[list[Any]] = []
    for name in names:
        cells = batch.column(batch.schema.get_field_index(name))
        lists.append((cells.cast(pa.string()) if _is_moment(cells.type) else cells).to_pylist())
    yield from zip(*lists, strict=True) if lists else [()] * batch.num_rows
