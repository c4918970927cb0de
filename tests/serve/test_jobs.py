"""Jobs: claimed once, taken over from the dead, fenced off from the late, given up after five errors."""

import subprocess
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from cual.serve.rules import jobs
from cual.serve.rules.records import OPERATOR, JobProgress
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import Service


@pytest.fixture
def claimed(service: Service) -> jobs.Claim:
    """The first job of an adaptation, claimed by this process."""
    service.workspace.start(service.agent, service.pool, 8, service.ann)
    claim = jobs.claim(service.workspace.home, jobs.identity())
    assert claim is not None
    return claim


def set_job(workspace: Workspace, **values: object) -> None:
    with workspace.database.writing() as c:
        c.execute(sa.update(db.jobs).where(db.jobs.c.state == "running").values(**values))


def test_a_job_is_claimed_by_one(service: Service) -> None:
    service.workspace.start(service.agent, service.pool, 8, service.ann)
    claims: list[jobs.Claim | None] = []
    threads = [
        threading.Thread(target=lambda: claims.append(jobs.claim(service.workspace.home, jobs.identity())))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([claim for claim in claims if claim is not None]) == 1


def test_a_job_is_not_begun_before_its_time(service: Service) -> None:
    with service.workspace.database.writing() as c:
        jobs.add(c, "prepare", pool=service.pool, grace=3600)
    assert jobs.claim(service.workspace.home, jobs.identity()) is None


def test_whoever_labels_goes_before_pools(service: Service) -> None:
    home = service.workspace.home
    with service.workspace.database.writing() as c:
        jobs.add(c, "prepare", pool=service.pool)
    service.workspace.start(service.agent, service.pool, 8, service.ann)
    kinds = [claim.kind for _ in range(2) if (claim := jobs.claim(home, jobs.identity()))]
    assert kinds == ["advance", "prepare"]


def test_the_job_of_a_living_worker_is_left_alone(service: Service, claimed: jobs.Claim) -> None:
    assert jobs.claim(service.workspace.home, jobs.identity()) is None


def test_the_job_of_a_dead_worker_is_taken_over_at_once(service: Service, claimed: jobs.Claim) -> None:
    home = service.workspace.home
    host = jobs.identity().rsplit(" ", 2)[0]
    with subprocess.Popen(["sleep", "600"]) as other:
        set_job(service.workspace, worker=f"{host} {other.pid} {jobs.started(other.pid)}")
        assert jobs.claim(home, jobs.identity()) is None
        other.kill()
    taken = jobs.claim(home, jobs.identity())
    assert taken is not None
    assert (taken.job, taken.attempt) == (claimed.job, claimed.attempt + 1)


def test_a_process_that_got_the_number_of_a_dead_one_is_not_it(service: Service, claimed: jobs.Claim) -> None:
    host, pid, began = jobs.identity().rsplit(" ", 2)
    set_job(service.workspace, worker=f"{host} {pid} {int(began) - 1}")
    assert jobs.claim(service.workspace.home, jobs.identity()) is not None


def test_the_job_of_another_machine_is_taken_over_when_its_heart_stops(
    service: Service, claimed: jobs.Claim
) -> None:
    home = service.workspace.home
    set_job(service.workspace, worker="elsewhere 1 1")
    assert jobs.claim(home, jobs.identity()) is None
    set_job(service.workspace, heartbeat=db.now() - jobs.STALE - timedelta(seconds=1))
    assert jobs.claim(home, jobs.identity()) is not None


def test_a_late_worker_can_do_nothing(service: Service, claimed: jobs.Claim) -> None:
    home = service.workspace.home
    set_job(service.workspace, heartbeat=db.now() - timedelta(hours=1))
    newer = jobs.claim(home, jobs.identity())
    assert newer is not None
    assert not jobs.beat(home, claimed, None)
    assert not jobs.failed(home, claimed, "too late", for_good=True)
    with home.database.writing() as c:
        assert not jobs.holds(c, claimed)
        jobs.finished(c, claimed)
        jobs.again(c, claimed)
    assert jobs.beat(home, newer, JobProgress("adapting", 3, 10))
    assert service.workspace.jobs()[0].progress == JobProgress("adapting", 3, 10)


def test_five_errors_are_enough(service: Service) -> None:
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    for n in range(1, 6):
        with w.database.writing() as c:
            c.execute(sa.update(db.jobs).values(not_before=db.now()))
        claim = jobs.claim(w.home, jobs.identity())
        assert claim is not None
        assert jobs.failed(w.home, claim, f"error {n}\0 \ud800", for_good=False) == (n == 5)
        assert w.adaptation(adaptation).state == ("failed" if n == 5 else "thinking")
    record = w.adaptation(adaptation)
    assert record.error == "error 5 ?"
    assert "try again" in record.next
    assert jobs.claim(w.home, jobs.identity()) is None
    assert w.retry(adaptation, OPERATOR).state == "thinking"
    service.work()
    assert w.adaptation(adaptation).state == "asking"


def test_progress_is_shown_while_it_runs(service: Service, claimed: jobs.Claim) -> None:
    w = service.workspace
    assert w.adaptations()[0].progress is None
    jobs.beat(w.home, claimed, JobProgress("adapting", 2, 10))
    assert w.adaptations()[0].progress == JobProgress("adapting", 2, 10)
