"""Connections to the database of a workspace, SQLite and PostgreSQL alike. Its schema is in `migrations`.

Writers that belong together lock the adaptation's row first; on SQLite a writing transaction has the whole
database to itself. The tables are in `tables`.
"""

import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import ArgumentError

from cual.errors import BadOption

BUSY_SECONDS = 60
"""How long a writer waits for another one on SQLite before it gives up."""


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

    @contextmanager
    def rebuilding(self) -> Generator[Connection]:
        """The same, and tables may be made anew: whether rows still refer to rows, whoever does it looks after.

        SQLite would take a table's going for the going of all its rows, and it can be told otherwise only
        before a transaction begins.
        """
        if not self.is_sqlite:
            with self.writing() as connection:
                yield connection
            return
        with self._turn, self._writer.connect() as connection:
            pragmas = connection.connection.cursor()
            pragmas.execute("PRAGMA foreign_keys=OFF")
            try:
                with connection.begin():
                    yield connection
            finally:
                pragmas.execute("PRAGMA foreign_keys=ON")
                pragmas.close()

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
