"""From one schema to the next, with alembic; the revisions are in `versions`, the tables of today in `tables`.

A revision is never changed once a release has it. There is no way down: whoever needs an older cual restores a
backup. The number of a schema is that of its revision; the table `cual_schema` has it too, for that is where
release 0.1.0 looks whether it can read a database.
"""

import threading
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from cual.errors import DamagedFile, NewerFormat
from cual.serve.storage.database import Database
from cual.serve.storage.tables import schema

_LOCK = 0x6375616C  # "cual": any number that no other program takes for its advisory lock
_one_at_a_time = threading.Lock()  # alembic's `op` is one for all threads of a process


@cache
def scripts() -> ScriptDirectory:
    """The revisions."""
    return ScriptDirectory(str(Path(__file__).parent))


def newest() -> int:
    """The number of the schema that this cual works with."""
    return int(str(scripts().get_current_head()))


def migrate(database: Database, to: int | None = None) -> int:
    """Make the tables, or bring those of an older cual up to date; the number of the schema they have then.

    One process at a time; a database of a newer cual is refused and left as it is.

    Parameters
    ----------
    to
        A schema that is older than the newest, for backups that have it.
    """
    target = newest() if to is None else to
    with database.rebuilding() as connection:
        lock(connection)
        number = readable(connection)
        if number is None or number < target:
            _upgrade(connection, number, target)
            return target
        return number


def lock(connection: Connection) -> None:
    """Let nobody else migrate until the transaction ends; on SQLite a writing one is alone anyway."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")  # whoever is at it may take long
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def current(connection: Connection) -> int | None:
    """The number of a database's schema; none where there are no tables."""
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None:
        return int(revision)
    if not sa.inspect(connection).has_table(schema.name):
        return None
    return int(connection.execute(sa.select(schema.c.version)).scalar_one())


def readable(connection: Connection) -> int | None:
    """The same, or an error where a newer cual has made the tables."""
    number = current(connection)
    if number is not None and number > newest():
        raise NewerFormat(
            f"the database has schema version {number}, this cual knows up to {newest()}: update cual"
        )
    return number


def _upgrade(connection: Connection, number: int | None, target: int) -> None:
    context = MigrationContext.configure(connection)
    lower = None if number is None else f"{number:04}"
    with _one_at_a_time, Operations.context(context):
        for step in reversed(list(scripts().iterate_revisions(f"{target:04}", lower or "base"))):
            step.module.upgrade()
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise DamagedFile(
            "the database holds rows that refer to rows which are not there; it is left as it was"
        )
    context.stamp(scripts(), f"{target:04}")
    connection.execute(sa.delete(schema))
    connection.execute(sa.insert(schema).values(version=target))
