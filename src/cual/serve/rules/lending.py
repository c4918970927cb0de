"""Who is lent which open questions. A question that is put to several people may be with several at a time.

What a person answered already is never lent to them again, and while they are to say what they think, nobody
shows them what others said.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.loop import events as loop_events
from cual.serve.rules import adaptations, audit, clock, gold
from cual.serve.rules.checks import needs
from cual.serve.rules.questions import asked, records
from cual.serve.rules.records import Person, QuestionRecord, Role
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

MOST_LENT = 1000
"""Questions that one call lends at most."""
q, loan, e = db.questions.c, db.loans.c, db.events.c


def lend(home: Home, adaptation: int, person: Person, n: int) -> list[QuestionRecord]:
    """Up to `n` open questions: what is lent to the person already, then free ones, most useful first."""
    needs(person, Role.annotator)
    n = max(0, min(int(n), MOST_LENT))
    with home.database.writing() as connection:
        task = adaptations.locked(connection, adaptation)
        if task.state != "asking":
            return []
        moment = db.now()
        passed = sa.exists().where(db.passes.c.question == q.id, db.passes.c.person == person.id)
        mine = sa.exists().where(loan.question == q.id, loan.person == person.id)
        # none is lent for longer than that: if it seems so, a clock was set back since
        latest = moment + timedelta(seconds=home.lend_seconds) + clock.SKEW
        others = (loan.question == q.id, loan.person != person.id, loan.until.between(moment, latest))
        free = sa.select(sa.func.count()).where(*others).scalar_subquery() < q.missing
        here = [q.adaptation == adaptation, q.round == task.round, sa.not_(q.answered), free]
        if task.overlap > 1:
            here.append(sa.not_(_answered_by(person)))
        wanted = sa.select(db.questions, passed.label("passed")).where(*here)
        rows = connection.execute(wanted.order_by(passed, sa.not_(mine), q.position).limit(n)).all()
        chosen = [row for row in rows if row.passed == rows[0].passed]
        golden = gold.due(connection, task, person, chosen)
        chosen = chosen[: max(1, n - len(golden))]
        _lend(home, connection, adaptation, person, adaptations.ids(chosen), moment)
        place = {row.id: i for i, row in enumerate(chosen)}
        lent = sorted(records(connection, list(place)), key=lambda record: place[record.id])
    if task.overlap > 1:
        lent = [replace(record, answers=[], effective=None, disagreement=False) for record in lent]
    return gold.mixed(lent, golden)[:n]


def pass_on(home: Home, adaptation: int, person: Person, questions: Sequence[int]) -> None:
    """Leave questions to somebody else; they come back to this person when nothing else is left."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        adaptations.locked(connection, adaptation)
        ordinary = gold.passed_on(connection, adaptation, person, questions)
        rows = asked(connection, adaptation, ordinary)
        if rows:
            passed = [row.id for row in rows]
            audit.write(connection, person, "pass on", "adaptation", adaptation, questions=passed)
        for row in rows:
            give_back(connection, row.id, person)
            p = db.passes.c
            there = connection.execute(sa.select(p.question).where(p.question == row.id, p.person == person.id))
            if there.one_or_none() is None:
                connection.execute(sa.insert(db.passes).values(question=row.id, person=person.id))


def lend_again(home: Home, connection: Connection, question: int, person: Person) -> None:
    """Lend a question to somebody who has just taken back an answer to it, if it is open."""
    wanted = sa.select(q.adaptation).where(q.id == question, sa.not_(q.answered))
    adaptation = connection.execute(wanted).scalar_one_or_none()
    if adaptation is not None:
        give_back(connection, question, person)
        until = db.now() + timedelta(seconds=home.lend_seconds)
        connection.execute(sa.insert(db.loans).values(question=question, person=person.id, until=until))


def give_back(connection: Connection, question: int, person: Person) -> None:
    """Forget that somebody has a question."""
    connection.execute(sa.delete(db.loans).where(loan.question == question, loan.person == person.id))


def _answered_by(person: Person) -> sa.ColumnElement[bool]:
    """Whether an answer of a person to a question stands: more were given than taken back."""
    given = sa.case((e.kind == "undone", -1), (e.kind.in_(loop_events.ANSWERS), 1), else_=0)
    mine = sa.select(sa.func.coalesce(sa.func.sum(given), 0)).where(e.question == q.id, e.person == person.id)
    return mine.scalar_subquery() > 0


def _lend(
    home: Home, connection: Connection, adaptation: int, person: Person, chosen: list[int], moment: datetime
) -> None:
    """Write down what is lent until when; what the person has already is only lent for longer."""
    mine = (loan.question.in_(chosen), loan.person == person.id)
    had = set(connection.execute(sa.select(loan.question).where(*mine, loan.until > moment)).scalars())
    new = [question for question in chosen if question not in had]
    connection.execute(sa.delete(db.loans).where(*mine))
    until = moment + timedelta(seconds=home.lend_seconds)
    rows = [{"question": question, "person": person.id, "until": until} for question in chosen]
    if rows:
        connection.execute(sa.insert(db.loans), rows)
    if new:
        audit.write(connection, person, "lend", "adaptation", adaptation, questions=new)
