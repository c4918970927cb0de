"""Kills (-9) while samples are sent: none that was answered is lost, none is kept or counted twice."""

import hashlib
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cual.client import Client
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.inbox import files, keeping, writing
from cual.serve.rules.inbox.records import Arrivals, Key, Policy
from cual.serve.rules.records import OPERATOR, Person
from cual.serve.rules.workspace import Workspace
from running import Served, until
from serving import Service

pytestmark = pytest.mark.more

FORKS = multiprocessing.get_context("forkserver")
KEY = Key("again", "body")
ALL = Policy(known_share=1.0, near=None)


def sample(seed: int) -> Arrivals:
    X = np.random.default_rng(seed).normal(size=(3, 16)).astype(np.float32)
    digests = [hashlib.sha256(row.tobytes()).hexdigest() for row in X]
    originals = [f"text {seed} {row}".encode() for row in range(3)]
    return Arrivals(X, digests, ["unsure"] * 3, ["cat"] * 3, [1.0] * 3, 0, "text", originals)


def send(workspace: Workspace, agent: int, person: Person) -> None:
    workspace.send(agent, sample(0), person, lambda fates: ",".join(fates).encode(), KEY)


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def send_and_die(folder: Path, agent: int, person: Person, moment: str) -> None:
    """Send in a process of its own, which is killed at a moment."""
    workspace = Workspace.open(folder)
    if moment == "before the file is there":
        os.replace = die
    elif moment == "before the transaction":
        writing.write = die
    elif moment == "before the end of the transaction":
        writing._remember = die
    elif moment == "after the transaction":
        keeping.Latest.drop = die
    send(workspace, agent, person)
    os._exit(1)  # it should not have come to this


@pytest.mark.parametrize(
    ("moment", "kept"),
    [
        ("before the file is there", False),
        ("before the transaction", False),
        ("before the end of the transaction", False),
        ("after the transaction", True),
    ],
)
def test_a_kill_at_any_moment_loses_and_doubles_nothing(service: Service, moment: str, kept: bool) -> None:
    workspace, agent = service.workspace, service.agent
    if not workspace.database.is_sqlite:
        pytest.skip("the process that is killed opens the file")
    workspace.set_inbox_policy(agent, ALL, service.ann)
    killed = FORKS.Process(target=send_and_die, args=(workspace.folder, agent, service.ann, moment))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert workspace.inbox(agent).arrived == (3 if kept else 0)
    workspace.empty_uploads()  # as the service does when it starts
    left = list(files.folder_of(workspace.home, agent).iterdir())
    assert len(left) == (1 if kept else 0), "what nobody refers to is removed"
    send(workspace, agent, service.ann)
    record = workspace.inbox(agent)
    assert (record.waiting, record.arrived) == (3, 3)
    np.testing.assert_array_equal(workspace.waiting_samples(agent).X, sample(0).X)
    assert workspace.sent_before(agent, service.ann, KEY) == b"kept,kept,kept"


@pytest.mark.attacks
def test_the_web_process_is_killed_while_programs_send(service: Service, tmp_path: Path) -> None:
    workspace = service.workspace
    if not workspace.database.is_sqlite:
        pytest.skip("one database is enough for processes")
    workspace.set_inbox_policy(service.agent, ALL, service.ann)
    token = Accounts(workspace.database).new_token(service.ann.id, "api", by=OPERATOR)[1]
    served = Served(workspace, tmp_path / "service.log")
    X = np.random.default_rng(0).normal(size=(2, 300, 2, 16)).astype(np.float32)
    answered: list[int] = [0, 0]
    over = threading.Event()

    def program(number: int) -> None:
        with Client(served.url, token, patience=300) as client:
            for part in X[number]:
                told = client.send(service.agent, part)
                assert [verdict.kept for verdict in told] == ["kept", "kept"], "also if it was sent twice"
                answered[number] += 1
                if over.is_set():
                    return

    programs = [threading.Thread(target=program, args=(number,)) for number in range(2)]
    try:
        for thread in programs:
            thread.start()
        for kill in range(3):
            before = sum(answered)
            until(lambda before=before: sum(answered) > before + 20 or not programs[0].is_alive())
            time.sleep(0.01 * kill)
            served.kill_web()
        before = sum(answered)
        until(lambda: sum(answered) > before + 4 or not programs[0].is_alive())
        over.set()
        for thread in programs:
            thread.join(300)
    finally:
        over.set()
        served.end()
    assert min(answered) > 0
    record = workspace.inbox(service.agent)
    assert record.waiting == record.arrived == 2 * sum(answered)
    kept = {row.tobytes() for row in workspace.waiting_samples(service.agent).X}
    sent = [X[number, part, row] for number in range(2) for part in range(answered[number]) for row in range(2)]
    assert kept == {row.tobytes() for row in sent}
