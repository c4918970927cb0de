"""Questions and answers: who is lent what, what counts, what can be undone. The learner is not touched here.

Answers are only ever added. What counts for a question is kept beside it and written with every answer: the
latest answer of whoever settled it, else of the first person who answered.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import BudgetExceeded, Conflict, NotFound
from cual.labels import SKIP, Answer, ClassNames
from cual.serve import adaptations, agents, jobs
from cual.serve import tables as db
from cual.serve.home import Home, check_label, found, needs
from cual.serve.records import AdaptationRecord, AnswerRecord, Person, QuestionRecord, Role

MOST_LENT = 1000
"""Questions that one call lends at most."""
q, a = db.questions.c, db.answers.c


def lend(home: Home, adaptation: int, person: Person, n: int) -> list[QuestionRecord]:
    """Up to `n` open questions: what is lent to the person already, then free ones, most useful first."""
    needs(person, Role.annotator)
    n = max(0, min(int(n), MOST_LENT))
    with home.database.writing() as c:
        held = adaptations.locked(c, adaptation)
        if held.state != "asking":
            return []
        moment = db.now()
        passed = sa.exists().where(db.passes.c.question == q.id, db.passes.c.person == person.id)
        free = sa.or_(q.lent_to.is_(None), q.lent_to == person.id, q.lent_until <= moment)
        here = (q.adaptation == adaptation, q.round == held.round, sa.not_(q.answered), free)
        wanted = sa.select(db.questions, passed.label("passed")).where(*here)
        theirs_first = sa.case((q.lent_to == person.id, 0), else_=1)
        rows = c.execute(wanted.order_by(passed, theirs_first, q.position).limit(n)).all()
        chosen = [row for row in rows if row.passed == rows[0].passed]
        until = moment + timedelta(seconds=home.lend_seconds)
        lent = sa.update(db.questions).where(q.id.in_(adaptations.ids(chosen)))
        c.execute(lent.values(lent_to=person.id, lent_until=until))
        place = {row.id: i for i, row in enumerate(chosen)}
        return sorted(_records(c, list(place)), key=lambda record: place[record.id])


def give_back(home: Home, adaptation: int, person: Person, questions: Sequence[int]) -> None:
    """Leave questions to somebody else; they come back to this person when nothing else is left."""
    needs(person, Role.annotator)
    with home.database.writing() as c:
        adaptations.locked(c, adaptation)
        for row in _asked(c, adaptation, questions):
            if row.lent_to == person.id:
                c.execute(sa.update(db.questions).where(q.id == row.id).values(lent_to=None, lent_until=None))
            p = db.passes.c
            there = c.execute(sa.select(p.question).where(p.question == row.id, p.person == person.id))
            if there.one_or_none() is None:
                c.execute(sa.insert(db.passes).values(question=row.id, person=person.id))


def answer(
    home: Home, adaptation: int, person: Person, answers: Mapping[int, Answer | Any], grace: float = 0
) -> AdaptationRecord:
    """Write answers down, all or none. Whoever answers last in a round sets the learner going after `grace`."""
    needs(person, Role.annotator)
    with home.database.writing() as c:
        held = adaptations.locked(c, adaptation)
        adaptations.check_going(held)
        names = ClassNames(agents.classes(c, held.agent, held.base_version))
        rows = _asked(c, adaptation, list(answers))
        said = {k: None if v is SKIP else check_label(v, names) for k, v in answers.items()}
        _write(c, held, person, {row.id: said[row.id] for row in rows}, grace=grace)
    return adaptations.one(home, adaptation)


def settle(home: Home, question: int, person: Person, label: Answer | Any) -> QuestionRecord:
    """Settle a disagreement: from now on this counts, whoever was first."""
    needs(person, Role.annotator)
    with home.database.writing() as c:
        adaptation = found(c, sa.select(q.adaptation).where(q.id == question), f"question {question}")[0]
        held = adaptations.locked(c, adaptation)
        adaptations.check_going(held)
        names = ClassNames(agents.classes(c, held.agent, held.base_version))
        said = None if label is SKIP else check_label(label, names)
        _write(c, held, person, {question: said}, settles=True)
        return _records(c, [question])[0]


def undo(home: Home, adaptation: int, person: Person) -> QuestionRecord:
    """Take back a person's last answer, as long as the learner has not used it."""
    needs(person, Role.annotator)
    with home.database.writing() as c:
        held = adaptations.locked(c, adaptation)
        adaptations.check_going(held)
        mine = sa.select(db.answers).where(
            a.adaptation == adaptation, a.person == person.id, a.undone_at.is_(None)
        )
        last = c.execute(mine.order_by(a.id.desc()).limit(1)).one_or_none()
        if last is None:
            raise NotFound(f"{person.name} has given no answer that could be undone")
        job = jobs.active(c, adaptation)
        if last.id <= held.told or (job is not None and job.state == "running"):
            raise Conflict("the learner is already using that answer; correct it instead")
        c.execute(sa.update(db.answers).where(a.id == last.id).values(undone_at=db.now()))
        _update(c, [last.question])
        counts = _within_budget(c, held)
        adaptations.changed(c, held)
        if held.state == "thinking" and counts.open:
            if not jobs.cancel(c, adaptation):
                raise Conflict("the learner is already using that answer; correct it instead")
            adaptations.set_state(c, adaptation, "asking")
        until = db.now() + timedelta(seconds=home.lend_seconds)
        again = sa.update(db.questions).where(q.id == last.question, sa.not_(q.answered))
        c.execute(again.values(lent_to=person.id, lent_until=until))
        return _records(c, [last.question])[0]


def every(
    home: Home,
    adaptation: int,
    round: int | None = None,
    answered: bool | None = None,
    disagreement: bool | None = None,
) -> list[QuestionRecord]:
    """Questions of an adaptation in the order asked: all, or those of a round, answered or not, in dispute."""
    with home.database.reading() as c:
        adaptations.get(c, adaptation)
        wanted = sa.select(q.id).where(q.adaptation == adaptation)
        for column, value in ((q.round, round), (q.answered, answered), (q.disagreement, disagreement)):
            wanted = wanted if value is None else wanted.where(column == value)
        return _records(c, list(c.execute(wanted).scalars()))


def one(home: Home, question: int) -> QuestionRecord:
    with home.database.reading() as c:
        found(c, sa.select(q.id).where(q.id == question), f"question {question}")
        return _records(c, [question])[0]


# -- inside ----------------------------------------------------------------------------------------------------


def _asked(c: Connection, adaptation: int, wanted: Sequence[int]) -> list[Row[Any]]:
    """The rows of questions, all of which must be this adaptation's."""
    rows = {
        row.id: row for row in _in_parts(c, sa.select(db.questions).where(q.adaptation == adaptation), wanted)
    }
    missing = next((k for k in wanted if k not in rows), None)
    if missing is not None:
        raise NotFound(f"adaptation {adaptation} has no question {missing}")
    return [rows[k] for k in wanted]


def _write(
    c: Connection,
    held: Row[Any],
    person: Person,
    said: Mapping[int, Any],
    settles: bool = False,
    grace: float = 0,
) -> None:
    """Add the answers that say something new; a round without open questions is over."""
    latest = {row.question: row for row in _given(c, list(said)) if row.person == person.id}
    new: list[dict[str, Any]] = []
    for question, label in said.items():
        before = latest.get(question)
        if before is None or before.label != label or (settles and not before.settles):
            new.append({"question": question, "label": label})
    if not new:
        return
    common = {"adaptation": held.id, "person": person.id, "settles": settles, "created_at": db.now()}
    c.execute(sa.insert(db.answers), [{**row, **common} for row in new])
    _update(c, [row["question"] for row in new])
    counts = _within_budget(c, held)
    adaptations.changed(c, held)  # a job that has not seen it does not count
    if held.state == "asking" and not counts.open:
        adaptations.set_state(c, held.id, "thinking")
        jobs.add(c, "advance", adaptation=held.id, grace=max(0.0, grace))


def _within_budget(c: Connection, held: Row[Any]) -> adaptations.Counts:
    """As `Adaptation.tell` does: what is paid for and what is promised must fit."""
    counts = adaptations.count(c, held)
    if counts.spent + counts.open > held.budget:
        raise BudgetExceeded(
            f"the budget of {held.budget} labels has no room for an answer in place of 'unsure': "
            f"with it {counts.spent} would be used and {counts.open} are promised to open questions"
        )
    return counts


def _update(c: Connection, questions: Sequence[int]) -> None:
    """Write down what the answers to some questions come to; nobody need hold on to them any longer."""
    given: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in _given(c, questions):
        given[row.question].append(row)
    for question in questions:
        label, disagreement = counts(given[question])
        values = {"answered": bool(given[question]), "label": label, "disagreement": disagreement}
        values |= {"lent_to": None, "lent_until": None}
        c.execute(sa.update(db.questions).where(q.id == question).values(**values))


def counts(given: Sequence[Any]) -> tuple[Any, bool]:
    """The label that counts among answers (`person`, `label`, `settles`), and whether people differ."""
    if not given:
        return None, False
    settlers = [row.person for row in given if row.settles]
    latest = {row.person: row.label for row in given}
    if settlers:
        return latest[settlers[-1]], False
    return latest[given[0].person], len({repr(label) for label in latest.values()}) > 1


def _given(c: Connection, questions: Sequence[int]) -> list[Row[Any]]:
    """Answers to some questions that are not undone, in the order given."""
    rows = _in_parts(c, sa.select(db.answers).where(a.undone_at.is_(None)), questions, a.question)
    return sorted(rows, key=lambda row: row.id)


def _in_parts(
    c: Connection, wanted: sa.Select[Any], keys: Sequence[int], column: Any = q.id
) -> Iterable[Row[Any]]:
    """Rows whose `column` is one of many keys: databases take only so many at a time."""
    for start in range(0, len(keys), 500):
        yield from c.execute(wanted.where(column.in_(list(keys[start : start + 500]))))


def _records(c: Connection, questions: Sequence[int]) -> list[QuestionRecord]:
    """Questions with all their answers, in the order asked."""
    names = {row.id: row.name for row in c.execute(sa.select(db.people.c.id, db.people.c.name))}
    answers: dict[int, list[AnswerRecord]] = defaultdict(list)
    for row in sorted(_in_parts(c, sa.select(db.answers), questions, a.question), key=lambda r: r.id):
        answers[row.question].append(
            AnswerRecord(
                id=row.id,
                person=names[row.person],
                label=row.label,
                unsure=row.label is None,
                at=row.created_at,
                undone=row.undone_at is not None,
                settles=row.settles,
            )
        )
    rows = sorted(_in_parts(c, sa.select(db.questions), questions), key=lambda r: (r.round, r.position))
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
