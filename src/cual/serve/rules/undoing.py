"""Taking back an answer: at once while the learner has not used it, else by opening its round again.

What opening a round again comes to is decided in `cual.loop.state`; here it is told before, and done.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.labels import SKIP
from cual.errors import Conflict, NotFound
from cual.loop import events as loop_events
from cual.loop.state import Given, State
from cual.serve.rules import adaptations, audit, gold, jobs
from cual.serve.rules.checks import needs
from cual.serve.rules.lending import lend_again
from cual.serve.rules.questions import append, numbers_of, records
from cual.serve.rules.records import Person, QuestionRecord, Role, UndoRecord
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label
from cual.types import Row as Event

q = db.questions.c


def cost(home: Home, adaptation: int, person: Person) -> UndoRecord:
    """What taking back a person's last answer would come to."""
    needs(person, Role.annotator)
    with home.database.reading() as connection:
        row = adaptations.get(connection, adaptation)
        state = home.states.of(connection, adaptation)
        golden = _last_gold(connection, row, state, person)
        if golden is not None:
            return golden
        sample, given = _last(connection, row, state, person)
        question = numbers_of(connection, adaptation, [sample])[sample]
    return _cost(state, question, given)


def undo(home: Home, adaptation: int, person: Person, reopen: bool = False) -> QuestionRecord:
    """Take back a person's last answer, as long as no version was made of it.

    Parameters
    ----------
    reopen
        Open a round again that the learner has ended with the answer. Without it such an answer is not taken
        back, and the error says what it would cost.
    """
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        row = adaptations.locked(connection, adaptation)
        state = home.states.of(connection, adaptation)
        golden = _last_gold(connection, row, state, person)
        if golden is not None:
            return gold.undo(connection, row, person, golden.question)
        sample, given = _last(connection, row, state, person)
        numbers = numbers_of(connection, adaptation, [sample])
        again = state.reopening(given, person.id)
        if again is not None:
            price = _cost(state, numbers[sample], given)
            if not reopen:
                raise Conflict(f"{price.text} Say that you want that, or correct it instead")
            _reopen(connection, row, state, again)
            state = state.after([again])
            audit.write(connection, person, "reopen", "adaptation", adaptation, round=price.round)
        after = append(connection, row, state, [loop_events.undone(sample, person.id)], numbers)
        audit.write(connection, person, "undo", "question", numbers[sample], adaptation=adaptation)
        _go_on(connection, row, after, reopened=again is not None)
        lend_again(home, connection, numbers[sample], person)
        return records(connection, [numbers[sample]])[0]


def _last_gold(connection: Connection, row: Row[Any], state: State, person: Person) -> UndoRecord | None:
    """The same of an answer to a gold question, if that was the last one."""
    adaptations.check_going(row)
    last = state.last_answer(person.id)
    return gold.last_answer(
        connection, row.id, person, None if last is None else datetime.fromisoformat(last[1].at)
    )


def _last(connection: Connection, row: Row[Any], state: State, person: Person) -> tuple[Label, Given]:
    """The answer that would be taken back, if that can be."""
    adaptations.check_going(row)
    last = state.last_answer(person.id)
    if last is None:
        raise NotFound(f"{person.name} has given no answer that could be undone")
    job = jobs.active(connection, row.id)
    if job is not None and job.kind == "finish":
        raise Conflict("the next version is being made of the answers; roll back once it is there")
    if state.stopped and state.reopening(last[1]) is not None:
        raise Conflict("the learner has used that answer, and nobody is asked any more; correct it instead")
    return last


def _cost(state: State, question: int, given: Given) -> UndoRecord:
    again = state.reopening(given)
    round = state.opened - 1 if again is None else again["round"]
    later = [asked for asked in state.questions.values() if asked.round > round]
    withdrawn = sum(not asked.given for asked in later)
    kept = len(later) - withdrawn
    forgotten = len(state.believed) - len(state.after([] if again is None else [again]).believed)
    answer = None if given.answer is SKIP else given.answer
    text = "The learner has not used it: taking it back costs nothing."
    if again is not None:
        text = _sentences(round + 1, withdrawn, kept, forgotten)
    return UndoRecord(question, answer, again is not None, round, withdrawn, kept, forgotten, text)


def _sentences(round: int, withdrawn: int, kept: int, forgotten: int) -> str:
    """
    >>> _sentences(1, 3, 0, 0)
    'The learner has used that answer: it goes back to round 1. 3 open questions asked since are withdrawn.'
    """
    losses = [
        f"{_many(withdrawn, 'open question')} asked since {_are(withdrawn)} withdrawn" if withdrawn else "",
        f"{_many(forgotten, 'label')} that it gave by itself {_are(forgotten)} forgotten" if forgotten else "",
        f"{_many(kept, 'answer')} given since {'stays' if kept == 1 else 'stay'}" if kept else "",
    ]
    told = ", ".join(loss for loss in losses if loss)
    return f"The learner has used that answer: it goes back to round {round}. {told or 'Nothing is lost'}."


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _reopen(connection: Connection, row: Row[Any], state: State, again: Event) -> None:
    """Write down that a round is open again; questions asked since go, or belong to it now."""
    events.append(connection, row.id, [again])
    later = sa.and_(q.adaptation == row.id, q.round > again["round"])
    rows = connection.execute(sa.select(q.id, q.sample).where(later)).all()
    gone = [asked.id for asked in rows if not state.questions[asked.sample].given]
    for start in range(0, len(gone), 500):
        part = gone[start : start + 500]
        for table in (db.passes, db.answers, db.loans):
            connection.execute(sa.delete(table).where(table.c.question.in_(part)))
        # What was said of it and taken back stays; it is of no question now.
        told = db.events.c.question.in_(part)
        connection.execute(sa.update(db.events).where(told).values(question=None))
        connection.execute(sa.delete(db.questions).where(q.id.in_(part)))
    kept = sa.update(db.questions).where(later).values(round=again["round"], query=again["query"])
    connection.execute(kept)
    back = {"round": again["round"], "ended": None, "merges": None, "outlook": None}
    connection.execute(sa.update(db.adaptations).where(db.adaptations.c.id == row.id).values(**back))


def _go_on(connection: Connection, row: Row[Any], after: State, reopened: bool) -> None:
    """Ask again what is open; or let the learner go on, where only a correction was taken back."""
    if row.state == "failed" or not (reopened or row.state == "thinking"):
        return
    if after.open:
        jobs.cancel(connection, row.id, running=True)  # what it computes just now, it computes with the answer
        adaptations.set_state(connection, row.id, "asking")
    elif jobs.active(connection, row.id) is None:
        adaptations.set_state(connection, row.id, "thinking")
        jobs.add(connection, "advance", adaptation=row.id)
