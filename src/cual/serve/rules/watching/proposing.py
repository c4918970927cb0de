"""Looks at the samples that wait and are unlike anything known: groups, and whether an adaptation is worth it.

It is proposed, or begun in the name of whoever allowed that: the inbox becomes a pool, and once that is ready,
an adaptation with the rule's budget begins on it. Grouping itself is in `grouping`, the rule in `worth`.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.agent import Agent
from cual.errors import BadOption, Conflict, CualError, NotAllowed
from cual.serve.rules import adaptations, agents, audit, clock
from cual.serve.rules.checks import needs
from cual.serve.rules.inbox import reading
from cual.serve.rules.records import Person, PoolRecord, Role
from cual.serve.rules.watching import grouping, keeping, webhooks
from cual.serve.rules.watching.worth import LEAST_GAIN, MOST_QUESTIONS, worth
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

log = logging.getLogger(__name__)
PAUSE = timedelta(seconds=30)
"""Between two looks at the samples of one agent, where new ones have come."""
LARGEST_BUDGET, LARGEST_GAIN = 10_000, 1000.0
UNLIKE = "unlike anything known"
OVER = ("finished", "dropped", "failed")
Load = Callable[[int, int], Agent]
Close = Callable[[int, str, Person], PoolRecord]
"""Makes a pool of what waits for an agent."""
s, a = db.watch_states.c, db.agents.c


def look(home: Home, load: Load, close: Close, now: datetime, pause: timedelta = PAUSE) -> None:
    """Look at what waits for each agent; propose, begin, or take back what is not worth it any more."""
    with home.database.reading() as connection:
        waiting = _waiting(connection)
        rows = connection.execute(_agents()).all()
    for row in rows:
        try:
            if _is_due(row.unlike_groups, *waiting.get(row.id, (0, 0)), now, pause):
                _regroup(home, load, row, now)
            _carry_on(home, load, close, row.id)
        except CualError as error:
            log.warning("agent %d: what waits cannot be looked at: %s", row.id, error)


def _is_due(before: dict[str, Any] | None, waiting: int, last: int, now: datetime, pause: timedelta) -> bool:
    """Whether other samples wait than when somebody looked, and that was a pause ago."""
    if before is None:
        return waiting > 0
    changed = (waiting, last) != (before["waiting"], before["last"])
    looked = datetime.fromisoformat(before["at"])
    return changed and (looked <= now - pause or clock.was_set_back(looked, now))


def _agents() -> sa.Select[Any]:
    columns: list[sa.Column[Any]] = [a.id, a.name, a.current, *db.watch_states.columns]
    named = [column if column.table is db.agents else column.label(column.name) for column in columns]
    return (
        sa.select(*named)
        .outerjoin_from(db.agents, db.watch_states, s.agent == a.id)
        .where(a.state == "ready")
        .order_by(a.id)
    )


def _waiting(connection: Connection) -> dict[int, tuple[int, int]]:
    """How many samples wait that are unlike anything known, and the last of them, by agent."""
    i, m = db.inboxes.c, db.inbox_samples.c
    wanted = (
        sa.select(i.agent, sa.func.count(), sa.func.max(m.id))
        .join_from(db.inboxes, db.inbox_samples, m.inbox == i.id)
        .where(i.closed_at.is_(None), m.verdict == UNLIKE)
        .group_by(i.agent)
    )
    return {row[0]: (row[1], row[2]) for row in connection.execute(wanted)}


def _regroup(home: Home, load: Load, row: Row[Any], now: datetime) -> None:
    """Find groups, write them down with what follows."""
    samples = reading.waiting(home, row.id, [UNLIKE])
    ids, X = samples.ids[-grouping.MOST :], samples.X[-grouping.MOST :]
    agent = load(row.id, row.current)
    found = grouping.groups_of(agent, X) if len(ids) else []
    names = agent.names.names
    with home.database.reading() as connection:
        kinds = _originals(connection, ids)
    groups = [
        {
            "size": len(group.rows),
            "examples": [{"sample": i, "original": kinds.get(i)} for i in grouping.examples(group, ids)],
            "like": None if group.like is None else names[group.like],
        }
        for group in found
    ]
    body = {
        "at": now.isoformat(),
        "waiting": len(samples.ids),
        "looked_at": len(ids),
        "last": max(samples.ids, default=0),
        "groups": groups,
    }
    with home.database.writing() as connection:
        keeping.ensure(connection, row.id, row.current)
        here = s.agent == row.id
        state = connection.execute(sa.select(db.watch_states).where(here).with_for_update()).one()
        values = {"unlike_groups": body, "proposal": _proposal(connection, row, state, body, now)}
        connection.execute(sa.update(db.watch_states).where(here).values(**values))


def _originals(connection: Connection, samples: list[int]) -> dict[int, str | None]:
    """What kind of original each sample has."""
    m = db.inbox_samples.c
    rows = connection.execute(sa.select(m.id, m.original).where(m.id.in_(samples)))
    return {row.id: row.original for row in rows}


def _proposal(
    connection: Connection, row: Row[Any], state: Row[Any], body: dict[str, Any], now: datetime
) -> dict[str, Any] | None:
    """What is proposed from now on; told to webhooks where nothing was before."""
    before = state.proposal
    if before is not None and before["pool"] is not None:
        return before  # it is under way
    sizes = [group["size"] for group in body["groups"] if group["like"] is None]
    weighed = worth(sizes, body["looked_at"], body["waiting"], state.most_questions, state.least_gain)
    if not weighed.worth or _going(connection, row.id):
        return None
    said = {"groups": weighed.groups, "settled": weighed.settled, "questions": weighed.questions}
    if before is None:
        webhooks.tell(connection, row.id, row.name, row.current, "adaptation.proposed", said, now)
    at = now.isoformat() if before is None else before["at"]
    return {"at": at, **said, "pool": None, "adaptation": None, "person": None}


def _going(connection: Connection, agent: int) -> bool:
    """Whether an adaptation of the agent is under way: another one would begin from the same version."""
    t = db.adaptations.c
    wanted = sa.select(t.id).where(t.agent == agent, t.state.not_in(OVER)).limit(1)
    return connection.execute(wanted).one_or_none() is not None


# -- begun -----------------------------------------------------------------------------------------------------


def begin(home: Home, agent: int, person: Person, close: Close) -> None:
    """Begin the adaptation that is proposed: the samples that wait become its pool."""
    needs(person, Role.admin)
    with home.database.reading() as connection:
        record = agents.ready(connection, agent)
        proposal = _proposed(connection, agent)
        if proposal is None:
            raise Conflict("no adaptation is proposed for this agent")
        if proposal["pool"] is not None:
            raise Conflict("the adaptation that is proposed has begun already")
        if _going(connection, agent):
            raise Conflict("another adaptation of this agent is under way; finish or drop it first")
    name = f"{record.name[:60]}, {db.now():%Y-%m-%d %H:%M}"
    pool = close(agent, name, person)  # two cannot: for the second one, nothing waits any more
    with home.database.writing() as connection:
        begun = {**proposal, "pool": pool.id, "person": person.id}
        connection.execute(sa.update(db.watch_states).where(s.agent == agent).values(proposal=begun))


def _carry_on(home: Home, load: Load, close: Close, agent: int) -> None:
    """The next step: make the pool where that is allowed, and begin the adaptation once it is ready."""
    with home.database.reading() as connection:
        row = connection.execute(sa.select(db.watch_states).where(s.agent == agent)).one_or_none()
        if row is None or row.proposal is None:
            return
        proposal = row.proposal
        pool = _state(connection, db.pools, proposal["pool"])
        adaptation = _state(connection, db.adaptations, proposal["adaptation"])
        person = _person(connection, proposal["person"] or row.starts_for)
    if proposal["pool"] is None:
        if row.starts_for is not None and person is not None:
            begin(home, agent, person, close)
    elif proposal["adaptation"] is not None:
        if adaptation is None or adaptation in OVER:
            _set(home, agent, None)
    elif pool == "ready" and person is not None:
        version = agents.one(home, agent).version
        try:
            started = adaptations.start(
                home, agent, load(agent, version), version, proposal["pool"], proposal["questions"], person
            )
        except CualError:
            _set(home, agent, None)  # the pool stays: somebody begins by hand
            raise
        _set(home, agent, {**proposal, "adaptation": started.id})
    elif pool != "preparing":
        _set(home, agent, None)


def _set(home: Home, agent: int, proposal: dict[str, Any] | None) -> None:
    with home.database.writing() as connection:
        connection.execute(sa.update(db.watch_states).where(s.agent == agent).values(proposal=proposal))


def _proposed(connection: Connection, agent: int) -> dict[str, Any] | None:
    return connection.execute(sa.select(s.proposal).where(s.agent == agent)).scalar_one_or_none()


def _state(connection: Connection, table: sa.Table, thing: int | None) -> str | None:
    return connection.execute(sa.select(table.c.state).where(table.c.id == thing)).scalar_one_or_none()


def _person(connection: Connection, person: int | None) -> Person | None:
    """Somebody who may still begin adaptations."""
    p = db.people.c
    row = connection.execute(sa.select(db.people).where(p.id == person, p.active)).one_or_none()
    if row is None or not Role(row.role).may(Role.admin):
        return None
    return Person(row.id, row.name, Role(row.role))


def settle(
    home: Home,
    agent: int,
    person: Person,
    starts: bool = False,
    most_questions: int = MOST_QUESTIONS,
    least_gain: float = LEAST_GAIN,
) -> None:
    """Set what an adaptation may cost and must settle, and whether it begins by itself, in one's name."""
    needs(person, Role.admin)
    if starts and not person.id:
        raise NotAllowed("adaptations begin in somebody's name; let an administrator of the service allow it")
    if not 1 <= most_questions <= LARGEST_BUDGET or not 1 <= least_gain <= LARGEST_GAIN:
        raise BadOption(
            f"an adaptation may cost 1 to {LARGEST_BUDGET} questions, each settling 1 to {LARGEST_GAIN:g}"
        )
    with home.database.writing() as connection:
        row = agents.ready(connection, agent, stays=True)
        keeping.ensure(connection, agent, row.current)
        here = s.agent == agent
        before = connection.execute(sa.select(db.watch_states).where(here)).one()
        values = {"most_questions": most_questions, "least_gain": least_gain}
        same = starts == (before.starts_for is not None)
        if not same or values != {name: getattr(before, name) for name in values}:
            starts_for = (before.starts_for if same else person.id) if starts else None
            fresh = {**values, "starts_for": starts_for, "unlike_groups": None}  # weighed anew at the next look
            connection.execute(sa.update(db.watch_states).where(here).values(**fresh))
            audit.write(connection, person, "set watching", "agent", agent, starts=starts, **values)
