"""What `cual watch` remembers: what it was about to send, and what was answered. One file, lines of JSON.

A line is on the disk before anything is sent, so that a restart sends the same again under the same key.
"""

import json
import os
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A file as it was looked at."""

    name: str
    """Under the watched folder, with slashes."""
    size: int
    changed: int
    """When, in nanoseconds."""


@dataclass(frozen=True)
class Files:
    """Whole files that are sent together."""

    files: tuple[Seen, ...]


@dataclass(frozen=True)
class Part:
    """Rows of a table: bytes of a CSV file, or row numbers of a parquet file."""

    table: str
    head: str
    """What the file began with: another file of the same name has another one."""
    start: int
    stop: int


Piece = Files | Part


class Memory:
    """What was sent and what is being sent, as a file says it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.sent: dict[str, Seen] = {}
        self.parts: dict[str, Part] = {}
        """Of each table the last part that was sent."""
        self.open: tuple[str, Piece] | None = None
        """What was begun and not answered, with its key."""
        for line in _lines(file):
            self._take(line)

    def begin(self, piece: Piece) -> str:
        """Say what is sent next; its key."""
        key = uuid.uuid4().hex
        self._write({"begin": key, **_plain(piece)})
        self.open = key, piece
        return key

    def done(self) -> None:
        """Say that what was begun is answered, or that nobody will ever take it."""
        assert self.open is not None
        self._write({"done": self.open[0]})
        self._close()

    def leave(self) -> None:
        """Forget what was begun: it is no longer there as it was."""
        if self.open is not None:
            self._write({"left": self.open[0]})
            self.open = None

    def tidy(self, is_there: Callable[[str], bool]) -> None:
        """Write the file anew, without what is no longer there."""
        self.sent = {name: seen for name, seen in self.sent.items() if is_there(name)}
        self.parts = {name: part for name, part in self.parts.items() if is_there(name)}
        pieces: list[Piece] = [Files((seen,)) for seen in self.sent.values()]
        rows: list[dict[str, Any]] = [{"sent": _plain(piece)} for piece in [*pieces, *self.parts.values()]]
        if self.open is not None:
            rows.append({"begin": self.open[0], **_plain(self.open[1])})
        with tempfile.NamedTemporaryFile("wb", dir=self._file.parent, prefix=".cual-", delete=False) as new:
            new.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
            new.flush()
            os.fsync(new.fileno())
        os.replace(new.name, self._file)

    def _take(self, line: dict[str, Any]) -> None:
        if "sent" in line:
            self._remember(_piece(line["sent"]))
        elif "begin" in line:
            self.open = line["begin"], _piece(line)
        elif self.open is not None and line.get("done") == self.open[0]:
            self._close()
        elif self.open is not None and line.get("left") == self.open[0]:
            self.open = None

    def _close(self) -> None:
        assert self.open is not None
        self._remember(self.open[1])
        self.open = None

    def _remember(self, piece: Piece) -> None:
        if isinstance(piece, Files):
            self.sent |= {seen.name: seen for seen in piece.files}
        else:
            self.parts[piece.table] = piece

    def _write(self, row: dict[str, Any]) -> None:
        with self._file.open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _plain(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, Files):
        return {"files": [[seen.name, seen.size, seen.changed] for seen in piece.files]}
    return {"table": piece.table, "head": piece.head, "start": piece.start, "stop": piece.stop}


def _piece(row: dict[str, Any]) -> Piece:
    if "files" in row:
        return Files(tuple(Seen(*file) for file in row["files"]))
    return Part(row["table"], row["head"], row["start"], row["stop"])


def _lines(file: Path) -> list[dict[str, Any]]:
    """What is written there; a last line that was cut off by a kill was never acted upon."""
    if not file.exists():
        return []
    whole = file.read_bytes()
    lines: list[dict[str, Any]] = []
    for line in whole.split(b"\n"):
        try:
            lines.append(dict(json.loads(line)))
        except (ValueError, TypeError):
            continue
    if whole and not whole.endswith(b"\n"):
        with file.open("ab") as end:
            end.write(b"\n")
    return lines
