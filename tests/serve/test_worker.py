"""The worker: errors and retries, giving up when asked to end, and as a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from cual import Pool
from cual.errors import BadFeatures
from cual.serve.jobs import keeping, steps, worker
from cual.serve.jobs.worker import Worker, work_once
from cual.serve.rules import jobs
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from cual.serve.worker import NICE
from serving import Service

pytestmark = pytest.mark.more


def until(true: Callable[[], Any], seconds: float = 240) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not (result := true()):
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)
    return result


@contextlib.contextmanager
def process(workspace: Workspace, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of its own."""
    url = workspace.database.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "cual.serve.worker", str(workspace.folder), *more]
    running = subprocess.Popen(command, env={**os.environ, "CUAL_DATABASE": url, "OMP_NUM_THREADS": "1"})
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setitem(worker.WORK, "advance", fail)


def test_there_may_be_nothing_to_do(workspace: Workspace) -> None:
    assert not work_once(workspace)


def test_a_worker_does_an_adaptation_from_a_process_of_its_own(service: Service) -> None:
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    with process(w, "--parent", str(os.getpid())) as running:
        while until(lambda: w.adaptation(adaptation).state != "thinking") and w.adaptation(adaptation).open:
            service.answer_round(adaptation)
        w.finish(adaptation, OPERATOR)
        until(lambda: w.adaptation(adaptation).state == "finished")
        nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)  # there is nothing nicer than 19
        assert os.getpriority(os.PRIO_PROCESS, running.pid) == nice
        running.send_signal(signal.SIGTERM)
        assert running.wait(180) == 0
    assert w.agent(service.agent).version == 1


def test_a_worker_ends_with_its_parent(service: Service) -> None:
    between = (
        "import subprocess, sys, time\n"
        f"command = [sys.executable, '-m', 'cual.serve.worker', {str(service.workspace.folder)!r}]\n"
        "child = subprocess.Popen([*command, '--parent', str(__import__('os').getpid())])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    url = service.workspace.database.url.render_as_string(hide_password=False)
    with subprocess.Popen(
        [sys.executable, "-c", between], stdout=subprocess.PIPE, env={**os.environ, "CUAL_DATABASE": url}
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert jobs.started(child)
        parent.kill()
    until(lambda: not jobs.started(child))


def test_a_worker_without_its_parent_does_not_begin() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(SystemExit, match="is not there"):
        keeping.end_with(gone.pid)


def test_what_is_wrong_on_purpose_is_not_tried_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, BadFeatures("row 3 holds NaN"))
    adaptation = service.start()
    record = service.workspace.adaptation(adaptation)
    assert (record.state, record.error) == ("failed", "row 3 holds NaN")
    monkeypatch.undo()
    service.workspace.retry(adaptation, OPERATOR)
    service.work()
    record = service.workspace.adaptation(adaptation)
    assert (record.state, record.error) == ("asking", None)


def test_what_goes_wrong_by_chance_is_tried_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, OSError("the disk is full"))
    adaptation = service.start()
    job = service.workspace.jobs()[0]
    assert (job.state, job.failures, job.error) == ("waiting", 1, "OSError: the disk is full")
    monkeypatch.undo()
    until(lambda: service.work() or service.workspace.adaptation(adaptation).state == "asking")
    assert service.workspace.jobs()[0].error is None


def test_asked_to_end_it_gives_its_job_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    ending = Worker(w)

    def work(home: Any, claim: Any, progress: Any) -> None:
        ending.end()
        steps.advance(home, claim, progress)

    monkeypatch.setitem(worker.WORK, "advance", work)
    assert ending.run_once()
    job = w.jobs()[0]
    assert (job.state, job.failures, job.attempt) == ("waiting", 0, 1)
    ending.run_forever()
    assert w.adaptation(adaptation).state == "thinking"
    monkeypatch.undo()
    service.work()
    assert w.adaptation(adaptation).state == "asking"


def test_a_worker_that_lost_its_job_stops(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody took it for dead: its work is thrown away, the other's counts."""
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    monkeypatch.setattr(worker, "BEAT", 0.01)

    def work(home: Any, claim: Any, progress: Any) -> None:
        with home.database.writing() as c:
            c.execute(sa.update(db.jobs).values(attempt=db.jobs.c.attempt + 1))
        until(lambda: _gives_up(progress))
        raise worker.GiveUp

    monkeypatch.setitem(worker.WORK, "advance", work)
    assert work_once(w)
    assert w.jobs()[0].state == "running", "it is the other's now"
    assert w.adaptation(adaptation).state == "thinking"


def _gives_up(progress: Any) -> bool:
    try:
        progress("adapting", 0, 1)
    except worker.GiveUp:
        return True
    return False


@pytest.mark.parametrize("kind", ["advance", "finish"])
def test_an_answer_that_comes_in_between_is_not_missed(
    service: Service, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    w = service.workspace
    adaptation = service.start()
    if kind == "finish":
        service.answer_all(adaptation)
        w.finish(adaptation, OPERATOR)
    else:
        service.answer_round(adaptation)
    first = w.questions(adaptation)[0]
    original, calls = worker.WORK[kind], list[int]()

    def work(home: Any, claim: Any, progress: Any) -> None:
        def report(*told: Any) -> None:
            if not calls:
                calls.append(1)
                w.answer(adaptation, service.ann, {first.id: "a late thought"})
            progress(*told)

        original(home, claim, report)

    monkeypatch.setitem(worker.WORK, kind, work)
    assert work_once(w)
    assert w.adaptation(adaptation).state == "thinking", "what was computed without the answer does not count"
    assert work_once(w)
    assert w.adaptation(adaptation).state == {"advance": "asking", "finish": "finished"}[kind]
    service.answer_all(adaptation)
    if kind == "advance":
        service.finish(adaptation)
    assert "a late thought" in w.agent(service.agent).classes


def test_labelling_goes_on_while_a_pool_is_prepared(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    w = service.workspace
    adaptation = service.start()
    states: list[str] = []
    monkeypatch.setattr(worker, "POLL", 0.0)

    def prepare(home: Any, claim: Any, progress: Any) -> None:
        service.answer_round(adaptation)
        states.append(w.adaptation(adaptation).state)
        progress("encoding", 1, 2)
        states.append(w.adaptation(adaptation).state)

    monkeypatch.setitem(worker.WORK, "prepare", prepare)
    w.add_pool("large", Pool(service.world.pool), service.agent, OPERATOR)
    assert work_once(w)
    assert states == ["thinking", "asking"]


def test_a_worker_that_is_to_end_begins_nothing_in_between(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = service.workspace
    adaptation = service.start()
    monkeypatch.setattr(worker, "POLL", 0.0)
    ending = Worker(w)

    def prepare(home: Any, claim: Any, progress: Any) -> None:
        service.answer_round(adaptation)
        with pytest.raises(worker.GiveUp):
            progress("encoding", 1, 2)
        raise worker.GiveUp

    def advance(home: Any, claim: Any, progress: Any) -> None:
        ending.end()
        steps.advance(home, claim, progress)

    monkeypatch.setitem(worker.WORK, "prepare", prepare)
    monkeypatch.setitem(worker.WORK, "advance", advance)
    w.add_pool("large", Pool(service.world.pool), service.agent, OPERATOR)
    assert ending.run_once(("prepare",))
    assert {job.state for job in w.jobs()[:2]} == {"waiting"}


def test_a_database_that_fails_costs_no_attempt(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, OperationalError("SELECT 1", {}, Exception("gone")))
    adaptation = service.workspace.start(service.agent, service.pool, 8, service.ann).id
    with pytest.raises(OperationalError):
        work_once(service.workspace)
    assert (service.workspace.jobs()[0].state, service.workspace.jobs()[0].failures) == ("waiting", 0)
    monkeypatch.undo()
    service.work()
    assert service.workspace.adaptation(adaptation).state == "asking"


def test_two_workers_do_not_disturb_each_other(service: Service) -> None:
    """Attempts of one job side by side: each has its folder, and only the last one counts."""
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    late = jobs.claim(w.home, jobs.identity())
    with w.database.writing() as c:
        c.execute(
            sa.update(db.jobs).where(db.jobs.c.state == "running").values(worker="gone 1 1", heartbeat=None)
        )
    quick = jobs.claim(w.home, jobs.identity())
    assert late is not None
    assert quick is not None
    steps.advance(w.home, quick, lambda *_: None)
    steps.advance(w.home, late, lambda *_: None)
    record = w.adaptation(adaptation)
    assert (record.state, record.open) == ("asking", 3)
    service.answer_all(adaptation)
    assert service.finish(adaptation).state == "finished"


@pytest.mark.parametrize("moment", ["before the save", "after the save", "after the file"])
def test_a_kill_changes_nothing(service: Service, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """At the worst moments, in one process; tests/serve/test_faults.py does it to real ones."""

    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> Any:
        raise Killed

    w = service.workspace
    undisturbed = service.start()
    service.answer_all(undisturbed)
    service.finish(undisturbed)
    w.roll_back(service.agent, 0, OPERATOR)
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    while w.adaptation(adaptation).state != "finished":
        record = w.adaptation(adaptation)
        if record.state == "asking":
            service.answer_round(adaptation)
        elif record.state == "review":
            w.finish(adaptation, OPERATOR)
        target = {"before the save": "_keep", "after the save": "_still", "after the file": "_commit"}[moment]
        with monkeypatch.context() as broken, contextlib.suppress(Killed):
            broken.setattr(steps, target, killed)
            work_once(w)
        with w.database.writing() as c:
            c.execute(sa.update(db.jobs).where(db.jobs.c.state == "running").values(heartbeat=None))
        work_once(w)
    assert service.agent_bytes(2) == service.agent_bytes(1)
    assert [v.number for v in w.versions(service.agent)] == [0, 1, 2]
    left = [p.name for p in (w.folder / "agents").rglob("*") if p.is_file()]
    assert sorted(left) == ["0.agent", "1.agent", "2.agent"]
    assert len(list(w.home.adaptation_folder(adaptation).iterdir())) == 1
