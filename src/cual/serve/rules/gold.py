"""Gold questions: samples whose label is known, asked like any other to see how well people do.

They are no questions of the learner: they cost nothing, are of no round, and their answers are no events. Which
samples are gold, administrators say, for a pool; how many of the questions are, for an adaptation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.labels import SKIP, ClassNames
from cual.errors import BadLabels, NotFound
from cual.serve.rules import adaptations, agents, audit, pools
from cual.serve.rules.checks import check_label, needs
from cual.serve.rules.records import OPERATOR, Person, QuestionRecord, Role, UndoRecord
from cual.serve.rules.watching import evidence
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label

FIRST = 900_000_000
"""Numbers of gold questions begin here; those of others never get so far."""
MOST = 0.5
"""At most so many of the questions are gold."""
g, a = db.gold.c, db.gold_questions.c


@dataclass(frozen=True)
class GoldRecord:
    """A sample whose label is known."""

    id: int
    pool: int
    row: int
    sample: Label
    label: Label


def every(home: Home, pool: int, person: Person) -> list[GoldRecord]:
    """The gold samples of a pool; not for annotators, who should not know them."""
    needs(person, Role.admin)
    with home.database.reading() as connection:
        rows = connection.execute(sa.select(db.gold).where(g.pool == pool).order_by(g.row))
        return [GoldRecord(row.id, row.pool, row.row, row.sample, row.label) for row in rows]


def mark(home: Home, pool: int, labels: Mapping[int, Label | None], person: Person) -> list[GoldRecord]:
    """Say what samples of a pool are, by their rows; None makes one ordinary again."""
    needs(person, Role.admin)
    record = pools.one(home, pool)
    wrong = next((row for row in labels if not 0 <= row < record.size), None)
    if wrong is not None:
        raise NotFound(f"pool {pool} has no row {wrong}")
    ids = pools.open_pool(home, pool).ids
    with home.database.writing() as connection:
        names = ClassNames(agents.classes(connection, record.agent, agents.one(home, record.agent).version))
        known = {row: None if label is None else check_label(label, names) for row, label in labels.items()}
        for row, label in known.items():
            _mark(connection, pool, row, ids[row], label, person)
        audit.write(connection, person, "mark gold", "pool", pool, rows=list(labels)[:1000])
    return every(home, pool, person)


def mark_settled(home: Home, adaptation: int, person: Person) -> int:
    """Make everything gold that a reviewer has settled in an adaptation; how many that are."""
    needs(person, Role.admin)
    q = db.questions.c
    with home.database.writing() as connection:
        row = adaptations.locked(connection, adaptation)
        questions = home.states.of(connection, adaptation).questions
        settled = {sample: asked.settled for sample, asked in questions.items() if asked.settled is not None}
        wanted = sa.select(q.row, q.sample).where(q.adaptation == adaptation)
        rows = {question.sample: question.row for question in connection.execute(wanted)}
        known = {s: given.answer for s, given in settled.items() if given.answer is not SKIP and s in rows}
        for sample, label in known.items():
            _mark(connection, row.pool, rows[sample], sample, label, person)
        if known:
            marked = [rows[sample] for sample in known]
            audit.write(connection, person, "mark gold", "pool", row.pool, rows=marked[:1000])
    return len(known)


def _mark(
    connection: Connection, pool: int, row: int, sample: Label, label: Label | None, person: Person
) -> None:
    here = (g.pool == pool, g.row == row)
    there = connection.execute(sa.select(g.id).where(*here)).scalar_one_or_none()
    if label is None:
        if there is not None:
            connection.execute(sa.delete(db.gold_questions).where(a.gold == there))
            connection.execute(sa.delete(db.gold).where(g.id == there))
    elif there is not None:
        connection.execute(sa.update(db.gold).where(g.id == there).values(label=label))
    else:
        by = None if person == OPERATOR else person.id
        connection.execute(sa.insert(db.gold).values(pool=pool, row=row, sample=sample, label=label, person=by))


# -- lent, answered, taken back --------------------------------------------------------------------------------


def due(
    connection: Connection, task: Row[Any], person: Person, chosen: Sequence[Row[Any]]
) -> list[QuestionRecord]:
    """Gold questions that a person gets beside the ones that are lent; none where there is nothing to lend."""
    if not task.gold_share or not chosen:
        return []
    mine = (a.adaptation == task.id, a.person == person.id)
    put = connection.execute(sa.select(sa.func.count()).where(*mine)).scalar_one()
    e = db.events.c
    told = sa.select(sa.func.count(sa.distinct(e.question))).where(
        e.adaptation == task.id, e.person == person.id
    )
    ordinary = connection.execute(told).scalar_one() + len(chosen)
    share = min(task.gold_share, MOST)
    more = math.floor(share * ordinary / (1 - share)) - put
    for sample in _unused(connection, task, person)[: max(0, more)]:
        new = sa.insert(db.gold_questions)
        connection.execute(new.values(gold=sample, adaptation=task.id, person=person.id))
    wanted = sa.select(db.gold_questions, g.row, g.sample).join(db.gold, g.id == a.gold)
    rows = connection.execute(wanted.where(*mine, a.answered_at.is_(None)).order_by(a.id)).all()
    return [_record(connection, task, person, row, chosen) for row in rows]


def _unused(connection: Connection, task: Row[Any], person: Person) -> list[int]:
    """Gold samples that a person was not asked about in this adaptation, neither as gold nor otherwise."""
    q, e = db.questions.c, db.events.c
    used = sa.select(a.gold).where(a.adaptation == task.id, a.person == person.id)
    known = sa.exists().where(e.question == q.id, e.person == person.id)
    met = sa.select(q.row).where(q.adaptation == task.id, sa.or_(sa.not_(q.answered), known))
    wanted = sa.select(g.id).where(g.pool == task.pool, g.id.not_in(used), g.row.not_in(met))
    unused = list(connection.execute(wanted.order_by(g.id)).scalars())
    turn = person.id % len(unused) if unused else 0  # not everybody is asked in the same order
    return unused[turn:] + unused[:turn]


def _record(
    connection: Connection, task: Row[Any], person: Person, row: Row[Any], like: Sequence[Row[Any]]
) -> QuestionRecord:
    """A gold question as one that is lent: what was known when it was asked before, else of another one."""
    q = db.questions.c
    before = sa.select(db.questions).where(q.adaptation == task.id, q.row == row.row)
    asked: Row[Any] | None = connection.execute(before).one_or_none()
    shown = like[int(row.id) % len(like)] if asked is None else asked
    return QuestionRecord(
        id=FIRST + row.id,
        adaptation=task.id,
        query=like[0].query,
        round=task.round,
        sample=row.sample,
        row=row.row,
        score=shown.score,
        zone=shown.zone,
        suggestion=shown.suggestion,
        lent_to=person.name,
        lent_until=None,
        threshold=shown.threshold,
        asked_at=like[0].created_at,
    )


def mixed(lent: list[QuestionRecord], golden: Sequence[QuestionRecord]) -> list[QuestionRecord]:
    """Gold questions among the others, always at the same places."""
    every = list(lent)
    for record in golden:
        every.insert(record.id * 7919 % (len(every) + 1), record)
    return every


def answered(
    connection: Connection, task: Row[Any], person: Person, answers: Mapping[int, Any]
) -> dict[int, Any]:
    """Write down answers to gold questions, which were checked; the others."""
    ordinary = {number: answer for number, answer in answers.items() if number < FIRST}
    golden = {number: answer for number, answer in answers.items() if number >= FIRST}
    if golden:
        moment = db.now()
        for number, answer in golden.items():
            label = None if answer is SKIP else answer
            _write(connection, task.id, person, number, label=label, answered_at=moment)
    return ordinary


def passed_on(connection: Connection, adaptation: int, person: Person, questions: Sequence[int]) -> list[int]:
    """Take back gold questions that somebody passed on; the others."""
    for number in (number for number in questions if number >= FIRST):
        mine = (a.id == number - FIRST, a.adaptation == adaptation, a.person == person.id)
        connection.execute(sa.delete(db.gold_questions).where(*mine, a.answered_at.is_(None)))
    return [number for number in questions if number < FIRST]


def last_answer(
    connection: Connection, adaptation: int, person: Person, since: datetime | None
) -> UndoRecord | None:
    """What taking back a person's last answer comes to, if that was to a gold question, after `since`."""
    mine = (a.adaptation == adaptation, a.person == person.id, a.answered_at.is_not(None))
    wanted = sa.select(db.gold_questions).where(*mine).order_by(a.answered_at.desc(), a.id.desc())
    row = connection.execute(wanted.limit(1)).one_or_none()
    if row is None or (since is not None and row.answered_at < since):
        return None
    text = "The learner has not used it: taking it back costs nothing."
    return UndoRecord(FIRST + row.id, row.label, False, 0, 0, 0, 0, text)


def undo(connection: Connection, task: Row[Any], person: Person, number: int) -> QuestionRecord:
    """Ask a gold question again."""
    _write(connection, task.id, person, number, label=None, answered_at=None)
    wanted = sa.select(db.gold_questions, g.row, g.sample).join(db.gold, g.id == a.gold)
    row = connection.execute(wanted.where(a.id == number - FIRST)).one()
    q = db.questions.c
    like = connection.execute(sa.select(db.questions).where(q.adaptation == task.id).limit(1)).all()
    return _record(connection, task, person, row, like)


def _write(connection: Connection, adaptation: int, person: Person, number: int, **values: Any) -> None:
    mine = (a.id == number - FIRST, a.adaptation == adaptation, a.person == person.id)
    if not connection.execute(sa.update(db.gold_questions).where(*mine).values(**values)).rowcount:
        raise NotFound(f"adaptation {adaptation} has no question {number}")


# -- how well people do ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GoldScore:
    """How many gold questions a person answered rightly, and where the share lies with 95 % confidence."""

    right: int
    answered: int
    unsure: int
    low: float
    high: float


def scores(connection: Connection, adaptation: int) -> dict[int, GoldScore]:
    """Of each person who answered gold questions of an adaptation."""
    wanted = sa.select(a.person, a.label, g.label.label("truth")).join(db.gold, g.id == a.gold)
    rows = connection.execute(wanted.where(a.adaptation == adaptation, a.answered_at.is_not(None))).all()
    people = {row.person: [other for other in rows if other.person == row.person] for row in rows}
    return {person: _score(mine) for person, mine in people.items()}


def _score(rows: Sequence[Any]) -> GoldScore:
    told = [row for row in rows if row.label is not None]
    right = sum(row.label == row.truth for row in told)
    return GoldScore(right, len(told), len(rows) - len(told), *wilson(right, len(told)))


def wilson(right: int, n: int) -> tuple[float, float]:
    """Between which shares the true one lies with 95 % confidence (Wilson, 1927).

    >>> [round(share, 2) for share in wilson(9, 10)], wilson(0, 0)
    ([0.6, 0.98], (0.0, 1.0))
    """
    found = evidence.share(right, n)
    return found.low, found.high


def check_share(share: float) -> float:
    """Which share of the questions may be gold.

    >>> check_share(0.05)
    0.05
    >>> check_share(0.9)
    Traceback (most recent call last):
    cual.errors.BadLabels: the share of gold questions lies between 0 and 0.5, not at 0.9
    """
    if not 0 <= share <= MOST:
        raise BadLabels(f"the share of gold questions lies between 0 and {MOST}, not at {share}")
    return float(share)
