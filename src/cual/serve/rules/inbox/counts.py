"""Counts of all that came to an inbox, by hour, verdict and predicted class: the mix that sampling hides."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.serve.rules.inbox.records import ArrivalCount
from cual.serve.storage import tables as db
from cual.types import Label

What = Literal["kept", "again", "passed_over", "dropped"]
Place = tuple[datetime, str, Label]
"""Hour, verdict, predicted class."""
n = db.inbox_arrivals.c
_NOTHING = {"kept": 0, "again": 0, "passed_over": 0, "dropped": 0}


def hour_of(moment: datetime) -> datetime:
    """The hour that a moment is in: counts are kept by the hour.

    >>> print(hour_of(datetime(2026, 3, 1, 14, 25, 7)))
    2026-03-01 14:00:00
    """
    return moment.replace(minute=0, second=0, microsecond=0)


def add(connection: Connection, inbox: int, what: What, tally: Mapping[Place, int]) -> None:
    """Count so many more; whoever calls has the inbox to itself."""
    for (hour, verdict, label), more in tally.items():
        at = sa.and_(n.inbox == inbox, n.hour == hour, n.verdict == verdict, n.label == label)
        change = sa.update(db.inbox_arrivals).where(at).values({what: n[what] + more})
        if not connection.execute(change).rowcount:
            place = {"inbox": inbox, "hour": hour, "verdict": verdict, "label": label}
            connection.execute(sa.insert(db.inbox_arrivals).values(**{**place, **_NOTHING, what: more}))


def of(connection: Connection, inbox: int) -> list[ArrivalCount]:
    """The counts of an inbox by verdict and class, over all hours."""
    sums = [sa.func.sum(n[what]).label(what) for what in _NOTHING]
    wanted = sa.select(n.verdict, n.label, *sums).where(n.inbox == inbox).group_by(n.verdict, n.label)
    return [
        ArrivalCount(
            row.verdict,
            row.label,
            int(row.kept + row.again + row.passed_over),
            int(row.kept),
            int(row.again),
            int(row.passed_over),
            int(row.dropped),
        )
        for row in connection.execute(wanted.order_by(n.verdict, n.label))
    ]
