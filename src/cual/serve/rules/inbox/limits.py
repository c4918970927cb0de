"""What an inbox lets go when it holds too much or for too long: oldest known first, then oldest others."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.serve.rules.inbox import counts
from cual.serve.rules.inbox.records import Policy
from cual.serve.storage import tables as db

_AT_ONCE = 500
s, b = db.inbox_samples.c, db.inbox_batches.c


@dataclass(frozen=True)
class Gone:
    """What an inbox has let go."""

    samples: tuple[int, ...] = ()
    batches: tuple[int, ...] = ()
    """That held them."""
    files: tuple[str, ...] = ()
    """That hold nothing any more."""


NOTHING = Gone()


def apply(connection: Connection, inbox: int, policy: Policy, now: datetime) -> Gone:
    """Let go what the policy does not keep."""
    gone = _too_old(connection, inbox, policy, now)
    _delete(connection, gone)
    over = _too_many(connection, inbox, policy)
    _delete(connection, over)
    gone += over
    if not gone:
        return NOTHING
    tally = Counter((counts.hour_of(row.arrived_at), row.verdict, row.label) for row in gone)
    counts.add(connection, inbox, "dropped", tally)
    batches = tuple(sorted({row.batch for row in gone}))
    return Gone(tuple(row.id for row in gone), batches, tuple(_emptied(connection, batches)))


def _too_old(connection: Connection, inbox: int, policy: Policy, now: datetime) -> list[Row[Any]]:
    old = s.arrived_at < now - timedelta(days=policy.most_days)
    return list(connection.execute(_rows().where(s.inbox == inbox, old)))


def _too_many(connection: Connection, inbox: int, policy: Policy) -> list[Row[Any]]:
    """The first to go, until what is left fits."""
    total = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(s.size), 0)).where(s.inbox == inbox)
    samples, size = connection.execute(total).one()
    room, most = policy.most_samples, policy.most_megabytes * 10**6
    if samples <= room and size <= most:
        return []
    is_known = sa.case((s.verdict == "known", 0), else_=1)
    order = _rows().where(s.inbox == inbox).order_by(is_known, s.arrived_at, s.id)
    over: list[Row[Any]] = []
    for row in connection.execute(order):
        if samples <= room and size <= most:
            break
        over.append(row)
        samples -= 1
        size -= row.size
    return over


def _rows() -> sa.Select[Any]:
    columns: list[sa.Column[Any]] = [s.id, s.batch, s.size, s.verdict, s.label, s.arrived_at]
    return sa.select(*columns)


def _delete(connection: Connection, rows: list[Row[Any]]) -> None:
    for start in range(0, len(rows), _AT_ONCE):
        ids = [row.id for row in rows[start : start + _AT_ONCE]]
        connection.execute(sa.delete(db.inbox_samples).where(s.id.in_(ids)))


def _emptied(connection: Connection, batches: Sequence[int]) -> list[str]:
    """Of these batches take away the rows of those that hold nothing any more; their files."""
    files: list[str] = []
    for start in range(0, len(batches), _AT_ONCE):
        some = b.id.in_(batches[start : start + _AT_ONCE])
        empty = ~sa.exists().where(s.batch == b.id)
        files += connection.execute(sa.select(b.file).where(some, empty)).scalars()
        connection.execute(sa.delete(db.inbox_batches).where(some, empty))
    return files
