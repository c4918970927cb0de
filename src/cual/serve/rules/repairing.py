"""Classes of an agent renamed, merged and removed by an administrator: each makes the next version.

Only what a head does in closed form, at once. A head that trains would keep everybody waiting: that is done on
the command line (`cual merge`), and what comes of it uploaded. What it means for an agent is in `cual.repair`;
what takes a worker (teaching, forgetting, splitting) in `repair_jobs`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.agent import Agent
from cual.data.labels import ClassNames
from cual.errors import Conflict
from cual.heads import JoinsClasses
from cual.serve.rules import agents, audit
from cual.serve.rules.checks import check_label, check_text, needs
from cual.serve.rules.records import AgentRecord, Person, Role
from cual.serve.rules.removing import OVER
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label, Row

LONGEST_REASON = 1000
n, k = db.class_notes.c, db.class_keys.c


def rename(
    home: Home, agent: int, label: Label, to: Label, person: Person, why: str = "", meant: bool = False
) -> AgentRecord:
    """Give a class another name; what people are told of it, and their keys, go with it."""

    def change(before: Agent) -> Agent:
        others = ClassNames(tuple(name for name in before.names.names if name != label))
        return before.rename_class(label, check_label(to, others, meant), person.name, reason(why))

    def follow(connection: Connection, row: Row) -> None:
        mine, new = n.agent == agent, row["to"]
        there = connection.execute(sa.select(n.id).where(mine, n.label == new)).one_or_none()
        if there is None:
            connection.execute(sa.update(db.class_notes).where(mine, n.label == label).values(label=new))
        connection.execute(sa.update(db.class_keys).where(k.agent == agent, k.label == label).values(label=new))

    return _changed(home, agent, person, "rename class", change, follow)


def merge(
    home: Home, agent: int, into: Label, others: Sequence[Label], person: Person, why: str = ""
) -> AgentRecord:
    """Make classes part of another one."""

    def change(before: Agent) -> Agent:
        _check_head(before)
        return before.merge_classes(into, *others, person=person.name, why=reason(why))

    return _changed(home, agent, person, "merge classes", change, _nothing)


def remove(
    home: Home, agent: int, label: Label, person: Person, leave_spread: bool = False, why: str = ""
) -> AgentRecord:
    """Remove a class; with `leave_spread` also where not all of its samples are in the agent's memory."""

    def change(before: Agent) -> Agent:
        _check_head(before)
        return before.remove_class(label, exact=not leave_spread, person=person.name, why=reason(why))

    return _changed(home, agent, person, "remove class", change, _nothing)


def _changed(
    home: Home,
    agent: int,
    person: Person,
    action: str,
    change: Callable[[Agent], Agent],
    follow: Callable[[Connection, Row], None],
) -> AgentRecord:
    """Make the next version of the current one, unless somebody works with it or has made another meanwhile."""
    needs(person, Role.admin)
    with home.database.reading() as connection:
        base = free(connection, agent)
    before = agents.load(home, agent, base)
    after = change(before)
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
            follow(connection, row)
            details = {name: value for name, value in row.items() if name not in ("person", "change")}
            audit.write(connection, person, action, "agent", agent, version_made=number, **details)
    finally:
        file.unlink(missing_ok=True)
    return agents.one(home, agent)


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


def _check_head(agent: Agent) -> None:
    if not isinstance(agent.head, JoinsClasses):
        raise Conflict(
            f"the head of {agent.method.name} has to be trained again, which is not done here: use cual merge "
            "or cual remove with the agent's file, and upload what comes of it"
        )


def _nothing(connection: Connection, row: Row) -> None:
    del connection, row


def reason(text: str) -> str | None:
    return check_text(text, "a reason", LONGEST_REASON) or None
