"""Jobs: what a worker has to do, as rows. Claiming, heartbeat, giving back; the work itself is elsewhere.

A claim counts the job's `attempt` up. Whoever writes for a job says which attempt it is and is refused if that
is not the last one any more, so a worker that was taken for dead can do no harm.
"""

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.serve import tables as db
from cual.serve.home import Home
from cual.serve.records import JobRecord, Progress

MOST_FAILURES = 5
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


def add(
    c: Connection, kind: str, adaptation: int | None = None, pool: int | None = None, grace: float = 0
) -> int:
    values = {"kind": kind, "adaptation": adaptation, "pool": pool, "state": "waiting"}
    made = c.execute(sa.insert(db.jobs).values(**values, not_before=db.now() + timedelta(seconds=grace)))
    return made.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]


def every(home: Home) -> list[JobRecord]:
    """All jobs, the latest first."""
    with home.database.reading() as c:
        return [_record(row) for row in c.execute(sa.select(db.jobs).order_by(db.jobs.c.id.desc()))]


def active(c: Connection, adaptation: int) -> Row[Any] | None:
    """The job of an adaptation that waits or runs: there is at most one."""
    j = db.jobs.c
    wanted = sa.select(db.jobs).where(j.adaptation == adaptation, j.state.in_(("waiting", "running")))
    return c.execute(wanted.order_by(j.id.desc()).limit(1)).one_or_none()


def cancel(c: Connection, adaptation: int, running: bool = False) -> bool:
    """Take a job away that no worker has claimed yet, or with `running` any; whether none is left."""
    j = db.jobs.c
    states = ("waiting", "running") if running else ("waiting",)
    c.execute(sa.delete(db.jobs).where(j.adaptation == adaptation, j.state.in_(states)))
    return active(c, adaptation) is None


def claim(home: Home, worker: str, kinds: tuple[str, ...] = ("advance", "finish", "prepare")) -> Claim | None:
    """Take on the next job that is due; of an adaptation first, for people wait for those."""
    j = db.jobs.c
    due = sa.and_(j.state == "waiting", j.not_before <= db.now(), j.kind.in_(kinds))
    running = sa.and_(j.state == "running", j.kind.in_(kinds))
    with home.database.reading() as c:  # most of the time there is nothing to do, and nothing is locked
        rows = c.execute(sa.select(db.jobs).where(sa.or_(due, running)).order_by(j.kind == "prepare", j.id))
        candidates = [row for row in rows.all() if row.state == "waiting" or _abandoned(row)]
    for row in candidates:
        taken = sa.update(db.jobs).where(j.id == row.id, j.attempt == row.attempt, j.state == row.state)
        values = {"state": "running", "attempt": row.attempt + 1, "worker": worker, "heartbeat": db.now()}
        with home.database.writing() as c:
            if c.execute(taken.values(**values, stage=None, done=0, total=0)).rowcount == 1:
                return Claim(row.id, row.attempt + 1, row.kind, row.adaptation, row.pool)
    return None


def beat(home: Home, claim: Claim, progress: Progress | None) -> bool:
    """Say that the worker lives and how far it is; False when the job is not its own any more."""
    values: dict[str, Any] = {"heartbeat": db.now()}
    if progress is not None:
        values |= {"stage": progress.stage, "done": progress.done, "total": progress.total}
    with home.database.writing() as c:
        return c.execute(sa.update(db.jobs).where(_mine(claim)).values(**values)).rowcount == 1


def holds(c: Connection, claim: Claim) -> bool:
    """Whether the claim still holds; the job's row is locked until the transaction ends."""
    return c.execute(sa.select(db.jobs.c.id).where(_mine(claim)).with_for_update()).one_or_none() is not None


def finished(c: Connection, claim: Claim) -> None:
    done = {"state": "done", "error": None, "finished_at": db.now()}
    c.execute(sa.update(db.jobs).where(_mine(claim)).values(**done))


def again(c: Connection, claim: Claim) -> None:
    """Leave the job to the next attempt: it is no failure."""
    c.execute(sa.update(db.jobs).where(_mine(claim)).values(state="waiting", worker=None, not_before=db.now()))


def failed(home: Home, claim: Claim, error: str, for_good: bool) -> bool:
    """Write down that an attempt ended in an error; whether that was the last one."""
    error = error.encode(errors="replace").decode().replace("\0", "")[:2000]  # what any database takes
    with home.database.writing() as c:
        if claim.adaptation is not None:  # always locked first, so that nobody waits in a circle
            owner = sa.select(db.adaptations.c.id).where(db.adaptations.c.id == claim.adaptation)
            c.execute(owner.with_for_update())
        if not holds(c, claim):
            return False
        failures = c.execute(sa.select(db.jobs.c.failures).where(_mine(claim))).scalar_one() + 1
        last = for_good or failures >= MOST_FAILURES
        later = db.now() + timedelta(seconds=0.1 * 2**failures)
        values: dict[str, Any] = {"failures": failures, "error": error, "worker": None}
        values |= (
            {"state": "failed", "finished_at": db.now()} if last else {"state": "waiting", "not_before": later}
        )
        c.execute(sa.update(db.jobs).where(_mine(claim)).values(**values))
        if last and claim.adaptation is not None:
            to = {"state": "failed", "error": error}
            c.execute(sa.update(db.adaptations).where(db.adaptations.c.id == claim.adaptation).values(**to))
        if last and claim.pool is not None:
            to = {"state": "failed", "error": error}
            c.execute(sa.update(db.pools).where(db.pools.c.id == claim.pool).values(**to))
    return last


def progress_of(row: Row[Any] | None) -> Progress | None:
    """How far a job is, where that is known."""
    if row is None or row.state != "running" or row.stage is None:
        return None
    return Progress(row.stage, row.done, row.total)


def identity() -> str:
    """This process, in a way that tells it from a later one with the same number."""
    return f"{socket.gethostname()} {os.getpid()} {started(os.getpid())}"


def _abandoned(row: Row[Any]) -> bool:
    """Whether the worker of a running job is gone."""
    if row.heartbeat is None or db.now() - row.heartbeat > STALE:
        return True
    host, pid, began = str(row.worker).rsplit(" ", 2)
    return host == socket.gethostname() and started(int(pid)) != began


def started(pid: int) -> str:
    """When a process of this machine began, in the kernel's ticks; nothing for one that is gone."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _alive(pid)
    return "" if told[0] in "ZX" else told[19]  # a zombie has ended, whoever has not yet asked for it


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


def _mine(claim: Claim) -> sa.ColumnElement[bool]:
    j = db.jobs.c
    return sa.and_(j.id == claim.job, j.attempt == claim.attempt, j.state == "running")


def _record(row: Row[Any]) -> JobRecord:
    names = ("id", "kind", "state", "adaptation", "pool", "attempt", "failures", "error", "created_at")
    same = {k: getattr(row, k) for k in names}
    return JobRecord(progress=progress_of(row), finished_at=row.finished_at, **same)
