"""`/live` and `/health`: what is tried, what it says, and that it answers whatever hangs."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage.database import Database
from cual.serve.web.background import Background
from cual.serve.web.readiness import Probe
from processes import children
from running import Served, until
from serving import Service, make_service
from visiting import Site, site
from worlds import make_world

pytestmark = pytest.mark.more


@pytest.fixture
def here(service: Service) -> Iterator[Site]:
    with site(service) as held:
        yield held


def good(probe: Probe) -> bool:
    return asyncio.run(probe.good())


def health(held: Site) -> tuple[int, dict[str, Any]]:
    answer = held.visitor().get("/health")
    return answer.status_code, answer.json()


# -- what is tried ---------------------------------------------------------------------------------------------


def test_an_attempt_that_fails_is_told_and_tried_again() -> None:
    fails = True

    def attempt() -> None:
        if fails:
            raise OSError("no room")

    probe = Probe("writing", attempt, patience=60, fresh=0)
    assert not good(probe)
    fails = False
    until(lambda: good(probe))


def test_an_attempt_is_not_made_for_everybody_who_asks() -> None:
    attempts: list[int] = []
    probe = Probe("writing", lambda: attempts.append(1), patience=60, fresh=3600)
    assert all(good(probe) for _ in range(5))
    assert attempts == [1]


def test_an_attempt_that_never_ends_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cual.serve.web.readiness.WAIT", 0.05)
    end, begun = threading.Event(), list[int]()

    def attempt() -> None:
        begun.append(1)
        end.wait()

    slow = Probe("predicting", attempt, patience=3600, fresh=0)
    assert good(slow), "it may still end"
    hangs = Probe("writing", attempt, patience=0, fresh=0)
    assert not any(good(hangs) for _ in range(3))
    assert begun == [1, 1], "nobody begins it again meanwhile"
    end.set()
    until(lambda: good(hangs))


def test_what_ends_in_the_background_is_told_and_begun_anew() -> None:
    ending, fate = threading.Event(), threading.Event()
    fate.set()

    def run() -> None:
        if fate.is_set():
            raise SystemExit  # what no handler of exceptions catches
        ending.wait()

    background = Background("webhooks", run, ending, pause=0.01)
    assert background.working(), "it has not begun"
    background.start()
    until(lambda: not background.working())
    fate.clear()
    until(background.working)
    ending.set()
    background.join(60)
    assert background.working(), "it has ended, as it should"


# -- what is said ----------------------------------------------------------------------------------------------


def test_all_is_well(here: Site) -> None:
    status, told = health(here)
    assert status == 200
    assert set(told) == {"status", "database", "worker", "version"}
    assert here.visitor().get("/live").json() == {"status": "ok", "version": told["version"]}


def test_a_probe_is_no_prediction_of_anybody(here: Site) -> None:
    health(here)
    client = here.bearer()
    client.post(
        f"/api/agents/{here.service.agent}/predict", json={"features": here.service.world.pool[:3].tolist()}
    )
    until(lambda: health(here)[0] == 200)
    assert "cual_predicted_rows_total 3.0" in client.get("/metrics").text
    assert "cual_predict_batches_total 1.0" in client.get("/metrics").text


def test_a_folder_that_takes_nothing_is_told(here: Site) -> None:
    uploads = here.service.workspace.uploads
    shutil.rmtree(uploads)
    uploads.write_text("")  # no folder: nothing can be written in it, not even by root
    until(lambda: health(here)[0] == 503)
    assert health(here)[1]["writes"] == "failing"
    assert health(here)[1]["database"] == "ok"
    uploads.unlink()
    until(lambda: health(here)[0] == 200)


def test_agents_of_which_none_can_predict_are_told(here: Site) -> None:
    home, agent = here.service.workspace.home, here.service.agent
    whole = home.agent_file(agent, 0).read_bytes()
    home.agent_file(agent, 0).write_bytes(whole[:100])
    fresh = Workspace(home)  # which has loaded nothing yet
    here.app.state.predictor._load = fresh.load_agent
    until(lambda: health(here)[1].get("predictions") == "failing")
    home.agent_file(agent, 0).write_bytes(whole)
    until(lambda: health(here)[0] == 200)


def test_one_damaged_agent_says_nothing_of_the_others(here: Site) -> None:
    workspace = here.service.workspace
    other = workspace.add_agent("other", here.service.world.agent(), OPERATOR)
    workspace.home.agent_file(other.id, 0).write_bytes(b"damaged")
    here.app.state.predictor._load = Workspace(workspace.home).load_agent
    assert health(here)[0] == 200
    until(lambda: here.app.state.predictor.last == here.service.agent)
    assert health(here)[0] == 200


def test_a_worker_that_gives_no_sign_of_life_is_told(here: Site) -> None:
    here.app.state.worker_silent = lambda: True
    assert health(here)[0] == 503
    assert health(here)[1]["worker"] == "stalled"
    here.app.state.worker_alive = lambda: False
    assert health(here)[1]["worker"] == "dead"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_task_that_died_is_told(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from cual.serve.web.watching import delivering

    def die(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(delivering.webhooks, "due", die)
    until(lambda: health(here)[1].get("background") == ["webhooks"])
    assert health(here)[0] == 503
    monkeypatch.undo()
    until(lambda: health(here)[0] == 200)


def test_life_and_health_are_told_while_the_database_hangs(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cual.serve.web.readiness.WAIT", 0.05)
    end = threading.Event()

    @contextlib.contextmanager
    def hang(*_: Any) -> Iterator[Any]:
        end.wait()
        raise OSError("it was gone")
        yield

    here.app.state.readiness.database._patience = 0.0
    monkeypatch.setattr(Database, "reading", hang)
    held = here.visitor(Authorization="Bearer cual_of-somebody")  # whom nobody looks up
    assert held.get("/live").status_code == 200
    until(lambda: held.get("/health").status_code == 503)
    assert held.get("/health").json()["database"] == "failing"
    end.set()


# -- real processes --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def serving(folder: Path, log: Path, url: str | None = None) -> Iterator[tuple[Service, Served, httpx.Client]]:
    workspace = Workspace.open(folder, url)
    service = make_service(workspace, make_world())
    served = Served(workspace, log)
    try:
        with httpx.Client(base_url=served.url, timeout=60) as client:
            until(lambda: ready(client) == 200)
            yield service, served, client
    finally:
        served.end()
        workspace.close()


def ready(client: httpx.Client) -> int:
    with contextlib.suppress(httpx.TransportError):
        return client.get("/health").status_code
    return 0


@pytest.mark.attacks
def test_a_stopped_worker_is_told_and_goes_on(tmp_path: Path, database_url: str | None) -> None:
    """Both of its processes: the keeper, and the runner that it forked."""
    with serving(tmp_path / "workspace", tmp_path / "log", database_url) as (_, served, client):
        keeper = served.worker
        assert keeper is not None
        until(lambda: bool(children(keeper)))
        for stopped in (keeper, *children(keeper)):
            os.kill(stopped, signal.SIGSTOP)
            try:
                until(lambda: ready(client) == 503)
                assert client.get("/health").json()["worker"] == "stalled"
                assert client.get("/live").status_code == 200
                assert "cual_worker_alive 0.0" in client.get("/metrics").text
            finally:
                os.kill(stopped, signal.SIGCONT)
            until(lambda: ready(client) == 200)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.attacks
def test_a_full_disk_is_told_reading_goes_on_and_nothing_is_lost(small_disk: Path, tmp_path: Path) -> None:
    from cual.serve.rules.accounts import Accounts

    with serving(small_disk / "workspace", tmp_path / "log") as (service, _, client):
        token = Accounts(service.workspace.database).new_token(service.ann.id, "api", by=OPERATOR)[1]
        client.headers["Authorization"] = f"Bearer {token}"
        adaptation = service.workspace.start(service.agent, service.pool, 8, service.ann).id
        until(lambda: service.workspace.adaptation(adaptation).state == "asking")
        filler = small_disk / "filler"
        with filler.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(64 * 1024))
                file.flush()
        until(lambda: ready(client) == 503)
        assert client.get("/health").json()["writes"] == "failing"
        assert client.get("/live").status_code == 200
        assert client.get("/api/agents").status_code == 200
        X = service.world.pool[:3].astype(np.float32)
        told = client.post(f"/api/agents/{service.agent}/predict", json={"features": X.tolist()})
        assert told.status_code == 200
        refused = [
            client.post("/api/people", json={"name": "zoe" * 30, "role": Role.reader}),
            client.post(
                "/api/pools",
                data={"name": "p", "agent": "1"},
                files={"files": ("x.csv", b"text\n" + b"a\n" * 200_000)},
            ),
            client.post(f"/api/agents/{service.agent}/send", json={"features": X.tolist()}),
            client.post("/api/backup"),
        ]
        assert {answer.status_code for answer in refused} == {503}, [answer.text for answer in refused]
        assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
        filler.unlink()
        until(lambda: ready(client) == 200)
        lent = client.post(f"/api/adaptations/{adaptation}/lend", json={"n": 100})
        assert lent.status_code == 200, lent.text
        assert client.post("/api/people", json={"name": "zoe", "role": "reader"}).status_code == 201
