"""How long people take for an answer in a workspace: what more answers would take is judged by it."""

from itertools import pairwise
from statistics import median

import sqlalchemy as sa

from cual.loop.events import ANSWERS
from cual.serve.rules.agreement import PAUSE
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

LATEST = 500
"""So many answers are looked at."""
LEAST = 10
"""So many times between two answers of one person it takes to say anything."""
e = db.events.c


def seconds(home: Home) -> float | None:
    """The median time between two answers of one person, pauses left out; None where too few were given."""
    latest = sa.select(e.person, e.at).where(e.kind.in_(ANSWERS), e.person.is_not(None))
    with home.database.reading() as connection:
        rows = connection.execute(latest.order_by(e.id.desc()).limit(LATEST)).all()
    given = sorted((row.person, row.at) for row in rows)
    gaps = [later - earlier for (who, earlier), (same, later) in pairwise(given) if who == same]
    taken = [gap.total_seconds() for gap in gaps if gap < PAUSE]
    return median(taken) if len(taken) >= LEAST else None
