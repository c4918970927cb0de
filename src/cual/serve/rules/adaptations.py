"""The life of an adaptation in the database: started, stopped, finished, dropped. Questions are in `questions`.

``thinking`` (a job waits or runs) → ``asking`` → … → ``review`` (the loop is over) → ``thinking`` →
``finished``; ``failed`` after errors, ``dropped`` when nobody wants it any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.agent import Agent
from cual.data.labels import made_up
from cual.errors import AlreadyFinished, BadFeatures, Conflict, LabelsMissing, TooFewSamples, WrongEncoder
from cual.loop import events as loop_events
from cual.loop.budget import count_labels
from cual.serve.rules import agents, jobs
from cual.serve.rules.checks import needs
from cual.serve.rules.records import AdaptationRecord, Person, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, found
from cual.types import Label


def every(home: Home) -> list[AdaptationRecord]:
    """All of them, the latest first."""
    with home.database.reading() as c:
        rows = c.execute(sa.select(db.adaptations).order_by(db.adaptations.c.id.desc())).all()
        return [record(c, row) for row in rows]


def one(home: Home, adaptation: int) -> AdaptationRecord:
    with home.database.reading() as c:
        return record(c, get(c, adaptation))


def start(
    home: Home, agent: int, loaded: Agent, version: int, pool: int, budget: float | int, person: Person
) -> AdaptationRecord:
    """Begin to adapt a version of an agent to a pool that is ready."""
    needs(person, Role.admin)
    with home.database.writing() as c:
        wanted = sa.select(db.pools).where(db.pools.c.id == pool)
        held = found(c, wanted.with_for_update(read=True), f"pool {pool}")  # nobody deletes it meanwhile
        if held.state != "ready":
            raise Conflict(f"the pool {held.name!r} is {held.state}; wait until it is ready")
        made_for = found(c, sa.select(db.agents).where(db.agents.c.id == held.agent), f"agent {held.agent}")
        _check_fit(loaded, made_for)
        labels = count_labels(budget, held.size, loaded.method.budget_factor)
        values = {
            "agent": agent,
            "base_version": version,
            "pool": pool,
            "person": person.id,
            "budget": labels,
            "state": "thinking",
        }
        made = c.execute(sa.insert(db.adaptations).values(**values))
        number: int = made.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        unnamed = made_up(loaded.names) if loaded.method.learner.unnamed else None
        events.append(c, number, [loop_events.begun(labels, loaded.names.names, unnamed)])
        jobs.add(c, "advance", adaptation=number)
        return record(c, get(c, number))


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
    with home.database.writing() as c:
        held = locked(c, adaptation)
        check_going(held)
        if not held.stopped and held.state != "review":
            events.append(c, adaptation, [loop_events.stopped(person.id)])
            changed(c, held, stopped=True)
            if held.state == "asking":
                set_state(c, adaptation, "thinking")
                jobs.add(c, "advance", adaptation=adaptation)
        return record(c, get(c, adaptation))


def finish(home: Home, adaptation: int) -> AdaptationRecord:
    """Have the next version made."""
    with home.database.writing() as c:
        held = locked(c, adaptation)
        active = jobs.active(c, adaptation)
        if held.state == "review":
            set_state(c, adaptation, "thinking")
            jobs.add(c, "finish", adaptation=adaptation)
        elif held.state == "asking":
            waiting = count(c, held).open
            raise LabelsMissing(
                f"adaptation {adaptation} still waits for {waiting} answers; give them, "
                "answer 'unsure' where nobody knows, or stop it to ask no more"
            )
        elif held.state != "finished" and not (active is not None and active.kind == "finish"):
            raise Conflict(_not_now(held, "finished"))
        return record(c, get(c, adaptation))


def drop(home: Home, adaptation: int) -> AdaptationRecord:
    """Give it up. Answers stay in the database; no version comes of it."""
    with home.database.writing() as c:
        held = locked(c, adaptation)
        if held.state == "finished":
            raise AlreadyFinished(
                f"adaptation {adaptation} is finished; roll back to an earlier version instead"
            )
        jobs.cancel(c, adaptation, running=True)
        set_state(c, adaptation, "dropped")
        return record(c, get(c, adaptation))


def retry(home: Home, adaptation: int) -> AdaptationRecord:
    """Try again what has failed."""
    with home.database.writing() as c:
        held = locked(c, adaptation)
        if held.state != "failed":
            raise Conflict(f"adaptation {adaptation} has not failed: it is {held.state}")
        j = db.jobs.c
        last = sa.select(j.kind).where(j.adaptation == adaptation, j.state == "failed").order_by(j.id.desc())
        kind = c.execute(last.limit(1)).scalar_one_or_none() or "advance"
        set_state(c, adaptation, "thinking")
        jobs.add(c, kind, adaptation=adaptation)
        return record(c, get(c, adaptation))


# -- for the other modules -------------------------------------------------------------------------------------


def get(c: Connection, adaptation: int) -> Row[Any]:
    return found(c, sa.select(db.adaptations).where(db.adaptations.c.id == adaptation), _called(adaptation))


def locked(c: Connection, adaptation: int) -> Row[Any]:
    """The row, which nobody else changes until the transaction ends: always the first that is locked."""
    wanted = sa.select(db.adaptations).where(db.adaptations.c.id == adaptation).with_for_update()
    return found(c, wanted, _called(adaptation))


def check_going(held: Row[Any]) -> None:
    """Refuse what comes too late."""
    if held.state == "finished":
        raise AlreadyFinished(f"adaptation {held.id} is finished; it takes no more answers")
    if held.state == "dropped":
        raise Conflict(f"adaptation {held.id} was dropped; it takes no more answers")


def changed(c: Connection, held: Row[Any], **values: Any) -> None:
    """Count up the revision, so that a job which has not seen the change does not count."""
    wanted = sa.update(db.adaptations).where(db.adaptations.c.id == held.id)
    c.execute(wanted.values(revision=held.revision + 1, **values))


def set_state(c: Connection, adaptation: int, state: str) -> None:
    wanted = sa.update(db.adaptations).where(db.adaptations.c.id == adaptation)
    c.execute(wanted.values(state=state, error=None))


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


def count(c: Connection, held: Row[Any]) -> Counts:
    q = db.questions.c
    here = q.round == held.round
    parts = (
        sa.func.count(q.label),
        sa.func.count(sa.case((here, 1))),
        sa.func.count(sa.case((sa.and_(here, q.answered), 1))),
    )
    spent, asked, answered = c.execute(sa.select(*parts).where(q.adaptation == held.id)).one()
    return Counts(spent, asked, answered, 0 if held.stopped else asked - answered)


def said(c: Connection, adaptation: int) -> list[Label]:
    """What effective answers name, in the order of the questions."""
    q = db.questions.c
    wanted = sa.select(q.label).where(q.adaptation == adaptation, q.label.is_not(None))
    return list(c.execute(wanted.group_by(q.label).order_by(sa.func.min(q.id))).scalars())


def record(c: Connection, held: Row[Any]) -> AdaptationRecord:
    """What people are told of an adaptation."""
    counts = count(c, held)
    known = agents.classes(c, held.agent, held.base_version)
    new = [label for label in said(c, held.id) if label not in set(known)]
    job = jobs.active(c, held.id)
    waiting = counts.open if held.state == "asking" else 0
    same = (
        "id",
        "agent",
        "base_version",
        "pool",
        "budget",
        "state",
        "round",
        "ended",
        "outlook",
        "result_version",
        "error",
    )
    return AdaptationRecord(
        **{k: getattr(held, k) for k in same},
        spent=counts.spent,
        open=waiting,
        asked_in_round=counts.asked,
        answered_in_round=counts.answered,
        next=_next(held, waiting, job),
        progress=jobs.progress_of(job),
        new_classes=new,
        created_at=held.created_at,
        suggested_classes=[*known, *new],
    )


def _next(held: Row[Any], waiting: int, job: Row[Any] | None) -> str:
    many = f"{waiting} question{'s' if waiting != 1 else ''}"
    if held.state == "thinking":
        if job is not None and job.kind == "finish":
            return "The learner makes the next version; nothing is needed from you."
        if job is not None and job.state == "waiting" and job.not_before > db.now():
            return "All is answered: in a moment the learner goes on. Undo now if the last answer was wrong."
        return "The learner works through the pool; the next questions come by themselves."
    return {
        "asking": f"{many} of round {held.round + 1} wait for an answer; then the learner goes on by itself.",
        "review": f"No more questions ({held.ended}). Review what was labelled without asking, then finish.",
        "finished": f"Version {held.result_version} is made and predicts from now on.",
        "failed": "It stopped with an error. Nothing that was answered is lost: try again.",
        "dropped": "It was given up; no version comes of it.",
    }[held.state]


def _not_now(held: Row[Any], what: str) -> str:
    why = {
        "thinking": "the learner is working; wait until it has ended",
        "failed": "it has failed; try again first",
        "dropped": "it was dropped",
    }
    return f"adaptation {held.id} cannot be {what}: {why.get(held.state, held.state)}"


def _called(adaptation: int) -> str:
    return f"adaptation {adaptation}"


def ids(rows: Iterable[Row[Any]]) -> list[int]:
    return [row.id for row in rows]
