"""What a workspace takes: nothing twice, nothing that is over, and by a rule no more than a team wants."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from commands import cual, refused
from cual import Agent, Pool
from cual.errors import BadOption, Conflict, NotAllowed
from cual.serve.jobs import steps, worker
from cual.serve.jobs.worker import Worker, work_once, work_until_idle
from cual.serve.rules import leftovers, retention
from cual.serve.rules.leftovers import size_of
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.retention import Rule
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import Service, add_person
from visiting import Site, site

pytestmark = pytest.mark.more


@pytest.fixture
def here(service: Service) -> Iterator[Site]:
    with site(service) as held:
        yield held


def files(workspace: Workspace, part: str) -> list[str]:
    folder = workspace.folder / part
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def days_pass(workspace: Workspace, days: float) -> None:
    """Let everything have happened earlier."""
    earlier = sa.type_coerce(db.events.c.at, sa.Double) - timedelta(days=days).total_seconds()
    with workspace.database.writing() as connection:
        connection.execute(sa.update(db.events).values(at=earlier))


def versions_made(service: Service, n: int) -> None:
    for _ in range(n):
        task = service.start(3)
        service.answer_all(task)
        service.finish(task)


# -- what is over ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cual-plus", "cual", "er-entropy"])
def test_ten_dropped_adaptations_take_next_to_nothing(
    workspace: Workspace, tmp_path: Path, method: str
) -> None:
    """The attack as it was found, on a smaller pool: each used to keep a copy of the agent and of the pool."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 1024))
    X, P = (
        np.concatenate([centres[c] + 0.8 * rng.normal(size=(n, 1024)) for c in range(k)]).astype(np.float32)
        for k, n in ((3, 40), (5, 100))
    )
    agent = workspace.add_agent("a", Agent.fit(X, np.repeat(np.arange(3), 40), method=method, seed=0), OPERATOR)
    pool = workspace.add_pool("p", Pool(P), agent.id, OPERATOR)
    work_until_idle(workspace)
    ann = add_person(workspace, "ann", Role.admin)
    before = workspace.backup(tmp_path / "before.backup", OPERATOR).stat().st_size
    for _ in range(10):
        task = workspace.start(agent.id, pool.id, 10, ann).id
        work_until_idle(workspace)
        workspace.drop(task, ann)
    left = size_of(workspace.folder / "adaptations")
    assert left < size_of(workspace.home.pool_folder(pool.id)) / 10
    assert {Path(name).name for name in files(workspace, "adaptations")} <= {"view.safetensors"}
    after = workspace.backup(tmp_path / "after.backup", OPERATOR).stat().st_size
    assert after - before < size_of(workspace.home.pool_folder(pool.id)) / 4


def test_what_was_computed_goes_with_the_end_and_what_is_shown_stays(service: Service) -> None:
    w = service.workspace
    going, dropped, finished = (service.start() for _ in range(3))
    w.drop(dropped, service.ann)
    service.answer_all(finished)
    service.finish(finished)
    kept = {id: [Path(f).name for f in files(w, f"adaptations/{id}")] for id in (going, dropped, finished)}
    assert kept[going] == ["cache.safetensors", "view.safetensors"]
    assert kept[dropped] == kept[finished] == ["view.safetensors"]
    for task in (dropped, finished):
        assert w.map(task)["row"]
        assert w.history(task)
        assert w.report(task)
    service.answer_all(going)
    assert service.finish(going).state == "finished"


def test_a_step_that_ends_after_the_drop_leaves_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = service.workspace
    task = w.start(service.agent, service.pool, 8, service.ann).id

    def advance(home: Any, claim: Any, progress: Any) -> None:
        w.drop(task, service.ann)
        steps.advance(home, claim, progress)

    monkeypatch.setitem(worker.WORK, "advance", advance)
    assert work_once(w)
    assert w.adaptation(task).state == "dropped"
    assert files(w, "adaptations") == []


def test_what_earlier_releases_left_goes_by_itself(service: Service) -> None:
    w = service.workspace
    task, going = service.start(), service.start()
    folder = next(w.home.adaptation_folder(task).iterdir())
    w.drop(task, service.ann)
    for name in ("agent", "pool", "state"):  # as release 0.1.0 kept them for each adaptation
        (folder / f"{name}.safetensors").write_bytes(bytes(1000))
    orphan = w.home.adaptation_folder(task) / "99-1"
    orphan.mkdir()
    (orphan / "cache.safetensors").write_bytes(bytes(500))
    shown = w.storage(OPERATOR)
    assert {one.kind for one in shown.would_go} == {"leftover"}
    assert shown.would_free == 3500
    under_way = files(w, f"adaptations/{going}")
    Worker(w)._clean()
    assert [Path(name).name for name in files(w, f"adaptations/{task}")] == ["view.safetensors"]
    assert files(w, f"adaptations/{going}") == under_way
    assert w.storage(OPERATOR).would_free == 0
    assert leftovers.every(w.home) == []


# -- by a rule -------------------------------------------------------------------------------------------------


def test_without_a_rule_nothing_goes(service: Service) -> None:
    versions_made(service, 2)
    days_pass(service.workspace, 10_000)
    assert service.workspace.storage(OPERATOR).retention == Rule()
    assert service.workspace.storage(OPERATOR).would_go == []


def test_a_pool_goes_so_many_days_after_its_last_adaptation_and_answers_stay(service: Service) -> None:
    w = service.workspace
    unused = w.add_pool("unused", Pool(service.world.pool), service.agent, OPERATOR).id
    service.work()
    versions_made(service, 1)
    answered = [q.effective for q in w.questions(1)]
    w.set_retention(Rule(pools_days=30), service.ann)
    days_pass(w, 29)
    assert w.storage(service.ann).would_go == []
    days_pass(w, 2)
    (pool,) = w.storage(service.ann).would_go
    assert (pool.kind, pool.id, pool.name, pool.why) == (
        "pool",
        service.pool,
        "garden",
        "its last adaptation ended 31 days ago",
    )
    assert pool.bytes == size_of(w.home.pool_folder(service.pool)) > 0
    assert w.pool(service.pool).state == "ready", "it was only shown"
    retention.by_itself(w.home)
    assert w.pool(service.pool).state == "removed"
    assert not w.home.pool_folder(service.pool).exists()
    assert w.pool(unused).state == "ready"
    assert [q.effective for q in w.questions(1)] == answered
    assert w.storage(service.ann).would_go == []
    actions = [row.action for row in w.audit(OPERATOR)]
    assert actions[:2] == ["delete pool", "clean up"]


def test_a_pool_that_is_needed_stays(service: Service) -> None:
    w = service.workspace
    versions_made(service, 1)
    days_pass(w, 100)
    rule = Rule(pools_days=30)
    assert len(w.storage(OPERATOR, rule).would_go) == 1
    going = service.start()
    assert w.storage(OPERATOR, rule).would_go == [], "an adaptation is under way"
    w.drop(going, OPERATOR)
    days_pass(w, 100)
    with w.database.writing() as connection:
        example = {"agent": service.agent, "label": "cat", "examples": [[service.pool, 3]]}
        connection.execute(sa.insert(db.class_notes).values(**example))
    assert w.storage(OPERATOR, rule).would_go == [], "it shows what a class is"
    with w.database.writing() as connection:
        connection.execute(sa.delete(db.class_notes))
        gold = {"pool": service.pool, "row": 0, "sample": "x", "label": "cat"}
        connection.execute(sa.insert(db.gold).values(**gold))
    assert w.storage(OPERATOR, rule).would_go == [], "its samples are gold questions"


def test_only_the_latest_retired_versions_stay(service: Service) -> None:
    w = service.workspace
    versions_made(service, 4)
    rule = Rule(versions=2)
    assert [one.version for one in w.storage(OPERATOR, rule).would_go] == [1, 0]
    going = w.start(service.agent, service.pool, 3, service.ann, version=1).id
    assert [one.version for one in w.storage(OPERATOR, rule).would_go] == [0], "an adaptation builds on it"
    w.drop(going, service.ann)
    assert [one.version for one in w.clean_up(service.ann, rule) if one.kind == "version"] == [1, 0]
    assert files(w, f"agents/{service.agent}") == ["2.agent", "3.agent", "4.agent"]
    assert [version.number for version in w.versions(service.agent)] == [0, 1, 2, 3, 4], "they are history"
    with pytest.raises(Conflict, match="its file is gone"):
        w.roll_back(service.agent, 0, service.ann)
    w.roll_back(service.agent, 2, service.ann)
    assert w.storage(OPERATOR, rule).would_go == [], "two are retired"
    service.answer_all(service.start(3))


def test_what_somebody_begins_to_use_meanwhile_stays(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    w = service.workspace
    versions_made(service, 1)
    days_pass(w, 100)
    shown = retention._going(w.home, Rule(pools_days=30))
    service.start()
    monkeypatch.setattr(retention, "_going", lambda *_: shown)
    assert w.clean_up(OPERATOR, Rule(pools_days=30)) == []
    assert w.pool(service.pool).state == "ready"


def test_a_rule_outlives_a_backup(service: Service, tmp_path: Path) -> None:
    w = service.workspace
    w.set_retention(Rule(pools_days=7), service.ann)
    w.set_retention(Rule(pools_days=30, versions=5), service.ann)
    file = w.backup(tmp_path / "file.backup", OPERATOR)
    restored = Workspace.restore(file, tmp_path / "restored")
    assert restored.storage(OPERATOR).retention == Rule(30, 5)
    restored.close()


@pytest.mark.parametrize(
    "rule", [{"pools_days": -1}, {"versions": 1.5}, {"versions": True}, {"pools_days": 10**9}]
)
def test_rules_that_mean_nothing_are_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        Rule(**rule)


def test_only_administrators_see_and_set_it(service: Service) -> None:
    for act in (
        lambda: service.workspace.storage(service.bob),
        lambda: service.workspace.set_retention(Rule(), service.bob),
        lambda: service.workspace.clean_up(service.bob),
    ):
        with pytest.raises(NotAllowed):
            act()


# -- through the doors -----------------------------------------------------------------------------------------


def test_over_http_it_is_shown_set_and_done(here: Site) -> None:
    versions_made(here.service, 2)
    client = here.bearer()
    shown = client.get("/api/storage", params={"versions": 0}).json()
    assert [(one["kind"], one["version"]) for one in shown["would_go"]] == [("version", 1), ("version", 0)]
    assert shown["agents"] > shown["would_free"] > 0
    assert client.get("/api/storage").json()["would_go"] == [], "it was only asked about"
    assert client.put("/api/storage/retention", json={"versions": 1}).json() == {
        "pools_days": None,
        "versions": 1,
    }
    assert [one["version"] for one in client.get("/api/storage").json()["would_go"]] == [0]
    assert [one["version"] for one in client.post("/api/storage/clean").json()] == [0]
    assert client.get("/api/storage").json()["would_go"] == []
    for wrong in ({"versions": -1}, {"versions": "1"}, {"weeks": 1}):
        assert client.put("/api/storage/retention", json=wrong).status_code == 422


def test_the_command_shows_first(service: Service) -> None:
    w = service.workspace
    versions_made(service, 2)
    url = w.database.url.render_as_string(hide_password=False)
    shown = cual("clean", w.folder, "--versions", "0", "--database", url)
    assert "version 0 of agent 1 'animals': 0 retired versions are later" in shown.stdout
    assert "would be freed" in shown.stderr
    assert w.home.agent_file(service.agent, 0).exists()
    done = cual("clean", w.folder, "--versions", "1", "--remember", "--yes", "--database", url)
    assert "were freed" in done.stderr
    assert not w.home.agent_file(service.agent, 0).exists()
    assert w.home.agent_file(service.agent, 1).exists()
    assert w.storage(OPERATOR).retention == Rule(versions=1)
    assert "is no workspace" in refused("clean", w.folder / "nowhere")
