"""The journal of an adaptation: events in memory and, once it has a file, one line each on disk.

Lines are synced before anybody is told so; one that a crash cut off is dropped when the file is opened.
Each ends with the SHA-256 of what comes before it; those of earlier releases have none. What
the events mean is in `events` and `state`.
"""

import hashlib
import json
import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cual.errors import BadFile, DamagedFile, FolderInUse, NewerFormat
from cual.loop.events import FORMAT
from cual.loop.state import State
from cual.storage import write_bytes
from cual.types import Row

_SUM = re.compile(rb', "sha256": "([0-9a-f]{64})"\}$')
_EMPTY = b', "sha256": "' + 64 * b"0" + b'"}'
"""How a line with a checksum ends, any digit for a 0."""


class Journal:
    """Events, the state that they imply, and how much of them lies on disk.

    >>> import tempfile
    >>> from cual.loop import events
    >>> file = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> journal = Journal([events.begun(3, ["cat"], None)])
    >>> journal.begin(file)
    >>> journal.add(events.asked(0, "q0", [{"sample": "a.jpg", "score": 2.5}]))
    >>> journal.flush()
    >>> Journal.open(file).state.open
    ['a.jpg']
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: list[Row] = []
        self.state = State()
        self._file: Path | None = None
        self._written = 0
        self._size = 0
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Take the next event; `flush` writes it to the file."""
        self.state.apply(row)
        self.rows.append(row)

    def begin(self, file: Path) -> None:
        """Write to a new file, which is there once it holds all that has happened so far."""
        file.unlink(missing_ok=True)
        self._file = file
        self._written = 0
        self._size = 0

    def flush(self) -> None:
        """Have every event on the disk."""
        if self._file is None or self._written == len(self.rows):
            return
        new = self.rows[self._written :]
        data = b"".join(_line(row) for row in new)
        if self._size:
            self._append(self._file, data)
        else:
            write_bytes(self._file, data)
        self._written = len(self.rows)
        self._size += len(data)

    def _append(self, path: Path, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            if file.tell() != self._size:
                raise FolderInUse(f"{path} was written by somebody else since; load it again")
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def open(cls, file: Path) -> "Journal":
        """The journal of a file, which goes on there."""
        rows, whole, size = _read(file)
        with _damaged(file):
            journal = cls(rows)
        if whole < size:  # a crash cut the last line off: it was not promised to anybody
            with file.open("r+b") as cut:
                cut.truncate(whole)
        journal._file = file
        journal._written = len(rows)
        journal._size = whole
        return journal


def read_events(file: Path) -> list[Row]:
    """The events of a journal's file, which is left as it is: somebody may be writing to it.

    >>> import tempfile
    >>> from cual.loop import events
    >>> file = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> journal = Journal([events.begun(3, ["cat"], None)])
    >>> journal.begin(file)
    >>> journal.flush()
    >>> [row["event"] for row in read_events(file)]
    ['begun']
    """
    return _read(file)[0]


def _read(file: Path) -> tuple[list[Row], int, int]:
    """The events of a file, how many bytes they take, and how many it has."""
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    with _damaged(file):
        rows = list(_rows(file, whole))
        if not rows or rows[0]["event"] != "begun":
            raise DamagedFile(f"{file} does not begin as a journal does; take a backup")
        if rows[0]["format"] > FORMAT:
            newer = rows[0]["format"]
            raise NewerFormat(f"{file} has format {newer}, this cual reads up to {FORMAT}: update cual")
    return rows, len(whole), len(data)


def _line(row: Row) -> bytes:
    """An event as a line that ends with its checksum."""
    said = json.dumps(row, ensure_ascii=False).encode(errors="surrogatepass")  # ids may be no text at all
    return said[:-1] + f', "sha256": "{hashlib.sha256(said).hexdigest()}"}}\n'.encode()


def _rows(file: Path, data: bytes) -> Iterator[Row]:
    """The events of whole lines. After the first checksum no line is without one."""
    summed = False
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        found = _SUM.search(line)
        if found is not None:
            line = line[: found.start()] + b"}"
            summed = hashlib.sha256(line).hexdigest().encode() == found[1]
        if summed != (found is not None) or (found is None and _nearly_summed(line)):
            raise DamagedFile(f"{file} is damaged: line {number} is not what was written; take a backup")
        yield json.loads(line)


def _nearly_summed(line: bytes) -> bool:
    """Whether a line ends in a checksum but for a character or two: then it had one.

    >>> whole = _line({"event": "begun"}).strip()
    >>> [_nearly_summed(line) for line in (whole.replace(b"sha", b"shb"), b'{"event": "begun"}')]
    [True, False]
    """
    tail = line[-len(_EMPTY) :]
    alike = sum(
        ours == theirs or (ours == ord("0") and chr(theirs) in "123456789abcdef")
        for ours, theirs in zip(_EMPTY, tail, strict=False)
    )
    return alike >= len(_EMPTY) - 2


@contextmanager
def _damaged(file: Path) -> Generator[None]:
    """What cannot be read, or does not make sense, means that the file is damaged."""
    try:
        yield
    except BadFile:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{file} is damaged: {error!r}; take a backup") from error
