"""The one transaction in which what arrived is kept: batch, samples, counts, limits, and the answer to its key.

It refers to a file that is on the disk already. Whoever reads the answer later knows that all of it was kept.
"""

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import Conflict, CualError
from cual.serve.rules import agents, audit
from cual.serve.rules.inbox import counts, limits
from cual.serve.rules.inbox.near import Latest
from cual.serve.rules.inbox.planning import Plan
from cual.serve.rules.inbox.records import Arrivals, Fate, Key, Policy
from cual.serve.rules.records import Person
from cual.serve.storage import tables as db

Answer = Callable[[list[Fate]], bytes]
"""What is answered to a request, of what became of its samples."""
REMEMBERED = timedelta(days=1)
"""How long a request's key is known: sent again later, it is another request."""
s, i, k, b = db.inbox_samples.c, db.inboxes.c, db.inbox_sends.c, db.inbox_batches.c


class Outdated(CualError):
    """Another process has kept or closed something since the plan was made."""


@dataclass(frozen=True)
class Request:
    """Somebody sends samples to an agent."""

    agent: int
    arrivals: Arrivals
    person: Person
    answer: Answer
    key: Key | None


@dataclass(frozen=True)
class Done:
    """What a transaction has come to."""

    answer: bytes
    inbox: int | None = None
    """None where the request had been answered before."""
    ids: tuple[int, ...] = ()
    gone: limits.Gone = limits.NOTHING


def open_inbox(connection: Connection, agent: int) -> Row[Any] | None:
    """The inbox of an agent that samples come to; None before the first of them."""
    wanted = sa.select(db.inboxes).where(i.agent == agent, i.closed_at.is_(None))
    return connection.execute(wanted).one_or_none()


def locked(connection: Connection, agent: int) -> None:
    """Have all that is sent to an agent wait for the end of the transaction."""
    connection.execute(sa.select(db.agents.c.id).where(db.agents.c.id == agent).with_for_update())
    agents.ready(connection, agent)


def write(
    connection: Connection, request: Request, plan: Plan, policy: Policy, file: str | None, latest: Latest
) -> Done:
    """Keep what was planned; `Outdated` where the plan was made of something else than there is."""
    locked(connection, request.agent)
    if request.key is not None:
        before = answered(connection, request.agent, request.person, request.key)
        if before is not None:
            return Done(before)
    inbox = _current(connection, request, latest)
    now = db.now()
    ids = _insert(connection, inbox, request.arrivals, plan, policy, file, now)
    if plan.again:
        came = sa.update(db.inbox_samples).where(s.id == sa.bindparam("sample"))
        came = came.values(times=s.times + sa.bindparam("more"), last_at=now)
        each = [{"sample": sample, "more": times} for sample, times in plan.again.items()]
        connection.execute(came, each)
    _count(connection, inbox, request.arrivals, plan.fates, now)
    gone = limits.apply(connection, inbox, policy, now)
    answer = request.answer(plan.fates)
    if request.key is not None:
        _remember(connection, request, request.key, answer, now)
    return Done(answer, inbox, tuple(ids), gone)


def _current(connection: Connection, request: Request, latest: Latest) -> int:
    """The open inbox, which is begun with the first sample; who sends to it is written down once."""
    row = open_inbox(connection, request.agent)
    if (None if row is None else row.id) != latest.inbox:
        raise Outdated("another process has opened or closed the inbox")
    if row is None:
        values = {"agent": request.agent, "senders": []}
        inserted = connection.execute(sa.insert(db.inboxes).values(**values))
        inbox: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        senders: list[int] = []
    else:
        inbox, senders = row.id, row.senders
        last = connection.execute(sa.select(sa.func.max(s.id)).where(s.inbox == inbox)).scalar_one()
        if last is not None and last > latest.last:
            raise Outdated("another process has kept samples")
    if request.person.id not in senders:
        everybody = [*senders, request.person.id]
        connection.execute(sa.update(db.inboxes).where(i.id == inbox).values(senders=everybody))
        audit.write(connection, request.person, "send", "agent", request.agent, inbox=inbox)
    return inbox


def _insert(
    connection: Connection,
    inbox: int,
    arrivals: Arrivals,
    plan: Plan,
    policy: Policy,
    file: str | None,
    now: datetime,
) -> list[int]:
    """The rows of new samples; their ids, in the order of `plan.new`."""
    if not plan.new:
        return []
    inserted = connection.execute(sa.insert(db.inbox_batches).values(inbox=inbox, file=file))
    batch: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
    keeps = policy.originals and len(arrivals.originals) > 0
    width = arrivals.X.shape[1]
    values = [
        {
            "inbox": inbox,
            "batch": batch,
            "row": place,
            "digest": arrivals.digests[row],
            "original": arrivals.kind if keeps else None,
            "size": 4 * width + (len(arrivals.originals[row]) if keeps else 0),
            "verdict": arrivals.verdicts[row],
            "label": arrivals.labels[row],
            "score": arrivals.scores[row],
            "version": arrivals.version,
            "name": arrivals.names[row] if arrivals.names else None,
            "times": plan.times[row],
            "arrived_at": now,
            "last_at": now,
        }
        for place, row in enumerate(plan.new)
    ]
    connection.execute(sa.insert(db.inbox_samples), values)
    rows = sa.select(s.id).where(s.batch == batch).order_by(s.row)
    return list(connection.execute(rows).scalars())


def _count(connection: Connection, inbox: int, arrivals: Arrivals, fates: list[Fate], now: datetime) -> None:
    hour = counts.hour_of(now)
    tally = Counter(zip(fates, arrivals.verdicts, arrivals.labels, strict=True))
    columns: dict[Fate, counts.What] = {"kept": "kept", "again": "again", "passed over": "passed_over"}
    for fate, what in columns.items():
        of_this = {(hour, verdict, label): n for (f, verdict, label), n in tally.items() if f == fate}
        counts.add(connection, inbox, what, of_this)


# -- requests that are sent again ------------------------------------------------------------------------------


def answered(connection: Connection, agent: int, person: Person, key: Key) -> bytes | None:
    """What was answered to a request with this key; `Conflict` if that was another request."""
    mine = sa.and_(k.agent == agent, k.person == person.id, k.key == _hash(key))
    row = connection.execute(sa.select(db.inbox_sends).where(mine)).one_or_none()
    if row is None or row.created_at < db.now() - REMEMBERED:
        return None
    if row.body != key.body:
        raise Conflict("this Idempotency-Key was used for another request; take a new one for each")
    return zlib.decompress(base64.b85decode(row.answer))


def _remember(connection: Connection, request: Request, key: Key, answer: bytes, now: datetime) -> None:
    connection.execute(sa.delete(db.inbox_sends).where(k.created_at < now - REMEMBERED))
    packed = base64.b85encode(zlib.compress(answer)).decode()
    values = {"agent": request.agent, "person": request.person.id, "key": _hash(key), "body": key.body}
    connection.execute(sa.insert(db.inbox_sends).values(**values, answer=packed, created_at=now))


def _hash(key: Key) -> str:
    return hashlib.sha256(key.value.encode()).hexdigest()
