"""Kills (-9) at random moments: no answer is lost, none is counted twice, and the agent is the same to the bit.

Four people answer from a script, everything twice, while workers are killed. The long test runs `cual serve`,
kills the web process as well, and lets people answer over HTTP.
"""

import contextlib
import hashlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from cual.data.labels import SKIP, Answer
from cual.errors import AlreadyFinished, Unavailable
from cual.serve import worker
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import OPERATOR, Person
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from running import Served
from serving import Service, add_person, make_service
from worlds import World, make_world

BUDGET = 20
FORKS = multiprocessing.get_context("forkserver")
"""Workers that need not import torch each time; they are processes of their own all the same."""

Answering = Callable[[], None]
"""Looks for questions once, and answers some."""


def scripted(world: World, sample: Any) -> Answer:
    """What anybody says of a sample: mostly the truth, sometimes "cannot tell"; always the same."""
    return SKIP if hashlib.sha256(str(sample).encode()).digest()[0] % 5 == 0 else world.truth[sample]


def undisturbed(folder: Path, world: World) -> bytes:
    """The agent that comes of the script when nobody is killed."""
    service = make_service(Workspace.open(folder), world)
    w, adaptation = service.workspace, service.start(BUDGET)
    while w.adaptation(adaptation).state == "asking":
        lent = w.lend(adaptation, service.ann, 1000)
        w.answer(adaptation, service.ann, {q.id: scripted(world, q.sample) for q in lent})
        service.work()
    service.finish(adaptation)
    w.close()
    return service.agent_bytes(1)


def check(service: Service, expected: bytes) -> None:
    """Every question has the answer of the script, given and charged once, and every agent is the same."""
    w, world = service.workspace, service.world
    for record in w.adaptations():
        questions = w.questions(record.id)
        assert len({q.sample for q in questions}) == len(questions)
        for question in questions:
            assert (SKIP if question.unsure else question.effective) == scripted(world, question.sample)
            assert not question.disagreement
            given = Counter(answer.person for answer in question.answers)
            assert set(given.values()) == {1}, "an answer that was sent again is the same answer"
        charged = sum(scripted(world, q.sample) is not SKIP for q in questions)
        assert record.result_version is not None
        assert record.spent == charged <= record.budget
        assert w.versions(service.agent)[record.result_version].labels_used == charged
        assert service.agent_bytes(record.result_version) == expected
    made = [v.adaptation for v in w.versions(service.agent)[1:]]
    assert sorted(made) == sorted(record.id for record in w.adaptations()), "one version each"
    jobs = w.jobs()
    assert not any(job.failures for job in jobs)
    assert sum(job.attempt for job in jobs) > len(jobs), "some were killed at work"
    if w.database.is_sqlite:
        with w.database.reading() as c:
            assert c.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"


@contextlib.contextmanager
def answered(people: list[Answering], pause: float) -> Iterator[None]:
    """Let people answer, all at the same time, until the end of the block."""
    over, failures = threading.Event(), list[BaseException]()

    def run(look: Answering) -> None:
        try:
            while not over.wait(pause):
                with contextlib.suppress(AlreadyFinished):  # another was quicker, and that was the last one
                    look()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(look,)) for look in people]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def annotator(service: Service, person: Person, seed: int) -> Answering:
    """Somebody who answers two questions at a time, sends all twice, and now and then goes for tea."""
    url = service.workspace.database.url.render_as_string(hide_password=False)
    w = Workspace.open(service.workspace.folder, url, lend_seconds=0.1)
    rng = np.random.default_rng(seed)

    def look() -> None:
        for record in w.adaptations()[:1]:
            lent = w.lend(record.id, person, 2)
            for question in lent if rng.random() < 0.8 else ():
                for _ in range(2):
                    w.answer(record.id, person, {question.id: scripted(service.world, question.sample)})

    return look


def go_on(service: Service, enough: bool) -> bool:
    """Finish what is to be finished and start the next, always from the first version; False at the end."""
    w = service.workspace
    record = next(iter(w.adaptations()), None)
    assert record is None or record.state != "failed", record
    if record is not None and record.state == "review":
        w.finish(record.id, OPERATOR)
    elif record is None or record.state == "finished":
        if enough:
            return False
        w.roll_back(service.agent, 0, OPERATOR)
        w.start(service.agent, service.pool, BUDGET, service.ann)
    return True


def busy(workspace: Workspace) -> set[int]:
    """Processes that have a job, living or dead."""
    j = db.jobs.c
    with workspace.database.reading() as c:
        names = c.execute(sa.select(j.worker).where(j.state == "running")).scalars().all()
    return {int(str(name).split()[-2]) for name in names}


def wait(true: Callable[[], Any], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def kill_workers(service: Service, kills: int, seed: int) -> None:
    """Start a worker, kill it at a random moment, again and again; at the end let one finish."""
    w, rng, killed, running = service.workspace, np.random.default_rng(seed), 0, None
    arguments = [str(w.folder), "--database", w.database.url.render_as_string(hide_password=False)]
    FORKS.set_forkserver_preload(["cual.serve.worker"])
    try:
        while go_on(service, enough=killed >= kills):
            if running is None or not running.is_alive():
                running = FORKS.Process(target=worker.main, args=(arguments,))
                running.start()
            if killed < kills and wait(lambda pid=running.pid: pid in busy(w), 0.5):
                time.sleep(rng.uniform(0, 0.2))
                if rng.random() < 0.6:  # else it gets further
                    os.kill(running.pid or 0, signal.SIGKILL)
                    running.join()
                    killed += 1
            time.sleep(0.01)
    finally:
        if running is not None:
            running.kill()
            running.join()


@pytest.mark.attacks
def test_workers_are_killed(workspace: Workspace, tmp_path: Path) -> None:
    world = make_world(old=30)
    service = make_service(workspace, world)
    people = [service.ann, service.bob, add_person(workspace, "cem"), add_person(workspace, "dao")]
    with answered([annotator(service, person, seed) for seed, person in enumerate(people)], pause=0.02):
        kill_workers(service, kills=10, seed=1)
    check(service, undisturbed(tmp_path / "undisturbed", world))


# -- the whole service -----------------------------------------------------------------------------------------

KILLS = int(os.environ.get("CUAL_KILLS", "200"))


def remote_annotator(service: Service, url: str, token: str, seed: int) -> Answering:
    """As `annotator`, over HTTP."""
    from cual.client import Client

    client, rng = Client(url, token, patience=300), np.random.default_rng(seed)

    def look() -> None:
        for task in client.adaptations()[:1]:
            query = task.ask(wait=False, n=2)
            if query is not None and rng.random() < 0.8:
                for sample in query.ids:
                    for _ in range(2):
                        task.tell(query.id, {sample: scripted(service.world, sample)})

    return look


@pytest.mark.slow
def test_workers_and_the_web_process_are_killed(workspace: Workspace, tmp_path: Path) -> None:
    world = make_world(old=30)
    service = make_service(workspace, world)
    accounts, rng = Accounts(workspace.database), np.random.default_rng(2)
    people = [service.ann, service.bob, add_person(workspace, "cem"), add_person(workspace, "dao")]
    tokens = [accounts.new_token(person.id, "api", by=OPERATOR)[1] for person in people]
    served, kills = Served(workspace, tmp_path / "service.log"), Counter[str]()
    url = f"http://127.0.0.1:{served.port}"
    try:
        everybody = [remote_annotator(service, url, token, n) for n, token in enumerate(tokens)]
        with answered(everybody, pause=0.2):
            while go_on(service, enough=kills.total() >= KILLS):
                if kills.total() >= KILLS:
                    time.sleep(0.05)
                    continue
                # At work, or at any moment of its start.
                wait(lambda: served.worker in busy(workspace), rng.choice([0.5, 20]))
                time.sleep(rng.uniform(0, 0.2))
                if rng.random() < 0.5:
                    served.kill_web()
                    kills["web"] += 1
                else:
                    kills["worker"] += served.kill_worker()
    except Unavailable:
        raise AssertionError((tmp_path / "service.log").read_text()[-5000:]) from None
    finally:
        served.end()
    assert min(kills["web"], kills["worker"]) > KILLS / 4
    check(service, undisturbed(tmp_path / "undisturbed", world))
