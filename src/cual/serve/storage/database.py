"""Connections to the database of a workspace, SQLite and PostgreSQL alike, and its schema version.

Writers that belong together lock the adaptation's row first; on SQLite a writing transaction has the whole
database to itself. The tables are in `cual.serve.storage.tables`.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import ArgumentError

from cual.errors import BadOption, NewerFormat
from cual.serve.storage.tables import events, metadata, now, people, schema, sessions, tokens

__all__ = ["BUSY_SECONDS", "MIGRATIONS", "Database", "as_url", "migrate", "now", "people", "sessions", "tokens"]

BUSY_SECONDS = 60
"""How long a writer waits for another one on SQLite before it gives up."""
_MIGRATION_LOCK = 0x6375616C  # "cual": any number that no other program takes for its advisory lock

Migration = Callable[[Connection], None]


def _add_outlook(c: Connection) -> None:
    c.execute(sa.text("ALTER TABLE adaptations ADD COLUMN outlook TEXT"))


def _add_crashes(c: Connection) -> None:
    c.execute(sa.text("ALTER TABLE jobs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0"))
    c.execute(sa.text("ALTER TABLE jobs ADD COLUMN mark TEXT"))


def _add_events(c: Connection) -> None:
    events.create(c)


MIGRATIONS: Sequence[Migration] = (_add_outlook, _add_crashes, _add_events)
"""From one schema version to the next, the first from 1 to 2. A new database is made as `metadata` says."""


class Database:
    """Connections to one database. Thread-safe; use from one process each."""

    def __init__(self, url: str) -> None:
        self.url = as_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._engine = _engine(self.url)
        self._writer = self._engine.execution_options(cual_writes=True)
        self._reader = self._engine
        if not self.is_sqlite:
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._turn = _Turns() if self.is_sqlite else nullcontext()

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A transaction that only reads, and sees one moment of the database."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """A transaction that is committed at the end of the block, or not at all.

        On SQLite the threads of a process take turns, first come first served: its own way of waiting is to
        sleep and look again, and then whoever is lucky goes first.
        """
        with self._turn, self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()


class _Turns:
    """A lock that is given to those who wait for it in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()  # whoever leaves lets the next one in

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


def as_url(url: str) -> sa.URL:
    """What people write, with the drivers that we use.

    >>> as_url("postgresql://me@localhost/cual").drivername
    'postgresql+psycopg'
    """
    try:
        read = sa.make_url(url)
    except ArgumentError:
        raise BadOption("--database takes sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    if read.drivername in ("postgresql", "postgres"):
        return read.set(drivername="postgresql+psycopg")
    if read.get_backend_name() not in ("postgresql", "sqlite"):
        raise BadOption(f"--database takes sqlite:/// or postgresql://, not {read.drivername}://")
    return read


def _engine(url: sa.URL) -> Engine:
    """Errors get into the log, so they do not repeat what was to be written (`hide_parameters`)."""
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, hide_parameters=True, pool_pre_ping=True, pool_size=10, max_overflow=30)
    arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    engine = sa.create_engine(url, hide_parameters=True, pool_size=64, max_overflow=64, connect_args=arguments)

    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin when we say so, not when the driver thinks
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def begun(connection: Connection) -> None:
        # A transaction that read first and writes later would fail if another one wrote in between.
        writes = connection.get_execution_options().get("cual_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


def migrate(database: Database, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Make the tables, or bring those of an older cual up to date; the version that they have then.

    One process at a time; a database of a newer cual is refused and left as it is.
    """
    newest = 1 + len(migrations)
    with database.writing() as connection:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        if not sa.inspect(connection).has_table(schema.name):
            metadata.create_all(connection)
            connection.execute(sa.insert(schema).values(version=newest))
            return newest
        version = int(connection.execute(sa.select(schema.c.version)).scalar_one())
        if version > newest:
            raise NewerFormat(
                f"the database has schema version {version}, this cual knows up to {newest}: update cual"
            )
        for step in migrations[version - 1 :]:
            step(connection)
        if version < newest:
            connection.execute(sa.update(schema).values(version=newest))
    return newest
