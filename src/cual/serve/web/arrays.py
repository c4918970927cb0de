"""Arrays that strangers send: looked at before numpy reads them, for it reserves memory by what they claim."""

import io
import math
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from cual.errors import DamagedFile, ForeignFile, TooLarge
from cual.types import AnyArray

_SHORTEST_HEADER = 12  # bytes: what a header is and how long
_LONGEST_HEADER = 16 * 1024  # numpy takes no longer one either


def is_npz(path: Path) -> bool:
    """Whether a zip holds arrays alone, as numpy writes them."""
    try:
        with zipfile.ZipFile(path) as packed:
            names = packed.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return path.suffix == ".npz"
    if not names or not all(name.endswith(".npy") for name in names):
        return False
    return "X.npy" in names or not any("/" in name for name in names)  # a column may be called "price/kg"


def check_npz(path: Path, limit: int) -> None:
    """Refuse an .npz that would unpack to more than `limit` bytes, or whose arrays claim more than they hold.

    Only the directory and the first bytes of each array are read.
    """
    try:
        with zipfile.ZipFile(path) as packed:
            if sum(member.file_size for member in packed.infolist()) > limit:
                raise TooLarge(f"the arrays of this file take more than {limit} bytes")
            for member in packed.infolist():
                if not member.filename.endswith(".npy"):
                    raise ForeignFile(f"the file holds {member.filename[:100]!r}, which is no array")
                with packed.open(member) as file:
                    _check_array(file, member.file_size, member.filename[:100])
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise DamagedFile(f"the .npz file is damaged: {error}") from error


@dataclass(frozen=True)
class Header:
    """What the first bytes of a .npy body claim that it holds."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]
    start: int
    """Where the numbers begin."""


def read_header(data: bytes | bytearray) -> Header | None:
    """What a .npy body claims to hold; None while too little of it is here to tell.

    >>> import io
    >>> body = io.BytesIO()
    >>> np.save(body, np.zeros((2, 3), np.float32))
    >>> read_header(body.getvalue()).shape, read_header(body.getvalue()[:9])
    ((2, 3), None)
    """
    if len(data) < _SHORTEST_HEADER:
        return None
    before = 10 if data[6:7] == b"\x01" else 12  # the length has two bytes, or four in later versions
    start = before + int.from_bytes(data[8:before], "little")
    if len(data) < min(start, _LONGEST_HEADER):
        return None
    return Header(*_header(bytes(data[: min(start, _LONGEST_HEADER)])), start)


def read_npy(data: bytes | bytearray) -> AnyArray:
    """The array of a .npy body; what it claims to hold must be there.

    >>> held = io.BytesIO(); np.save(held, np.eye(2)); read_npy(held.getvalue()).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    header = read_header(data)
    if header is None:
        raise DamagedFile(f"the body is not a .npy array: it ends after {len(data)} bytes")
    _check_claim(header.shape, header.dtype, len(data) - header.start, "the body")
    try:
        flat = np.frombuffer(data, header.dtype, math.prod(header.shape), header.start)
        return flat.reshape(header.shape, order="F" if header.by_columns else "C")
    except Exception as error:  # types of no size, a shape of a thousand dimensions
        raise DamagedFile(f"the body is not a .npy array: {type(error).__name__}") from error


@lru_cache(256)  # programs send one shape again and again, and reading a header takes longer than predicting
def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    return _read_header(io.BytesIO(data), "the body")


def _check_array(file: IO[bytes], size: int, name: str) -> None:
    shape, _, dtype = _read_header(file, name)
    _check_claim(shape, dtype, size, name)


def _read_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether columns come first, and the type that an array claims to have."""
    try:
        version = np.lib.format.read_magic(file)  # pyright: ignore[reportArgumentType]
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_columns, dtype = read[version](file)  # pyright: ignore[reportArgumentType]
        return tuple(map(int, shape)), by_columns, dtype  # a bool is an int to numpy here, and none later
    except Exception as error:  # headers are Python literals, which can be wrong in many ways
        raise ForeignFile(f"{name} is not a .npy array: {type(error).__name__}") from error


def check_plain(dtype: np.dtype[Any], name: str) -> None:
    """Refuse pickles.

    >>> check_plain(np.dtype(object), "X")
    Traceback (most recent call last):
    cual.errors.ForeignFile: X holds Python objects, which are never read; turn them into numbers ...
    """
    if dtype.hasobject:
        raise ForeignFile(f"{name} holds Python objects, which are never read; turn them into numbers or text")


def _check_claim(shape: tuple[int, ...], dtype: np.dtype[Any], size: int, name: str) -> None:
    """Compare the shape that an array claims with the bytes there are."""
    check_plain(dtype, name)
    if any(n < 0 for n in shape) or math.prod(shape) * max(1, dtype.itemsize) > size:
        raise DamagedFile(f"{name} claims the shape {str(shape)[:100]} and has {max(0, size)} bytes")


def check_npy(path: Path) -> None:
    """Refuse a .npy whose array claims more than the file holds."""
    with path.open("rb") as file:
        _check_array(file, path.stat().st_size, "the file")
