"""`cual.Client` against a service on a real socket: the library's contract, retries, and clear errors."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn

from cual import SKIP, Client
from cual.client import RemoteAdaptation, RemoteAgent, RemoteRepair, ServiceError
from cual.errors import (
    BadFeatures,
    BadLabels,
    BudgetExceeded,
    Conflict,
    LabelsMissing,
    NotAllowed,
    NotFound,
    TooFewSamples,
    Unavailable,
    UnknownClass,
    UnknownQuery,
    UnknownSample,
)
from cual.serve.jobs import repairing
from cual.serve.jobs.worker import Worker
from cual.serve.operations.supervisor import listen
from cual.serve.rules.records import Role
from cual.serve.web.security.middleware import no_database
from running import until
from serving import Service
from visiting import Site, site
from worlds import World


class Quiet(uvicorn.Server):
    """Leaves signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def served(app: Any, held: socket.socket | None = None) -> Iterator[str]:
    """An app on a socket of the loopback: its address."""
    held = held or listen("127.0.0.1", None)
    server = Quiet(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    try:
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        held.close()


@pytest.fixture
def here(service: Service) -> Iterator[Site]:
    with site(service) as held:
        yield held


@pytest.fixture
def url(here: Site) -> Iterator[str]:
    """The service's address, while a worker works beside it."""
    worker = Worker(here.service.workspace)
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    with served(here.app) as address:
        yield address
    worker.end()
    thread.join()


@pytest.fixture
def admin(here: Site, url: str) -> Iterator[Client]:
    with Client(url, here.token(Role.admin)) as client:
        yield client


def test_the_loop_of_the_library_works_from_afar(admin: Client, here: Site) -> None:
    service = here.service
    (agent,), (pool,) = admin.agents(), admin.pools()
    task = admin.start(agent, pool, 12)
    while query := task.ask():
        assert len(query) == len(query.ids) == len(query.scores) == len(query.zones) == len(query.suggestions)
        task.tell(query.id, {i: service.truth(i) for i in query.ids})
    after = task.finish()
    local = service.world.answer_all(service.world.adapt(service.world.agent(), 12)).finish()
    assert list(after.classes) == local.classes_.tolist()
    assert (admin.predict(agent, service.world.pool) == local.predict(service.world.pool)).all()
    assert np.allclose(admin.predict_proba(agent, service.world.pool), local.predict_proba(service.world.pool))
    assert np.allclose(admin.novelty(agent, service.world.pool), local.novelty(service.world.pool), rtol=1e-4)
    assert task.state.result_version == 1
    assert "Another question is" in (task.state.outlook or "")
    assert [row["iteration"] for row in task.history()] == list(range(len(task.history())))
    assert admin.roll_back(agent, 0).version == 0


def test_watching_and_webhooks_from_afar(admin: Client, here: Site) -> None:
    service = here.service
    (agent,) = admin.agents()
    admin.verdicts(agent, service.world.pool)
    here.app.state.gathering.flush()
    told = admin.watching(agent, since=datetime.now(UTC) - timedelta(hours=1))
    assert told["seen"] == len(service.world.pool)
    assert admin.watching(agent, since=datetime.now(UTC) + timedelta(hours=1))["points"] == []
    assert admin.set_watching(agent, starts=True, most_questions=9, least_gain=2)["most_questions"] == 9
    with pytest.raises(Conflict, match="no adaptation is proposed"):
        admin.begin_proposed(agent)
    hook, secret = admin.add_webhook(agent, "https://hooks.example.org/", ["version.live"], "a secret of ours")
    assert (hook["events"], secret) == (["version.live"], "a secret of ours")
    assert admin.change_webhook(agent, hook["id"], active=False)["active"] is False
    assert [row["id"] for row in admin.webhooks(agent)] == [hook["id"]]
    admin.remove_webhook(agent, hook["id"])
    assert admin.webhooks(agent) == []


def test_the_example_of_the_documentation_runs(here: Site, url: str, tmp_path: Path, capsys: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    world = here.service.world
    np.savez(tmp_path / "pool.npz", X=world.pool, ids=np.array(world.ids))
    code = example.replace("http://127.0.0.1:8765", url).replace("cual_…", here.token(Role.admin))
    code = code.replace("pool.npz", str(tmp_path / "pool.npz"))
    held: dict[str, Any] = {"truth": world.truth, "X": world.pool}
    exec(compile(code, "service.md", "exec"), held)
    assert capsys.readouterr().out.startswith("1 ('cat', 'dog', ")
    assert len(held["labels"]) == len(world.pool)


def test_a_query_may_be_told_in_parts_by_several(admin: Client, here: Site, url: str) -> None:
    task = admin.start(1, 1, 12)
    with Client(url, here.token(Role.annotator)) as other:
        bob = other.adaptation(task.id)
        first, second = task.ask(n=2), bob.ask(n=100)
        assert first is not None
        assert second is not None
        assert first.id == second.id
        assert not set(first.ids) & set(second.ids)
        assert bob.ask(wait=False, n=100) == second  # what is lent comes again
        bob.tell(second.id, {second.ids[0]: SKIP})
        bob.tell(second.id, {first.ids[0]: "cat"})  # lent to somebody else: accepted all the same
        assert bob.undo() == first.ids[0]
        assert task.state.spent == 0
        for sample in first.ids:
            task.tell(first.id, {sample: None})  # None is SKIP
        bob.tell(second.id, dict.fromkeys(second.ids, SKIP))
        until(lambda: task.state.round > 0 or task.state.state == "review")
        assert task.state.spent == 0


def test_errors_are_those_of_the_library(admin: Client, here: Site, url: str) -> None:
    task = admin.start(1, 1, 8)
    query = task.ask()
    assert query is not None
    with pytest.raises(UnknownQuery):
        task.tell("nonsense", {query.ids[0]: "cat"})
    with pytest.raises(UnknownSample):
        task.tell(query.id, {"nonsense": "cat"})
    with pytest.raises(BadLabels, match="known so far are str"):
        task.tell(query.id, {query.ids[0]: 5})
    with pytest.raises(LabelsMissing):
        task.finish()
    with pytest.raises(NotFound):
        admin.adaptation(999)
    with pytest.raises(Conflict):
        task.retry()
    for wrong in (np.zeros((3, 5)), np.full((2, 16), np.nan), np.zeros(16), np.zeros((0, 16))):
        with pytest.raises(BadFeatures):
            admin.predict(1, wrong)
    with pytest.raises(BadFeatures):
        admin.add_pool("x", 1)
    with Client(url, here.token(Role.reader)) as eve, pytest.raises(NotAllowed, match="role"):
        eve.start(1, 1, 8)
    with Client(url, "cual_wrong") as nobody, pytest.raises(NotAllowed, match="not known"):
        nobody.agents()
    with pytest.raises(ServiceError):
        admin.get("/api/people/x")


def test_a_skip_cannot_be_turned_into_an_answer_past_the_budget(admin: Client) -> None:
    task = admin.start(1, 1, 2)
    query = task.ask()
    assert query is not None
    task.tell(query.id, dict.fromkeys(query.ids, SKIP))
    while (later := task.ask()) is not None:
        task.tell(later.id, dict.fromkeys(later.ids, "cat"))
    with pytest.raises(BudgetExceeded):
        task.tell(query.id, dict.fromkeys(query.ids, "cat"))


def test_pools_and_agents_are_uploaded(admin: Client, here: Site, tmp_path: Path) -> None:
    world = here.service.world
    world.agent().save(tmp_path / "a.agent")
    agent = admin.add_agent("another", tmp_path / "a.agent")
    assert (agent.name, agent.classes, agent.width) == ("another", ("cat", "dog"), 16)
    np.savez(tmp_path / "p.npz", X=world.pool)
    assert admin.add_pool("file", agent, files=tmp_path / "p.npz").size == len(world.pool)
    assert admin.add_pool("ids", agent, X=world.pool, ids=world.ids).state == "ready"
    np.savez(here.service.workspace.home.roots[0] / "there.npz", X=world.pool)
    assert admin.add_pool("path", agent, path="there.npz").kind == "features"
    with pytest.raises(ServiceError, match="3 wide"):
        admin.add_pool("narrow", agent, X=np.zeros((4, 3)))
    assert admin.add_pool("later", agent, X=world.pool, wait=False).state == "preparing"
    assert admin.picture(1, 0)[:4] == b"RIFF"
    with pytest.raises(NotFound):
        admin.text(1, 0)


def test_many_rows_are_sent_in_parts(admin: Client, here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cual.client.samples._CHUNK", 1000)
    X = here.service.world.pool
    assert admin.predict(1, X).tolist() == here.service.workspace.load_agent(1).predict(X).tolist()


def test_pseudo_labels_can_be_reviewed(admin: Client, here: Site) -> None:
    task = admin.start(1, 1, 12)
    while query := task.ask():
        task.tell(query.id, {i: here.service.truth(i) for i in query.ids})
    believed = task.pseudo_labels()
    task.review({believed[0]["row"]: "reject", believed[1]["row"]: "confirm"})
    told = {row["row"]: row["verdict"] for row in task.pseudo_labels()}
    assert (told[believed[0]["row"]], told[believed[1]["row"]]) == ("reject", "confirm")


def test_stopping_and_dropping(admin: Client) -> None:
    task = admin.start(1, 1, 8)
    assert task.ask() is not None
    task.stop()
    assert task.ask() is None
    assert task.finish().version == 1
    other = admin.start(1, 1, 8)
    other.drop()
    assert other.ask() is None
    assert [held.id for held in admin.adaptations()] == [other.id, task.id]


def test_a_backup_is_written(admin: Client, tmp_path: Path) -> None:
    admin.backup(tmp_path / "backup")
    assert (tmp_path / "backup").read_bytes()[:2] == b"PK"
    with pytest.raises(FileExistsError):
        admin.backup(tmp_path / "backup")


def test_a_backup_that_is_refused_leaves_no_file(here: Site, url: str, tmp_path: Path) -> None:
    with Client(url, here.token(Role.annotator)) as client, pytest.raises(NotAllowed, match="admin"):
        client.backup(tmp_path / "backup")
    nobody = Client("http://127.0.0.1:1", "token")
    with nobody, pytest.raises(Unavailable):
        nobody.backup(tmp_path / "backup")
    assert list(tmp_path.glob("backup*")) == []


def test_a_service_that_comes_back_is_waited_for(here: Site) -> None:
    """Started, gone, and there again: whoever asks notices nothing."""
    held = socket.create_server(("127.0.0.1", 0))  # not the usual port, which another test may take meanwhile
    port = held.getsockname()[1]
    with served(here.app, held) as address:
        client = Client(address, here.token(Role.admin), patience=60)
        assert len(client.agents()) == 1
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(client.agents()))
    asking.start()
    with served(here.app, listen("127.0.0.1", port)):
        asking.join()
    client.close()
    assert len(answers[0]) == 1


def test_a_service_that_stays_away_is_an_error(here: Site) -> None:
    with listen("127.0.0.1", None) as held:
        port = held.getsockname()[1]
    with (
        Client(f"http://127.0.0.1:{port}", "x", patience=0) as client,
        pytest.raises(Unavailable, match="answers at"),
    ):
        client.agents()


def test_what_must_not_be_done_twice_is_unavailable_while_the_database_is_away(here: Site) -> None:
    """Nobody sends it again by themselves; the error says that later it may be done."""

    async def without_database(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await no_database()(scope, receive, send)

    with (
        served(without_database, listen("127.0.0.1", None)) as address,
        Client(address, here.token(Role.admin), patience=60) as client,
        pytest.raises(Unavailable, match="the database does not answer"),
    ):
        client.start(1, 1, 8)


class Flaky:
    """A proxy that takes a request, and breaks the connection before or after it was done, now and then."""

    def __init__(self, app: Any) -> None:
        self.app, self.requests = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.requests += 1
            if self.requests % 3 == 1:
                raise ConnectionError("before")
            if self.requests % 3 == 2:
                await self.app(scope, receive, lost)
                raise ConnectionError("after")
        await self.app(scope, receive, send)


async def lost(message: Any) -> None:
    """Where answers go that nobody gets."""


class Cut(Flaky):
    """The same, with the connection cut rather than an error answered."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        except ConnectionError:
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]}
            )
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            raise


def test_answers_that_are_sent_twice_count_once(here: Site) -> None:
    adaptation = here.service.start(8)
    with served(Cut(here.app)) as address, Client(address, here.token(Role.admin)) as client:
        task = RemoteAdaptation(client, adaptation)
        query = task.ask()
        assert query is not None
        for sample in query.ids:
            task.tell(query.id, {sample: "cat"})
    (asked,) = {q.round for q in here.service.workspace.questions(adaptation)}
    told = here.service.workspace.questions(adaptation, round=asked)
    assert [len(q.answers) for q in told] == [1] * len(told)


def test_what_must_not_happen_twice_is_not_sent_twice(here: Site) -> None:
    app = Cut(here.app)
    with served(app) as address, Client(address, here.token(Role.admin)) as client:
        app.requests = 1  # the next one is done, and its answer lost
        with pytest.raises(Unavailable, match="look whether it was done"):
            client.start(1, 1, 8)
    assert len(here.service.workspace.adaptations()) == 1


def test_jobs_and_pools_are_managed_from_afar(admin: Client, here: Site) -> None:
    world = here.service.world
    pool = admin.add_pool("mine", 1, X=world.pool, ids=world.ids)
    job = admin.jobs()[0]
    assert (job["pool"], job["state"], job["crashes"]) == (pool.id, "done", 0)
    for act in (admin.cancel_job, admin.retry_job):
        with pytest.raises(Conflict):
            act(job["id"])
    admin.delete_pool(pool)
    with pytest.raises(NotFound):
        admin.delete_pool(pool)
    admin.start(1, 1, 8)
    with pytest.raises(Conflict, match="adaptation 1"):
        admin.delete_pool(1)


def test_agents_and_pools_come_and_go_from_afar(admin: Client, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (20, 8)), rng.normal(9, 1, (20, 8))]).astype(np.float32)
    y = 20 * ["low"] + 20 * ["high"]
    agent = admin.make_agent("made", X=X, y=y)
    assert (agent.state, sorted(map(str, agent.classes)), agent.width) == ("ready", ["high", "low"], 8)
    assert admin.predict(agent, X).tolist() == y
    with pytest.raises(ServiceError, match="at least 3 samples"):
        admin.make_agent("few", X=X[:2], y=["low", "high"])
    np.savez(tmp_path / "data" / "there.npz", X=X, y=np.array(y))
    there = admin.make_agent("there", path=str(tmp_path / "data" / "there.npz"))
    assert admin.predict(there, X).tolist() == y
    assert admin.rename_class(there, "low", "lower", why="said wrongly").classes == ("high", "lower")
    assert admin.merge_classes(there, "high", "lower").classes == ("high",)
    with pytest.raises(UnknownClass, match="did you mean 'high'"):
        admin.remove_class(there, "hihg")
    assert admin.rename_agent(agent, "called").name == "called"
    pool = admin.add_pool("p", agent, X=X)
    assert admin.rename_pool(pool, "q").name == admin.pool(pool).name == "q"
    task = admin.start(agent, pool, 5)
    for delete in (lambda: admin.delete_agent(agent), lambda: admin.delete_pool(pool)):
        with pytest.raises(Conflict, match="which is under way"):
            delete()
    task.drop()
    admin.delete_pool(pool)
    admin.delete_agent(agent)
    assert (admin.pool(pool).state, admin.agent(agent).state) == ("removed", "removed")
    admin.delete_agent(there)
    with pytest.raises(NotFound):
        admin.agent(there)
    digits = admin.make_example()
    assert digits.classes == ("0", "1", "2", "3", "4")
    new = next(p for p in admin.pools() if p.name == "New digits")
    assert new.state == "ready", "the pool is waited for as well"
    assert admin.picture(new, 0)[:4] == b"RIFF"


def test_teaching_splitting_and_forgetting(here: Site, admin: Client, world: World, tmp_path: Path) -> None:
    first = world.agent(method="cual-plus", buffer=500)
    first.save(tmp_path / "plus.agent")
    agent = admin.add_agent("plus", tmp_path / "plus.agent")
    pool = admin.add_pool("more", agent, X=world.pool, ids=world.ids)
    truth = list(world.truth.values())
    y = ["bird" if label not in ("cat", "dog") else label for label in truth]
    taught = admin.teach(agent, X=world.pool, y=y, why="labels of May")
    assert (taught.kind, taught.state, taught.version, taught.why) == ("teach", "done", 1, "labels of May")
    asking = admin.split_class(agent, "bird", questions=3)
    assert asking.split is not None
    rows = [group["examples"][0]["row"] for group in asking.split["groups"]]
    told = {sample["sample"]: truth[sample["row"]] for sample in asking.split["questions"]}
    assert len(told) == 3
    done = admin.answer_split(asking, [truth[row] for row in rows], told)
    assert (done.state, done.version) == ("done", 2)
    assert set(admin.agent(agent).classes) == set(truth)
    gone = admin.forget(agent, pool, [world.ids[0]], earlier=True, why="withdrawn")
    assert (gone.state, gone.version) == ("done", 3)
    with pytest.raises(ServiceError, match="taken back already"):
        admin.forget(agent, pool, [world.ids[0]])
    with pytest.raises(ServiceError, match="nothing of it is in the current version"):
        admin.forget_answers(agent, person=here.people[Role.annotator].id)
    with pytest.raises(NotFound):
        admin.forget_answers(agent, person=999)
    left = admin.split_class(agent, "cat")
    assert admin.drop_repair(left).state == "dropped"
    assert [repair.kind for repair in admin.repairs(agent)][-3:] == ["forget", "split", "teach"]


def test_merging_and_removing_where_the_head_is_trained_again(
    here: Site, admin: Client, world: World, tmp_path: Path
) -> None:
    first = world.agent().teach(world.pool, list(world.truth.values()))
    first.save(tmp_path / "trained.agent")
    agent = admin.add_agent("trained", tmp_path / "trained.agent")
    merged = admin.merge_classes(agent, "cat", "dog", why="one kind")
    assert (merged.version, merged.classes) == (1, ("cat", "Füchsin mit Schal", "owl"))
    (repair,) = admin.repairs(agent)
    assert (repair.kind, repair.state, repair.version, repair.why) == ("merge", "done", 1, "one kind")
    assert repair.change is not None
    assert (repair.change["into"], repair.change["how"]) == ("cat", "trained again")
    begun = admin.remove_class(agent, "owl", wait=False)
    assert isinstance(begun, RemoteRepair)
    assert (begun.kind, begun.classes) == ("remove", ("owl",))
    until(lambda: admin.repair(agent, begun.id).state == "done")
    assert admin.agent(agent).classes == ("cat", "Füchsin mit Schal")
    with pytest.raises(UnknownClass):
        admin.remove_class(agent, "owl")
    world.agent(method="cual-plus").save(tmp_path / "plus.agent")
    at_once = admin.merge_classes(admin.add_agent("plus", tmp_path / "plus.agent"), "cat", "dog", wait=False)
    assert isinstance(at_once, RemoteAgent)
    assert at_once.classes == ("cat",)


def test_a_merge_that_fails_is_an_error_of_the_client(
    here: Site, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise TooFewSamples("on purpose")

    monkeypatch.setattr(repairing, "_merge", fail)
    with pytest.raises(ServiceError, match=r"\(merge\) failed: on purpose"):
        admin.merge_classes(here.service.agent, "cat", "dog")
    assert admin.agent(here.service.agent).version == 0
