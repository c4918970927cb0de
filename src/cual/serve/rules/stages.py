"""Stages of an agent's versions: candidate, live, retired, discarded; who changed them, when and why.

The live version is the one that `agents.current` names, and nothing else says so; of the others their rows say
what they are. What a candidate would have said instead of the live one is in `shadows`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import BadOption, Conflict
from cual.serve.rules import agents, audit
from cual.serve.rules.checks import check_text, needs
from cual.serve.rules.records import OPERATOR, AgentRecord, NewVersions, Person, Role, VersionStage
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row

LONGEST_REASON = 1000
LEAST_SHARE = 0.001
"""Of samples that a candidate predicts, too; none at all would tell nobody anything."""
OVER = ("finished", "dropped")
Change = Literal["promote", "roll back", "discard"]
CHANGES: tuple[Change, ...] = ("promote", "roll back", "discard")
v = db.versions.c


@dataclass(frozen=True)
class StageRecord:
    """That somebody changed which version is live, or gave one up."""

    at: datetime
    person: str
    action: Change
    version: int
    before: int
    """The version that was live until then."""
    why: str


def set_rollout(
    home: Home,
    agent: int,
    person: Person,
    new_versions: NewVersions | None = None,
    shadow_share: float | None = None,
) -> AgentRecord:
    """Say what versions begin as, and how much of what is asked a candidate predicts; None leaves it."""
    needs(person, Role.admin)
    if new_versions is not None and new_versions not in ("live", "candidate"):
        raise BadOption(f"new versions begin as 'live' or as 'candidate', not as {new_versions!r}")
    if shadow_share is not None and not LEAST_SHARE <= shadow_share <= 1:
        raise BadOption(f"the shadow's share lies between {LEAST_SHARE} and 1, but is {shadow_share}")
    said = {"new_versions": new_versions, "shadow_share": shadow_share}
    with home.database.writing() as connection:
        row = _locked(connection, agent)
        changed = {
            name: value for name, value in said.items() if value is not None and value != getattr(row, name)
        }
        if changed:
            connection.execute(sa.update(db.agents).where(db.agents.c.id == agent).values(**changed))
            before = {name: getattr(row, name) for name in changed}
            audit.write(connection, person, "set rollout", "agent", agent, **changed, before=before)
    return agents.one(home, agent)


def promote(home: Home, agent: int, version: int, live: int, why: str, person: Person) -> AgentRecord:
    """Make a candidate the live version; the one that was is retired.

    `live` is the version that was live when somebody decided this: of two who promote at once, one has looked
    at what is no longer so.
    """
    needs(person, Role.admin)
    reason = _needed(why)
    with home.database.writing() as connection:
        row = _locked(connection, agent)
        stage = _stage(connection, row, version)
        if stage == "live":
            raise Conflict(f"version {version} is live already: somebody has promoted it")
        _check_live(row, live)
        if stage != "candidate":
            raise Conflict(f"version {version} is {stage}, and only candidates are promoted; roll back to it")
        agents.make_live(connection, agent, version)
        audit.write(connection, person, "promote", "agent", agent, version=version, before=live, why=reason)
    return agents.one(home, agent)


def roll_back(
    home: Home, agent: int, version: int, person: Person, why: str = "", live: int | None = None
) -> AgentRecord:
    """Make a version live again that was before. Nothing is deleted: rolling forward is the same thing.

    Whoever says which version is `live` is refused where it is another one by now.
    """
    needs(person, Role.admin)
    reason = check_text(why, "a reason", LONGEST_REASON)
    with home.database.writing() as connection:
        row = _locked(connection, agent)
        stage = _stage(connection, row, version)
        if live is not None:
            _check_live(row, live)
        if stage in ("candidate", "discarded"):
            advice = "promote it" if stage == "candidate" else "its file is gone"
            raise Conflict(f"version {version} is {stage}: {advice}")
        if stage != "live":
            agents.make_live(connection, agent, version)
            details = {"version": version, "before": row.current} | ({"why": reason} if reason else {})
            audit.write(connection, person, "roll back", "agent", agent, **details)
    return agents.one(home, agent)


def discard(home: Home, agent: int, version: int, why: str, person: Person) -> AgentRecord:
    """Give up a candidate: its file goes, its row stays in the history, and its number is not given again."""
    needs(person, Role.admin)
    reason = _needed(why)
    with home.database.writing() as connection:
        row = _locked(connection, agent)
        stage = _stage(connection, row, version)
        if stage != "candidate":
            raise Conflict(f"version {version} is {stage}, and only candidates are discarded")
        _check_unused(connection, agent, version)
        mine = sa.update(db.versions).where(v.agent == agent, v.number == version)
        connection.execute(mine.values(stage="discarded"))
        e = db.shadow_examples.c
        connection.execute(sa.delete(db.shadow_examples).where(e.agent == agent, e.version == version))
        details = {"version": version, "before": row.current, "why": reason}
        audit.write(connection, person, "discard", "agent", agent, **details)
    _remove_files(home, agent)
    return agents.one(home, agent)


def let_go(home: Home, agent: int, version: int, why: str, person: Person) -> None:
    """Remove the file of a version that was live before, so that nobody can roll back to it; its row stays."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = _locked(connection, agent)
        stage = _stage(connection, row, version)
        if stage != "retired":
            raise Conflict(f"version {version} is {stage}, and only retired ones are let go")
        _check_unused(connection, agent, version)
        mine = sa.update(db.versions).where(v.agent == agent, v.number == version)
        connection.execute(mine.values(stage="discarded"))
        details = {"version": version, "before": row.current, "why": why}
        audit.write(connection, person, "discard", "agent", agent, **details)
    _remove_files(home, agent)


def changes(home: Home, agent: int) -> list[StageRecord]:
    """Who made which version live, or gave one up, the latest first. Everybody may know, unlike the rest of
    the audit trail."""
    a = db.audit.c
    wanted = (
        sa.select(db.audit, db.people.c.name)
        .outerjoin(db.people, db.people.c.id == a.person)
        .where(a.kind == "agent", a.thing == agent, a.action.in_(CHANGES))
        .order_by(a.id.desc())
        .limit(audit.MOST)
    )
    with home.database.reading() as connection:
        one_row(connection, sa.select(db.agents.c.id).where(db.agents.c.id == agent), f"agent {agent}")
        return [_change(row) for row in connection.execute(wanted)]


def of(connection: Connection, agent: int, version: int | None) -> VersionStage | None:
    """What a version is; None where there is none."""
    wanted = sa.select(v.stage, db.agents.c.current).join_from(
        db.versions, db.agents, v.agent == db.agents.c.id
    )
    row = connection.execute(wanted.where(v.agent == agent, v.number == version)).one_or_none()
    if version is None or row is None:
        return None
    return "live" if row.current == version else cast(VersionStage, row.stage)


def check_kept(connection: Connection, agent: int, version: int) -> None:
    """Refuse a version that was discarded: an adaptation cannot build on it."""
    if of(connection, agent, version) == "discarded":
        raise Conflict(f"version {version} was discarded; build on another one")


def _locked(connection: Connection, agent: int) -> Row[Any]:
    """The agent's row, which nobody else changes before the transaction ends."""
    connection.execute(sa.select(db.agents.c.id).where(db.agents.c.id == agent).with_for_update())
    return agents.ready(connection, agent)


def _stage(connection: Connection, row: Row[Any], version: int) -> VersionStage:
    wanted = sa.select(v.stage).where(v.agent == row.id, v.number == version)
    stage = one_row(connection, wanted, f"version {version} of agent {row.id}")[0]
    return "live" if row.current == version else stage


def _check_live(row: Row[Any], live: int) -> None:
    if row.current != live:
        raise Conflict(
            f"version {row.current} is live by now, not version {live}: somebody else was quicker; look at it, "
            "and try again"
        )


def _check_unused(connection: Connection, agent: int, version: int) -> None:
    a = db.adaptations.c
    mine = (a.agent == agent, a.base_version == version, a.state.not_in(OVER))
    going = connection.execute(sa.select(a.id).where(*mine).order_by(a.id)).scalars().first()
    if going is not None:
        raise Conflict(f"adaptation {going} builds on version {version}; finish or drop it first")


def _remove_files(home: Home, agent: int) -> None:
    """Remove files of versions that were discarded, also what was left where somebody was killed before."""
    gone = sa.select(v.number).where(v.agent == agent, v.stage == "discarded")
    with home.database.reading() as connection:
        numbers = list(connection.execute(gone).scalars())
    for number in numbers:
        home.agent_file(agent, number).unlink(missing_ok=True)


def _needed(why: str) -> str:
    reason = check_text(why, "a reason", LONGEST_REASON)
    if not reason:
        raise BadOption("say why, for those who read the history")
    return reason


def _change(row: Row[Any]) -> StageRecord:
    name = OPERATOR.name if row.person is None else row.name
    told = row.details
    return StageRecord(row.at, name, row.action, told["version"], told["before"], told.get("why") or "")
