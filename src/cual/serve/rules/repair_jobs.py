"""Repairs of an agent that take a worker: teaching, forgetting, splitting a class; merging and removing classes
where the head has to be trained again. Asked for here, not done.

What is asked for is a row, which a job works off (`cual.serve.jobs.repairing`, `forgetting`). One at a time for
each agent, and none while an adaptation of it is under way. What is done at once is in `repairing`.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.labels import SKIP, ClassNames
from cual.errors import BadLabels, BadOption, Conflict, SamplesMissing, UnknownClass, UnknownSample
from cual.repair.splitting import MOST_PARTS
from cual.serve.rules import agents, audit, jobs, repairing, sources
from cual.serve.rules.checks import check_label, check_labels, needs
from cual.serve.rules.records import (
    OPERATOR,
    AgentRecord,
    Person,
    RepairKind,
    RepairRecord,
    Role,
    SplitGroup,
    SplitRecord,
    SplitSample,
)
from cual.serve.rules.repairing import free, reason
from cual.serve.rules.sources import SOURCE, TableColumns
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label

MOST_SAMPLES = 10_000
"""Samples that one request takes back."""
MOST_QUESTIONS = 100
ACTIONS = {"split": "split class", "merge": "merge classes", "remove": "remove class"}
"""What the audit trail calls what it calls otherwise than its kind."""
r = db.repairs.c


# -- what there is ---------------------------------------------------------------------------------------------


def every(home: Home, agent: int) -> list[RepairRecord]:
    """Repairs of an agent, the latest first."""
    agents.one(home, agent)
    with home.database.reading() as connection:
        rows = connection.execute(_wanted().where(r.agent == agent).order_by(r.id.desc())).all()
        return [_record(connection, row) for row in rows]


def one(home: Home, agent: int, repair: int) -> RepairRecord:
    with home.database.reading() as connection:
        return _record(connection, _get(connection, agent, repair))


# -- asked for -------------------------------------------------------------------------------------------------


def teach(
    home: Home,
    agent: int,
    source: Path,
    person: Person,
    columns: TableColumns | None = None,
    why: str = "",
) -> RepairRecord:
    """Put down labelled data and have it taught."""
    needs(person, Role.admin)
    where = sources.checked(home, source, columns, labelled=True)
    return _put_down(home, agent, "teach", where, person, why)


def forget(
    home: Home,
    agent: int,
    person: Person,
    pool: int | None = None,
    samples: Sequence[Label] | None = None,
    adaptation: int | None = None,
    of: int | None = None,
    earlier: bool = False,
    originals: bool = False,
    why: str = "",
) -> RepairRecord:
    """Have samples taken back, or answers; see `OfRepairs.forget`."""
    needs(person, Role.admin)
    by_samples = samples is not None or pool is not None
    by_answers = adaptation is not None or of is not None
    if by_samples == by_answers:
        raise BadOption("say which samples of a pool to take back, or whose answers, or of which adaptation")
    if by_samples and (pool is None or not samples):
        raise BadOption("samples are taken back by their ids, of a pool that is named")
    if samples is not None and len(samples) > MOST_SAMPLES:
        raise BadOption(f"at most {MOST_SAMPLES} samples are taken back at once")
    if originals and not by_samples:
        raise BadOption("originals are removed with samples, not with answers: others may have answered, too")
    with home.database.reading() as connection:
        _check_there(connection, agent, pool, adaptation, of)
    wanted = {
        "pool": pool,
        "samples": None if samples is None else list(dict.fromkeys(samples)),
        "adaptation": adaptation,
        "of": of,
        "earlier": bool(earlier),
        "originals": bool(originals),
    }
    return _put_down(home, agent, "forget", wanted, person, why)


def split(
    home: Home,
    agent: int,
    label: Label,
    person: Person,
    parts: int = 2,
    questions: int = 10,
    why: str = "",
) -> RepairRecord:
    """Have the samples of a class grouped; people say then what the groups are (`answer`)."""
    needs(person, Role.admin)
    if not 2 <= parts <= MOST_PARTS:
        raise BadOption(f"a class is split into 2 to {MOST_PARTS} parts, not {parts}")
    if not 0 <= questions <= MOST_QUESTIONS:
        raise BadOption(f"0 to {MOST_QUESTIONS} samples are asked about, not {questions}")
    if label not in agents.one(home, agent).classes:
        raise UnknownClass(f"the agent knows no class {label!r}")
    wanted = {"label": label, "parts": parts, "questions": questions}
    return _put_down(home, agent, "split", wanted, person, why)


def merge(
    home: Home, agent: int, into: Label, others: Sequence[Label], person: Person, why: str = ""
) -> AgentRecord | RepairRecord:
    """Make classes part of another one: at once in closed form, else have the head trained again."""
    done = repairing.merge(home, agent, into, others, person, why)
    if done is not None:
        return done
    return _put_down(home, agent, "merge", {"into": into, "others": list(others)}, person, why)


def remove(
    home: Home, agent: int, label: Label, person: Person, leave_spread: bool = False, why: str = ""
) -> AgentRecord | RepairRecord:
    """Remove a class: at once in closed form, else have the head trained again, where no spread is left."""
    done = repairing.remove(home, agent, label, person, leave_spread, why)
    if done is not None:
        return done
    return _put_down(home, agent, "remove", {"label": label}, person, why)


def answer(
    home: Home,
    agent: int,
    repair: int,
    names: Sequence[Label],
    answers: Mapping[int, Label],
    person: Person,
    leave_rest: bool = False,
) -> RepairRecord:
    """Say what the groups of a split are, and what its doubtful samples; then the version is made."""
    needs(person, Role.admin)
    known = ClassNames(tuple(agents.one(home, agent).classes))
    said = [label for label in check_labels(dict(enumerate(names)), known).values() if label is not SKIP]
    told = {int(sample): check_label(label, known) for sample, label in answers.items()}
    with home.database.writing() as connection:
        row = _locked(connection, agent, repair)
        if row.kind != "split" or row.state != "asking":
            raise Conflict(f"repair {repair} asks nothing: it is {row.state}")
        proposal = row.proposal
        if len(said) != len(proposal["groups"]):
            raise BadLabels(f"there are {len(proposal['groups'])} groups, but {len(said)} names")
        strange = [sample for sample in told if not 0 <= sample < proposal["size"]]
        if strange:
            raise UnknownSample(f"the class has samples 0 to {proposal['size'] - 1}, not {strange[0]}")
        if proposal["missing"] and not leave_rest:
            raise SamplesMissing(
                f"of {proposal['missing']} samples of {proposal['label']!r} no features are kept here: they "
                "can only stay in the class (leave_rest)"
            )
        if free(connection, agent) != row.wanted["base"]:
            raise Conflict("another version has become the current one since; split the class of that one")
        values: dict[str, Any] = {"names": said, "answers": [[sample, label] for sample, label in told.items()]}
        values["leave_rest"] = bool(leave_rest)
        _set(connection, repair, state="preparing", answers=values)
        jobs.add(connection, "repair", repair=repair)
        audit.write(connection, person, "answer split", "agent", agent, repair=repair, answers=len(told))
        return _record(connection, _get(connection, agent, repair))


def drop(home: Home, agent: int, repair: int, person: Person) -> RepairRecord:
    """Leave a split that asks, or a repair that failed; what it had put down goes."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = _locked(connection, agent, repair)
        if row.state not in ("asking", "failed"):
            raise Conflict(f"repair {repair} cannot be dropped: it is {row.state}")
        _set(connection, repair, state="dropped", wanted={"why": row.wanted.get("why", "")}, proposal=None)
        audit.write(connection, person, "drop repair", "agent", agent, repair=repair)
    shutil.rmtree(home.repair_folder(agent, repair), ignore_errors=True)
    return one(home, agent, repair)


def retry(home: Home, repair: int, person: Person) -> int:
    """Have a repair done that failed; the number of the job."""
    needs(person, Role.admin)
    wanted = sa.select(db.repairs).where(r.id == repair).with_for_update()
    with home.database.writing() as connection:
        row = one_row(connection, wanted, f"repair {repair}")
        if row.state != "failed":
            raise Conflict(f"repair {repair} has not failed: it is {row.state}")
        _check_alone(connection, row.agent)
        audit.write(connection, person, "retry", "agent", row.agent, repair=repair)
        _set(connection, repair, state="preparing", error=None)
        return jobs.add(connection, "repair", repair=repair)


# -- rows ------------------------------------------------------------------------------------------------------


def _put_down(
    home: Home, agent: int, kind: RepairKind, wanted: dict[str, Any], person: Person, why: str
) -> RepairRecord:
    text = reason(why) or ""
    who = None if person == OPERATOR else person.id
    with home.database.writing() as connection:
        agents.ready(connection, agent, stays=True)
        base = free(connection, agent)
        _check_alone(connection, agent)
        values: dict[str, Any] = {"agent": agent, "kind": kind, "person": who, "state": "preparing"}
        values["wanted"] = wanted | {"why": text, "base": base}
        inserted = connection.execute(sa.insert(db.repairs).values(**values))
        number: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        folder = home.repair_folder(agent, number)
        shutil.rmtree(folder, ignore_errors=True)  # of one that was never committed
        if wanted.get("upload"):
            folder.mkdir(parents=True)
            path = sources.take_over(Path(wanted["path"]), folder / SOURCE)
            _set(connection, number, wanted={**values["wanted"], "path": path})
        jobs.add(connection, "repair", repair=number)
        action = ACTIONS.get(kind, kind)
        audit.write(connection, person, action, "agent", agent, repair=number, **_told(kind, wanted, text))
        return _record(connection, _get(connection, agent, number))


def _told(kind: RepairKind, wanted: dict[str, Any], why: str) -> dict[str, Any]:
    """What the audit trail says of it. Of whom answers are that are taken back is not written down."""
    told: dict[str, Any] = {"why": why} if why else {}
    if kind == "split":
        told |= {"label": wanted["label"], "parts": wanted["parts"]}
    if kind == "merge":
        told |= {"into": wanted["into"], "classes": wanted["others"]}
    if kind == "remove":
        told |= {"class": wanted["label"]}
    if kind == "forget":
        told |= {"pool": wanted["pool"], "adaptation": wanted["adaptation"]}
        told |= {"samples": len(wanted["samples"] or ()), "answers_of_one": wanted["of"] is not None}
        told |= {"earlier": wanted["earlier"], "originals": wanted["originals"]}
    return told


def _check_alone(connection: Connection, agent: int) -> None:
    going = sa.select(r.id).where(r.agent == agent, r.state == "preparing").order_by(r.id).limit(1)
    number = connection.execute(going).scalar_one_or_none()
    if number is not None:
        raise Conflict(f"repair {number} of this agent is under way; wait until it is done")


def _check_there(
    connection: Connection, agent: int, pool: int | None, adaptation: int | None, of: int | None
) -> None:
    """Refuse what is not there, or is of another agent."""
    agents.record(connection, agent)
    if pool is not None:
        wanted = sa.select(db.pools).where(db.pools.c.id == pool)
        row = one_row(connection, wanted, f"pool {pool}")
        if row.agent != agent or row.state != "ready":
            raise Conflict(f"the pool {row.name!r} is not one of this agent, or is not ready")
    if adaptation is not None:
        a = db.adaptations.c
        row = one_row(
            connection, sa.select(db.adaptations).where(a.id == adaptation), f"adaptation {adaptation}"
        )
        if row.agent != agent or row.state != "finished":
            raise Conflict(f"adaptation {adaptation} is not one that made a version of this agent")
    if of is not None:
        one_row(connection, sa.select(db.people.c.id).where(db.people.c.id == of), f"person {of}")


def _set(connection: Connection, repair: int, **values: Any) -> None:
    connection.execute(sa.update(db.repairs).where(r.id == repair).values(**values))


def _wanted() -> sa.Select[Any]:
    v = db.versions.c
    made = sa.and_(v.agent == r.agent, v.number == r.result_version)
    rows = sa.select(db.repairs, db.people.c.name, v.change)
    return rows.outerjoin(db.people, db.people.c.id == r.person).outerjoin(db.versions, made)


def _get(connection: Connection, agent: int, repair: int) -> Row[Any]:
    wanted = _wanted().where(r.agent == agent, r.id == repair)
    return one_row(connection, wanted, f"repair {repair} of agent {agent}")


def _locked(connection: Connection, agent: int, repair: int) -> Row[Any]:
    wanted = sa.select(db.repairs).where(r.agent == agent, r.id == repair).with_for_update()
    return one_row(connection, wanted, f"repair {repair} of agent {agent}")


def _record(connection: Connection, row: Row[Any]) -> RepairRecord:
    progress = jobs.progress_for(connection, db.jobs.c.repair == row.id) if row.state == "preparing" else None
    return RepairRecord(
        id=row.id,
        agent=row.agent,
        kind=row.kind,
        state=row.state,
        error=row.error,
        progress=progress,
        by=OPERATOR.name if row.name is None else row.name,
        why=row.wanted.get("why", ""),
        version=row.result_version,
        change=row.change,
        classes=_classes(row.kind, row.wanted),
        skipped=row.skipped,
        split=None if row.proposal is None else split_record(row.proposal),
        created_at=row.created_at,
    )


def _classes(kind: RepairKind, wanted: Mapping[str, Any]) -> list[Label]:
    """Classes that a repair is about, as long as that is kept."""
    if kind == "merge" and "into" in wanted:
        return [wanted["into"], *wanted["others"]]
    return [wanted["label"]] if kind in ("remove", "split") and "label" in wanted else []


def split_record(proposal: Mapping[str, Any]) -> SplitRecord:
    """What the database knows of a proposal, as people see it."""
    groups = [
        SplitGroup(group["size"], [SplitSample(**sample) for sample in group["examples"]])
        for group in proposal["groups"]
    ]
    questions = [SplitSample(**sample) for sample in proposal["questions"]]
    return SplitRecord(proposal["label"], proposal["size"], groups, questions, proposal["missing"])
