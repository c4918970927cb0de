"""The audit trail: who did what, when. Written with the change itself, in its transaction, and never changed.

What a command did is said in few words; secrets never are. What came of it is elsewhere: answers are events,
versions are rows. A command that changed nothing (said twice, refused) leaves no row.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import BadOption
from cual.serve.rules.checks import needs
from cual.serve.rules.records import OPERATOR, AuditRecord, Person, Role, ThingKind
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

MOST = 1000
"""Rows that are read at once."""
a = db.audit.c


def write(
    connection: Connection, person: Person, action: str, kind: ThingKind, thing: int | None, /, **details: Any
) -> None:
    """Write down that a person did something; `details` are JSON values without secrets."""
    who = None if person == OPERATOR else person.id
    values = {"person": who, "action": action, "kind": kind, "thing": thing, "details": details}
    connection.execute(sa.insert(db.audit).values(**values))


def read(
    home: Home,
    person: Person,
    by: int | None = None,
    action: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: int | None = None,
    n: int = MOST,
) -> list[AuditRecord]:
    """The latest rows first, for administrators.

    Parameters
    ----------
    by
        Only what this person did; 0 is the operator.
    since, until
        Only what was done then: from `since` on, and before `until`, which is not earlier.
    before
        Only rows with a lower id: for the next page.
    """
    needs(person, Role.admin)
    if since is not None and until is not None and since > until:
        raise BadOption("the time begins after its end: since is later than until")
    wanted = sa.select(db.audit, db.people.c.name).outerjoin(db.people, db.people.c.id == a.person)
    if by is not None:
        wanted = wanted.where(a.person.is_(None) if by == OPERATOR.id else a.person == by)
    if action is not None:
        wanted = wanted.where(a.action == action)
    if since is not None:
        wanted = wanted.where(a.at >= since)
    if until is not None:
        wanted = wanted.where(a.at < until)
    if before is not None:
        wanted = wanted.where(a.id < before)
    with home.database.reading() as connection:
        rows = connection.execute(wanted.order_by(a.id.desc()).limit(max(0, min(n, MOST)))).all()
    return [_record(row) for row in rows]


def actions(home: Home) -> list[str]:
    """What has been done so far, each once."""
    with home.database.reading() as connection:
        return list(connection.execute(sa.select(a.action).distinct().order_by(a.action)).scalars())


def _record(row: Row[Any]) -> AuditRecord:
    name = OPERATOR.name if row.person is None else row.name
    return AuditRecord(row.id, row.at, name, row.action, row.kind, row.thing, row.details)
