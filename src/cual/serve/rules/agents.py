"""Agents and their versions: rows in the database, one file each.

Files never change once a row names them, but where samples are taken back from earlier versions, too.
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.agent import Agent
from cual.errors import BadOption, Conflict
from cual.loop.evidence import Estimate, known
from cual.serve.rules import audit, jobs, lost
from cual.serve.rules.checks import check_name, needs
from cual.serve.rules.records import AgentRecord, Person, Role, VersionRecord
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label

KEPT = 4
"""Agents that are kept in memory."""
LEAST_RATE, MOST_RATE = 0.001, 0.5
"""Between these lies the share of known samples that may be taken for unlike anything known."""
_NOT_READY = {
    "preparing": "is still being made; wait until it is ready",
    "failed": "could not be made; try again, or delete it",
    "removed": "was deleted; what was answered for it is still there",
}


def every(home: Home) -> list[AgentRecord]:
    with home.database.reading() as connection:
        rows = connection.execute(_current().order_by(db.agents.c.id)).all()
        return [_agent(connection, row) for row in rows]


def one(home: Home, agent: int) -> AgentRecord:
    with home.database.reading() as connection:
        return record(connection, agent)


def record(connection: Connection, agent: int) -> AgentRecord:
    row = one_row(connection, _current().where(db.agents.c.id == agent), f"agent {agent}")
    return _agent(connection, row)


def ready(connection: Connection, agent: int, stays: bool = False) -> Row[Any]:
    """The row of an agent that has a version; with `stays`, nobody deletes it before the transaction ends."""
    wanted = sa.select(db.agents).where(db.agents.c.id == agent)
    row = one_row(connection, wanted.with_for_update(read=True) if stays else wanted, f"agent {agent}")
    if row.state != "ready":
        raise Conflict(f"the agent {row.name!r} {_NOT_READY[row.state]}")
    return row


def add(home: Home, name: str, agent: Agent, person: Person) -> AgentRecord:
    """Keep an agent as version 0 of a new one."""
    needs(person, Role.admin)
    name = check_name(name, "an agent's name")
    file = unfinished(home, agent)
    try:
        with home.database.writing() as connection:
            inserted = connection.execute(
                sa.insert(db.agents).values(
                    name=name,
                    current=0,
                    method=agent.method.name,
                    encoder=agent.encoder,
                    width=agent.width,
                )
            )
            number: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
            put(home, connection, number, 0, file, values_of(agent))
            audit.write(connection, person, "add agent", "agent", number, name=name)
    finally:
        file.unlink(missing_ok=True)
    return one(home, number)


def add_version(
    home: Home, connection: Connection, agent: int, file: Path, values: dict[str, Any], at_once: bool = False
) -> int:
    """Keep `file` as the next version; its number. Within a transaction.

    It becomes the live one, or a candidate where the team wants that, unless `at_once`. A kill between the file
    and the commit leaves a file that no row names; the next version replaces it.
    """
    wanted = sa.select(db.agents.c.new_versions).where(db.agents.c.id == agent).with_for_update()
    as_candidate = connection.execute(wanted).scalar_one() == "candidate" and not at_once
    last = connection.execute(sa.select(sa.func.max(db.versions.c.number)).where(db.versions.c.agent == agent))
    number = int(last.scalar_one()) + 1
    put(home, connection, agent, number, file, values | ({"stage": "candidate"} if as_candidate else {}))
    if not as_candidate:
        make_live(connection, agent, number)
    return number


def make_live(connection: Connection, agent: int, version: int) -> None:
    """Let a version predict from now on; the one before is retired by that. Its row of the agent is locked.

    Examples of what candidates say otherwise than the version before mean nothing any more.
    """
    v = db.versions.c
    connection.execute(sa.update(db.agents).where(db.agents.c.id == agent).values(current=version))
    mine = sa.update(db.versions).where(v.agent == agent, v.number == version)
    connection.execute(mine.values(stage="retired"))  # what it will be when another one is live
    connection.execute(sa.delete(db.shadow_examples).where(db.shadow_examples.c.agent == agent))


def versions(home: Home, agent: int) -> list[VersionRecord]:
    """All of them, the oldest first."""
    v = db.versions.c
    with home.database.reading() as connection:
        current = one_row(
            connection, sa.select(db.agents.c.current).where(db.agents.c.id == agent), f"agent {agent}"
        )[0]
        rows = connection.execute(sa.select(db.versions).where(v.agent == agent).order_by(v.number)).mappings()
        return [version_record(row, current) for row in rows]


def version_record(row: Mapping[Any, Any], current: int) -> VersionRecord:
    live = row["number"] == current
    values: dict[str, Any] = {**row, "current": live, "stage": "live" if live else row["stage"]}
    return VersionRecord(**values)


def set_false_alarms(home: Home, agent: int, share: float | None, person: Person) -> AgentRecord:
    """Say how many known samples may be called unlike anything known; None for the method's own threshold."""
    needs(person, Role.admin)
    if share is not None and not LEAST_RATE <= share <= MOST_RATE:
        raise BadOption(f"the share of false alarms lies between {LEAST_RATE} and {MOST_RATE}, but is {share}")
    with home.database.writing() as connection:
        before = ready(connection, agent, stays=True).false_alarms
        if before != share:
            connection.execute(sa.update(db.agents).where(db.agents.c.id == agent).values(false_alarms=share))
            audit.write(connection, person, "set false alarms", "agent", agent, share=share, before=before)
    return one(home, agent)


class Loaded:
    """Agents in memory: the few that were used last."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._kept: OrderedDict[tuple[int, int, int], Agent] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, agent: int, version: int | None = None) -> Agent:
        """The agent, of its current version if none is named."""
        if version is None:
            version = one(self._home, agent).version
        key = (agent, version, _written(self._home.agent_file(agent, version)))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        loaded = load(self._home, agent, version)
        with self._lock:
            self._kept[key] = loaded
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return loaded


def _written(file: Path) -> int:
    """When a file was written: one from which samples were taken back is another one (`jobs.forgetting`)."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0  # whoever loads it says what is wrong


def load(home: Home, agent: int, version: int) -> Agent:
    v = db.versions.c
    with home.database.reading() as connection:
        ready(connection, agent)
        there = sa.select(v.number).where(v.agent == agent, v.number == version, v.stage != "discarded")
        one_row(connection, there, f"version {version}")
    with lost.reading(home):
        return Agent.load(home.agent_file(agent, version))


def classes(connection: Connection, agent: int, version: int) -> tuple[Label, ...]:
    """The classes that a version knows."""
    v = db.versions.c
    wanted = sa.select(v.classes).where(v.agent == agent, v.number == version)
    return tuple(one_row(connection, wanted, f"version {version} of agent {agent}")[0])


def accuracy(now: Estimate | None, before: Estimate | None) -> dict[str, Any]:
    """What a version's row says of how good it is."""
    return {
        "held_out_accuracy": None if now is None else now.value,
        "held_out": 0 if now is None else now.samples,
        "accuracy_low": None if now is None else now.low,
        "accuracy_high": None if now is None else now.high,
        "accuracy_before": None if before is None else before.value,
    }


def values_of(agent: Agent) -> dict[str, Any]:
    """What a version's row says of the agent itself."""
    return {
        "classes": list(agent.names.names),
        "new_classes": [],
        "labels_used": 0,
        "pseudo_labels": 0,
        **accuracy(known(agent.verified_samples, agent.names).before(agent), None),
    }


def unfinished(home: Home, agent: Agent, name: str = "") -> Path:
    """The agent's file under a name that no version has; `put` moves it to its place."""
    file = home.folder / "agents" / f".{name or uuid.uuid4().hex}.agent"
    agent.save(file)
    return file


def clear_unfinished(home: Home, job: int) -> None:
    """Remove what attempts at a job left that were killed, whole or half written."""
    for left in (home.folder / "agents").iterdir():
        if left.name.startswith((f".{job}-", f"..{job}-")):
            left.unlink(missing_ok=True)


def put(
    home: Home, connection: Connection, agent: int, number: int, file: Path, values: dict[str, Any]
) -> None:
    """Move a file to the place of a version whose row is written with it."""
    target = home.agent_file(agent, number)
    target.parent.mkdir(parents=True, exist_ok=True)
    connection.execute(sa.insert(db.versions).values(agent=agent, number=number, **values))
    file.replace(target)


def _current() -> sa.Select[Any]:
    a, v = db.agents.c, db.versions.c
    joined = db.agents.outerjoin(db.versions, sa.and_(v.agent == a.id, v.number == a.current))
    other = db.versions.alias()
    waits = sa.and_(other.c.agent == a.id, other.c.stage == "candidate")
    latest = sa.select(sa.func.max(other.c.number)).where(waits).scalar_subquery()
    return sa.select(db.agents, v.classes, latest.label("candidate")).select_from(joined)


def _agent(connection: Connection, row: Row[Any]) -> AgentRecord:
    names = (
        "id",
        "name",
        "method",
        "encoder",
        "width",
        "created_at",
        "state",
        "error",
        "skipped",
        "false_alarms",
        "new_versions",
        "shadow_share",
        "candidate",
    )
    progress = jobs.progress_for(connection, db.jobs.c.agent == row.id) if row.state == "preparing" else None
    return AgentRecord(
        version=row.current,
        classes=list(row.classes or ()),
        progress=progress,
        **{name: getattr(row, name) for name in names},
    )
