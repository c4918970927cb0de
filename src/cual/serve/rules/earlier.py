"""Adaptations in a database of release 0.1.0: answers and reviews in tables of their own become events.

Done once, when a workspace is opened. Everything that knows the old form is here; when it is no longer read,
this file and the tables `answers` and `reviews` go.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.data.labels import SKIP, Answer, made_up
from cual.errors import CualError
from cual.loop import earlier
from cual.loop import events as loop_events
from cual.serve.rules import agents, pools
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label
from cual.types import Row as Event

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Given:
    """Something that a person did, and whether the learner has used it."""

    at: datetime
    used: bool
    event: Event


def adopt(home: Home) -> None:
    """Make events of what release 0.1.0 wrote about adaptations."""
    a = db.adaptations.c
    with_events = sa.exists().where(db.events.c.adaptation == a.id)
    with home.database.reading() as connection:
        left = connection.execute(sa.select(a.id).where(sa.not_(with_events)).order_by(a.id)).scalars().all()
    for adaptation in left:
        try:
            with home.database.writing() as connection:
                _adopt(home, connection, adaptation)
        except (CualError, OSError) as error:  # one that cannot be read must not keep the others out
            log.error("adaptation %s of an earlier cual cannot be read: %s", adaptation, error)


def _adopt(home: Home, connection: Connection, adaptation: int) -> None:
    a, q, e = db.adaptations.c, db.questions.c, db.events.c
    row = connection.execute(sa.select(db.adaptations).where(a.id == adaptation).with_for_update()).one()
    if connection.execute(sa.select(e.id).where(e.adaptation == row.id).limit(1)).all():
        return  # another process was quicker
    asked = connection.execute(sa.select(q.sample, q.id).where(q.adaptation == row.id)).all()
    events.append(
        connection, row.id, _events(home, connection, row), {question.sample: question.id for question in asked}
    )


def _events(home: Home, connection: Connection, row: sa.Row[Any]) -> list[Event]:
    computed = _computed(home, row)
    people = sorted([*_answers(connection, row), *_reviews(home, connection, row)], key=lambda given: given.at)
    merged: list[Event] = computed[:1]
    rest = computed[1:]
    for place, event in enumerate(rest):
        # What was done before the next questions were asked, the learner had used when it closed the round.
        after = next((e for e in rest[place:] if e["event"] == "asked"), None)
        until = None if after is None else datetime.fromisoformat(after["at"])
        used = [g for g in people if g.used and (until is None or g.at <= until)]
        merged += [given.event for given in used]
        people = [given for given in people if given not in used]
        merged.append(event)
    merged += [given.event for given in people]
    if row.stopped:
        merged.append(loop_events.stopped(row.person))
    if row.state == "finished":
        merged.append(loop_events.finished(row.person))
    return merged


def _computed(home: Home, row: sa.Row[Any]) -> list[Event]:
    """What the learner has left, from the file of its last step; `begun` comes first."""
    agent = agents.load(home, row.agent, row.base_version)
    file = home.adaptation_folder(row.id) / str(row.folder) / earlier.STATE
    if row.folder is None or not file.exists():
        unnamed = made_up(agent.names) if agent.method.learner.unnamed else None
        return [_at(loop_events.begun(row.budget, agent.names.names, unnamed), row.created_at)]
    rows = earlier.events_of(file, agent, _ids(home, row))
    begun = _at(rows[0], row.created_at)
    return [begun, *(event for event in rows[1:] if event["event"] in loop_events.COMPUTED)]


def _ids(home: Home, row: sa.Row[Any]) -> Sequence[Label]:
    return pools.open_pool(home, row.pool).ids


def _answers(connection: Connection, row: sa.Row[Any]) -> list[Given]:
    a, q = db.answers.c, db.questions.c
    wanted = sa.select(db.answers, q.sample, q.query).join(db.questions, q.id == a.question)
    given: list[Given] = []
    standing: dict[tuple[int, int], int] = {}
    for answer in connection.execute(wanted.where(a.adaptation == row.id).order_by(a.id)):
        label: Answer = SKIP if answer.label is None else answer.label
        who = (answer.question, answer.person)
        first = "skipped" if label is SKIP else "told"
        kind = "settled" if answer.settles else "corrected" if standing.get(who) else first
        event = loop_events.answered(kind, answer.query, answer.sample, label, answer.person)
        used = answer.id <= row.told
        given.append(Given(answer.created_at, used, _at(event, answer.created_at)))
        if answer.undone_at is None:
            standing[who] = standing.get(who, 0) + 1
        else:  # nobody had used it: it was taken back before anything else happened to it
            undone = _at(loop_events.undone(answer.sample, answer.person), answer.undone_at)
            given.append(Given(answer.created_at, used, undone))
    return given


def _reviews(home: Home, connection: Connection, row: sa.Row[Any]) -> list[Given]:
    r = db.reviews.c
    rows = connection.execute(sa.select(db.reviews).where(r.adaptation == row.id).order_by(r.id)).all()
    ids: Sequence[Label] = _ids(home, row) if rows else []
    return [
        Given(
            review.created_at,
            review.id <= row.reviewed,
            _at(
                loop_events.judged([ids[review.row]], review.verdict == "confirm", review.person),
                review.created_at,
            ),
        )
        for review in rows
    ]


def _at(event: Event, moment: datetime) -> Event:
    return {**event, "at": moment.astimezone(UTC).isoformat()}
