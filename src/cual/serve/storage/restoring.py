"""Making a workspace of a backup, which may come from anybody.

Nothing is unpacked by a name that the zip gives unless it is one that a workspace has, and nothing is left
behind when something is wrong.
"""

import contextlib
import itertools
import json
import re
import shutil
import uuid
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from cual.errors import BadFile, Conflict, CualError, DamagedFile, ForeignFile, NewerFormat, TooLarge
from cual.serve.storage import belonging, checking, holdings, migrations, sums
from cual.serve.storage import tables as db
from cual.serve.storage.backup import ALLOWED, FORMAT, LEFT_OUT, MANIFEST, MOST_NAMED, UNREADABLE, check_sums
from cual.serve.storage.database import Database
from cual.serve.storage.holdings import as_it_is
from cual.serve.storage.home import (
    DATABASE_FILE,
    PARTS,
    SETTINGS,
    Home,
    make_folder,
    make_private,
    unmigrated,
    write_id,
)
from cual.types import Row

MOST_BYTES = 2**40
"""What a backup may unpack to."""
LONGEST_ROW = 128 * 2**20
"""Bytes that one row may have: an event can be as long as a pool, and is taken into memory whole."""
MOST_PARTS = 2**20
"""Lists and objects within a row: empty ones take thirty times as much memory as in the file."""
_AT_ONCE = 1000
_BYTES_AT_ONCE = 8 * 2**20
STAGING = ".restoring"
"""Where things are put together, in the new folder: it becomes a workspace when all of it is there."""


@dataclass(frozen=True)
class Limits:
    """What is taken of a backup, which may come from anybody."""

    most_bytes: int = MOST_BYTES
    longest_row: int = LONGEST_ROW
    most_parts: int = MOST_PARTS


def restore(
    path: Path,
    folder: Path,
    database: str | None = None,
    keep_tokens: bool = False,
    limits: Limits = Limits(),
) -> Home:
    """Make a workspace of a backup; the folder and the database must be empty.

    It has an id of its own, so that neither its folder nor its database can be taken for those that the backup
    was made of. Nothing is left behind when something is wrong.

    Parameters
    ----------
    keep_tokens
        Let the tokens and sign-in addresses of the backup be good here, too.
    """
    folder = folder.resolve()
    if folder.exists() and any(inside.name != STAGING for inside in folder.iterdir()):
        raise Conflict(f"{folder} is not empty; a backup is restored into an empty folder")
    there = folder.exists()
    staging = folder / STAGING
    try:
        shutil.rmtree(staging, ignore_errors=True)  # of one that was killed
        with zipfile.ZipFile(path) as packed:
            schema, members = _checked(path, packed, limits)
            make_folder(folder)
            for part in PARTS:
                (staging / part).mkdir(parents=True)
            _unpack_all(packed, members, staging)
            identity = uuid.uuid4().hex
            target = Database(database or f"sqlite:///{staging / DATABASE_FILE}")
            with _emptied_after_errors(target):
                _fill_all(target, packed, schema, {member.filename for member in members}, keep_tokens, limits)
                write_id(staging, identity)
                _check_whole(path, staging, target)
                belonging.claim(folder, identity, target)
                target.close()
                _put_in_place(staging, folder)
    except BaseException as error:
        _clean(folder, there)
        if isinstance(error, (*UNREADABLE, SQLAlchemyError)) and not isinstance(
            error, CualError | OperationalError
        ):
            why = str(error).partition("\n")[0]  # what a database adds is not for people
            raise DamagedFile(f"{path} is not a whole backup: {why}") from error
        raise
    return unmigrated(folder, database)


def _clean(folder: Path, keep: bool) -> None:
    for left in folder.iterdir() if folder.exists() else ():
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
    if folder.exists() and not keep:
        folder.rmdir()


def _put_in_place(staging: Path, folder: Path) -> None:
    """Move everything up into the folder; that it is a workspace is said last."""
    for part in sorted(staging.iterdir(), key=lambda part: part.name == SETTINGS):
        part.rename(folder / part.name)
    staging.rmdir()


@contextmanager
def _emptied_after_errors(database: Database) -> Generator[None]:
    """Leave a database as empty as it was found, unless all goes well."""
    new, cleared = not belonging.there(database), False
    make_private(database)
    try:
        _clear(database)
        cleared = True
        yield
    except BaseException:
        if cleared and not new:
            with contextlib.suppress(SQLAlchemyError), database.writing() as connection:
                _drop(connection)
        database.close()
        if new and database.url.database:
            for suffix in ("", "-wal", "-shm"):
                Path(database.url.database + suffix).unlink(missing_ok=True)
        raise


def _unpack_all(packed: zipfile.ZipFile, members: list[zipfile.ZipInfo], folder: Path) -> None:
    for member in members:
        name = member.filename.removeprefix("files/")
        if name != member.filename and name != SETTINGS:  # the new workspace has an id of its own
            _unpack(packed, member, folder / name)


def _fill_all(
    database: Database, packed: zipfile.ZipFile, schema: int, names: set[str], keep_tokens: bool, limits: Limits
) -> None:
    migrations.migrate(database, schema)
    with database.writing() as connection:
        _fill(database, connection, packed, names, limits)
    migrations.migrate(database)  # what was the schema of the backup becomes that of today
    with database.writing() as connection:
        _begin_again(connection, keep_tokens)


def _check_whole(path: Path, folder: Path, database: Database) -> None:
    """Refuse a backup whose rows name files that it does not hold, or that are damaged."""
    with database.reading() as connection:
        named = holdings.named(connection)
    lost = [str(finding) for finding in itertools.islice(checking.inspect(folder, named), MOST_NAMED)]
    if lost:
        raise DamagedFile(f"{path} is not a whole backup, nothing was restored: {'; '.join(lost)}")


def _clear(database: Database) -> None:
    """Take tables away that hold nothing: those of the backup may be older."""
    with database.writing() as connection:
        if migrations.readable(connection) is None:
            return
        there = sa.inspect(connection).get_table_names()
        for table in db.metadata.sorted_tables:
            rows = sa.select(sa.func.count()).select_from(table)
            if table is not db.schema and table.name in there and connection.execute(rows).scalar_one():
                raise Conflict("the database is not empty; a backup is restored into an empty one")
        _drop(connection)


def _drop(connection: Connection) -> None:
    db.metadata.drop_all(connection)
    connection.execute(sa.text("DROP TABLE IF EXISTS alembic_version"))


def _checked(path: Path, packed: zipfile.ZipFile, limits: Limits) -> tuple[int, list[zipfile.ZipInfo]]:
    """The number of a backup's schema and its members, or an error before anything is unpacked."""
    members = packed.infolist()
    names = [member.filename for member in members]
    if MANIFEST not in names:
        raise ForeignFile(f"{path} is not a backup of a workspace")
    manifest = json.loads(_read(packed, packed.getinfo(MANIFEST), 10_000))
    if manifest.get("cual") != "backup":
        raise ForeignFile(f"{path} is not a backup of a workspace")
    schema = manifest.get("schema")
    if manifest.get("format") != FORMAT or schema not in range(1, migrations.newest() + 1):
        raise NewerFormat(f"{path} was written by a newer version of cual: update cual")
    tables = {f"tables/{name}.jsonl" for name in db.metadata.tables if name not in LEFT_OUT}
    for member in members:
        known = member.filename in {*tables, MANIFEST, sums.NAME} or ALLOWED.fullmatch(member.filename)
        if not known or member.is_dir() or (member.external_attr >> 16) & 0o170000 not in (0, 0o100000):
            raise BadFile(f"{path} holds {member.filename!r}, which no workspace has; nothing was restored")
    if len(set(names)) < len(names):
        raise BadFile(f"{path} names a file twice; nothing was restored")
    total = sum(member.file_size for member in members)
    if total > limits.most_bytes:
        raise TooLarge(f"{path} would unpack to {total:,} bytes; at most {limits.most_bytes:,} are taken")
    if "sums" in manifest:  # earlier releases wrote none
        check_sums(packed, str(manifest["sums"]), path)
    elif sums.NAME in names:
        raise DamagedFile(f"{path} is not what was written: its manifest is damaged")
    return int(schema), members


def _unpack(packed: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size
    with packed.open(member) as source, target.open("xb") as file:
        while part := source.read(2**20):
            left -= len(part)
            if left < 0:  # the size that it was let in with was a lie
                raise DamagedFile(f"{member.filename} is larger than the backup says")
            file.write(part)


def _read(packed: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    with packed.open(member) as source:
        data = source.read(most + 1)
    if len(data) > most:
        raise DamagedFile(f"{member.filename} is too large")
    return data


def _fill(
    database: Database, connection: Connection, packed: zipfile.ZipFile, names: set[str], limits: Limits
) -> None:
    """Put rows into tables that have the schema of the backup."""
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    for table in db.metadata.sorted_tables:
        member = f"tables/{table.name}.jsonl"
        if table.name in LEFT_OUT or member not in names:
            continue
        if table.name not in there:
            raise DamagedFile(f"the table {table.name} is newer than the backup says")
        target = as_it_is(connection, table)
        last = 0
        with packed.open(member) as lines:
            for rows in _batches(target, lines, limits):
                connection.execute(sa.insert(target), rows)
                last = max([last, *(row["id"] for row in rows)] if "id" in target.c else [0])
        if not database.is_sqlite and last:
            sequence = sa.func.pg_get_serial_sequence(table.name, "id")
            connection.execute(sa.select(sa.func.setval(sequence, last)))
    _check_rows(connection)


def _batches(table: sa.TableClause, lines: IO[bytes], limits: Limits) -> Iterator[list[Row]]:
    """The rows of a table, some at a time: never is more of them in memory than what one row may take."""
    rows: list[Row] = []
    size = 0
    while line := lines.readline(limits.longest_row + 1):
        if len(line) > limits.longest_row:
            raise _too_large(table, f"{limits.longest_row:,} bytes")
        if line.count(b"[") + line.count(b"{") > limits.most_parts:
            raise _too_large(table, f"{limits.most_parts:,} lists and objects")
        rows.append(_row(table, line))
        size += len(line)
        if len(rows) == _AT_ONCE or size > _BYTES_AT_ONCE:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _too_large(table: sa.TableClause, what: str) -> TooLarge:
    return TooLarge(f"a row of the table {table.name} has more than {what}; nothing was restored")


def _begin_again(connection: Connection, keep_tokens: bool) -> None:
    """What was being worked on is begun again by whoever comes first; what it needs, this machine may have."""
    running = db.jobs.c.state == "running"
    connection.execute(sa.update(db.jobs).where(running).values(state="waiting", worker=None))
    connection.execute(sa.update(db.jobs).values(crashes=0, mark=None))
    # this may be a copy: nobody is told twice before somebody wants that
    connection.execute(sa.update(db.webhooks).values(active=False))
    if not keep_tokens:  # whoever wrote the backup may have put one in
        connection.execute(sa.delete(db.tokens))


def _check_rows(connection: Connection) -> None:
    """Let no row of a backup name a path."""
    a = db.adaptations.c
    for folder in connection.execute(sa.select(a.folder).where(a.folder.is_not(None))).scalars():
        if not re.fullmatch(r"\d{1,9}-\d{1,9}", folder):
            raise DamagedFile(f"an adaptation lies in {folder!r}, which cannot be")
    if "inbox_batches" in sa.inspect(connection).get_table_names():
        for file in connection.execute(sa.select(db.inbox_batches.c.file)).scalars():
            if not re.fullmatch(r"[0-9a-f]{32}", file):
                raise DamagedFile(f"samples of an inbox lie in {file!r}, which cannot be")
    columns = sa.inspect(connection).get_columns("agents")
    made_here = any(column["name"] == "source" for column in columns)  # before schema 9 agents came as files
    for table, owner in ((db.agents, db.jobs.c.agent), (db.pools, db.jobs.c.pool)):
        if table is db.pools or made_here:
            _check_sources(connection, table, owner)
    if sa.inspect(connection).has_table("repairs"):  # of before schema 18 there are none
        _check_repairs(connection)


def _check_repairs(connection: Connection) -> None:
    """Let repairs have failed that were under way: what they need is in no backup."""
    r, j = db.repairs.c, db.jobs.c
    failed = {"state": "failed", "error": "it was under way when the backup was made; ask for it again"}
    going = r.state.in_(("preparing", "asking"))
    connection.execute(sa.update(db.repairs).where(going).values(**failed))
    connection.execute(sa.delete(db.jobs).where(j.repair.is_not(None), j.state != "done"))


def _check_sources(connection: Connection, table: sa.Table, owner: sa.Column[Any]) -> None:
    """Let have failed what was being made of files that only the old place had."""
    for row in connection.execute(
        sa.select(table.c.id, table.c.source).where(table.c.state == "preparing")
    ).all():
        given, upload = row.source.get("given"), row.source.get("upload")
        if not given and not (
            upload and re.fullmatch(r"items|file[.a-z0-9]{0,22}", str(row.source.get("path")))
        ):
            # Whether it may be read from there is for the new place to say.
            failed = {"state": "failed", "error": "it was being read when the backup was made; add it again"}
            connection.execute(sa.update(table).where(table.c.id == row.id).values(**failed))
            connection.execute(sa.delete(db.jobs).where(owner == row.id, db.jobs.c.state != "done"))


def _row(table: sa.TableClause, line: bytes) -> Row:
    try:
        row: Row = dict(json.loads(line))
        for column in table.columns:
            if isinstance(column.type, db.Moment) and row[column.name] is not None:
                row[column.name] = datetime.fromtimestamp(float(row[column.name]), UTC)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DamagedFile(f"a row of the table {table.name} cannot be read: {error!r}") from error
    if set(row) != {column.name for column in table.columns}:
        raise DamagedFile(f"a row of the table {table.name} has other columns than expected")
    return row
