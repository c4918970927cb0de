"""Jobs that kill or stall whoever does them: given up after a few tries, told in a sentence, others go on.

Workers are real processes, and really die.
"""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from cual import Pool
from cual.serve import jobs
from cual.serve import tables as db
from cual.serve.crashes import MOST_TOGETHER
from cual.serve.records import JobRecord
from cual.serve.workspace import Workspace
from running import until
from serving import Service

KILL = "os.kill(os.getpid(), signal.SIGKILL)"
HOLD = "re.match('(a+)+$', 64 * 'a' + 'b')  # never lets go of the interpreter"


@contextlib.contextmanager
def worker(workspace: Workspace, *more: str, **harms: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of its own which does harm before jobs of some kinds: ``worker(w, prepare="os._exit(9)")``."""
    lines = ["import os, re, signal, time", "from pathlib import Path", "from cual.serve import worker"]
    for kind, harm in harms.items():
        lines += [f"def {kind}(home, claim, progress, rightly=worker.WORK[{kind!r}]):"]
        lines += [textwrap.indent(harm, "    "), "    rightly(home, claim, progress)"]
        lines += [f"worker.WORK[{kind!r}] = {kind}"]
    lines += [f"worker.main({[str(workspace.folder), *more]!r})"]
    url = workspace.database.url.render_as_string(hide_password=False)
    running = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "CUAL_DATABASE": url, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def slowly(go: Path) -> str:
    """Work that tells of its progress until there is a file."""
    return f"while not Path({str(go)!r}).exists():\n    progress('encoding', 1, 2)\n    time.sleep(0.05)"


def job_of(workspace: Workspace, pool: int) -> JobRecord:
    return next(job for job in workspace.jobs() if job.pool == pool)


def add_pools(service: Service, n: int) -> list[int]:
    world = service.world
    return [
        service.workspace.add_pool(f"pool {i}", Pool(world.pool, world.ids), service.agent).id for i in range(n)
    ]


# -- the job is to blame ---------------------------------------------------------------------------------------


def test_a_pool_that_kills_its_worker_is_given_up_and_the_next_is_prepared(service: Service) -> None:
    w = service.workspace
    poison, innocent = add_pools(service, 2)
    with worker(w, prepare=f"if claim.pool == {poison}:\n    progress('encoding', 32, 100)\n    {KILL}"):
        until(lambda: w.pool(innocent).state == "ready")
        until(lambda: w.pool(poison).state == "failed")
    error = w.pool(poison).error or ""
    assert "died 3 times while it prepared this pool, last at stage encoding (32 of 100)" in error
    assert "memory" in error
    job = job_of(w, poison)
    assert (job.state, job.attempt, job.crashes, job.failures) == ("failed", 3, 3, 0)
    assert job.error == error


def test_a_step_that_kills_its_worker_does_not_hold_up_other_adaptations(service: Service) -> None:
    w = service.workspace
    poison, innocent = (w.start(service.agent, service.pool, 8, service.ann).id for _ in range(2))
    with worker(w, advance=f"if claim.adaptation == {poison}: os._exit(9)"):
        until(lambda: w.adaptation(innocent).state == "asking")
        until(lambda: w.adaptation(poison).state == "failed")
    record = w.adaptation(poison)
    assert "died 3 times while it worked out the next questions" in (record.error or "")
    assert "ended with code 9" in (record.error or "")
    assert "try again" in record.next
    w.retry(poison)
    with worker(w):
        until(lambda: w.adaptation(poison).state == "asking")
    assert w.adaptation(poison).error is None


def test_a_step_done_while_a_pool_is_prepared_is_blamed_and_not_the_pool(service: Service) -> None:
    w, go = service.workspace, service.workspace.folder / "go"
    (pool,) = add_pools(service, 1)
    with worker(w, prepare=slowly(go), advance=KILL):
        until(lambda: job_of(w, pool).state == "running")
        adaptation = w.start(service.agent, service.pool, 8, service.ann).id
        until(lambda: w.adaptation(adaptation).state == "failed")
        go.touch()
        until(lambda: w.pool(pool).state == "ready")
    job = job_of(w, pool)
    assert job.attempt > 1
    assert job.crashes == 0


@pytest.mark.parametrize("harm", ["time.sleep(600)", HOLD])
def test_a_job_that_makes_no_progress_is_given_up(service: Service, harm: str) -> None:
    w = service.workspace
    poison, innocent = add_pools(service, 2)
    with worker(w, "--patience", "1", prepare=f"if claim.pool == {poison}: {harm}"):
        until(lambda: w.pool(poison).state == "failed")
        until(lambda: w.pool(innocent).state == "ready")
    assert "it made no progress for 1 second" in (w.pool(poison).error or "")


def test_a_job_that_tells_of_progress_may_take_as_long_as_it_likes(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    harm = "for n in range(30):\n    progress('encoding', n, 100)\n    time.sleep(0.1)"
    with worker(w, "--patience", "1", prepare=harm):
        until(lambda: w.pool(pool).state == "ready")
    assert job_of(w, pool).crashes == 0


# -- it is not -------------------------------------------------------------------------------------------------


def test_kills_of_the_worker_itself_are_no_verdict(service: Service) -> None:
    """Whoever ends the whole service, or pulls the plug, ends innocent jobs."""
    w = service.workspace
    (pool,) = add_pools(service, 1)
    for n in range(1, 5):
        with worker(w, prepare="time.sleep(600)") as running:
            until(lambda n=n: due(service) or job_of(w, pool).attempt == n)
            running.kill()
            running.wait()
    with worker(w):
        until(lambda: due(service) or w.pool(pool).state == "ready")
    job = job_of(w, pool)
    assert (job.state, job.crashes, job.attempt, job.error) == ("done", 4, 5, None)


def test_asked_to_end_a_worker_gives_back_even_what_does_not_listen(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    with worker(w, prepare=HOLD) as running:
        until(lambda: job_of(w, pool).state == "running")
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
    job = job_of(w, pool)
    assert (job.state, job.crashes, job.failures) == ("waiting", 0, 0)


def test_nothing_of_a_killed_worker_goes_on(service: Service) -> None:
    w = service.workspace
    add_pools(service, 1)
    note = w.folder / "pid"
    harm = f"Path({str(note)!r}).write_text(str(os.getpid()))\ntime.sleep(600)"
    with worker(w, prepare=harm) as running:
        until(lambda: note.exists() and note.read_text() != "")
        runner = int(note.read_text())
        assert runner != running.pid
        assert jobs.started(runner)
        running.kill()
        running.wait()
    until(lambda: not jobs.started(runner))


def abandon(service: Service, pool: int, **values: object) -> None:
    """Leave the pool's job as one whose worker is gone, with its machine."""
    gone = {"state": "running", "worker": "elsewhere 1 1", "heartbeat": None, **values}
    with service.workspace.database.writing() as c:
        c.execute(sa.update(db.jobs).where(db.jobs.c.pool == pool).values(**gone))


def due(service: Service) -> None:
    """Let nothing wait for its time."""
    with service.workspace.database.writing() as c:
        c.execute(sa.update(db.jobs).values(not_before=db.now()))


def test_even_kills_of_everything_come_to_an_end(service: Service) -> None:
    """As in a container that is killed as a whole when one of its processes needs too much."""
    w = service.workspace
    (pool,) = add_pools(service, 1)
    for n in range(1, MOST_TOGETHER + 1):
        assert w.pool(pool).state == "preparing"
        abandon(service, pool, stage="encoding", done=64, total=100)
        due(service)
        jobs.claim(w.home, jobs.identity())
        assert job_of(w, pool).crashes == n
    assert job_of(w, pool).state == w.pool(pool).state == "failed"
    assert f"died {MOST_TOGETHER} times" in (w.pool(pool).error or "")


def test_a_long_job_on_a_machine_that_often_restarts_ends_some_day(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    stages = [("encoding", 32 * n) for n in range(1, 40)] + [("pictures", 5), ("pictures", 9), ("map", 0)]
    for stage, done in stages:
        abandon(service, pool, stage=stage, done=done, total=2000)
        due(service)
        jobs.claim(w.home, jobs.identity())
        assert job_of(w, pool).crashes == 1, "it has got further since the last one"
    abandon(service, pool, stage="pictures", done=9, total=2000)
    due(service)
    jobs.claim(w.home, jobs.identity())
    assert job_of(w, pool).crashes == 2


def test_a_step_keeps_nothing_so_its_reports_are_no_progress(service: Service) -> None:
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    for n in range(1, 5):
        values = {
            "state": "running",
            "worker": "elsewhere 1 1",
            "heartbeat": None,
            "stage": "adapting",
            "done": n,
        }
        with w.database.writing() as c:
            c.execute(sa.update(db.jobs).where(db.jobs.c.adaptation == adaptation).values(**values))
        due(service)
        jobs.claim(w.home, jobs.identity())
        assert w.jobs()[0].crashes == n


def test_what_has_crashed_goes_behind_what_has_not(service: Service) -> None:
    w = service.workspace
    first, second = add_pools(service, 2)
    abandon(service, first)
    claim = jobs.claim(w.home, jobs.identity())
    assert claim is not None
    assert claim.pool == second
    with w.database.reading() as c:
        waits = sa.select(db.jobs.c.state, db.jobs.c.not_before).where(db.jobs.c.pool == first)
        assert c.execute(waits).one().state == "waiting"


def test_each_crash_is_followed_by_a_longer_pause(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    pauses: list[float] = []
    for _ in range(14):
        abandon(service, pool)
        before = db.now()
        jobs.claim(w.home, jobs.identity())
        with w.database.reading() as c:
            until_then = c.execute(sa.select(db.jobs.c.not_before).where(db.jobs.c.pool == pool)).scalar_one()
        pauses.append(round((until_then - before).total_seconds()))
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]
