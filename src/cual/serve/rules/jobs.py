"""Jobs: what a worker has to do, as rows. Claiming, heartbeat, giving back; the work itself is elsewhere.

A claim counts the job's `attempt` up. Whoever writes for a job says which attempt it is and is refused if that
is not the last one any more, so a worker that was taken for dead can do no harm.

After five errors, or one that cual raised on purpose, a job is given up; `crashes` says when it is
because of crashes.
"""

import os
import socket
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import Conflict
from cual.serve.rules import audit, clock, crashes
from cual.serve.rules.checks import needs
from cual.serve.rules.crashes import Crash
from cual.serve.rules.messages import without_paths
from cual.serve.rules.records import JobProgress, JobRecord, Person, Role
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row

MOST_FAILURES = 5
FOR_PEOPLE = ("advance", "finish")
"""Kinds of jobs that somebody sits and waits for."""
LONG = ("fit", "prepare", "repair")
"""Kinds that may take hours; those for people are done in between."""
STALE = timedelta(seconds=15)
"""A running job whose heartbeat is older than this is taken over, whatever its process does."""


@dataclass(frozen=True)
class Claim:
    """A job that a worker has taken on."""

    job: int
    attempt: int
    kind: str
    adaptation: int | None
    pool: int | None
    agent: int | None = None
    repair: int | None = None


def add(
    connection: Connection,
    kind: str,
    adaptation: int | None = None,
    pool: int | None = None,
    agent: int | None = None,
    grace: float = 0,
    repair: int | None = None,
) -> int:
    values = {"kind": kind, "adaptation": adaptation, "pool": pool, "agent": agent, "state": "waiting"}
    values["repair"] = repair
    inserted = connection.execute(
        sa.insert(db.jobs).values(**values, not_before=db.now() + timedelta(seconds=grace))
    )
    return inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]


def every(home: Home) -> list[JobRecord]:
    """All jobs, the latest first."""
    with home.database.reading() as connection:
        return [_record(row) for row in connection.execute(sa.select(db.jobs).order_by(db.jobs.c.id.desc()))]


def one(home: Home, job: int) -> JobRecord:
    with home.database.reading() as connection:
        return _record(one_row(connection, sa.select(db.jobs).where(db.jobs.c.id == job), f"job {job}"))


def active(connection: Connection, adaptation: int) -> Row[Any] | None:
    """The job of an adaptation that waits or runs: there is at most one."""
    j = db.jobs.c
    wanted = sa.select(db.jobs).where(j.adaptation == adaptation, j.state.in_(("waiting", "running")))
    return connection.execute(wanted.order_by(j.id.desc()).limit(1)).one_or_none()


def cancel(connection: Connection, adaptation: int, running: bool = False) -> bool:
    """Take a job away that no worker has claimed yet, or with `running` any; whether none is left."""
    j = db.jobs.c
    states = ("waiting", "running") if running else ("waiting",)
    connection.execute(sa.delete(db.jobs).where(j.adaptation == adaptation, j.state.in_(states)))
    return active(connection, adaptation) is None


def claim(home: Home, worker: str, kinds: tuple[str, ...] = (*FOR_PEOPLE, *LONG)) -> Claim | None:
    """Take on the next job that is due; of an adaptation first, for people wait for those."""
    j = db.jobs.c
    now = db.now()
    waited = sa.or_(j.not_before <= now, clock.set_back(j.created_at, now), clock.set_back(j.heartbeat, now))
    due = sa.and_(j.state == "waiting", waited, j.kind.in_(kinds))
    running = sa.and_(j.state == "running", j.kind.in_(kinds))
    order = (j.crashes, j.kind.in_(LONG), j.id)
    with (
        home.database.reading() as connection
    ):  # most of the time there is nothing to do, and nothing is locked
        rows = connection.execute(sa.select(db.jobs).where(sa.or_(due, running)).order_by(*order)).all()
    abandoned = [row for row in rows if row.state == "running" and _abandoned(row)]
    for row in abandoned:
        crashed(home, _claim_of(row), Crash("the service ended meanwhile", False, progress_of(row)))
    if abandoned:  # they wait now, and may be due
        return claim(home, worker, kinds)
    for row in (row for row in rows if row.state == "waiting"):
        taken = sa.update(db.jobs).where(j.id == row.id, j.attempt == row.attempt, j.state == "waiting")
        values = {"state": "running", "attempt": row.attempt + 1, "worker": worker, "heartbeat": db.now()}
        with home.database.writing() as connection:
            if connection.execute(taken.values(**values, stage=None, done=0, total=0)).rowcount == 1:
                return replace(_claim_of(row), attempt=row.attempt + 1)
    return None


def beat(home: Home, claim: Claim, progress: JobProgress | None) -> bool:
    """Say that the worker lives and how far it is; False when the job is not its own any more."""
    values: dict[str, Any] = {"heartbeat": db.now()}
    if progress is not None:
        values |= {"stage": progress.stage, "done": progress.done, "total": progress.total}
    with home.database.writing() as connection:
        return connection.execute(sa.update(db.jobs).where(_mine(claim)).values(**values)).rowcount == 1


def holds(connection: Connection, claim: Claim) -> bool:
    """Whether the claim still holds; the job's row is locked until the transaction ends."""
    return (
        connection.execute(sa.select(db.jobs.c.id).where(_mine(claim)).with_for_update()).one_or_none()
        is not None
    )


def finished(connection: Connection, claim: Claim) -> None:
    done = {"state": "done", "error": None, "finished_at": db.now()}
    connection.execute(sa.update(db.jobs).where(_mine(claim)).values(**done))


def again(connection: Connection, claim: Claim) -> None:
    """Leave the job to the next attempt: it is no failure."""
    connection.execute(
        sa.update(db.jobs).where(_mine(claim)).values(state="waiting", worker=None, not_before=db.now())
    )


def give_back(home: Home, worker: str) -> None:
    """Leave all jobs of a worker to the next one: it was asked to end, or something else is to blame."""
    j = db.jobs.c
    mine = sa.update(db.jobs).where(j.worker == worker, j.state == "running")
    with home.database.writing() as connection:
        connection.execute(mine.values(state="waiting", worker=None, not_before=db.now()))


def failed(home: Home, claim: Claim, error: str, for_good: bool) -> bool:
    """Write down that an attempt ended in an error; whether that was the last one."""
    error = _readable(home, error)
    with home.database.writing() as connection:
        row = _still_ours(connection, claim)
        if row is None:
            return False
        failures = row.failures + 1
        last = for_good or failures >= MOST_FAILURES
        _set(connection, claim, failures=failures, error=error)
        if last:
            _give_up(connection, claim, error)
        else:
            _put_off(connection, claim, timedelta(seconds=0.1 * 2**failures))
    return last


def crashed(home: Home, claim: Claim, crash: Crash) -> bool:
    """Write down that the process which did a job is gone; whether that was the last time."""
    with home.database.writing() as connection:
        row = _still_ours(connection, claim)
        if row is None:
            return False
        verdict = crashes.judge(row.kind, row.crashes, row.mark, crash)
        message = _readable(home, verdict.message)
        _set(connection, claim, crashes=verdict.crashes, mark=verdict.mark, error=message)
        if verdict.last:
            _give_up(connection, claim, message)
        else:
            _put_off(connection, claim, verdict.pause)
    return verdict.last


def call_off(home: Home, job: int, person: Person) -> JobRecord:
    """End a job that waits or runs, as somebody wishes; whoever does it notices at the next heartbeat."""
    needs(person, Role.admin)
    wanted = sa.select(db.jobs).where(db.jobs.c.id == job)
    with home.database.writing() as connection:
        claim = _claim_of(one_row(connection, wanted, f"job {job}"))
        _lock_owner(connection, claim)
        row = one_row(connection, wanted.with_for_update(), f"job {job}")
        if row.state not in ("waiting", "running"):
            raise Conflict(f"job {job} is {row.state}; there is nothing to cancel")
        message = f"cancelled by {person.name}"
        _set(connection, claim, error=message)
        _give_up(connection, claim, message)
        details = {"adaptation": claim.adaptation, "pool": claim.pool, "agent": claim.agent}
        details |= {} if claim.repair is None else {"repair": claim.repair}
        audit.write(connection, person, "cancel job", "job", job, **details)
        return _record(one_row(connection, wanted, f"job {job}"))


def _still_ours(connection: Connection, claim: Claim) -> Row[Any] | None:
    """The row of a job, locked, if the claim still holds."""
    _lock_owner(connection, claim)
    return connection.execute(sa.select(db.jobs).where(_mine(claim)).with_for_update()).one_or_none()


def _lock_owner(connection: Connection, claim: Claim) -> None:
    """An adaptation is always locked before its job, so that nobody waits in a circle."""
    if claim.adaptation is not None:
        owner = sa.select(db.adaptations.c.id).where(db.adaptations.c.id == claim.adaptation)
        connection.execute(owner.with_for_update())


def _put_off(connection: Connection, claim: Claim, pause: timedelta) -> None:
    """Let the job wait for its next attempt."""
    _set(connection, claim, state="waiting", worker=None, not_before=db.now() + pause)


def _give_up(connection: Connection, claim: Claim, error: str) -> None:
    """Let the job have failed, and what it was for."""
    _set(connection, claim, state="failed", worker=None, finished_at=db.now())
    to = {"state": "failed", "error": error}
    if claim.adaptation is not None:
        connection.execute(
            sa.update(db.adaptations).where(db.adaptations.c.id == claim.adaptation).values(**to)
        )
    if claim.pool is not None:
        connection.execute(sa.update(db.pools).where(db.pools.c.id == claim.pool).values(**to))
    if claim.agent is not None:
        connection.execute(sa.update(db.agents).where(db.agents.c.id == claim.agent).values(**to))
    if claim.repair is not None:
        connection.execute(sa.update(db.repairs).where(db.repairs.c.id == claim.repair).values(**to))


def _set(connection: Connection, claim: Claim, **values: Any) -> None:
    """Change the row of a job that is locked."""
    connection.execute(sa.update(db.jobs).where(db.jobs.c.id == claim.job).values(**values))


def _readable(home: Home, error: str) -> str:
    """An error as any database takes it and any reader may see it."""
    text = error.encode(errors="replace").decode().replace("\0", "")
    return without_paths(text, (home.folder, *home.roots))[:2000]


def progress_of(row: Row[Any] | None) -> JobProgress | None:
    """How far a job is, where that is known."""
    if row is None or row.state != "running" or row.stage is None:
        return None
    return JobProgress(row.stage, row.done, row.total)


def progress_for(connection: Connection, owner: sa.ColumnElement[bool]) -> JobProgress | None:
    """How far the running job is that `owner` is true of."""
    wanted = sa.select(db.jobs).where(owner, db.jobs.c.state == "running").order_by(db.jobs.c.id.desc())
    return progress_of(connection.execute(wanted.limit(1)).one_or_none())


def identity() -> str:
    """This process, in a way that tells it from a later one with the same number."""
    return f"{socket.gethostname()} {os.getpid()} {started(os.getpid())}"


def _abandoned(row: Row[Any]) -> bool:
    """Whether the worker of a running job is gone."""
    if row.heartbeat is None or abs(db.now() - row.heartbeat) > STALE:  # ahead: not since a clock was set back
        return True
    host, pid, began = str(row.worker).rsplit(" ", 2)
    return host == socket.gethostname() and started(int(pid)) != began


def started(pid: int) -> str:
    """When a process of this machine began, in the kernel's ticks; nothing for one that is gone."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return _alive(pid)
    return "" if fields[0] in "ZX" else fields[19]  # one that exited but was not waited for counts as ended


def _alive(pid: int) -> str:
    """For systems without /proc: whether a process has this number."""
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"


def _claim_of(row: Row[Any]) -> Claim:
    return Claim(row.id, row.attempt, row.kind, row.adaptation, row.pool, row.agent, row.repair)


def _mine(claim: Claim) -> sa.ColumnElement[bool]:
    j = db.jobs.c
    return sa.and_(j.id == claim.job, j.attempt == claim.attempt, j.state == "running")


def _record(row: Row[Any]) -> JobRecord:
    names: tuple[str, ...] = (
        "id",
        "kind",
        "state",
        "adaptation",
        "pool",
        "agent",
        "repair",
        "attempt",
        "failures",
    )
    names += ("crashes", "error", "created_at")
    same = {k: getattr(row, k) for k in names}
    return JobRecord(progress=progress_of(row), finished_at=row.finished_at, **same)
