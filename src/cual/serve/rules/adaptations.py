"""The life of an adaptation in the database: started, stopped, finished, dropped. Questions are in `questions`.

``thinking`` (a job waits or runs) → ``asking`` → … → ``review`` (the loop is over) → ``thinking`` →
``finished``; ``failed`` after errors, ``dropped`` when nobody wants it any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.agent import Agent
from cual.data.labels import made_up
from cual.errors import AlreadyFinished, BadFeatures, Conflict, LabelsMissing, TooFewSamples, WrongEncoder
from cual.loop import events as loop_events
from cual.loop.budget import check_overlap, count_labels
from cual.pseudo_labels import BelievesKnown
from cual.serve.rules import agents, audit, clock, jobs, stages, standing
from cual.serve.rules.checks import needs
from cual.serve.rules.records import AdaptationRecord, MergeRecord, Person, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label


def every(home: Home) -> list[AdaptationRecord]:
    """All of them, the latest first."""
    with home.database.reading() as connection:
        rows = connection.execute(sa.select(db.adaptations).order_by(db.adaptations.c.id.desc())).all()
        return [record(connection, row) for row in rows]


def one(home: Home, adaptation: int) -> AdaptationRecord:
    with home.database.reading() as connection:
        return record(connection, get(connection, adaptation))


def start(
    home: Home,
    agent: int,
    loaded: Agent,
    version: int,
    pool: int,
    budget: float | int,
    person: Person,
    overlap: int = 1,
) -> AdaptationRecord:
    """Begin to adapt a version of an agent to a pool that is ready."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        agents.ready(connection, agent, stays=True)
        stages.check_kept(connection, agent, version)
        wanted = sa.select(db.pools).where(db.pools.c.id == pool)
        chosen = one_row(connection, wanted.with_for_update(read=True), f"pool {pool}")  # nobody deletes it now
        if chosen.state != "ready":
            advice = "wait until it is ready" if chosen.state == "preparing" else "choose another one"
            raise Conflict(f"the pool {chosen.name!r} is {chosen.state}; {advice}")
        encoded_for = sa.select(db.agents).where(db.agents.c.id == chosen.agent)
        _check_fit(loaded, one_row(connection, encoded_for, f"agent {chosen.agent}"))
        labels = count_labels(budget, chosen.size, loaded.method.budget_factor)
        values = {
            "agent": agent,
            "base_version": version,
            "pool": pool,
            "person": person.id,
            "budget": labels,
            "overlap": check_overlap(overlap, labels),
            "state": "thinking",
        }
        inserted = connection.execute(sa.insert(db.adaptations).values(**values))
        number: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        unnamed = made_up(loaded.names) if loaded.method.learner.unnamed else None
        known_vouched = isinstance(loaded.method.believe, BelievesKnown)
        begun = loop_events.begun(labels, loaded.names.names, unnamed, overlap, known_vouched)
        events.append(connection, number, [begun])
        jobs.add(connection, "advance", adaptation=number)
        details = {"agent": agent, "version": version, "pool": pool, "labels": labels, "overlap": overlap}
        audit.write(connection, person, "start", "adaptation", number, **details)
        return record(connection, get(connection, number))


def _check_fit(agent: Agent, made_for: Row[Any]) -> None:
    """What the job would only find out later."""
    if agent.width != made_for.width:
        raise BadFeatures(f"the pool's features are {made_for.width} wide, the agent's {agent.width}")
    if agent.encoder and made_for.encoder and agent.encoder != made_for.encoder:
        raise WrongEncoder(
            f"the pool was made by the encoder {made_for.encoder}, but the agent learned from {agent.encoder}"
        )
    if len(agent.validation) < 2:
        raise TooFewSamples(
            f"the agent holds {len(agent.validation)} validation samples, so T_inner cannot be set"
        )


def stop(home: Home, adaptation: int, person: Person) -> AdaptationRecord:
    """Ask no more: what is open stays unanswered, and the learner labels what it can by itself."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = locked(connection, adaptation)
        check_going(row)
        if not row.stopped and row.state != "review":
            audit.write(connection, person, "stop", "adaptation", adaptation)
            events.append(connection, adaptation, [loop_events.stopped(person.id or None)])
            changed(connection, row, stopped=True)
            if row.state == "asking":
                set_state(connection, adaptation, "thinking")
                jobs.add(connection, "advance", adaptation=adaptation)
        return record(connection, get(connection, adaptation))


def finish(home: Home, adaptation: int, person: Person) -> AdaptationRecord:
    """Have the next version made."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = locked(connection, adaptation)
        active = jobs.active(connection, adaptation)
        if row.state == "review":
            set_state(connection, adaptation, "thinking")
            jobs.add(connection, "finish", adaptation=adaptation)
            audit.write(connection, person, "finish", "adaptation", adaptation)
        elif row.state == "asking":
            waiting = count(connection, row).open
            raise LabelsMissing(
                f"adaptation {adaptation} still waits for {waiting} answers; give them, "
                "answer 'unsure' where nobody knows, or stop it to ask no more"
            )
        elif row.state != "finished" and not (active is not None and active.kind == "finish"):
            raise Conflict(_not_now(row, "finished"))
        return record(connection, get(connection, adaptation))


def drop(home: Home, adaptation: int, person: Person) -> AdaptationRecord:
    """Give it up. Answers stay in the database; no version comes of it."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = locked(connection, adaptation)
        if row.state == "finished":
            raise AlreadyFinished(
                f"adaptation {adaptation} is finished; roll back to an earlier version instead"
            )
        if row.state != "dropped":
            jobs.cancel(connection, adaptation, running=True)
            set_state(connection, adaptation, "dropped")
            audit.write(connection, person, "drop", "adaptation", adaptation)
        return record(connection, get(connection, adaptation))


def retry(home: Home, adaptation: int, person: Person) -> AdaptationRecord:
    """Try again what has failed."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = locked(connection, adaptation)
        if row.state != "failed":
            raise Conflict(f"adaptation {adaptation} has not failed: it is {row.state}")
        j = db.jobs.c
        last = sa.select(j.kind).where(j.adaptation == adaptation, j.state == "failed").order_by(j.id.desc())
        kind = connection.execute(last.limit(1)).scalar_one_or_none() or "advance"
        set_state(connection, adaptation, "thinking")
        jobs.add(connection, kind, adaptation=adaptation)
        audit.write(connection, person, "retry", "adaptation", adaptation)
        return record(connection, get(connection, adaptation))


# -- for the other modules -------------------------------------------------------------------------------------


def get(connection: Connection, adaptation: int) -> Row[Any]:
    wanted = sa.select(db.adaptations).where(db.adaptations.c.id == adaptation)
    return one_row(connection, wanted, _called(adaptation))


def locked(connection: Connection, adaptation: int) -> Row[Any]:
    """The row, which nobody else changes until the transaction ends: always the first that is locked."""
    wanted = sa.select(db.adaptations).where(db.adaptations.c.id == adaptation).with_for_update()
    return one_row(connection, wanted, _called(adaptation))


def check_going(row: Row[Any]) -> None:
    """Refuse what comes too late."""
    if row.state == "finished":
        raise AlreadyFinished(f"adaptation {row.id} is finished; it takes no more answers")
    if row.state == "dropped":
        raise Conflict(f"adaptation {row.id} was dropped; it takes no more answers")


def changed(connection: Connection, row: Row[Any], **values: Any) -> None:
    """Count up the revision, so that a job which has not seen the change does not count."""
    wanted = sa.update(db.adaptations).where(db.adaptations.c.id == row.id)
    connection.execute(wanted.values(revision=row.revision + 1, **values))


def set_state(connection: Connection, adaptation: int, state: str) -> None:
    wanted = sa.update(db.adaptations).where(db.adaptations.c.id == adaptation)
    connection.execute(wanted.values(state=state, error=None))


@dataclass(frozen=True)
class Counts:
    """How the questions of an adaptation stand."""

    spent: int
    """Labels that answers were charged for."""
    asked: int
    """Questions of the round."""
    answered: int
    """Of those, the ones with an answer."""
    open: int
    """Of those, the ones that wait for one; none once it was stopped."""


def count(connection: Connection, row: Row[Any]) -> Counts:
    q = db.questions.c
    here = q.round == row.round
    parts = (
        sa.func.coalesce(sa.func.sum(q.cost), 0),
        sa.func.count(sa.case((here, 1))),
        sa.func.count(sa.case((sa.and_(here, q.answered), 1))),
    )
    spent, asked, answered = connection.execute(sa.select(*parts).where(q.adaptation == row.id)).one()
    return Counts(spent, asked, answered, 0 if row.stopped else asked - answered)


def labels_given(connection: Connection, adaptation: int) -> list[Label]:
    """What effective answers name, in the order of the questions."""
    q = db.questions.c
    wanted = sa.select(q.label).where(q.adaptation == adaptation, q.label.is_not(None))
    return list(connection.execute(wanted.group_by(q.label).order_by(sa.func.min(q.id))).scalars())


def record(connection: Connection, row: Row[Any]) -> AdaptationRecord:
    """What people are told of an adaptation."""
    counts = count(connection, row)
    known = agents.classes(connection, row.agent, row.base_version)
    new = [label for label in labels_given(connection, row.id) if label not in set(known)]
    job = jobs.active(connection, row.id)
    waiting = counts.open if row.state == "asking" else 0
    same = (
        "id",
        "agent",
        "base_version",
        "pool",
        "budget",
        "overlap",
        "own_disputes",
        "gold_share",
        "state",
        "round",
        "ended",
        "outlook",
        "result_version",
        "error",
    )
    told = AdaptationRecord(
        **{k: getattr(row, k) for k in same},
        spent=counts.spent,
        open=waiting,
        asked_in_round=counts.asked,
        answered_in_round=counts.answered,
        progress=jobs.progress_of(job),
        new_classes=new,
        created_at=row.created_at,
        suggested_classes=[*known, *new],
        merges=_merges(row.merges or [], {*known, *new}),
        stopped=row.stopped,
        result_stage=stages.of(connection, row.agent, row.result_version),
        doing=_doing(job),
    )
    return replace(told, status=str(standing.status(told)), next=str(standing.following(told)))


def _doing(job: Row[Any] | None) -> Literal["", "advance", "finish", "pause"]:
    if job is None:
        return ""
    if job.kind == "finish":
        return "finish"
    now = db.now()
    waits = job.state == "waiting" and job.not_before > now and not clock.was_set_back(job.created_at, now)
    return "pause" if waits else "advance"


def _merges(kept: list[dict[str, Any]], named: set[Label]) -> list[MergeRecord]:
    """Those of which answers still name both classes."""
    return [MergeRecord(**merge) for merge in kept if {merge["a"], merge["b"]} <= named]


def _not_now(row: Row[Any], what: str) -> str:
    why = {
        "thinking": "the learner is working; wait until it has ended",
        "failed": "it has failed; try again first",
        "dropped": "it was dropped",
    }
    return f"adaptation {row.id} cannot be {what}: {why.get(row.state, row.state)}"


def _called(adaptation: int) -> str:
    return f"adaptation {adaptation}"


def ids(rows: Iterable[Row[Any]]) -> list[int]:
    return [row.id for row in rows]
