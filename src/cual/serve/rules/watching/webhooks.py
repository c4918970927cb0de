"""Webhooks in the database: whom events are told to, what is still to be told, when it is tried again.

A delivery is written with the event itself, in its transaction, and stays until it was made or given up: so it
is made at least once, however often the service is killed. `cual.serve.web.watching.delivering` makes it.
"""

import json
import secrets
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import BadOption, Conflict, NotFound
from cual.serve.rules import agents, audit, clock
from cual.serve.rules.checks import needs
from cual.serve.rules.records import Person, Role
from cual.serve.rules.watching import keeping
from cual.serve.rules.watching.records import EVENTS, Due, Event, WebhookRecord
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

MOST = 10
"""Webhooks of an agent."""
MOST_WAITING = 1000
"""Deliveries that may wait for one webhook; the oldest is given up for the next one."""
PAUSES = (5, 15, 60, 300, 1800, 7200, 21600, 43200, 86400, 86400)
"""Seconds until a delivery that failed is tried again; after the last one it is given up."""
KEPT = timedelta(days=30)
"""How long deliveries are remembered that were made or given up."""
LONGEST_URL = 2000
LEAST_SECRET, MOST_SECRET = 16, 200
LONGEST_ERROR = 300
w, d = db.webhooks.c, db.deliveries.c


def every(home: Home, agent: int, person: Person) -> list[WebhookRecord]:
    """For administrators: addresses may hold secrets."""
    needs(person, Role.admin)
    with home.database.reading() as connection:
        agents.record(connection, agent)
        rows = connection.execute(sa.select(db.webhooks).where(w.agent == agent).order_by(w.id)).all()
        return [_record(connection, row) for row in rows]


def add(
    home: Home, agent: int, url: str, person: Person, events: Sequence[str] = EVENTS, secret: str | None = None
) -> tuple[WebhookRecord, str]:
    """Tell events of an agent to an address from now on; also the secret, which is told this once."""
    needs(person, Role.admin)
    url, wanted = check_url(url), check_events(events)
    secret = secrets.token_urlsafe(32) if secret is None else check_secret(secret)
    with home.database.writing() as connection:
        row = agents.ready(connection, agent, stays=True)
        count = sa.select(sa.func.count()).select_from(db.webhooks).where(w.agent == agent)
        if connection.execute(count).scalar_one() >= MOST:
            raise Conflict(
                f"the agent {row.name!r} has {MOST} webhooks, as many as it may have; remove one first"
            )
        values = {"agent": agent, "url": url, "secret": secret, "events": wanted}
        inserted = connection.execute(sa.insert(db.webhooks).values(**values))
        number: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        keeping.ensure(connection, agent, row.current)  # from now on it shows which version goes live
        # not the whole address: its path or query may be a secret
        audit.write(connection, person, "add webhook", "agent", agent, host=_host(url), events=wanted)
        return _record(connection, _one(connection, agent, number)), secret


def change(
    home: Home, agent: int, webhook: int, person: Person, active: bool, events: Sequence[str] | None = None
) -> WebhookRecord:
    """Pause a webhook or let it go on, and choose what it is told. What waits for it stays."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = _one(connection, agent, webhook)
        wanted = row.events if events is None else check_events(events)
        if (row.active, row.events) != (active, wanted):
            changed = {"active": active, "events": wanted}
            connection.execute(sa.update(db.webhooks).where(w.id == webhook).values(**changed))
            audit.write(connection, person, "change webhook", "agent", agent, host=_host(row.url), **changed)
        return _record(connection, _one(connection, agent, webhook))


def remove(home: Home, agent: int, webhook: int, person: Person) -> None:
    """Tell an address no more; what waits for it is not told either."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = _one(connection, agent, webhook)
        connection.execute(sa.delete(db.deliveries).where(d.webhook == webhook))
        connection.execute(sa.delete(db.webhooks).where(w.id == webhook))
        audit.write(connection, person, "remove webhook", "agent", agent, host=_host(row.url))


def forget(connection: Connection, agent: int) -> None:
    """Remove all webhooks of an agent that is deleted; within a transaction."""
    of = sa.select(w.id).where(w.agent == agent)
    connection.execute(sa.delete(db.deliveries).where(d.webhook.in_(of)))
    connection.execute(sa.delete(db.webhooks).where(w.agent == agent))


# -- what is to be told ----------------------------------------------------------------------------------------


def tell(
    connection: Connection,
    agent: int,
    name: str,
    version: int,
    event: Event,
    data: dict[str, Any],
    at: datetime,
) -> None:
    """Put down an event for every webhook that wants it; within the transaction that it happens in."""
    rows = connection.execute(sa.select(db.webhooks).where(w.agent == agent, w.active).order_by(w.id)).all()
    body = {
        "id": uuid.uuid4().hex,
        "event": event,
        "at": at.isoformat(timespec="seconds"),
        "agent": {"id": agent, "name": name},
        "version": version,
        "data": data,
    }
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    for row in rows:
        if event in row.events:
            values = {"webhook": row.id, "event": event, "body": text, "next_at": at, "created_at": at}
            connection.execute(sa.insert(db.deliveries).values(**values))
            _make_room(connection, row.id)


def _make_room(connection: Connection, webhook: int) -> None:
    waiting = sa.select(d.id).where(d.webhook == webhook, d.next_at.is_not(None)).order_by(d.id.desc())
    past = connection.execute(waiting.offset(MOST_WAITING)).scalars().all()
    if past:
        given_up = {"next_at": None, "error": "given up: too many wait"}
        connection.execute(sa.update(db.deliveries).where(d.id.in_(past)).values(**given_up))


def due(home: Home, now: datetime, most: int = 20) -> list[Due]:
    """Deliveries that are to be made now, the oldest first: of each webhook one, so that all take turns."""
    first = sa.select(sa.func.min(d.id)).where(d.next_at.is_not(None), _waited(now)).group_by(d.webhook)
    wanted = (
        sa.select(d.id, w.url, w.secret, d.event, d.body, d.attempts)
        .join_from(db.deliveries, db.webhooks, d.webhook == w.id)
        .where(w.active, d.id.in_(first))
        .order_by(d.next_at, d.id)
    )
    with home.database.reading() as connection:
        return [Due(*row) for row in connection.execute(wanted.limit(most))]


def _waited(now: datetime) -> sa.ColumnElement[bool]:
    """Whether the pause of a delivery is over, or is longer than it ever was: then a clock was set back."""
    at = sa.type_coerce(d.next_at, sa.Double)
    pause = sa.case(dict(enumerate((0, *PAUSES))), value=d.attempts, else_=PAUSES[-1])
    return sa.or_(d.next_at <= now, at > (now + clock.SKEW).timestamp() + pause)


def made(home: Home, delivery: int, now: datetime) -> None:
    _set(home, delivery, next_at=None, delivered_at=now, error=None, attempts=d.attempts + 1)


def failed(home: Home, delivery: Due, error: str, now: datetime, for_good: bool = False) -> None:
    """Have it tried again later, or give it up."""
    over = for_good or delivery.attempts >= len(PAUSES)
    then = None if over else now + timedelta(seconds=PAUSES[delivery.attempts])
    said = f"given up: {error}" if over else error
    _set(home, delivery.id, next_at=then, error=said[:LONGEST_ERROR], attempts=delivery.attempts + 1)


def _set(home: Home, delivery: int, **values: Any) -> None:
    with home.database.writing() as connection:
        connection.execute(sa.update(db.deliveries).where(d.id == delivery).values(**values))


def sweep(connection: Connection, now: datetime) -> None:
    """Forget old deliveries that were made or given up."""
    connection.execute(sa.delete(db.deliveries).where(d.next_at.is_(None), d.created_at < now - KEPT))


# -- checks ----------------------------------------------------------------------------------------------------


def check_url(url: str) -> str:
    """An address that could be one; where it leads is looked at before each delivery.

    >>> check_url("https://hooks.example.org/cual?team=3")
    'https://hooks.example.org/cual?team=3'
    >>> check_url("ftp://example.org")
    Traceback (most recent call last):
    cual.errors.BadOption: a webhook's address begins with https://, or with http:// on this machine
    """
    if len(url) > LONGEST_URL:
        raise BadOption(f"a webhook's address has at most {LONGEST_URL} characters")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise BadOption("a webhook's address holds a character that must be percent-encoded")
    try:
        parts = urlsplit(url)
        named, _ = parts.hostname, parts.port
    except ValueError:
        raise BadOption("the webhook's address cannot be read") from None
    if parts.scheme not in ("http", "https"):
        raise BadOption("a webhook's address begins with https://, or with http:// on this machine")
    if not named or parts.username is not None or parts.password is not None or parts.fragment:
        raise BadOption("a webhook's address has a host, and neither a user nor a fragment")
    return url


def check_events(events: Sequence[str]) -> list[str]:
    """
    >>> check_events(["version.live", "drift.alert", "drift.alert"])
    ['drift.alert', 'version.live']
    """
    unknown = [event for event in events if event not in EVENTS]
    if unknown or not events:
        raise BadOption(f"events are some of {', '.join(EVENTS)}")
    return [event for event in EVENTS if event in events]


def check_secret(secret: str) -> str:
    """Refuse a secret that could be guessed, or that no header can hold.

    >>> check_secret("short")
    Traceback (most recent call last):
    cual.errors.BadOption: a webhook's secret has 16 to 200 printable characters of ASCII
    """
    if not LEAST_SECRET <= len(secret) <= MOST_SECRET or not secret.isascii() or not secret.isprintable():
        raise BadOption(f"a webhook's secret has {LEAST_SECRET} to {MOST_SECRET} printable characters of ASCII")
    return secret


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _one(connection: Connection, agent: int, webhook: int) -> Row[Any]:
    wanted = sa.select(db.webhooks).where(w.id == webhook, w.agent == agent)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFound(f"agent {agent} has no webhook {webhook}")
    return row


def _record(connection: Connection, row: Row[Any]) -> WebhookRecord:
    mine = d.webhook == row.id
    waiting = sa.select(sa.func.count()).select_from(db.deliveries).where(mine, d.next_at.is_not(None))
    made_at = sa.select(sa.func.max(d.delivered_at)).where(mine)
    error = sa.select(d.error).where(mine, d.error.is_not(None)).order_by(d.id.desc()).limit(1)
    return WebhookRecord(
        row.id,
        row.agent,
        row.url,
        row.events,
        row.active,
        row.created_at,
        connection.execute(waiting).scalar_one(),
        connection.execute(made_at).scalar_one(),
        connection.execute(error).scalar_one_or_none(),
    )
