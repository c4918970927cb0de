"""An inbox becomes a pool: closed in one transaction, put down by the worker, emptied when that is ready."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.lines import write_lines
from cual.data.pool import Pool
from cual.errors import Conflict
from cual.serve.rules import audit, jobs, pool_columns, pools
from cual.serve.rules.checks import check_name, needs
from cual.serve.rules.inbox import files
from cual.serve.rules.inbox.writing import locked, open_inbox
from cual.serve.rules.records import Person, PoolKind, PoolRecord, Role
from cual.serve.rules.sources import SOURCE
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import AnyArray

COLUMNS = ("arrived", "times", "verdict")
"""What people are told of each sample beside the sample."""
s, i, b = db.inbox_samples.c, db.inboxes.c, db.inbox_batches.c


def close(home: Home, agent: int, name: str, person: Person) -> PoolRecord:
    """Make a pool of all that waits; what comes from now on waits for the next one."""
    needs(person, Role.admin)
    name = check_name(name, "a pool's name")
    with home.database.writing() as connection:
        locked(connection, agent)
        inbox = open_inbox(connection, agent)
        kinds = {} if inbox is None else _kinds(connection, inbox.id)
        size = sum(kinds.values())
        if inbox is None or not size:
            raise Conflict("nothing waits: a pool is made of samples that were sent to the agent")
        kind: PoolKind = "pictures" if kinds.get("picture") else "text" if kinds.get("text") else "features"
        values = {"name": name, "agent": agent, "kind": kind, "size": size, "state": "preparing"}
        shown = {"names": list(COLUMNS), "notes": []}
        where = {"given": True, "inbox": inbox.id}
        inserted = connection.execute(sa.insert(db.pools).values(**values, source=where, shown=shown))
        pool: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        closed = {"pool": pool, "closed_at": db.now()}
        connection.execute(sa.update(db.inboxes).where(i.id == inbox.id).values(**closed))
        jobs.add(connection, "prepare", pool=pool)
        audit.write(connection, person, "close inbox", "agent", agent, pool=pool, name=name, samples=size)
    return pools.one(home, pool)


def _kinds(connection: Connection, inbox: int) -> dict[str | None, int]:
    """How many samples have which kind of original."""
    wanted = sa.select(s.original, sa.func.count()).where(s.inbox == inbox).group_by(s.original)
    return {row[0]: row[1] for row in connection.execute(wanted)}


# -- by the worker ---------------------------------------------------------------------------------------------


def put_down(home: Home, agent: int, inbox: int, folder: Path, encoder: str | None) -> None:
    """Write what an inbox holds into the folder of its pool, as `pools.put_down` does with what is given."""
    with home.database.reading() as connection:
        rows = connection.execute(_samples(inbox).order_by(s.id)).all()
    (folder / SOURCE).mkdir(parents=True, exist_ok=True)
    parts: list[AnyArray] = []
    texts: list[tuple[int, str]] = []
    for start, part, batch in _batches(home, agent, rows):
        parts.append(batch.X[[row.row for row in part]])
        for number, row in enumerate(part, start):
            if row.original == "picture":
                (folder / SOURCE / str(number)).write_bytes(batch.originals[row.row])
            elif row.original == "text":
                texts.append((number, batch.originals[row.row].decode()))
    if texts:
        write_lines(folder / pools.TEXTS, texts, len(rows))
    told = [(number, _told(row)) for number, row in enumerate(rows)]
    write_lines(folder / pool_columns.FILE, told, len(rows))
    Pool(np.concatenate(parts), _ids(rows), encoder).save(folder / pools.FEATURES_FILE)


def _batches(
    home: Home, agent: int, rows: Sequence[Row[Any]]
) -> Iterator[tuple[int, list[Row[Any]], files.Batch]]:
    start = 0
    for file, here in groupby(rows, key=lambda row: row.file):
        part = list(here)
        yield start, part, files.read(home, agent, file, originals=True)
        start += len(part)


def _told(row: Row[Any]) -> list[Any]:
    return [row.arrived_at.isoformat(timespec="seconds"), row.times, row.verdict]


def _ids(rows: Sequence[Row[Any]]) -> list[str]:
    """What samples are called in the pool: as they were named, with their digest where that is needed."""
    ids: list[str] = []
    seen: set[str] = set()
    for row in rows:
        name = row.name or row.digest[:16]
        if name in seen:
            name = f"{name} ({row.digest[:16]})"
        if name in seen:
            name = f"{row.name} ({row.digest})"
        seen.add(name)
        ids.append(name)
    return ids


def _samples(inbox: int) -> sa.Select[Any]:
    joined = db.inbox_samples.join(db.inbox_batches, b.id == s.batch)
    return sa.select(db.inbox_samples, b.file).select_from(joined).where(s.inbox == inbox)


# -- what is over ----------------------------------------------------------------------------------------------


def empty(connection: Connection, pool: int) -> tuple[int, list[str]] | None:
    """Take away what the inbox of a pool held, within a transaction: the agent, and files to be removed then.

    For a pool that is ready; the counts stay. None where it was not made of an inbox.
    """
    row = connection.execute(sa.select(i.id, i.agent).where(i.pool == pool)).one_or_none()
    if row is None:
        return None
    names = list(connection.execute(sa.select(b.file).where(b.inbox == row.id)).scalars())
    connection.execute(sa.delete(db.inbox_samples).where(s.inbox == row.id))
    connection.execute(sa.delete(db.inbox_batches).where(b.inbox == row.id))
    return row.agent, names


def forget_pool(connection: Connection, pool: int) -> tuple[int, list[str]] | None:
    """The same for a pool that is deleted; the inbox names it no longer."""
    emptied = empty(connection, pool)
    connection.execute(sa.update(db.inboxes).where(i.pool == pool).values(pool=None))
    return emptied


def forget_agent(connection: Connection, agent: int) -> None:
    """Take away all rows of an agent's inboxes; its folder goes with the agent."""
    mine = sa.select(i.id).where(i.agent == agent)
    for table in (db.inbox_samples, db.inbox_batches, db.inbox_arrivals):
        connection.execute(sa.delete(table).where(table.c.inbox.in_(mine)))
    for table in (db.inboxes, db.inbox_policies, db.inbox_sends):
        connection.execute(sa.delete(table).where(table.c.agent == agent))


def remove_orphans(home: Home) -> int:
    """Remove files of sends that were killed before they were kept; for the web process, when it starts."""
    named: dict[int, set[str]] = {}
    with home.database.reading() as connection:
        wanted = sa.select(i.agent, b.file).join_from(db.inbox_batches, db.inboxes, i.id == b.inbox)
        for row in connection.execute(wanted):
            named.setdefault(row.agent, set()).add(row.file)
    return files.remove_orphans(home, named)
