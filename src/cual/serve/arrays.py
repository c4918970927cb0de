"""Arrays that strangers send: looked at before numpy reads them, for it reserves memory by what they claim."""

import io
import math
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from cual.errors import DamagedFile, ForeignFile, TooLarge
from cual.types import AnyArray

_LONGEST_HEADER = 16 * 1024  # numpy takes no longer one either


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


def read_npy(data: bytes) -> AnyArray:
    """The array of a .npy body; what it claims to hold must be there.

    >>> held = io.BytesIO(); np.save(held, np.eye(2)); read_npy(held.getvalue()).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    length = (
        int.from_bytes(data[8:10], "little") if data[6:7] == b"\x01" else int.from_bytes(data[8:12], "little")
    )
    start = length + (10 if data[6:7] == b"\x01" else 12)
    shape, by_columns, dtype = _header(data[: min(start, _LONGEST_HEADER)])
    _check_claim(shape, dtype, len(data) - start, "the body")
    flat = np.frombuffer(data, dtype, math.prod(shape), start)
    return flat.reshape(shape, order="F" if by_columns else "C")


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
        return read[version](file)  # pyright: ignore[reportArgumentType]
    except Exception as error:  # headers are Python literals, which can be wrong in many ways
        raise ForeignFile(f"{name} is not a .npy array: {type(error).__name__}") from error


def _check_claim(shape: tuple[int, ...], dtype: np.dtype[Any], size: int, name: str) -> None:
    """Compare the shape that an array claims with the bytes there are."""
    if dtype.hasobject:
        raise ForeignFile(f"{name} holds Python objects, which are never read; turn them into numbers or text")
    if any(n < 0 for n in shape) or math.prod(shape) * max(1, dtype.itemsize) > size:
        raise DamagedFile(f"{name} claims the shape {shape} and has {max(0, size)} bytes")


def check_npy(path: Path) -> None:
    """Refuse a .npy whose array claims more than the file holds."""
    with path.open("rb") as file:
        _check_array(file, path.stat().st_size, "the file")
