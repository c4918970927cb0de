"""Features on disk: read `.npz`, `.npy` and parquet, write `.npz`. Making them is the encoders' business."""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.errors import BadFeatures, BadFile, BadLabels, DamagedFile, DuplicateIds, ForeignFile
from cual.types import AnyArray

ID_COLUMNS = ("id", "ids", "sample")
LABEL_COLUMNS = ("label", "labels", "y", "class")


@dataclass(frozen=True)
class Features:
    """What a features file holds; `X` keeps the precision it has on disk.

    >>> f = Features(np.zeros((2, 3), np.float16), y=np.array([1, 0]), class_names=("cat", "dog"))
    >>> f.labels().tolist()
    ['dog', 'cat']
    """

    X: AnyArray
    y: AnyArray | None = None
    ids: AnyArray | None = None
    class_names: tuple[str, ...] | None = None
    encoder: str | None = None
    """Fingerprint of the encoder that made them, where it is known."""
    unlabelled: str | None = None
    """Why there is no `y`, where some of the rows do have a label."""

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.X.dtype.kind not in "fiu":
            raise BadFeatures(
                f"features must be a table of numbers, one row per sample; X is {self.X.dtype} {self.X.shape}"
            )
        if self.y is not None:
            _check_labels(self.y, len(self.X), self.class_names)
        if self.ids is not None:
            _check_ids(self.ids, len(self.X))

    def __len__(self) -> int:
        return len(self.X)

    def labels(self) -> AnyArray:
        """The label of each row: its class name where the file has names, what it holds otherwise."""
        if self.y is None:
            raise BadLabels(self.unlabelled or "this features file has no labels (no y)")
        if self.class_names is not None and self.y.dtype.kind in "iu":
            return np.array(self.class_names)[self.y]
        return self.y

    def sha256(self) -> str:
        """Fingerprint of features and labels, the same whatever file format they came from."""
        digest = hashlib.sha256()
        for array in (self.X, *(() if self.y is None else (self.labels(),))):
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            for start in range(0, len(array), 4096):
                digest.update(np.ascontiguousarray(array[start : start + 4096]).tobytes())
        return digest.hexdigest()


def read(path: str | Path, *, ids: str | None = None, labels: str | None = None) -> Features:
    """Features of a `.npz`, `.npy` or `.parquet` file, or of a features folder.

    Parameters
    ----------
    path
        `.npz` with `X`, optional `y`, `ids`, `class_names`, `encoder`; `.npy` with X alone (memory-mapped); or
        parquet with one column of equally long lists of numbers, or else one numeric column per dimension.
    ids, labels
        Parquet only: the columns of ids and labels. Looked for under their usual names when not given.
    """
    path = Path(path)
    if not path.exists():
        raise BadFile(f"{path}: no such file")
    if path.is_dir():
        from cual.data.folder import FeaturesFolder

        return FeaturesFolder.open(path).features()
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".npy":
        return Features(_load_npy(path))
    if path.suffix in (".parquet", ".pq"):
        return _read_parquet(path, ids, labels)
    raise ForeignFile(f"{path}: features come as .npz, .npy or .parquet, not {path.suffix or 'without suffix'}")


def write(path: str | Path, features: Features) -> None:
    """Write a `.npz`; a reader never sees half a file."""
    path = Path(path)
    arrays: dict[str, AnyArray] = {"X": features.X}
    if features.y is not None:
        arrays["y"] = features.y
    if features.ids is not None:
        arrays["ids"] = features.ids
    if features.class_names is not None:
        arrays["class_names"] = np.array(features.class_names)
    if features.encoder is not None:
        arrays["encoder"] = np.array(features.encoder)
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise BadFeatures(f"{name} holds Python objects; turn them into numbers or strings first")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _check_labels(y: AnyArray, n: int, class_names: Sequence[str] | None) -> None:
    if y.shape != (n,):
        raise BadLabels(f"{n} rows of features but labels of shape {y.shape}")
    if y.dtype.kind not in "iuU":
        raise BadLabels(f"labels must be whole numbers or names, not {y.dtype}")
    if (
        class_names is not None
        and y.dtype.kind in "iu"
        and n
        and not 0 <= y.min() <= y.max() < len(class_names)
    ):
        raise BadLabels(f"labels run from {y.min()} to {y.max()}, but there are {len(class_names)} class names")


def _check_ids(ids: AnyArray, n: int) -> None:
    if ids.shape != (n,):
        raise BadFeatures(f"{n} rows of features but ids of shape {ids.shape}")
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise DuplicateIds(f"id {values[counts > 1][0].item()!r} occurs {counts.max()} times")


def _read_npz(path: Path) -> Features:
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            start = file.read(2)
        if start == b"PK":
            raise DamagedFile(f"{path} is cut short; copy or embed it again")
        raise ForeignFile(f"{path} is not an .npz file")
    try:
        with np.load(path, allow_pickle=False) as file:
            if "X" not in file.files:
                raise ForeignFile(f"{path} has no array X; it holds {', '.join(file.files) or 'nothing'}")
            held = {
                name: file[name] for name in ("X", "y", "ids", "class_names", "encoder") if name in file.files
            }
    except ForeignFile:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    except ValueError as error:  # numpy says so of object arrays, which would need pickle
        raise ForeignFile(f"{path} holds something that is not a plain array: {error}") from error
    names, encoder = held.get("class_names"), held.get("encoder")
    return Features(
        held["X"],
        held.get("y"),
        held.get("ids"),
        None if names is None else tuple(str(n) for n in names),
        None if encoder is None else str(encoder),
    )


def _load_npy(path: Path) -> AnyArray:
    try:
        return cast(AnyArray, np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        with path.open("rb") as file:
            ours = file.read(6) == b"\x93NUMPY"
        raise (DamagedFile if ours else ForeignFile)(f"{path} is not a whole .npy file: {error}") from error


def _read_parquet(path: Path, ids: str | None, labels: str | None) -> Features:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise BadFile(f"{path}: reading parquet needs pyarrow (pip install 'cual[parquet]')") from error
    try:
        table = cast(Any, pq).read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        with path.open("rb") as file:
            ours = file.read(4) == b"PAR1"
        raise (DamagedFile if ours else ForeignFile)(f"{path} is not a whole parquet file: {error}") from error
    names: list[str] = table.column_names
    for wanted in (ids, labels):
        if wanted is not None and wanted not in names:
            raise BadFile(f"{path} has no column {wanted!r}; it has {', '.join(names)}")
    id_column = ids or next((n for n in ID_COLUMNS if n in names), None)
    label_column = labels or next((n for n in LABEL_COLUMNS if n in names), None)
    rest = [n for n in names if n not in (id_column, label_column)]
    return Features(
        _vectors(path, table, rest), _plain(path, table, label_column), _plain(path, table, id_column)
    )


def _vectors(path: Path, table: Any, names: Sequence[str]) -> AnyArray:
    """X from the one list column of a parquet table, or from its numeric columns side by side."""
    import pyarrow as pa

    def is_list(t: Any) -> bool:
        return pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t)

    def is_number(t: Any) -> bool:
        return pa.types.is_floating(t) or pa.types.is_integer(t)

    types = {n: table.schema.field(n).type for n in names}
    lists = [n for n in names if is_list(types[n]) and is_number(types[n].value_type)]
    if len(lists) > 1:
        raise BadFeatures(f"{path} has several columns of lists ({', '.join(lists)}); keep one")
    if not lists:
        numbers = [n for n in names if is_number(types[n])]
        if not numbers:
            raise BadFeatures(f"{path} has no column of lists of numbers and no numeric columns")
        return np.column_stack([_filled(path, table, n) for n in numbers])
    column = table.column(lists[0]).combine_chunks()
    values, rows = column.flatten(), len(column)
    width = len(values) // rows if rows else 0
    if column.null_count or values.null_count or {len(v) for v in column} != {width}:
        raise BadFeatures(f"{path}: column {lists[0]!r} must hold lists of one length, without gaps")
    return cast(AnyArray, values.to_numpy(zero_copy_only=False)).reshape(rows, width)


def _plain(path: Path, table: Any, name: str | None) -> AnyArray | None:
    if name is None:
        return None
    values = _filled(path, table, name)
    return values.astype(np.str_) if values.dtype.hasobject else values


def _filled(path: Path, table: Any, name: str) -> AnyArray:
    column = table.column(name).combine_chunks()
    if column.null_count:
        raise BadFile(f"{path}: column {name!r} is empty in {column.null_count} of {len(column)} rows")
    return cast(AnyArray, column.to_numpy(zero_copy_only=False))
