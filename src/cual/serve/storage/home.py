"""Where a workspace lies: its folder, its database, what it was opened with. What may be in it, `rules` say."""

import contextlib
import errno
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, Select

from cual.errors import BadFile, ForeignFile, NewerFormat, NotFound
from cual.serve.storage import belonging
from cual.serve.storage.database import Database
from cual.serve.storage.events import States
from cual.serve.storage.migrations import migrate, readable
from cual.storage import write_bytes

FORMAT = 1
DATABASE_FILE = "cual.sqlite3"
SETTINGS = "workspace.json"
PARTS = ("agents", "pools", "adaptations", "uploads")
"""The folders of a workspace."""


@dataclass(frozen=True)
class Home:
    """One workspace, as the modules of this package hand it around."""

    folder: Path
    database: Database
    id: str
    roots: tuple[Path, ...] = ()
    """Folders, links resolved, from which agents and pools may be made."""
    lend_seconds: float = 300
    states: States = field(default_factory=States, compare=False)
    """What the events of adaptations imply."""

    def agent_folder(self, agent: int) -> Path:
        return self.folder / "agents" / str(int(agent))

    def agent_file(self, agent: int, version: int) -> Path:
        return self.agent_folder(agent) / f"{int(version)}.agent"

    def repair_folder(self, agent: int, repair: int) -> Path:
        """What a repair needs while it is under way; it goes with the agent."""
        return self.agent_folder(agent) / f"repair-{int(repair)}"

    def pool_folder(self, pool: int) -> Path:
        return self.folder / "pools" / str(int(pool))

    def adaptation_folder(self, adaptation: int) -> Path:
        return self.folder / "adaptations" / str(int(adaptation))

    @property
    def uploads(self) -> Path:
        """Half-received files; emptied whenever the service starts."""
        return self.folder / "uploads"


def open_home(
    folder: Path, database: str | None = None, roots: Sequence[str | Path] = (), lend_seconds: float = 300
) -> Home:
    """Make the folder and the tables, or take those that are there and bring them up to date."""
    folder = folder.resolve()
    there, new = folder.exists(), not (folder / SETTINGS).exists()
    home = unmigrated(folder, database, roots, lend_seconds)
    try:
        belonging.check(home.folder, home.id, home.database, new)
        make_private(home.database)
        migrate(home.database)
        belonging.claim(home.folder, home.id, home.database)
    except BaseException:
        home.database.close()
        if new:
            _unmake(folder, there)
        raise
    return home


def existing(folder: Path, database: str | None = None) -> Home:
    """A workspace that is there, with the tables as they are, to look at: nothing is made or migrated."""
    folder = folder.resolve()
    if not (folder / SETTINGS).is_file():
        raise ForeignFile(f"{folder} is no workspace")
    home = unmigrated(folder, database)
    try:
        belonging.check(home.folder, home.id, home.database)
        if not belonging.there(home.database):
            raise NotFound(f"{home.database.url.database}: the database of {folder} is not there")
        with home.database.reading() as connection:
            if readable(connection) is None:
                raise NotFound(f"the database of {folder} holds no tables")
    except BaseException:
        home.database.close()
        raise
    return home


def _unmake(folder: Path, keep: bool) -> None:
    """Take a folder away again that was made for nothing; what was there before stays."""
    (folder / SETTINGS).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for part in PARTS:
            (folder / part).rmdir()
        if not keep:
            folder.rmdir()


def unmigrated(
    folder: Path, database: str | None = None, roots: Sequence[str | Path] = (), lend_seconds: float = 300
) -> Home:
    """The same, with the tables as they are."""
    folder = folder.resolve()
    identity = read_id(folder)
    opened = Database(database or f"sqlite:///{folder / DATABASE_FILE}")
    return Home(folder, opened, identity, tuple(Path(root).resolve() for root in roots), lend_seconds)


def read_id(folder: Path) -> str:
    """The id of the workspace in `folder`, which is made if it is new or empty."""
    file = folder / SETTINGS
    if file.exists():
        try:
            settings = json.loads(file.read_text(encoding="utf-8"))
            version, identity = settings["format"], str(settings["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadFile(f"{file} is damaged: {error!r}; take a backup") from error
        if version > FORMAT:
            raise NewerFormat(f"{folder} has format {version}, this cual reads up to {FORMAT}: update cual")
        return identity
    if folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise ForeignFile(f"{folder} holds other things and no workspace; give an empty or a new folder")
    make_folder(folder)
    identity = uuid.uuid4().hex
    for part in PARTS:
        (folder / part).mkdir(parents=True, exist_ok=True)
    write_id(folder, identity)
    return identity


def write_id(folder: Path, identity: str) -> None:
    """Say that a folder is a workspace, and which."""
    text = json.dumps({"cual": "workspace", "format": FORMAT, "id": identity}, indent=1)
    write_bytes(folder / SETTINGS, text.encode() + b"\n")


def make_folder(folder: Path) -> None:
    """The folder of a new workspace: only its owner comes in, until they let others."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):  # somebody else's, who let us write into it
        folder.chmod(0o700)


def make_private(database: Database) -> None:
    """Make the file of an SQLite database that is not there yet: SQLite itself would let everybody read it."""
    if not belonging.there(database):
        Path(database.url.database or "").touch(0o600)


def empty_uploads(home: Home) -> None:
    """Remove what was half received when the service ended."""
    for left in home.uploads.iterdir() if home.uploads.exists() else ():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink(missing_ok=True)


def is_no_room(error: OSError) -> bool:
    """Whether an error says that a disk is full, or that nobody may write on it.

    >>> is_no_room(OSError(errno.ENOSPC, "no space left")), is_no_room(FileNotFoundError(errno.ENOENT, "gone"))
    (True, False)
    """
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def link(source: Path, target: Path) -> None:
    """The same file at a second place; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def one_row(connection: Connection, query: Select[Any], what: str) -> Row[Any]:
    """The one row of a query, or `NotFound`."""
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no {what}")
    return row
