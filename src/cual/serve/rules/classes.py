"""What people are told of a class while they label: its description, its colour, examples of it.

Notes belong to an agent and a name, and stay when versions come and go. Which key a class has for whom is in
`class_keys`; how a class is found by typing is in `finding`.
"""

import colorsys
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.data.labels import SKIP
from cual.errors import BadOption, NotFound
from cual.loop import events as loop_events
from cual.serve.rules import agents, audit
from cual.serve.rules.checks import check_text, needs
from cual.serve.rules.records import ClassRecord, ExampleRecord, Person, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label

LONGEST_DESCRIPTION = 1000
MOST_CHOSEN = 6
"""Examples that somebody may choose for a class."""
MOST_SHOWN = 12
RECENT = 200
"""Answers that are looked through for the classes that somebody used last."""
n, q, a, v = db.class_notes.c, db.questions.c, db.adaptations.c, db.versions.c


def every(home: Home, agent: int) -> list[ClassRecord]:
    """All classes of an agent: those that its current version knows, and those that answers named since."""
    with home.database.reading() as connection:
        current = _current(connection, agent)
        known = agents.classes(connection, agent, current)
        given = [label for label in named(connection, agent, current) if label not in set(known)]
        return _records(connection, agent, [*known, *given])


def some(home: Home, agent: int, labels: Sequence[Label]) -> list[ClassRecord]:
    """What is told of these classes, in their order."""
    with home.database.reading() as connection:
        return _records(connection, agent, labels)


def describe(
    home: Home,
    agent: int,
    label: Label,
    person: Person,
    description: str | None = None,
    colour: str | None = None,
    examples: Sequence[tuple[int, int]] | None = None,
) -> ClassRecord:
    """Write down what a class is; None leaves a part as it is.

    Parameters
    ----------
    colour
        As ``#rrggbb``; an empty text goes back to the usual one.
    examples
        Samples as (pool, row).
    """
    needs(person, Role.admin)
    values: dict[str, Any] = {}
    if description is not None:
        values["description"] = check_text(description, "a description", LONGEST_DESCRIPTION)
    if colour is not None:
        if colour and not re.fullmatch(r"#[0-9a-fA-F]{6}", colour):
            raise BadOption(f"a colour is written #rrggbb, not {colour[:20]!r}")
        values["colour"] = colour.lower() or None
    with home.database.writing() as connection:
        one_row(
            connection,
            sa.select(db.agents.c.id).where(db.agents.c.id == agent).with_for_update(),
            f"agent {agent}",
        )
        if label not in names(connection, agent):
            raise NotFound(f"agent {agent} has no class {str(label)[:100]!r}")
        if examples is not None:
            values["examples"] = _checked(connection, examples)
        before = connection.execute(_note(agent, label)).one_or_none()
        if before is None:
            blank = {"description": "", "colour": None, "examples": []}
            connection.execute(sa.insert(db.class_notes).values(agent=agent, label=label, **(blank | values)))
        elif values:
            connection.execute(sa.update(db.class_notes).where(n.id == before.id).values(**values))
        if before is None or any(getattr(before, name) != value for name, value in values.items()):
            audit.write(
                connection, person, "describe class", "agent", agent, label=label, changed=sorted(values)
            )
        return _records(connection, agent, [label])[0]


def recent(home: Home, agent: int, person: Person) -> list[Label]:
    """Classes that a person answered with, in any adaptation of an agent, the latest first."""
    e = db.events.c
    wanted = sa.select(db.events).join(db.adaptations, a.id == e.adaptation)
    wanted = wanted.where(a.agent == agent, e.person == person.id, e.kind.in_(loop_events.ANSWERS))
    with home.database.reading() as connection:
        rows = connection.execute(wanted.order_by(e.id.desc()).limit(RECENT)).all()
    answers = (loop_events.answer_of(events.as_event(row)) for row in rows)
    return list(dict.fromkeys(answer for answer in answers if answer is not SKIP))


# -- for the other modules -------------------------------------------------------------------------------------


def names(connection: Connection, agent: int) -> set[Label]:
    """All classes that any version of an agent knows, or an answer names."""
    known = connection.execute(sa.select(v.classes).where(v.agent == agent)).scalars()
    return {label for classes in known for label in classes} | set(named(connection, agent))


def named(connection: Connection, agent: int, version: int | None = None) -> list[Label]:
    """What answers name, in the order of the questions: of all adaptations, or of those of a version."""
    wanted = sa.select(q.label).join(db.adaptations, a.id == q.adaptation)
    wanted = wanted.where(a.agent == agent, q.label.is_not(None), a.state != "dropped")
    if version is not None:
        wanted = wanted.where(a.base_version == version)
    return list(connection.execute(wanted.group_by(q.label).order_by(sa.func.min(q.id))).scalars())


def usual_colour(label: Label) -> str:
    """A colour that a name always has, in a brightness that shows on light and dark.

    >>> usual_colour("owl") == usual_colour("owl"), usual_colour("owl") == usual_colour("bat")
    (True, False)
    """
    digest = hashlib.sha256(str(label).encode()).digest()
    hue, light = digest[0] / 256, 0.42 + 0.16 * digest[1] / 256
    parts = colorsys.hls_to_rgb(hue, light, 0.65)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


# -- inside ----------------------------------------------------------------------------------------------------


def _current(connection: Connection, agent: int) -> int:
    wanted = sa.select(db.agents.c.current).where(db.agents.c.id == agent)
    return one_row(connection, wanted, f"agent {agent}")[0]


def _note(agent: int, label: Label) -> sa.Select[Any]:
    return sa.select(db.class_notes).where(n.agent == agent, n.label == label)


def _checked(connection: Connection, examples: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Examples as they are kept, each a row that its pool has."""
    if len(examples) > MOST_CHOSEN:
        raise BadOption(f"at most {MOST_CHOSEN} examples are chosen for a class")
    sizes = _sizes(connection, {pool for pool, _ in examples})
    for pool, row in examples:
        if not 0 <= row < sizes.get(pool, 0):
            raise NotFound(f"pool {pool} has no row {row}")
    return [[pool, row] for pool, row in dict.fromkeys(examples)]


def _sizes(connection: Connection, pools: Iterable[int]) -> dict[int, int]:
    """How many samples the pools have that are still there."""
    p = db.pools.c
    wanted = sa.select(p.id, p.size).where(p.id.in_(list(pools)), p.state != "removed")
    return {row.id: row.size for row in connection.execute(wanted)}


def _records(connection: Connection, agent: int, labels: Sequence[Label]) -> list[ClassRecord]:
    notes = {
        row.label: row for row in connection.execute(sa.select(db.class_notes).where(n.agent == agent)).all()
    }
    there = _sizes(connection, {pool for row in notes.values() for pool, _ in row.examples})
    answered = _answered(connection, agent)
    records: list[ClassRecord] = []
    for label in labels:
        note = notes.get(label)
        chosen = [] if note is None else [(pool, row) for pool, row in note.examples if pool in there]
        others = [place for place in answered.get(label, []) if place not in chosen]
        examples = [ExampleRecord(*place, chosen=True) for place in chosen]
        examples += [ExampleRecord(*place, chosen=False) for place in others]
        records.append(
            ClassRecord(
                label,
                "" if note is None else note.description,
                (None if note is None else note.colour) or usual_colour(label),
                examples[:MOST_SHOWN],
            )
        )
    return records


def _answered(connection: Connection, agent: int) -> dict[Label, list[tuple[int, int]]]:
    """A few samples that people gave each label, nobody disagreeing, the latest first."""
    place = sa.func.row_number().over(partition_by=q.label, order_by=q.id.desc()).label("place")
    wanted = sa.select(q.label, a.pool, q.row, place).join(db.adaptations, a.id == q.adaptation)
    wanted = wanted.join(db.pools, db.pools.c.id == a.pool).where(db.pools.c.state != "removed")
    wanted = wanted.where(a.agent == agent, q.label.is_not(None), sa.not_(q.disagreement)).subquery()
    latest = sa.select(wanted).where(wanted.c.place <= MOST_SHOWN).order_by(wanted.c.label, wanted.c.place)
    places: dict[Label, list[tuple[int, int]]] = {}
    for row in connection.execute(latest):
        places.setdefault(row.label, []).append((row.pool, row.row))
    return {label: list(dict.fromkeys(rows)) for label, rows in places.items()}
