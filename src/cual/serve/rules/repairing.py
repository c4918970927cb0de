"""Classes of an agent renamed, merged and removed by an administrator: each makes the next version.

Only what is done at once: renaming, and what a head does in closed form. A head that has to be trained again
would keep everybody waiting: merging and removing are only checked here then, and `repair_jobs` has a worker do
it, as it does teaching, forgetting and splitting. What a change means for an agent is in `cual.repair`.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.agent import Agent
from cual.data.labels import ClassNames
from cual.errors import Conflict
from cual.heads import JoinsClasses
from cual.repair.classes import check_merge, check_removal
from cual.serve.rules import agents, audit
from cual.serve.rules.checks import check_label, check_text, needs
from cual.serve.rules.records import AgentRecord, Person, Role
from cual.serve.rules.removing import OVER
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label, Row

LONGEST_REASON = 1000
n, k = db.class_notes.c, db.class_keys.c


def at_once(home: Home, agent: int) -> bool:
    """Whether the head of an agent merges and removes classes in closed form."""
    with home.database.reading() as connection:
        current: int = agents.ready(connection, agent).current
    return isinstance(agents.load(home, agent, current).head, JoinsClasses)


def rename(
    home: Home, agent: int, label: Label, to: Label, person: Person, why: str = "", meant: bool = False
) -> AgentRecord:
    """Give a class another name; what people are told of it, and their keys, go with it."""
    base, before = _current(home, agent, person)
    others = ClassNames(tuple(name for name in before.names.names if name != label))
    after = before.rename_class(label, check_label(to, others, meant), person.name, reason(why))
    return _commit(home, agent, base, after, person, "rename class")


def merge(
    home: Home, agent: int, into: Label, others: Sequence[Label], person: Person, why: str = ""
) -> AgentRecord | None:
    """Make classes part of another one; None where the head has to be trained again, and nothing is done."""
    base, before = _current(home, agent, person)
    if not isinstance(before.head, JoinsClasses):
        check_merge(before, into, tuple(others))
        return None
    after = before.merge_classes(into, *others, person=person.name, why=reason(why))
    return _commit(home, agent, base, after, person, "merge classes")


def remove(
    home: Home, agent: int, label: Label, person: Person, leave_spread: bool = False, why: str = ""
) -> AgentRecord | None:
    """Remove a class; None where the head has to be trained again, and nothing is done.

    With `leave_spread` also where not all of its samples are in the agent's memory.
    """
    base, before = _current(home, agent, person)
    if not isinstance(before.head, JoinsClasses):
        check_removal(before, label)
        return None
    after = before.remove_class(label, exact=not leave_spread, person=person.name, why=reason(why))
    return _commit(home, agent, base, after, person, "remove class")


def _current(home: Home, agent: int, person: Person) -> tuple[int, Agent]:
    """The current version that an administrator changes, unless somebody works with it; and its number."""
    needs(person, Role.admin)
    with home.database.reading() as connection:
        base = free(connection, agent)
    return base, agents.load(home, agent, base)


def _commit(home: Home, agent: int, base: int, after: Agent, person: Person, action: str) -> AgentRecord:
    """Make it the current version, unless somebody has begun something or made another meanwhile."""
    row = {name: value for name, value in after.history[-1].items() if name != "version"}
    values = agents.values_of(after) | {"parent": base, "change": row}
    file = agents.unfinished(home, after)
    try:
        with home.database.writing() as connection:
            connection.execute(sa.select(db.agents.c.id).where(db.agents.c.id == agent).with_for_update())
            if free(connection, agent) != base:
                raise Conflict(
                    "another version has become the current one meanwhile; look at it, and try again"
                )
            number = agents.add_version(home, connection, agent, file, values, at_once=True)
            if row["change"] == "renamed":
                _follow(connection, agent, row)
            details = {name: value for name, value in row.items() if name not in ("person", "change")}
            audit.write(connection, person, action, "agent", agent, version_made=number, **details)
    finally:
        file.unlink(missing_ok=True)
    return agents.one(home, agent)


def _follow(connection: Connection, agent: int, row: Row) -> None:
    """Let what people are told of a class, and their keys, go with its new name."""
    mine, label, new = n.agent == agent, row["class"], row["to"]
    there = connection.execute(sa.select(n.id).where(mine, n.label == new)).one_or_none()
    if there is None:
        connection.execute(sa.update(db.class_notes).where(mine, n.label == label).values(label=new))
    connection.execute(sa.update(db.class_keys).where(k.agent == agent, k.label == label).values(label=new))


def free(connection: Connection, agent: int) -> int:
    """The current version of an agent that no adaptation is under way with: it would bring back old classes."""
    current: int = agents.ready(connection, agent).current
    a = db.adaptations.c
    going = sa.select(a.id).where(a.agent == agent, a.state.not_in(OVER)).order_by(a.id)
    numbers: list[Any] = list(connection.execute(going).scalars())
    if numbers:
        listed = ", ".join(map(str, numbers))
        many = f"adaptations {listed} are" if len(numbers) > 1 else f"adaptation {listed} is"
        raise Conflict(f"{many} under way with this agent; finish or drop what is under way first")
    return current


def reason(text: str) -> str | None:
    return check_text(text, "a reason", LONGEST_REASON) or None
