"""`cual watch`: what appears in a folder, or is added to a table, is sent to an agent of a service.

What was sent is remembered in `watch_memory`; how tables are read is in `watch_tables`.
"""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from cual.cli.output import counted, err, out
from cual.errors import (
    BadFile,
    BadImage,
    BadOption,
    Conflict,
    Overloaded,
    PredictionsStopped,
    TooLarge,
    TooManyRequests,
    Unavailable,
)

if TYPE_CHECKING:
    from cual.cli.watch_memory import Files, Memory, Part, Piece, Seen
    from cual.client.records import RemoteVerdict

TOKEN = "CUAL_TOKEN"
PICTURES, TEXT = (".jpg", ".jpeg", ".png", ".webp"), ".txt"
_MOST_FILES, _MOST_BYTES = 64, 8 * 2**20
_LATER = (Unavailable, TooManyRequests, Overloaded, PredictionsStopped)
_UNUSABLE = (BadImage, BadFile, TooLarge)
"""What is wrong with one file; of a table, nothing is left out: whoever watches has to look."""
Send = Callable[[Any, str, Sequence[str] | None], "list[RemoteVerdict]"]
"""Sends samples under a key, with names."""


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(watch)


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder, or one table (.csv, .tsv, .parquet) that grows.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Where the service is.")],
    agent: Annotated[int, typer.Option(metavar="ID", min=1, help="The agent's number.")],
    every: Annotated[float, typer.Option(min=0.05, metavar="SECONDS", help="How often to look.")] = 1.0,
    settled: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="A file is sent when it has not changed for so long."),
    ] = 2.0,
    text: Annotated[str | None, typer.Option(help="Column of texts, where it is not called as usual.")] = None,
    id: Annotated[str | None, typer.Option(help="Column of names, where it is not called as usual.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there has been sent.")] = False,
) -> None:
    """Send what appears in a folder to an agent, which judges and keeps it: pictures, .txt, new rows of tables.

    A token for programs with the role admin is read from the variable CUAL_TOKEN. What was sent is remembered
    in the folder (.cual-watch-…): stopped with Ctrl-C or killed, the same command goes on where it was, and
    nothing is kept twice.

    [cyan]cual watch incoming --to https://label.example.org --agent 1[/cyan]

    [cyan]cual watch log.csv --to http://127.0.0.1:8765 --agent 2 --text message[/cyan]
    """
    from cual.cli.watch_memory import Memory
    from cual.client import Client
    from cual.locks import claim

    token = os.environ.get(TOKEN, "")
    if not token:
        raise BadOption(f"the variable {TOKEN} holds no token; cual invite WORKSPACE NAME --role admin --api")
    where = folder.resolve(strict=True)
    root = where if where.is_dir() else where.parent
    name = hashlib.sha256(f"{to.rstrip('/')} {agent} {where}".encode()).hexdigest()[:12]
    lock = claim(root / f".cual-watch-{name}.lock", "watched")
    try:
        with Client(to, token) as client:
            client.agent(agent)  # what is wrong with the address or the token is said at once
            memory = Memory(root / f".cual-watch-{name}.jsonl")
            memory.tidy(lambda file: (root / file).is_file())

            def send(samples: Any, key: str, names: Sequence[str] | None) -> "list[RemoteVerdict]":
                return client.send(agent, samples, key, names)

            watching = Watching(root, None if where.is_dir() else where, memory, send, settled, text, id)
            _go_on(watching, every, once)
    finally:
        lock.release()


def _go_on(watching: "Watching", every: float, once: bool) -> None:
    """Look again and again; until Ctrl-C, or until there is nothing more to send."""
    try:
        with err.status("", spinner="dots") as status:
            while True:
                before = watching.counts.total()
                watching.look(lambda line: status.update(escape(line)))
                status.update(escape(watching.line()))
                if watching.counts.total() > before and not err.is_terminal:
                    err.print(watching.line(), highlight=False, markup=False)
                if once and not watching.unsettled:
                    break
                time.sleep(every)
    except KeyboardInterrupt:
        err.print("Stopped; the same command goes on from here.", highlight=False)
    out.print(watching.line(), highlight=False, markup=False)


class Watching:
    """A folder or a table on its way to a service, piece by piece.

    Parameters
    ----------
    root
        The folder under which names are told.
    only
        The one table that is watched; None for all files.
    """

    def __init__(
        self,
        root: Path,
        only: Path | None,
        memory: "Memory",
        send: Send,
        settled: float,
        text: str | None = None,
        id: str | None = None,
    ) -> None:
        self._root, self._only, self._memory, self._send = root, only, memory, send
        self._seconds, self._columns = settled, (text, id)
        self._last: dict[str, tuple[Seen, float]] = {}
        self.counts = Counter[str]()
        self.unsettled = 0
        """Files that have changed a moment ago, at the last look."""

    def line(self) -> str:
        """How far it is, in words."""
        n = self.counts
        said = f"{counted(n['kept'] + n['again'] + n['passed over'], 'sample')} sent: {n['kept']} kept, "
        said += f"{n['again']} there already, {n['passed over']} known and passed over"
        return said + (f"; {n['refused']} could not be used" if n["refused"] else "")

    def look(self, tell: Callable[[str], None] = lambda line: None) -> None:
        """Send all that is new and no longer changes."""
        if self._memory.open is not None:
            self._resume(tell)
        files, tables = self._found()
        for piece in _together(files):
            self._memory.begin(piece)
            self._finish(tell)
            tell(self.line())
        for table in tables:
            while (part := self._next(table)) is not None:
                self._memory.begin(part)
                self._finish(tell)
                tell(self.line())

    def _next(self, table: str) -> "Part | None":
        from cual.cli.watch_tables import new_part

        return new_part(self._root / table, table, self._memory.parts.get(table))

    def _found(self) -> "tuple[list[Seen], list[str]]":
        """Files that were not sent as they are, and tables; those that still change are left for later."""
        from cual.cli.watch_tables import LINES, TABLES

        files: list[Seen] = []
        tables: list[str] = []
        self.unsettled = 0
        looked: dict[str, tuple[Seen, float]] = {}
        for path in _under(self._root) if self._only is None else [self._only]:
            suffix = path.suffix.lower()
            if suffix not in (*PICTURES, TEXT, *TABLES):
                continue
            seen = _seen(self._root, path)
            if seen is None or not seen.size or self._memory.sent.get(seen.name) == seen:
                continue
            before = self._last.get(seen.name)
            same = before is not None and before[0] == seen
            since = before[1] if before is not None and same else time.monotonic()
            looked[seen.name] = seen, since
            is_still = same and time.monotonic() - since >= self._seconds
            if not is_still and suffix not in LINES:  # of lines, the whole ones are taken at once
                self.unsettled += 1
            elif suffix in TABLES:
                tables.append(seen.name)
            else:
                files.append(seen)
        self._last = looked
        return files, tables

    # -- one piece ---------------------------------------------------------------------------------------------

    def _finish(self, tell: Callable[[str], None]) -> None:
        """Send what was begun, however long that takes; the same again where it was begun before."""
        from cual.cli.watch_memory import Files

        assert self._memory.open is not None
        key, piece = self._memory.open
        samples = self._samples(piece)
        if samples is None:  # it has changed or gone since: what there is now is sent as something new
            self._memory.leave()
            return
        data, names = samples
        if len(data):
            try:
                self._count(self._sent(data, key, names, tell))
            except _UNUSABLE as error:
                if not isinstance(piece, Files):
                    raise
                if len(piece.files) > 1:
                    self._one_by_one(piece, tell)
                    return
                self.counts["refused"] += 1
                named = ", ".join(seen.name for seen in piece.files)
                err.print(f"[yellow]{escape(named)}: {escape(str(error))}[/yellow]")
        self._memory.done()

    def _resume(self, tell: Callable[[str], None]) -> None:
        """Send what was begun before a stop or a kill."""
        try:
            self._finish(tell)
        except Conflict:  # not what it was, though nothing shows it; what there is now is sent as something new
            self._memory.leave()

    def _one_by_one(self, piece: "Files", tell: Callable[[str], None]) -> None:
        """Find out which of several files it is that cannot be used."""
        from cual.cli.watch_memory import Files

        self._memory.leave()
        for seen in piece.files:
            self._memory.begin(Files((seen,)))
            self._finish(tell)

    def _sent(
        self, data: Any, key: str, names: Sequence[str] | None, tell: Callable[[str], None]
    ) -> "list[RemoteVerdict]":
        while True:
            try:
                return self._send(data, key, names)
            except _LATER as error:
                tell(f"waiting for the service: {error}")
                time.sleep(1.0)

    def _samples(self, piece: "Piece") -> tuple[Any, list[str] | None] | None:
        from cual.cli.watch_memory import Files
        from cual.cli.watch_tables import rows_of

        if not isinstance(piece, Files):
            file = self._root / piece.table
            rows = rows_of(file, piece, *self._columns) if file.is_file() else None
            return None if rows is None else (rows.samples, rows.names)
        data: list[bytes] = []
        for seen in piece.files:
            path = self._root / seen.name
            if _seen(self._root, path) != seen:
                return None
            data.append(path.read_bytes())
        names = [Path(seen.name).name for seen in piece.files]
        if piece.files[0].name.lower().endswith(TEXT):
            return [text.decode(errors="replace") for text in data], names
        return data, names

    def _count(self, verdicts: "list[RemoteVerdict]") -> None:
        for verdict in verdicts:
            self.counts[verdict.kept or "refused"] += 1
            if verdict.error is not None:
                err.print(f"[yellow]{escape(verdict.error)}[/yellow]")


def _together(files: "Sequence[Seen]") -> "Iterator[Files]":
    """Files that are sent at once: of one kind, not too many, not too large."""
    from cual.cli.watch_memory import Files

    for texts in (False, True):
        part: list[Seen] = []
        for seen in files:
            if seen.name.lower().endswith(TEXT) != texts:
                continue
            if part and (len(part) == _MOST_FILES or sum(s.size for s in part) + seen.size > _MOST_BYTES):
                yield Files(tuple(part))
                part = []
            part.append(seen)
        if part:
            yield Files(tuple(part))


def _under(root: Path) -> Iterator[Path]:
    """Files of a folder and of those in it, in the order of their names; no hidden ones, no links."""
    for where, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(where, name)
            if not name.startswith(".") and not path.is_symlink():
                yield path


def _seen(root: Path, path: Path) -> "Seen | None":
    """A file as it is now; None where it has gone."""
    from cual.cli.watch_memory import Seen

    try:
        now = path.stat()
    except FileNotFoundError:
        return None
    return Seen(path.relative_to(root).as_posix(), now.st_size, now.st_mtime_ns)
