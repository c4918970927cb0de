"""What is told of an agent's predictions: the course of its current version, counts over time. Reads only."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.errors import NotFound
from cual.serve.rules import agents
from cual.serve.rules.inbox import reading
from cual.serve.rules.watching import keeping
from cual.serve.rules.watching.course import Course
from cual.serve.rules.watching.evidence import OTHER, Mix, share
from cual.serve.rules.watching.noting import HOUR, MINUTE, Count, count_of, start_of
from cual.serve.rules.watching.records import (
    ClassShare,
    ExampleRecord,
    GroupRecord,
    GroupsRecord,
    ProposalRecord,
    WatchPoint,
    WatchRecord,
)
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label

MOST_POINTS = 1000
"""Points that are told at once: beyond that, minutes are put together."""
SHOWN_CLASSES = 20
"""Classes of the mix that are told; the rest is one."""
c, s = db.watch_counts.c, db.watch_states.c


def one(home: Home, agent: int, since: datetime | None = None) -> WatchRecord:
    """How an agent's predictions go, with what was seen from `since` on (by default a day ago)."""
    with home.database.reading() as connection:
        record = agents.record(connection, agent)
        row = connection.execute(sa.select(db.watch_states).where(s.agent == agent)).one_or_none()
        points = _points(connection, agent, since or db.now() - timedelta(days=1))
    if row is None:
        return WatchRecord(agent, record.version, points=points)
    course = keeping.from_json(row.course)
    if course.version != record.version:  # another version is live, and nobody has noted that yet
        course = Course(record.version)
    told: dict[str, Any] = {}
    if course.seen:
        recent, baseline = course.recent, course.baseline
        told = {
            "seen": recent.seen,
            "unlike": recent.unlike,
            "share": recent.share,
            "false_alarms": baseline.rate,
            "false_alarms_at_most": baseline.most,
            "shift": course.shift,
            "mix_change": course.change,
            "mix": _mix(recent.mix, course.first.mix if course.change is not None else {}, record.classes),
        }
    return WatchRecord(
        agent,
        record.version,
        **told,
        novelty_since=row.novelty_since if course.novelty is not None else None,
        drift_since=row.drift_since if course.drift is not None else None,
        groups=groups_of(row.unlike_groups),
        proposal=proposal_of(row.proposal),
        starts=row.starts_for is not None,
        most_questions=row.most_questions,
        least_gain=row.least_gain,
        points=points,
    )


def example(home: Home, agent: int, sample: int, original: str) -> bytes:
    """The original of a sample that is an example of a group now; `NotFound` of any other."""
    with home.database.reading() as connection:
        agents.record(connection, agent)
        body = connection.execute(sa.select(s.unlike_groups).where(s.agent == agent)).scalar_one_or_none()
    found = groups_of(body)
    shown = [] if found is None else [one for group in found.groups for one in group.examples]
    if ExampleRecord(sample, original) not in shown:  # pyright: ignore[reportArgumentType]
        raise NotFound(f"sample {sample} is no {original} that is an example of a group now")
    return reading.original(home, agent, sample)


def groups_of(body: dict[str, Any] | None) -> GroupsRecord | None:
    if body is None:
        return None
    groups = [
        GroupRecord(group["size"], [ExampleRecord(**one) for one in group["examples"]], group["like"])
        for group in body["groups"]
    ]
    return GroupsRecord(datetime.fromisoformat(body["at"]), body["waiting"], body["looked_at"], groups)


def proposal_of(body: dict[str, Any] | None) -> ProposalRecord | None:
    if body is None:
        return None
    fields: dict[str, Any] = {**body, "at": datetime.fromisoformat(body["at"])}
    return ProposalRecord(**fields)


def _points(connection: Connection, agent: int, since: datetime) -> list[WatchPoint]:
    """Minutes and hours since then; longer pieces where there are too many."""
    rows = connection.execute(
        sa.select(db.watch_counts).where(c.agent == agent, c.start >= since).order_by(c.start, c.version)
    ).all()
    seconds = next(
        piece
        for piece in (MINUTE, 5 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR, 24 * 90 * HOUR)
        if len({(start_of(row.start, max(piece, row.seconds)), row.version) for row in rows}) <= MOST_POINTS
        or piece == 24 * 90 * HOUR
    )
    pieces: dict[tuple[datetime, int, int], Count] = {}
    for row in rows:
        length = max(seconds, row.seconds)
        key = (start_of(row.start, length), row.version, length)
        pieces[key] = pieces.get(key, Count()) + count_of(row)
    return [
        WatchPoint(
            version,
            start,
            length,
            count.tally.seen,
            count.tally.unlike,
            count.unsure,
            share(count.tally.unlike, count.tally.seen),
            count.tally.known.mean if count.tally.known.n else None,
        )
        for (start, version, length), count in pieces.items()
    ]


def _mix(now: Mix, before: Mix, classes: list[Label]) -> list[ClassShare]:
    """The most frequent classes, now and among the first samples."""
    n, m = sum(now.values()), sum(before.values())
    if not n:
        return []
    order = sorted({*now, *before} - {OTHER}, key=lambda number: (-now.get(number, 0), number))
    shown = [number for number in order if number < len(classes)][:SHOWN_CLASSES]
    told = [
        ClassShare(classes[number], now.get(number, 0) / n, before.get(number, 0) / m if m else None)
        for number in shown
    ]
    rest_now = n - sum(now.get(number, 0) for number in shown)
    rest_before = m - sum(before.get(number, 0) for number in shown)
    if rest_now or rest_before:
        told.append(ClassShare(None, rest_now / n, rest_before / m if m else None))
    return told
