"""Making a workspace of a backup, which may come from anybody.

Nothing is unpacked by a name that the zip gives unless it is one that a workspace has, and nothing is left
behind when something is wrong.
"""

import json
import re
import shutil
import zipfile
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from cual.errors import BadFile, Conflict, CualError, DamagedFile, ForeignFile, NewerFormat, TooLarge
from cual.serve.storage import migrations
from cual.serve.storage import tables as db
from cual.serve.storage.backup import ALLOWED, FORMAT, LEFT_OUT, MANIFEST
from cual.serve.storage.home import Home, make_folder, unmigrated
from cual.types import Row

MOST_BYTES = 2**40
"""What a backup may unpack to."""


def restore(path: Path, folder: Path, database: str | None = None, most_bytes: int = MOST_BYTES) -> Home:
    """Make a workspace of a backup; the folder and the database must be empty."""
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        raise Conflict(f"{folder} is not empty; a backup is restored into an empty folder")
    there = folder.exists()
    try:
        with zipfile.ZipFile(path) as packed:
            return _restored(path, packed, folder, database, most_bytes)
    except BaseException as error:
        for left in folder.iterdir() if folder.exists() else ():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        if folder.exists() and not there:
            folder.rmdir()
        if isinstance(error, _DAMAGE) and not isinstance(error, CualError | OperationalError):
            why = str(error).partition("\n")[0]  # what a database adds is not for people
            raise DamagedFile(f"{path} is not a whole backup: {why}") from error
        raise


_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # a way of packing that nobody asked for
    RuntimeError,  # a password
    UnicodeDecodeError,
    json.JSONDecodeError,
    SQLAlchemyError,  # values that a column does not take
)


def _restored(path: Path, packed: zipfile.ZipFile, folder: Path, database: str | None, most_bytes: int) -> Home:
    schema, members = _checked(path, packed, most_bytes)
    make_folder(folder)
    for part in ("agents", "pools", "adaptations", "uploads"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for member in members:
        if member.filename.startswith("files/"):
            _unpack(packed, member, folder / member.filename.removeprefix("files/"))
    home = unmigrated(folder, database)
    try:
        _clear(home)
        migrations.migrate(home.database, schema)
        with home.database.writing() as connection:
            _fill(home, connection, packed, {member.filename for member in members})
        migrations.migrate(home.database)  # what was the schema of the backup becomes that of today
        with home.database.writing() as connection:
            _begin_again(connection)
    except BaseException:
        home.database.close()
        raise
    return home


def _clear(home: Home) -> None:
    """Take tables away that hold nothing: those of the backup may be older."""
    with home.database.writing() as connection:
        if migrations.readable(connection) is None:
            return
        there = sa.inspect(connection).get_table_names()
        for table in db.metadata.sorted_tables:
            rows = sa.select(sa.func.count()).select_from(table)
            if table is not db.schema and table.name in there and connection.execute(rows).scalar_one():
                raise Conflict("the database is not empty; a backup is restored into an empty one")
        db.metadata.drop_all(connection)
        connection.execute(sa.text("DROP TABLE IF EXISTS alembic_version"))


def _checked(path: Path, packed: zipfile.ZipFile, most_bytes: int) -> tuple[int, list[zipfile.ZipInfo]]:
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
        known = member.filename in tables or member.filename == MANIFEST or ALLOWED.fullmatch(member.filename)
        if not known or member.is_dir() or (member.external_attr >> 16) & 0o170000 not in (0, 0o100000):
            raise BadFile(f"{path} holds {member.filename!r}, which no workspace has; nothing was restored")
    if len(set(names)) < len(names):
        raise BadFile(f"{path} names a file twice; nothing was restored")
    total = sum(member.file_size for member in members)
    if total > most_bytes:
        raise TooLarge(f"{path} would unpack to {total:,} bytes; at most {most_bytes:,} are taken")
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


def _fill(home: Home, connection: Connection, packed: zipfile.ZipFile, names: set[str]) -> None:
    """Put rows into tables that have the schema of the backup."""
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    for table in db.metadata.sorted_tables:
        member = f"tables/{table.name}.jsonl"
        if table.name in LEFT_OUT or member not in names:
            continue
        if table.name not in there:
            raise DamagedFile(f"the table {table.name} is newer than the backup says")
        columns = {column["name"]: column["type"] for column in inspector.get_columns(table.name)}
        today = [sa.column(column.name, column.type) for column in table.columns if column.name in columns]
        gone = [sa.column(name, type_) for name, type_ in columns.items() if name not in table.columns]
        target = sa.table(table.name, *today, *gone)
        with packed.open(member) as lines:
            rows = [_row(target, line) for line in lines]
        for start in range(0, len(rows), 1000):
            connection.execute(sa.insert(target), rows[start : start + 1000])
        if not home.database.is_sqlite and "id" in columns and rows:
            sequence = sa.func.pg_get_serial_sequence(table.name, "id")
            connection.execute(sa.select(sa.func.setval(sequence, max(row["id"] for row in rows))))
    _check_rows(connection)


def _begin_again(connection: Connection) -> None:
    """What was being worked on is begun again by whoever comes first; what it needs, this machine may have."""
    running = db.jobs.c.state == "running"
    connection.execute(sa.update(db.jobs).where(running).values(state="waiting", worker=None))
    connection.execute(sa.update(db.jobs).values(crashes=0, mark=None))
    # this may be a copy: nobody is told twice before somebody wants that
    connection.execute(sa.update(db.webhooks).values(active=False))


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
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"a row of the table {table.name} cannot be read: {error!r}") from error
    if set(row) != {column.name for column in table.columns}:
        raise DamagedFile(f"a row of the table {table.name} has other columns than expected")
    return row
