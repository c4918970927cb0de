"""Classes merged and removed where the head has to be trained again: a worker's job and a version each.

In closed form, at once: `test_repairing`. Other repairs of a worker: `test_repair_jobs`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cual import Agent
from cual.errors import BadLabels, BadOption, Conflict, TooFewSamples, UnknownClass
from cual.serve.jobs import repairing
from cual.serve.rules import agents
from cual.serve.rules.records import OPERATOR, RepairRecord, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serve.test_repair_jobs import in_any_file
from serving import Service
from visiting import site
from worlds import World, file_bytes


@pytest.fixture
def four(service: Service, world: World) -> int:
    """An agent whose head is trained, that knows four classes."""
    agent = world.agent().teach(world.pool, list(world.truth.values()))
    return service.workspace.add_agent("trained", agent, OPERATOR).id


def begun(record: object) -> RepairRecord:
    assert isinstance(record, RepairRecord)
    return record


def same_file(workspace: Workspace, agent: int, expected: Agent, folder: Path) -> bool:
    """Whether the current version is an agent to the bit."""
    number = workspace.agent(agent).version
    return workspace.home.agent_file(agent, number).read_bytes() == file_bytes(expected, folder)


def test_classes_are_merged_by_training_again_and_it_says_so(
    service: Service, four: int, world: World, tmp_path: Path
) -> None:
    workspace = service.workspace
    before = workspace.load_agent(four)
    asked = begun(workspace.merge_classes(four, "cat", ["dog", "owl"], service.ann, "one kind"))
    assert (asked.kind, asked.state, asked.classes, asked.change) == (
        "merge",
        "preparing",
        ["cat", "dog", "owl"],
        None,
    )
    assert len(workspace.versions(four)) == 1  # nobody waits for it
    service.work()
    done = workspace.repair(four, asked.id)
    assert (done.state, done.version, done.classes) == ("done", 1, []), done.error
    assert done.change == {
        "change": "merged",
        "into": "cat",
        "classes": ["dog", "owl"],
        "how": "trained again",
        "person": "ann",
        "why": "one kind",
    }
    assert workspace.versions(four)[-1].change == done.change
    assert workspace.agent(four).classes == ["cat", "Füchsin mit Schal"]
    expected = before.merge_classes("cat", "dog", "owl", person="ann", why="one kind")
    assert same_file(workspace, four, expected, tmp_path)
    row = workspace.audit(OPERATOR)[0]
    assert (row.action, row.person, row.thing) == ("merge classes", "ann", four)
    assert row.details == {"repair": done.id, "into": "cat", "classes": ["dog", "owl"], "why": "one kind"}
    assert len(workspace.roll_back(four, 0, service.ann).classes) == 4


def test_a_class_is_removed_by_training_again_and_leaves_no_trace(
    service: Service, four: int, world: World
) -> None:
    workspace = service.workspace
    owls = [x for x, label in zip(world.pool, world.truth.values(), strict=True) if label == "owl"]
    assert any(in_any_file(workspace, four, x) for x in owls)
    asked = begun(workspace.remove_class(four, "owl", service.ann, leave_spread=True, why="by mistake"))
    service.work()
    done = workspace.repair(four, asked.id)
    assert (done.kind, done.state, done.version) == ("remove", "done", 1), done.error
    assert done.change is not None
    assert (done.change["change"], done.change["class"], done.change["how"]) == (
        "removed",
        "owl",
        "trained again",
    )
    assert workspace.agent(four).classes == ["cat", "dog", "Füchsin mit Schal"]
    assert {number for x in owls for number in in_any_file(workspace, four, x)} == {0}
    row = workspace.audit(OPERATOR)[0]
    assert (row.action, row.details) == (
        "remove class",
        {"repair": done.id, "class": "owl", "why": "by mistake"},
    )


def test_a_linear_head_is_trained_again_too(service: Service, world: World) -> None:
    workspace = service.workspace
    first = world.agent(method="er-entropy").teach(world.pool, list(world.truth.values()))
    agent = workspace.add_agent("linear", first, OPERATOR).id
    begun(workspace.merge_classes(agent, "cat", ["dog"], service.ann))
    service.work()
    (done,) = workspace.repairs(agent)
    assert (done.state, done.change and done.change["how"]) == ("done", "trained again"), done.error


def test_what_cannot_be_merged_or_removed_is_refused_before_anything_is_trained(
    service: Service, four: int, world: World
) -> None:
    workspace = service.workspace
    with pytest.raises(UnknownClass, match="did you mean 'owl'"):
        workspace.merge_classes(four, "cat", ["owls"], service.ann)
    with pytest.raises(UnknownClass):
        workspace.remove_class(four, "owls", service.ann)
    for others in ([], ["cat"], ["dog", "dog"]):
        with pytest.raises(BadLabels, match="each once"):
            workspace.merge_classes(four, "cat", others, service.ann)
    with pytest.raises(BadOption, match="longer than 1000"):
        workspace.merge_classes(four, "cat", ["dog"], service.ann, "x" * 1001)
    one = workspace.add_agent("one", world.agent().merge_classes("cat", "dog"), OPERATOR).id
    with pytest.raises(TooFewSamples, match="nothing would be left"):
        workspace.remove_class(one, "cat", service.ann)
    kept = world.agent()
    forgetful = replace(kept, replay=kept.replay.only(kept.replay.y == 1))
    empty = workspace.add_agent("forgetful", forgetful, OPERATOR).id
    with pytest.raises(TooFewSamples, match="nothing is kept of 'cat'"):
        workspace.remove_class(empty, "dog", service.ann)
    assert workspace.repairs(four) == workspace.repairs(one) == workspace.repairs(empty) == []
    assert not [row for row in workspace.audit(OPERATOR) if row.action in ("merge classes", "remove class")]


def test_one_repair_at_a_time_which_can_be_cancelled_tried_again_and_dropped(
    service: Service, four: int
) -> None:
    workspace = service.workspace
    asked = begun(workspace.merge_classes(four, "cat", ["dog"], service.ann))
    with pytest.raises(Conflict, match=f"repair {asked.id} of this agent is under way"):
        workspace.remove_class(four, "owl", service.ann)
    job = next(job for job in workspace.jobs() if job.repair == asked.id)
    workspace.cancel_job(job.id, service.ann)
    failed = workspace.repair(four, asked.id)
    assert (failed.state, failed.error, failed.classes) == ("failed", "cancelled by ann", ["cat", "dog"])
    workspace.retry_job(job.id, service.ann)
    service.work()
    assert workspace.repair(four, asked.id).state == "done"
    again = begun(workspace.remove_class(four, "owl", service.ann))
    workspace.rename_class(four, "owl", "barn owl", service.ann)  # done at once, and first
    service.work()
    failed = workspace.repair(four, again.id)
    assert failed.state == "failed"
    assert "knows no class 'owl'" in str(failed.error)
    dropped = workspace.drop_repair(four, again.id, service.ann)
    assert (dropped.state, dropped.classes) == ("dropped", [])
    assert workspace.agent(four).classes == ["cat", "Füchsin mit Schal", "barn owl"]


@pytest.mark.parametrize("moment", ["before the version", "after the file"])
@pytest.mark.parametrize("kind", ["merge", "remove"])
def test_a_kill_while_it_trains_changes_nothing(
    service: Service, four: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, moment: str
) -> None:
    """At the worst moments, in one process; `test_poison` kills a real one in the midst of training."""

    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> Any:
        raise Killed

    workspace = service.workspace
    before = workspace.load_agent(four)
    if kind == "merge":
        asked = begun(workspace.merge_classes(four, "cat", ["dog"], service.ann))
        expected = before.merge_classes("cat", "dog", person="ann")
    else:
        asked = begun(workspace.remove_class(four, "cat", service.ann))
        expected = before.remove_class("cat", person="ann")
    place, name = (repairing, "commit") if moment == "before the version" else (agents, "add_version")
    with monkeypatch.context() as broken:
        broken.setattr(place, name, killed)
        with pytest.raises(Killed):
            service.work()
    assert workspace.repair(four, asked.id).state == "preparing"
    assert len(workspace.versions(four)) == 1
    with workspace.database.writing() as connection:
        connection.execute(sa.update(db.jobs).where(db.jobs.c.state == "running").values(heartbeat=None))
    service.work()
    done = workspace.repair(four, asked.id)
    assert (done.state, done.version) == ("done", 1), done.error
    assert [version.number for version in workspace.versions(four)] == [0, 1]
    assert same_file(workspace, four, expected, tmp_path)
    assert list(workspace.home.folder.glob("agents/.*.agent")) == []


def test_an_adaptation_that_begins_meanwhile_is_not_overtaken(service: Service) -> None:
    workspace = service.workspace
    asked = begun(workspace.merge_classes(service.agent, "cat", ["dog"], service.ann))
    task = workspace.start(service.agent, service.pool, 8, service.ann).id
    service.work()
    failed = workspace.repair(service.agent, asked.id)
    assert failed.state == "failed"
    assert f"adaptation {task} is under way" in str(failed.error)
    assert len(workspace.versions(service.agent)) == 1


def test_merging_and_removing_over_http_answer_with_what_can_be_followed(service: Service, four: int) -> None:
    at = f"/api/agents/{four}"
    with site(service) as here:
        admin, annotator = here.bearer(), here.bearer(Role.annotator)
        merging, removing = {"into": "cat", "others": ["dog"], "why": "May"}, {"label": "owl"}
        assert annotator.post(f"{at}/classes/merge", json=merging).status_code == 403
        assert annotator.post(f"{at}/classes/remove", json=removing).status_code == 403
        for what, body in (("merge", merging), ("remove", removing)):
            sent = admin.post(f"{at}/classes/{what}", json=body)
            assert sent.status_code == 202, sent.text
            assert sent.json() == admin.get(f"{at}/repairs/{sent.json()['id']}").json()
            assert (sent.json()["kind"], sent.json()["state"]) == (what, "preparing")
            assert admin.post(f"{at}/classes/{what}", json=body).status_code == 409
            service.work()
            got = admin.get(f"{at}/repairs/{sent.json()['id']}").json()
            assert (got["state"], got["change"]["how"]) == ("done", "trained again")
        assert admin.post(f"{at}/classes/remove", json=removing).status_code == 404
        assert admin.post(f"{at}/classes/merge", json={"into": "cat", "others": ["cat"]}).status_code == 422
        assert [row["kind"] for row in admin.get(f"{at}/repairs").json()] == ["remove", "merge"]
        described = admin.get("/api/openapi.json").json()["paths"]["/api/agents/{id}/classes/merge"]["post"]
        answers = {code: str(described["responses"][code]["content"]) for code in ("200", "202")}
        assert "AgentRecord" in answers["200"]
        assert "RepairRecord" in answers["202"]
