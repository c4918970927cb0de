"""Questions and answers: what is written down, and what counts. The learner is not touched here.

Answers are events, which are only ever added. What they come to is decided in `cual.loop.state`; it is kept
beside each question, so that the database can look for open ones. Who is lent what is in `lending`, taking
answers back in `undoing`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.labels import SKIP, Answer, ClassNames
from cual.errors import NotAllowed, NotFound
from cual.loop import events as loop_events
from cual.loop.state import State
from cual.serve.rules import adaptations, agents, audit, gold, jobs
from cual.serve.rules.checks import check_labels, needs
from cual.serve.rules.records import AdaptationRecord, AnswerRecord, Person, QuestionRecord, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label
from cual.types import Row as EventRow

q, loan = db.questions.c, db.loans.c


def answer(
    home: Home,
    adaptation: int,
    person: Person,
    answers: Mapping[int, Answer | Any],
    grace: float = 0,
    meant: bool = False,
) -> AdaptationRecord:
    """Write answers down, all or none. Whoever answers last in a round sets the learner going after `grace`."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        row = adaptations.locked(connection, adaptation)
        adaptations.check_going(row)
        labels = _checked(home, connection, row, answers, meant)
        ordinary = gold.answered(connection, row, person, labels)
        _write(home, connection, row, person, ordinary, grace=grace)
    return adaptations.one(home, adaptation)


def settle(
    home: Home, question: int, person: Person, label: Answer | Any, meant: bool = False
) -> QuestionRecord:
    """Settle a disagreement: from now on this counts, whoever was first.

    Whoever is a party to it leaves that to others, unless the adaptation allows it.
    """
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        adaptation = one_row(
            connection, sa.select(q.adaptation).where(q.id == question), f"question {question}"
        )[0]
        row = adaptations.locked(connection, adaptation)
        adaptations.check_going(row)
        _check_party(home, connection, row, question, person)
        labels = _checked(home, connection, row, {question: label}, meant)
        _write(home, connection, row, person, labels, settle=True)
        return records(connection, [question])[0]


def _checked(
    home: Home, connection: Connection, row: Row[Any], answers: Mapping[int, Any], meant: bool
) -> dict[int, Answer]:
    return check_labels(answers, class_names(home, connection, row), meant)


def class_names(home: Home, connection: Connection, row: Row[Any]) -> ClassNames:
    """Classes of the version that an adaptation builds on, and those that were named in it."""
    names = ClassNames(agents.classes(connection, row.agent, row.base_version))
    for label in home.states.of(connection, row.id).new_classes:
        names = names.plus(label)
    return names


def _check_party(home: Home, connection: Connection, row: Row[Any], question: int, person: Person) -> None:
    """Refuse to let somebody settle what they have answered themselves."""
    (asked_about,) = asked(connection, row.id, [question])
    state = home.states.of(connection, row.id)
    if state.questions[asked_about.sample].concerns(person.id) and not row.own_disputes:
        raise NotAllowed(
            f"{person.name} has answered this question: somebody else settles it, "
            "or an administrator allows people to settle their own disagreements"
        )


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
        weights = home.states.of(connection, adaptation).weights
        wanted = sa.select(q.id).where(q.adaptation == adaptation)
        for column, value in ((q.round, round), (q.answered, answered), (q.disagreement, disagreement)):
            wanted = wanted if value is None else wanted.where(column == value)
        return records(connection, list(connection.execute(wanted).scalars()), weights)


def one(home: Home, question: int) -> QuestionRecord:
    with home.database.reading() as connection:
        one_row(connection, sa.select(q.id).where(q.id == question), f"question {question}")
        return records(connection, [question])[0]


# -- inside ----------------------------------------------------------------------------------------------------


def asked(connection: Connection, adaptation: int, wanted: Sequence[int]) -> list[Row[Any]]:
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
    labels: Mapping[int, Answer],
    settle: bool = False,
    grace: float = 0,
) -> None:
    """Write answers down, by question, as the events that they come to; a round without open ones is over."""
    rows = asked(connection, row.id, list(labels))
    state = home.states.of(connection, row.id)
    new = [
        event
        for question in rows
        for event in state.answering(question.query, {question.sample: labels[question.id]}, person.id, settle)
    ]
    if not new:
        return
    after = append(connection, row, state, new, {question.sample: question.id for question in rows})
    if settle:
        (question,) = rows
        audit.write(connection, person, "settle", "question", question.id, adaptation=row.id)
    else:
        numbers = [question.id for question in rows]
        audit.write(connection, person, "answer", "adaptation", row.id, questions=numbers)
    if row.state == "asking" and not after.open:
        adaptations.set_state(connection, row.id, "thinking")
        jobs.add(connection, "advance", adaptation=row.id, grace=max(0.0, grace))


def append(
    connection: Connection, row: Row[Any], state: State, new: Sequence[EventRow], numbers: Mapping[Label, int]
) -> State:
    """Add events of people, if the budget has room for them, and what they come to; the state after them."""
    after = state.after(new)
    after.check_budget()
    events.append(connection, row.id, new, numbers)
    for event in new:
        mine = (loan.question == numbers[event["sample"]], loan.person == event.get("person"))
        connection.execute(sa.delete(db.loans).where(*mine))
    index(connection, row.id, state, after, [event["sample"] for event in new])
    adaptations.changed(connection, row)  # a job that has not seen them does not count
    return after


def index(
    connection: Connection, adaptation: int, before: State, after: State, samples: Iterable[Label]
) -> None:
    """Write beside these questions what their answers come to, and beside others whose answer that changes."""
    told, then = after.answers, before.answers
    changed = dict.fromkeys([*samples, *(k for k in told if after.several and told[k] != then.get(k))])
    numbers = numbers_of(connection, adaptation, list(changed))
    for sample in changed:
        question, answer = after.questions.get(sample), told.get(sample)
        if question is None or sample not in numbers:  # it was of no question, and is taken back
            continue
        values = {
            "answered": not question.missing,
            "label": None if answer is SKIP else answer,
            "disagreement": question.disagreement,
            "missing": question.missing,
            "cost": question.cost,
        }
        connection.execute(sa.update(db.questions).where(q.id == numbers[sample]).values(**values))
        if not question.missing:  # nobody need hold on to it any longer
            connection.execute(sa.delete(db.loans).where(loan.question == numbers[sample]))


def numbers_of(connection: Connection, adaptation: int, samples: Sequence[Label]) -> dict[Label, int]:
    """Which question each sample is."""
    wanted = sa.select(q.sample, q.id).where(q.adaptation == adaptation)
    return {row.sample: row.id for row in _in_parts(connection, wanted, samples, q.sample)}


def _in_parts(
    connection: Connection, wanted: Any, keys: Sequence[Label], column: Any = q.id
) -> Iterable[Row[Any]]:
    """Rows whose `column` is one of many keys: databases take only so many at a time."""
    for start in range(0, len(keys), 500):
        yield from connection.execute(wanted.where(column.in_(list(keys[start : start + 500]))))


def records(
    connection: Connection, questions: Sequence[int], weights: Mapping[Label, float] | None = None
) -> list[QuestionRecord]:
    """Questions with all their answers, in the order asked; `weights` say how sure some are."""
    names = {row.id: row.name for row in connection.execute(sa.select(db.people.c.id, db.people.c.name))}
    answers = _answers(connection, questions, names)
    rows = sorted(
        _in_parts(connection, sa.select(db.questions), questions), key=lambda r: (r.round, r.position)
    )
    loans = _loans(connection, questions)
    same = ("id", "adaptation", "query", "round", "sample", "row", "score", "threshold", "zone", "suggestion")
    return [
        QuestionRecord(
            **{k: getattr(row, k) for k in same},
            lent_to=", ".join(sorted(names[held.person] for held in loans[row.id])) or None,
            lent_until=max((held.until for held in loans[row.id]), default=None),
            asked_at=row.created_at,
            disagreement=row.disagreement,
            answers=answers[row.id],
            effective=row.label,
            unsure=row.answered and row.label is None,
            missing=0 if row.answered else row.missing,
            weight=(weights or {}).get(row.sample),
        )
        for row in rows
    ]


def _loans(connection: Connection, questions: Sequence[int]) -> dict[int, list[Row[Any]]]:
    """Who has which question just now."""
    loans: dict[int, list[Row[Any]]] = defaultdict(list)
    wanted = sa.select(db.loans).where(loan.until > db.now())
    for row in _in_parts(connection, wanted, questions, loan.question):
        loans[row.question].append(row)
    return loans


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
