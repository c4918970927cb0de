"""Backups and checks of a workspace, also of one that an older cual left: neither migrates anything."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from cual.serve.rules import audit
from cual.serve.rules.checks import needs
from cual.serve.rules.records import Person, Role
from cual.serve.storage import backup, migrations
from cual.serve.storage.checking import Finding, findings
from cual.serve.storage.home import Home, existing

__all__ = ["Finding", "back_up", "check", "opened"]


@contextmanager
def opened(folder: Path, database: str | None = None) -> Generator[Home]:
    """A workspace as it is, with the tables that it has."""
    home = existing(folder, database)
    try:
        yield home
    finally:
        home.database.close()


def check(home: Home) -> list[Finding]:
    """Everything that is missing, damaged or superfluous."""
    return findings(home)


def back_up(home: Home, path: Path, person: Person) -> Path:
    """Write everything to one file."""
    needs(person, Role.admin)
    with home.database.reading() as connection:
        trail = sa.inspect(connection).has_table("audit") and migrations.readable(connection)
    if trail:  # there was none before schema 5
        with home.database.writing() as connection:  # first: nobody gets a copy that is not written down
            audit.write(connection, person, "backup", "workspace", None)
    return backup.write(home, path)
