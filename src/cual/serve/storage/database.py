"""Connections to the database of a workspace, SQLite and PostgreSQL alike. Its schema is in `migrations`.

Writers that belong together lock the adaptation's row first; on SQLite a writing transaction has the whole
database to itself. Who goes first among the threads of a process is in `turns`, the tables are in `tables`.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import ArgumentError

from cual.errors import BadOption
from cual.serve.storage.turns import Busy, Turns

__all__ = ["PATIENCE", "Busy", "Database", "as_url"]

PATIENCE = 60.0
"""Seconds that a transaction waits for another one before it gives up, where nobody waits for it."""
CONNECT_SECONDS = 5
WRITERS = 24
"""Threads of a process that write to PostgreSQL at a time; on SQLite it is one."""


class Database:
    """Connections to one database. Thread-safe; use from one process each."""

    def __init__(self, url: str) -> None:
        self.url = as_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.patience = PATIENCE
        self._engine = self._sqlite() if self.is_sqlite else self._postgres()
        self._writer = self._engine.execution_options(cual_writes=True)
        self._reader = self._engine
        if not self.is_sqlite:
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._turns = Turns(1 if self.is_sqlite else WRITERS)

    def hurry(self, patience: float) -> None:
        """Wait for others no longer than so many seconds: people wait for the answer, and each waiting thread
        is one that answers nobody. For the web process."""
        self.patience = patience
        self._turns.hurry()
        self._engine.dispose()  # connections to PostgreSQL learn it when they begin

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A transaction that only reads, and sees one moment of the database."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, patience: float | None = None) -> Generator[Connection]:
        """A transaction that is committed at the end of the block, or not at all.

        On SQLite the threads of a process take turns, first come first served: its own way of waiting is to
        sleep and look again, and then whoever is lucky goes first. `Busy`, or another `OperationalError`, where
        the turn does not come within `patience`, by default the database's.
        """
        deadline = time.monotonic() + (self.patience if patience is None else patience)
        with self._turns.taken(deadline), self._writer.connect() as connection:
            connection.execution_options(cual_deadline=deadline)
            with connection.begin():
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
        with self._turns.taken(time.monotonic() + self.patience), self._writer.connect() as connection:
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

    # -- what connections begin with ---------------------------------------------------------------------------
    # Errors get into the log, so they do not repeat what was to be written (`hide_parameters`).

    def _postgres(self) -> Engine:
        engine = sa.create_engine(
            self.url, hide_parameters=True, pool_pre_ping=True, pool_size=10, max_overflow=30
        )

        def connecting(_dialect: Any, _record: Any, _arguments: Any, named: dict[str, Any]) -> None:
            waits = f"-c lock_timeout={round(1000 * self.patience)}"
            named["options"] = f"{named['options']} {waits}" if named.get("options") else waits
            named.setdefault("connect_timeout", CONNECT_SECONDS)

        event.listen(engine, "do_connect", connecting)
        return engine

    def _sqlite(self) -> Engine:
        engine = sa.create_engine(
            self.url,
            hide_parameters=True,
            pool_size=64,
            max_overflow=64,
            connect_args={"check_same_thread": False},
        )

        def connected(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # transactions begin when we say so, not when the driver thinks
            cursor = connection.cursor()
            cursor.execute(_busy_timeout(self.patience))
            _use_wal(cursor, time.monotonic() + self.patience)
            for pragma in ("synchronous=FULL", "foreign_keys=ON"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()

        def begun(connection: Connection) -> None:
            # A transaction that read first and writes later would fail if another one wrote in between.
            options = connection.get_execution_options()
            deadline = options.get("cual_deadline")
            left = self.patience if deadline is None else max(0.0, deadline - time.monotonic())
            connection.exec_driver_sql(_busy_timeout(left))
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("cual_writes") else "BEGIN")

        event.listen(engine, "connect", connected)
        event.listen(engine, "begin", begun)
        return engine


def _busy_timeout(seconds: float) -> str:
    return f"PRAGMA busy_timeout={round(1000 * seconds)}"


def _use_wal(cursor: Any, deadline: float) -> None:
    """Have the file written as a log, which it remembers. Of several that open a new one at once, SQLite lets
    one do that and refuses the others at once, however long they would wait: they look again."""
    import sqlite3

    while True:
        try:
            if cursor.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                return
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


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
