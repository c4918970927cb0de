"""Which folder belongs to which database: both hold the id of the workspace. What is in them is not looked at.

Jobs of one folder fail in another, and a folder without its database looks empty: whoever mixes them up is told
so before anything is changed.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.errors import Conflict
from cual.serve.storage import migrations
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database


def check(folder: Path, identity: str, database: Database, new: bool = False) -> None:
    """Refuse a database of another workspace; nothing is written.

    Parameters
    ----------
    new
        Whether the folder was made just now, so that no database can be its own yet.
    """
    if not there(database):
        _refuse_empty(folder, database)
        return
    with database.reading() as connection:
        if migrations.readable(connection) is None:
            _refuse_empty(folder, database)
            return
        owner = _owner(connection)
        if owner is None:
            used = any(connection.execute(sa.select(t.c.id).limit(1)).first() for t in (db.people, db.agents))
            if used and new:
                raise Conflict(
                    f"{_named(database)} is not empty, so it cannot belong to the new folder {folder}"
                )
            if not used:
                _refuse_empty(folder, database)
        elif owner.id != identity:
            raise Conflict(
                f"{_named(database)} belongs to another workspace, the one at {owner.folder}; {folder} needs "
                "one of its own (--database or CUAL_DATABASE)"
            )


def claim(folder: Path, identity: str, database: Database) -> None:
    """Write into a database that is up to date, and belongs to nobody else, whose it is and where that lies."""
    with database.reading() as connection:
        owner = _owner(connection)
    if owner is not None and owner == (identity, str(folder)):
        return
    w = db.workspace.c
    with database.writing() as connection:
        migrations.lock(connection)
        owner = _owner(connection)
        if owner is None:
            connection.execute(sa.insert(db.workspace).values(id=identity, folder=str(folder)))
        elif owner.id == identity:  # it was moved
            connection.execute(sa.update(db.workspace).where(w.id == identity).values(folder=str(folder)))
    if owner is not None and owner.id != identity:  # whose folder was quicker
        check(folder, identity, database)


def there(database: Database) -> bool:
    """Whether there is a database at all; to connect to an SQLite file that is not there would make it."""
    file = database.url.database
    return not database.is_sqlite or not file or Path(file).exists()


def _owner(connection: Connection) -> sa.Row[Any, Any] | None:
    if not sa.inspect(connection).has_table(db.workspace.name):  # of before schema 19
        return None
    return connection.execute(sa.select(db.workspace.c.id, db.workspace.c.folder)).first()


def _refuse_empty(folder: Path, database: Database) -> None:
    for part in ("agents", "pools"):
        if any((folder / part).glob("[0-9]*")):
            raise Conflict(
                f"{_named(database)} is empty, but {folder} holds {part}: they belong to another database "
                "(--database or CUAL_DATABASE)"
            )


def _named(database: Database) -> str:
    return f"the database {database.url.render_as_string(hide_password=True)}"
