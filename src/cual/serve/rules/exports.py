"""Labels of a workspace, to be taken elsewhere: whose, and that it was done. `cual.export` writes the files.

What a label row is, `cual.loop.labels` says. Whoever may see labels on the page may take them along, and every
time it is written down.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy import Row as TableRow

from cual.data.plain import Value
from cual.errors import BadOption, NotFound
from cual.export import Labels, formats
from cual.loop.labels import NOWHERE, LabelRow, Origins, Place, label_rows, whole_numbers
from cual.serve.rules import adaptations, agents, audit, pool_columns
from cual.serve.rules.checks import needs
from cual.serve.rules.records import Person, Role, ThingKind
from cual.serve.rules.views import Views
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label

FOLDER = "folder"
"""The format of a folder of links, which only the command line makes."""
JUDGED = ("believed", "reopened", "confirmed", "rejected", "unjudged")
"""Kinds of events that tell where pseudo-labels and verdicts come from."""
a = db.adaptations.c


def export(
    home: Home,
    views: Views,
    person: Person,
    adaptation: int | None = None,
    agent: int | None = None,
    everything: bool = False,
    format: str = "csv",
    columns: bool = False,
) -> Labels:
    """The labels of one adaptation, of all of an agent, or of all; of a dropped one only where it is named.

    With `columns`, also what the pools' tables say of the samples.
    """
    needs(person, Role.reader)
    if adaptation is not None and agent is not None:
        raise BadOption("give an adaptation or an agent, not both")
    if format != FOLDER:
        formats[format].check()
    kind: ThingKind = "adaptation" if adaptation is not None else "agent" if agent is not None else "workspace"
    thing = agent if adaptation is None else adaptation
    if agent is not None:
        agents.one(home, agent)
    with home.database.writing() as connection:  # first: nobody gets labels and leaves no trace
        wanted = _wanted(connection, adaptation, agent)
        details = {"format": format, "everything": everything, "adaptations": [row.id for row in wanted]}
        details |= {"columns": True} if columns else {}
        audit.write(connection, person, "export", kind, thing, **details)
    with home.database.reading() as connection:
        states = (home.states.of(connection, row.id) for row in wanted)
        numbers = reduce(frozenset.intersection, map(whole_numbers, states), frozenset(("sample", "label")))
    rows = (label for row in wanted for label in _of_one(home, views, row, everything))
    if not columns:
        return Labels(rows, numbers)
    with pool_columns.Readers(home) as readers:
        more = tuple(dict.fromkeys(name for row in wanted for name in readers.names(row.pool)))
    return Labels(rows, numbers, more, partial(_beside, home, more))


def _beside(home: Home, names: Sequence[str], rows: Sequence[LabelRow]) -> list[list[Value]]:
    """What the pools' tables say of some samples, in these columns; nothing where a row is not known."""
    with pool_columns.Readers(home) as readers:
        known = ({} if row.pool is None or row.row is None else readers.get(row.pool, row.row) for row in rows)
        return [[columns.get(name) for name in names] for columns in known]


def _wanted(connection: Connection, adaptation: int | None, agent: int | None) -> list[TableRow[Any]]:
    if adaptation is not None:
        return [adaptations.get(connection, adaptation)]
    chosen = sa.select(db.adaptations).where(a.state != "dropped").order_by(a.id)
    return list(connection.execute(chosen if agent is None else chosen.where(a.agent == agent)))


def _of_one(home: Home, views: Views, row: TableRow[Any], everything: bool) -> Iterator[LabelRow]:
    """The labels of one adaptation as they are now; the database is not held while they are taken."""
    names, people = _numbers_of(row), {None: None}
    origins = Origins()
    with home.database.reading() as connection:
        state = home.states.of(connection, row.id)
        for event in events.stream(connection, row.id, JUDGED):
            origins.apply(event)
        wanted = sa.select(db.people.c.id, db.people.c.name)
        people |= {found.id: found.name for found in connection.execute(wanted)}
        q = db.questions.c
        asked = sa.select(q.sample, q.row).where(q.adaptation == row.id)
        places = {found.sample: Place(found.row) for found in connection.execute(asked)}
    place_of = _places(views, row.id, places)
    for label in label_rows(state, origins, everything, place_of):
        yield label._replace(person=people.get(label.person), **names)


def _numbers_of(row: TableRow[Any]) -> dict[str, int | None]:
    """What the rows of an adaptation have in common."""
    return {"adaptation": row.id, "agent": row.agent, "pool": row.pool, "version": row.result_version}


def _places(views: Views, adaptation: int, asked: Mapping[Label, Place]) -> Callable[[Label], Place]:
    """Rows of the pool, of questions and, with their doubts, of what is believed."""
    try:
        view = views.get(adaptation)
    except NotFound:  # what the learner left is gone; the events are all there
        view = None
    if view is None:
        return lambda sample: asked.get(sample, NOWHERE)
    row_of = {sample: row for row, sample in view.samples.items()}

    def find(sample: Label) -> Place:
        row = row_of.get(sample)
        return asked.get(sample, NOWHERE) if row is None else Place(row, float(view.doubts[row]))

    return find
