"""Which files a workspace has, as its database says: what must be there, what may be, and what is passing.

The tables may be those of an older cual: a backup or a look at a workspace migrates nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.serve.storage import sums
from cual.serve.storage import tables as db

_LINES = ("texts.jsonl", "texts.npy", "columns.jsonl", "columns.npy")
_WHOLE = ("features.safetensors", *_LINES, "features", "pictures", "map.safetensors", "skipped.json", sums.NAME)
FEATURES = ("features.safetensors", "features/manifest.json")


@dataclass(frozen=True)
class Holdings:
    """Names of files and folders below the workspace's folder."""

    passing: tuple[str, ...]
    """What a worker will remove some time. What is half made is made anew of what came."""
    lasting: tuple[str, ...]
    """What does not change as long as a row names it."""
    needed: tuple[tuple[str, ...], ...]
    """Of each of these one must be there."""
    sums: tuple[tuple[int, str], ...]
    """Pools that have a list of checksums, with the checksum of that."""


def named(connection: Connection) -> Holdings:
    """What the rows of a database name."""
    passing = tuple(_passing(connection))
    lasting = ["workspace.json"]
    needed: list[tuple[str, ...]] = [("workspace.json",)]
    for name, must in (*_of_agents(connection), *_of_inboxes(connection)):
        lasting.append(name)
        needed += [(name,)] if must else []
    pools = as_it_is(connection, db.pools)
    listed: list[tuple[int, str]] = []
    for row in connection.execute(sa.select(*pools.c).where(pools.c.state == "ready").order_by(pools.c.id)):
        lasting += [f"pools/{row.id}/{name}" for name in _WHOLE]
        needed.append(tuple(f"pools/{row.id}/{name}" for name in FEATURES))
        if row.kind == "text":
            needed += [(f"pools/{row.id}/{name}",) for name in _LINES[:2]]
        digest = getattr(row, "sums", None)  # before schema 19 there was no such column
        listed += [] if digest is None else [(row.id, digest)]
    a = db.adaptations.c
    steps = sa.select(a.id, a.folder).where(a.folder.is_not(None), a.state != "dropped")
    needed += [(f"adaptations/{row.id}/{row.folder}/view.safetensors",) for row in connection.execute(steps)]
    return Holdings(passing, tuple(lasting), tuple(needed), tuple(listed))


def as_it_is(connection: Connection, table: sa.Table) -> sa.TableClause:
    """A table with the columns that the database has, which may be of an older schema."""
    columns = {column["name"]: column["type"] for column in sa.inspect(connection).get_columns(table.name)}
    today = [sa.column(column.name, column.type) for column in table.columns if column.name in columns]
    gone = [sa.column(name, type_) for name, type_ in columns.items() if name not in table.columns]
    return sa.table(table.name, *today, *gone)


def _passing(connection: Connection) -> Iterator[str]:
    g, p, a = as_it_is(connection, db.agents), db.pools.c, db.adaptations.c
    if "state" in g.c:  # before schema 9 agents came as files
        wanted = sa.select(g.c.id).where(g.c.state == "preparing").order_by(g.c.id)
        for agent in connection.execute(wanted).scalars():
            yield f"agents/{agent}/source"
    for pool in connection.execute(sa.select(p.id).where(p.state == "preparing").order_by(p.id)).scalars():
        yield from (f"pools/{pool}/{name}" for name in ("features.safetensors", *_LINES, "source"))
    for row in connection.execute(sa.select(a.id, a.folder).where(a.folder.is_not(None)).order_by(a.id)):
        yield f"adaptations/{row.id}/{row.folder}"


def _of_agents(connection: Connection) -> Iterator[tuple[str, bool]]:
    """Files of agents, and whether they must be there."""
    g, v = as_it_is(connection, db.agents), as_it_is(connection, db.versions)
    wanted: sa.Select[Any, Any] = sa.select(v.c.agent, v.c.number).join_from(v, g, g.c.id == v.c.agent)
    if "state" in g.c:
        wanted = wanted.where(g.c.state == "ready")
    if "stage" in v.c:
        wanted = wanted.where(v.c.stage != "discarded")
    for row in connection.execute(wanted.order_by(v.c.agent, v.c.number)):
        yield f"agents/{row.agent}/{row.number}.agent", True
        yield from ((f"agents/{row.agent}/{name}", False) for name in ("skipped.json", sums.NAME))


def _of_inboxes(connection: Connection) -> Iterator[tuple[str, bool]]:
    if not sa.inspect(connection).has_table(db.inbox_batches.name):
        return
    i, b = db.inboxes.c, db.inbox_batches.c
    waiting = sa.select(i.agent, b.file).join_from(db.inbox_batches, db.inboxes, i.id == b.inbox)
    for row in connection.execute(waiting):
        yield f"agents/{row.agent}/inbox/{row.file}.safetensors", True
