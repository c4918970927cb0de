"""Questions and answers: who is lent what, what counts, what can be undone. The learner is not touched here.

Answers are events, which are only ever added. What they come to is decided in `cual.loop.state`; it is kept
beside each question, so that the database can look for open ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.labels import SKIP, Answer, ClassNames
from cual.errors import Conflict, NotFound
from cual.loop import events as loop_events
from cual.loop.state import State
from cual.serve.rules import adaptations, agents, audit, jobs
from cual.serve.rules.checks import check_label, needs
from cual.serve.rules.records import AdaptationRecord, AnswerRecord, Person, QuestionRecord, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label
from cual.types import Row as EventRow

MOST_LENT = 1000
"""Questions that one call lends at most."""
q = db.questions.c


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
        free = sa.or_(q.lent_to.is_(None), q.lent_to == person.id, q.lent_until <= moment)
        here = (q.adaptation == adaptation, q.round == task.round, sa.not_(q.answered), free)
        wanted = sa.select(db.questions, passed.label("passed")).where(*here)
        theirs_first = sa.case((q.lent_to == person.id, 0), else_=1)
        rows = connection.execute(wanted.order_by(passed, theirs_first, q.position).limit(n)).all()
        chosen = [row for row in rows if row.passed == rows[0].passed]
        until = moment + timedelta(seconds=home.lend_seconds)
        lent = sa.update(db.questions).where(q.id.in_(adaptations.ids(chosen)))
        connection.execute(lent.values(lent_to=person.id, lent_until=until))
        new = [row.id for row in chosen if row.lent_to != person.id or row.lent_until <= moment]
        if new:  # those that the person has already are only lent for longer
            audit.write(connection, person, "lend", "adaptation", adaptation, questions=new)
        place = {row.id: i for i, row in enumerate(chosen)}
        return sorted(_records(connection, list(place)), key=lambda record: place[record.id])


def pass_on(home: Home, adaptation: int, person: Person, questions: Sequence[int]) -> None:
    """Leave questions to somebody else; they come back to this person when nothing else is left."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        adaptations.locked(connection, adaptation)
        rows = _asked(connection, adaptation, questions)
        if rows:
            passed = [row.id for row in rows]
            audit.write(connection, person, "pass on", "adaptation", adaptation, questions=passed)
        for row in rows:
            if row.lent_to == person.id:
                connection.execute(
                    sa.update(db.questions).where(q.id == row.id).values(lent_to=None, lent_until=None)
                )
            p = db.passes.c
            there = connection.execute(sa.select(p.question).where(p.question == row.id, p.person == person.id))
            if there.one_or_none() is None:
                connection.execute(sa.insert(db.passes).values(question=row.id, person=person.id))


def answer(
    home: Home, adaptation: int, person: Person, answers: Mapping[int, Answer | Any], grace: float = 0
) -> AdaptationRecord:
    """Write answers down, all or none. Whoever answers last in a round sets the learner going after `grace`."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        row = adaptations.locked(connection, adaptation)
        adaptations.check_going(row)
        _write(home, connection, row, person, answers, grace=grace)
    return adaptations.one(home, adaptation)


def settle(home: Home, question: int, person: Person, label: Answer | Any) -> QuestionRecord:
    """Settle a disagreement: from now on this counts, whoever was first."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        adaptation = one_row(
            connection, sa.select(q.adaptation).where(q.id == question), f"question {question}"
        )[0]
        row = adaptations.locked(connection, adaptation)
        adaptations.check_going(row)
        _write(home, connection, row, person, {question: label}, settle=True)
        return _records(connection, [question])[0]


def undo(home: Home, adaptation: int, person: Person) -> QuestionRecord:
    """Take back a person's last answer, as long as the learner has not used it."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        row = adaptations.locked(connection, adaptation)
        adaptations.check_going(row)
        state = home.states.of(connection, adaptation)
        last = state.last_answer(person.id)
        if last is None:
            raise NotFound(f"{person.name} has given no answer that could be undone")
        sample, given = last
        job = jobs.active(connection, adaptation)
        if given.number < state.computed or (job is not None and job.state == "running"):
            raise Conflict("the learner is already using that answer; correct it instead")
        numbers = _numbers(connection, adaptation, [sample])
        after = _append(connection, row, state, [loop_events.undone(sample, person.id)], numbers)
        audit.write(connection, person, "undo", "question", numbers[sample], adaptation=adaptation)
        if row.state == "thinking" and after.open:
            if not jobs.cancel(connection, adaptation):
                raise Conflict("the learner is already using that answer; correct it instead")
            adaptations.set_state(connection, adaptation, "asking")
        until = db.now() + timedelta(seconds=home.lend_seconds)
        again = sa.update(db.questions).where(q.id == numbers[sample], sa.not_(q.answered))
        connection.execute(again.values(lent_to=person.id, lent_until=until))
        return _records(connection, [numbers[sample]])[0]


def every(
    home: Home,
    adaptation: int,
    round: int | None = None,
    answered: bool | None = None,
    disagreement: bool | None = None,
) -> list[QuestionRecord]:
    """Questions of an adaptation in the order asked: all, or those of a round, answered or not, in dispute."""
    with home.database.reading() as connection:
        adaptations.get(connection, adaptation)
        wanted = sa.select(q.id).where(q.adaptation == adaptation)
        for column, value in ((q.round, round), (q.answered, answered), (q.disagreement, disagreement)):
            wanted = wanted if value is None else wanted.where(column == value)
        return _records(connection, list(connection.execute(wanted).scalars()))


def one(home: Home, question: int) -> QuestionRecord:
    with home.database.reading() as connection:
        one_row(connection, sa.select(q.id).where(q.id == question), f"question {question}")
        return _records(connection, [question])[0]


# -- inside ----------------------------------------------------------------------------------------------------


def _asked(connection: Connection, adaptation: int, wanted: Sequence[int]) -> list[Row[Any]]:
    """The rows of questions, all of which must be this adaptation's."""
    rows = {
        row.id: row
        for row in _in_parts(connection, sa.select(db.questions).where(q.adaptation == adaptation), wanted)
    }
    missing = next((k for k in wanted if k not in rows), None)
    if missing is not None:
        raise NotFound(f"adaptation {adaptation} has no question {missing}")
    return [rows[k] for k in wanted]


def _write(
    home: Home,
    connection: Connection,
    row: Row[Any],
    person: Person,
    answers: Mapping[int, Any],
    settle: bool = False,
    grace: float = 0,
) -> None:
    """Write answers down, by question, as the events that they come to; a round without open ones is over."""
    names = ClassNames(agents.classes(connection, row.agent, row.base_version))
    asked = _asked(connection, row.id, list(answers))
    labels = {k: v if v is SKIP else check_label(v, names) for k, v in answers.items()}
    state = home.states.of(connection, row.id)
    new = [
        event
        for question in asked
        for event in state.answering(question.query, {question.sample: labels[question.id]}, person.id, settle)
    ]
    if not new:
        return
    after = _append(connection, row, state, new, {question.sample: question.id for question in asked})
    if settle:
        (question,) = asked
        audit.write(connection, person, "settle", "question", question.id, adaptation=row.id)
    else:
        numbers = [question.id for question in asked]
        audit.write(connection, person, "answer", "adaptation", row.id, questions=numbers)
    if row.state == "asking" and not after.open:
        adaptations.set_state(connection, row.id, "thinking")
        jobs.add(connection, "advance", adaptation=row.id, grace=max(0.0, grace))


def _append(
    connection: Connection, row: Row[Any], state: State, new: Sequence[EventRow], numbers: Mapping[Label, int]
) -> State:
    """Add events of people, if the budget has room for them, and what they come to; the state after them."""
    after = state.after(new)
    after.check_budget()
    events.append(connection, row.id, new, numbers)
    for sample in dict.fromkeys(event["sample"] for event in new):
        question = after.questions[sample]
        answer = after.answers.get(sample)
        values = {
            "answered": answer is not None,
            "label": None if answer is SKIP else answer,
            "disagreement": question.disagreement,
            "lent_to": None,  # nobody need hold on to it any longer
            "lent_until": None,
        }
        connection.execute(sa.update(db.questions).where(q.id == numbers[sample]).values(**values))
    adaptations.changed(connection, row)  # a job that has not seen them does not count
    return after


def _numbers(connection: Connection, adaptation: int, samples: Sequence[Label]) -> dict[Label, int]:
    """Which question each sample is."""
    wanted = sa.select(q.sample, q.id).where(q.adaptation == adaptation, q.sample.in_(list(samples)))
    return {row.sample: row.id for row in connection.execute(wanted)}


def _in_parts(
    connection: Connection, wanted: sa.Select[Any], keys: Sequence[int], column: Any = q.id
) -> Iterable[Row[Any]]:
    """Rows whose `column` is one of many keys: databases take only so many at a time."""
    for start in range(0, len(keys), 500):
        yield from connection.execute(wanted.where(column.in_(list(keys[start : start + 500]))))


def _records(connection: Connection, questions: Sequence[int]) -> list[QuestionRecord]:
    """Questions with all their answers, in the order asked."""
    names = {row.id: row.name for row in connection.execute(sa.select(db.people.c.id, db.people.c.name))}
    answers = _answers(connection, questions, names)
    rows = sorted(
        _in_parts(connection, sa.select(db.questions), questions), key=lambda r: (r.round, r.position)
    )
    moment = db.now()
    lent = {row.id for row in rows if row.lent_until is not None and row.lent_until > moment}
    same = ("id", "adaptation", "query", "round", "sample", "row", "score", "threshold", "zone", "suggestion")
    return [
        QuestionRecord(
            **{k: getattr(row, k) for k in same},
            lent_to=names[row.lent_to] if row.id in lent else None,
            lent_until=row.lent_until if row.id in lent else None,
            asked_at=row.created_at,
            disagreement=row.disagreement,
            answers=answers[row.id],
            effective=row.label,
            unsure=row.answered and row.label is None,
        )
        for row in rows
    ]


def _answers(
    connection: Connection, questions: Sequence[int], names: Mapping[int, str]
) -> dict[int, list[AnswerRecord]]:
    """Everything that was answered to some questions, in the order given, with what was taken back."""
    answers: dict[int, list[AnswerRecord]] = defaultdict(list)
    rows = _in_parts(connection, sa.select(db.events), questions, db.events.c.question)
    for row in sorted(rows, key=lambda row: row.id):
        event, person = events.as_event(row), names[row.person]
        mine = answers[row.question]
        if row.kind == "undone":
            last = next(
                i for i in reversed(range(len(mine))) if mine[i].person == person and not mine[i].undone
            )
            mine[last] = replace(mine[last], undone=True)
            continue
        label = loop_events.answer_of(event)
        mine.append(
            AnswerRecord(
                id=row.id,
                person=person,
                label=None if label is SKIP else label,
                unsure=label is SKIP,
                at=row.at,
                undone=False,
                settles=row.kind == "settled",
            )
        )
    return answers
