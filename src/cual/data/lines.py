"""One JSON value per row of a pool, in a file that is read by row: values may be more than fit in memory.

Two files: lines of JSON, and where the line of each row begins, with the length of the first file at the end.
"""

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cual.errors import DamagedFile
from cual.storage import write_bytes, write_pieces

_NONE = -1


def write_lines(file: Path, values: Iterable[tuple[int, Any]], n: int) -> None:
    """Write the values of rows, in any order; those of the `n` rows that get none have none."""
    starts = np.full(n + 1, _NONE, np.int64)

    def pieces() -> Iterator[bytes]:
        end = 0
        for row, value in values:
            line = json.dumps(value).encode() + b"\n"
            starts[row] = end
            end += len(line)
            yield line
        starts[n] = end

    write_pieces(file, pieces())
    buffer = io.BytesIO()
    np.save(buffer, starts, allow_pickle=False)
    write_bytes(_starts(file), buffer.getvalue())


class Lines:
    """What `write_lines` wrote, to be read by row.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "said.jsonl"
    >>> write_lines(file, [(1, "one"), (0, ["zero"])], 3)
    >>> with Lines(file) as lines:
    ...     print(lines.get(0), lines.get(1), lines.get(2), lines.get(3), lines.get(-1))
    ['zero'] one None None None
    """

    def __init__(self, file: Path) -> None:
        """`FileNotFoundError` where there is no such file."""
        try:
            self._starts = np.load(_starts(file), mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise DamagedFile(f"{_starts(file)} is damaged: {error}") from error
        self._file = file.open("rb")

    def get(self, row: int) -> Any | None:
        """The value of a row; None where it has none."""
        start = int(self._starts[row]) if 0 <= row < len(self._starts) - 1 else _NONE
        if start == _NONE:
            return None
        self._file.seek(start)
        try:
            return json.loads(self._file.readline())
        except ValueError as error:
            raise DamagedFile(f"{self._file.name} is damaged at row {row}: {error}") from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def starts_of(name: str) -> str:
    """The name of the file that says where lines begin.

    >>> starts_of("texts.jsonl")
    'texts.npy'
    """
    return Path(name).with_suffix(".npy").name


def _starts(file: Path) -> Path:
    return file.with_name(starts_of(file.name))
