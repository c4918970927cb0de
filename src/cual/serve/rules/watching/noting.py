"""Predictions written down: counts by minute and by hour, and each agent's course with the alerts that follow.

Called with what has gathered within some seconds, in one transaction. Counting itself needs no database.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.serve.rules.watching import keeping, webhooks
from cual.serve.rules.watching.course import MOST_CLASSES, Course, Judged, Tally, Turn, Yardstick
from cual.serve.rules.watching.evidence import Moments, added
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

MINUTE, HOUR = 60, 3600
MINUTES_KEPT, HOURS_KEPT = timedelta(days=1), timedelta(days=90)
"""How long counts are kept by the minute, and by the hour."""
c, s = db.watch_counts.c, db.watch_states.c


@dataclass(frozen=True)
class Batch:
    """What one request's samples were judged to be."""

    agent: int
    version: int
    at: datetime
    judged: Judged
    yardstick: Yardstick


@dataclass(frozen=True)
class Count:
    """What is added to one minute of a version."""

    tally: Tally = field(default_factory=Tally)
    unsure: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.tally + other.tally, self.unsure + other.unsure)


Key = tuple[int, int, datetime]
"""Agent, version, beginning of the minute."""


def counted(batches: Iterable[Batch]) -> dict[Key, Count]:
    """Batches by agent, version and minute."""
    counts: dict[Key, Count] = {}
    for batch in batches:
        key = (batch.agent, batch.version, start_of(batch.at, MINUTE))
        counts[key] = counts.get(key, Count()) + Count(Tally.of(batch.judged), batch.judged.unsure)
    return counts


def start_of(at: datetime, seconds: int) -> datetime:
    """
    >>> start_of(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), MINUTE)
    datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)
    """
    stamp = int(at.timestamp())
    return datetime.fromtimestamp(stamp - stamp % seconds, UTC)


def note(home: Home, batches: list[Batch], now: datetime) -> None:
    """Write down what has gathered; versions that went live since the last time are told of as well."""
    if not batches and not _another_is_live(home):
        return  # nothing is written while nothing happens
    with home.database.writing() as connection:
        agents = {row.id: row for row in connection.execute(_current()).all()}
        for key, count in counted(batches).items():
            if key[0] in agents:  # nobody has deleted it meanwhile
                _add(connection, *key, MINUTE, count)
        for agent, row in agents.items():
            mine = [batch for batch in batches if batch.agent == agent and batch.version == row.current]
            if mine or row.course is not None:
                _follow(connection, row, mine, now)


def _another_is_live(home: Home) -> bool:
    a = db.agents.c
    wanted = sa.select(a.id).join_from(db.agents, db.watch_states, a.id == s.agent)
    with home.database.reading() as connection:
        found = connection.execute(wanted.where(a.state == "ready", a.current != s.version).limit(1))
        return found.one_or_none() is not None


def _current() -> sa.Select[Any]:
    a = db.agents.c
    columns: list[sa.Column[Any]] = [a.id, a.name, a.current, s.course]
    return (
        sa.select(*columns)
        .outerjoin_from(db.agents, db.watch_states, a.id == s.agent)
        .where(a.state == "ready")
    )


def _follow(connection: Connection, row: Row[Any], batches: list[Batch], now: datetime) -> None:
    """Carry on the course of an agent's current version."""
    before = None if row.course is None else keeping.from_json(row.course)
    course, values = before, dict[str, Any]()
    if course is None or course.version != row.current:
        course = Course(row.current)
        values |= {"novelty_since": None, "drift_since": None, "unlike_groups": None, "proposal": None}
        if before is not None:
            live = {"version": row.current, "before": before.version}
            webhooks.tell(connection, row.id, row.name, row.current, "version.live", live, now)
    elif not batches:
        return
    for batch in batches:
        course, turns = course.after(batch.judged, batch.yardstick)
        for turn in turns:
            values[f"{turn.kind}_since"] = batch.at if turn.begins else None
            _tell(connection, row, turn, batch.at)
    keeping.ensure(connection, row.id, row.current)
    kept = keeping.to_json(course)
    connection.execute(
        sa.update(db.watch_states).where(s.agent == row.id).values(version=row.current, course=kept, **values)
    )


def _tell(connection: Connection, row: Row[Any], turn: Turn, at: datetime) -> None:
    event = "novelty.alert" if turn.kind == "novelty" else "drift.alert"
    data = {"state": "began" if turn.begins else "ended", "after": turn.after, **turn.facts}
    webhooks.tell(connection, row.id, row.name, row.current, event, data, at)


# -- counts ----------------------------------------------------------------------------------------------------


def _add(connection: Connection, agent: int, version: int, start: datetime, seconds: int, count: Count) -> None:
    here = sa.and_(c.agent == agent, c.version == version, c.start == start, c.seconds == seconds)
    row = connection.execute(sa.select(db.watch_counts).where(here).with_for_update()).one_or_none()
    if row is None:
        key = {"agent": agent, "version": version, "start": start, "seconds": seconds}
        connection.execute(sa.insert(db.watch_counts).values(**key, **_values(count)))
    else:
        whole = count_of(row) + count
        connection.execute(sa.update(db.watch_counts).where(here).values(**_values(whole)))


def _values(count: Count) -> dict[str, Any]:
    tally = count.tally
    return {
        "seen": tally.seen,
        "unlike": tally.unlike,
        "unsure": count.unsure,
        "known": tally.known.n,
        "score_sum": tally.known.total,
        "score_squares": tally.known.squares,
        "mix": {str(number): n for number, n in added(tally.mix, most=MOST_CLASSES).items()},
    }


def count_of(row: Any) -> Count:
    """What a row of `watch_counts` says."""
    mix: Mapping[int, int] = {int(number): n for number, n in row.mix.items()}
    moments = Moments(row.known, row.score_sum, row.score_squares)
    return Count(Tally(row.seen, row.unlike, moments, mix), row.unsure)


def roll_up(home: Home, now: datetime) -> None:
    """Make hours of minutes that are old, and forget hours that are older; old deliveries, too."""
    last = start_of(now - MINUTES_KEPT, HOUR)
    with home.database.writing() as connection:
        old = sa.select(db.watch_counts).where(c.seconds == MINUTE, c.start < last)
        hours: dict[Key, Count] = {}
        for row in connection.execute(old).all():
            key = (row.agent, row.version, start_of(row.start, HOUR))
            hours[key] = hours.get(key, Count()) + count_of(row)
        for key, count in hours.items():
            _add(connection, *key, HOUR, count)
        connection.execute(sa.delete(db.watch_counts).where(c.seconds == MINUTE, c.start < last))
        connection.execute(sa.delete(db.watch_counts).where(c.start < start_of(now - HOURS_KEPT, HOUR)))
        webhooks.sweep(connection, now)


def forget(connection: Connection, agent: int) -> None:
    """Remove all of an agent that is deleted; within a transaction."""
    webhooks.forget(connection, agent)
    for table in (db.watch_counts, db.watch_states):
        connection.execute(sa.delete(table).where(table.c.agent == agent))
