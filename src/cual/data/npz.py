"""`.npz` and `.npy` files of features, never with pickle. What the arrays must be is said in `table`."""

import os
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import cast

import numpy as np

from cual.data.table import Table
from cual.errors import BadFeatures, DamagedFile, ForeignFile, TooLarge
from cual.types import AnyArray

MOST_BESIDE = 2**28
"""Bytes of a stranger's labels, ids and other arrays beside X."""
_SMALL = 2**26  # bytes that are not worth a file
ARRAYS = ("X", "y", "ids", "class_names", "encoder", "domain")


def read_npz(path: Path, unpack: Path | None = None) -> Table:
    """The table in a `.npz` with `X`, and, where it has them, y, ids, class_names, encoder and domain.

    Parameters
    ----------
    unpack
        A folder. Where it is given, the file is a stranger's: a large X is unpacked there and memory-mapped
        (nothing is left there to be removed), and what else is in it may take `MOST_BESIDE` bytes.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pool.npz"
    >>> np.savez(file, X=np.eye(2, dtype=np.float16), ids=np.array(["a", "b"]))
    >>> table = read_npz(file)
    >>> len(table), table.X.dtype, table.y
    (2, dtype('float16'), None)
    """
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
            names = [name for name in ARRAYS if name in file.files]
            X = None if unpack is None else _mapped(path, names, unpack)
            arrays = {name: X if name == "X" and X is not None else file[name] for name in names}
    except (ForeignFile, TooLarge):
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, MemoryError) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    except ValueError as error:  # numpy says so of object arrays, which would need pickle
        raise ForeignFile(f"{path} holds something that is not a plain array: {error}") from error
    class_names = arrays.get("class_names")
    encoder = arrays.get("encoder")
    return Table(
        arrays["X"],
        arrays.get("y"),
        arrays.get("ids"),
        None if class_names is None else tuple(str(name) for name in class_names),
        None if encoder is None else str(encoder),
        source=str(path),
        domain=arrays.get("domain"),
    )


def _mapped(path: Path, names: Sequence[str], folder: Path) -> AnyArray | None:
    """X of a file whose other arrays are not too large, memory-mapped; None where it is small itself."""
    with zipfile.ZipFile(path) as packed:  # it gives no more of a member than its directory says
        sizes = {name: packed.getinfo(f"{name}.npy").file_size for name in names}
        beside = sum(sizes.values()) - sizes["X"]
        if beside > MOST_BESIDE:
            raise TooLarge(f"{path}: labels and ids take {beside:,} bytes; at most {MOST_BESIDE:,} are taken")
        if sizes["X"] <= _SMALL:
            return None
        with packed.open("X.npy") as array, NamedTemporaryFile(dir=folder, suffix=".npy", delete=False) as file:
            shutil.copyfileobj(array, file, 2**20)
        try:
            mapped = cast(AnyArray, np.load(file.name, mmap_mode="r", allow_pickle=False))
        finally:
            # what is mapped stays as long as it is looked at, also once the file has gone; on Windows the file
            # stays as well, for whoever made the folder
            with suppress(PermissionError):
                Path(file.name).unlink()
        return mapped


def read_npy(path: Path) -> Table:
    """The table in a `.npy`, which has nothing but X; it is memory-mapped.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "X.npy"
    >>> np.save(file, np.eye(3))
    >>> type(read_npy(file).X).__name__
    'memmap'
    """
    try:
        X = cast(AnyArray, np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        with path.open("rb") as file:
            ours = file.read(6) == b"\x93NUMPY"
        raise (DamagedFile if ours else ForeignFile)(f"{path} is not a whole .npy file: {error}") from error
    return Table(X, source=str(path))


def write_npz(path: Path, table: Table) -> None:
    """Write a `.npz`; a reader never sees half a file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "first.npz"
    >>> write_npz(file, Table(np.eye(2, dtype=np.float16), y=np.array(["cat", "dog"])))
    >>> sorted(np.load(file))
    ['X', 'y']
    """
    arrays: dict[str, AnyArray] = {"X": table.X}
    if table.y is not None:
        arrays["y"] = table.y
    if table.ids is not None:
        arrays["ids"] = np.asarray(table.ids)
    if table.class_names is not None:
        arrays["class_names"] = np.array(table.class_names)
    if table.encoder is not None:
        arrays["encoder"] = np.array(table.encoder)
    if table.domain is not None:
        arrays["domain"] = table.domain
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
