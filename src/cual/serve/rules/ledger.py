"""The ledger of an adaptation, with what only the service knows: the question's number, people's names."""

from typing import Any

import sqlalchemy as sa

from cual.serve.rules import adaptations
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Row

_FIRST = ("question", "query", "iteration", "sample", "row")


def ledger(home: Home, adaptation: int) -> list[Row]:
    """As `Adaptation.ledger`, with people: ``person`` gave the answer that counts."""
    q = db.questions.c
    with home.database.reading() as connection:
        adaptations.get(connection, adaptation)
        names = {row.id: row.name for row in connection.execute(sa.select(db.people.c.id, db.people.c.name))}
        asked = sa.select(q.sample, q.id, q.row).where(q.adaptation == adaptation)
        question_of = {row.sample: row for row in connection.execute(asked)}
        rows = home.states.of(connection, adaptation).ledger()
    return [_with_people(row, question_of[row["sample"]], names.get(row["person"])) for row in rows]


def _with_people(row: Row, question: Any, person: str | None) -> Row:
    whole = {**row, "question": question.id, "row": question.row, "person": person}
    return {name: whole.pop(name) for name in _FIRST} | whole
