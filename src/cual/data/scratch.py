"""Rows of numbers that need not stay in memory: a temporary file without a name, gone with its owner."""

import os
import tempfile
import threading

import numpy as np
from numpy.typing import DTypeLike

from cual.errors import BadFile
from cual.types import AnyArray, IntArray


class Scratch:
    """Rows of one width and type, written once from the first to the last, read in any order.

    By plain reads: mapped pages would count as resident memory. The file is in the folder that `TMPDIR` names.

    >>> rows = Scratch(2, np.int32)
    >>> rows.append(np.arange(6).reshape(3, 2))
    >>> rows[1:3].tolist(), rows[np.array([2, 0])].tolist()
    ([[2, 3], [4, 5]], [[4, 5], [0, 1]])
    """

    def __init__(self, width: int, dtype: DTypeLike) -> None:
        self._width = width
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile(prefix="cual-")  # noqa: SIM115
        self._one_at_a_time = threading.Lock()

    def __del__(self) -> None:
        self._file.close()

    def append(self, rows: AnyArray) -> None:
        """Add rows after the last one."""
        try:
            self._file.write(np.ascontiguousarray(rows, self._dtype).data)
            self._file.flush()
        except OSError as error:
            raise BadFile(
                f"a temporary file in {tempfile.gettempdir()} cannot be written ({error.strerror or error}): "
                "make room, or name another folder in TMPDIR"
            ) from error

    def __getitem__(self, rows: slice | IntArray) -> AnyArray:
        """Rows from … to, or any rows."""
        if isinstance(rows, slice):
            start = rows.start or 0
            out = np.empty((rows.stop - start, self._width), self._dtype)
            self._read(out, start)
            return out
        out = np.empty((len(rows), self._width), self._dtype)
        for place, row in enumerate(rows.tolist()):
            self._read(out[place], row)
        return out

    def _read(self, out: AnyArray, row: int) -> None:
        view = out.data.cast("B") if out.size else memoryview(b"")
        offset, done = row * self._width * self._dtype.itemsize, 0
        if not hasattr(os, "preadv"):  # Windows
            with self._one_at_a_time:
                self._file.seek(offset)
                view[:] = self._file.read(len(view))
                self._file.seek(0, os.SEEK_END)
            return
        while done < len(view):
            done += os.preadv(self._file.fileno(), [view[done:]], offset + done)
