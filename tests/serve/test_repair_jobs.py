"""Teaching, forgetting and splitting in the service: a worker's job and a version each, for administrators.

So are merging and removing where a head has to be trained again: `test_training_again`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from PIL import Image

from cual import Agent, Pool
from cual.errors import (
    BadLabels,
    BadOption,
    Conflict,
    NotAllowed,
    NotFound,
    SamplesMissing,
    UnknownClass,
    UnknownSample,
)
from cual.serve.rules.records import OPERATOR, Person, RepairRecord, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from repair.labelled import assert_same
from serving import Service
from visiting import site
from worlds import World


def add_plus(service: Service, world: World, **options: Any) -> tuple[int, int]:
    """An agent with a closed-form head that knows two classes, and its pool, with pictures."""
    workspace = service.workspace
    agent = workspace.add_agent("plus", world.agent(method="cual-plus", buffer=500, **options), OPERATOR).id
    pictures = np.random.default_rng(0).integers(0, 256, (len(world.ids), 4, 4), dtype=np.uint8)
    shown = {"note": [f"note on {i}" for i in world.ids]}
    pool = workspace.add_pool("more", Pool(world.pool, world.ids), agent, OPERATOR, pictures, shown=shown).id
    service.work()
    return agent, pool


@pytest.fixture
def plus(service: Service, world: World) -> tuple[int, int]:
    return add_plus(service, world)


def upload(workspace: Workspace, name: str = "labelled.npz", **arrays: Any) -> Path:
    workspace.uploads.mkdir(exist_ok=True)
    np.savez(workspace.uploads / name, **arrays)
    return workspace.uploads / name


def taught(service: Service, agent: int, **arrays: Any) -> RepairRecord:
    workspace = service.workspace
    asked = workspace.teach(agent, upload(workspace, **arrays), service.ann, why="labels of May")
    assert asked.state == "preparing"
    service.work()
    return workspace.repair(agent, asked.id)


# -- teaching --------------------------------------------------------------------------------------------------


def test_labelled_features_are_taught_without_questions(
    service: Service, plus: tuple[int, int], world: World
) -> None:
    workspace, (agent, _) = service.workspace, plus
    before = workspace.load_agent(agent)
    done = taught(service, agent, X=world.pool, y=list(world.truth.values()), ids=world.ids)
    assert (done.state, done.version, done.error, done.by, done.why) == (
        "done",
        1,
        None,
        "ann",
        "labels of May",
    )
    assert_same(workspace.load_agent(agent), before.teach(world.pool, list(world.truth.values())), world.pool)
    version = workspace.versions(agent)[-1]
    assert version.change is not None
    assert (version.change["change"], version.change["person"], version.change["why"]) == (
        "taught",
        "ann",
        "labels of May",
    )
    assert version.new_classes == ["Füchsin mit Schal", "owl"]
    assert workspace.audit(OPERATOR)[0].action == "teach"
    assert not workspace.home.repair_folder(agent, done.id).exists()
    assert workspace.roll_back(agent, 0, service.ann).classes == ["cat", "dog"]


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        (lambda world: {"X": world.pool}, "has no labels"),
        (lambda world: {"X": world.pool[:, :3], "y": list(world.truth.values())}, "3 wide"),
        (lambda world: {"X": world.pool, "y": [1] * len(world.pool)}, "int"),
        (lambda world: {"X": world.pool, "y": ["a\x07"] * len(world.pool)}, "control characters"),
        (lambda world: {"X": world.pool[[0, 0]], "y": ["cat", "dog"]}, "have the same features"),
    ],
)
def test_data_that_cannot_be_taught_is_named_and_changes_nothing(
    service: Service, plus: tuple[int, int], world: World, arrays: Callable[[World], Any], why: str
) -> None:
    agent, _ = plus
    failed = taught(service, agent, **arrays(world))
    assert failed.state == "failed"
    assert why in str(failed.error)
    assert len(service.workspace.versions(agent)) == 1
    assert service.workspace.agent(agent).state == "ready"


def test_pictures_in_folders_are_encoded_by_the_agents_own_encoder(service: Service) -> None:
    workspace = service.workspace
    workspace.uploads.mkdir(exist_ok=True)

    def folder(name: str, colours: dict[str, tuple[int, int, int]]) -> Path:
        rng = np.random.default_rng(len(name))
        for label, colour in colours.items():
            (workspace.uploads / name / label).mkdir(parents=True)
            for n in range(6):
                pixels = np.clip(rng.normal(colour, 12, (24, 24, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(workspace.uploads / name / label / f"{n}.png")
        return workspace.uploads / name

    first = folder("first", {"red": (220, 20, 20), "blue": (20, 20, 220)})
    agent = workspace.make_agent("colours", first, service.ann).id
    service.work()
    assert workspace.agent(agent).state == "ready", workspace.agent(agent).error
    more = folder("more", {"green": (20, 220, 20), "red": (200, 30, 30)})
    (more / "green" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    asked = workspace.teach(agent, more, service.ann)
    service.work()
    done = workspace.repair(agent, asked.id)
    assert (done.state, done.skipped, done.error) == ("done", 1, None)
    assert set(workspace.agent(agent).classes) == {"blue", "green", "red"}


def test_labels_as_text_are_numbers_where_classes_are(service: Service, world: World) -> None:
    first = Agent.fit(world.X, [1] * 30 + [2] * 30, method="cual-plus")
    agent = service.workspace.add_agent("numbers", first, OPERATOR).id
    assert taught(service, agent, X=world.pool[:4], y=["3", "3", "1", "2"]).state == "done"
    assert service.workspace.agent(agent).classes == [1, 2, 3]
    failed = taught(service, agent, X=world.pool[4:6], y=["three", "1"])
    assert "classes are whole numbers, but a label is 'three'" in str(failed.error)


def test_over_http_with_files_of_all_kinds(
    service: Service, plus: tuple[int, int], world: World, tmp_path: Path
) -> None:
    agent, _ = plus
    y = list(world.truth.values())
    np.savez(tmp_path / "a.npz", X=world.pool[:20], y=y[:20])
    table = pa.table({"features": world.pool[20:].tolist(), "label": y[20:]})
    pq.write_table(table, tmp_path / "b.parquet")
    at = f"/api/agents/{agent}"
    with site(service) as here:
        admin, annotator = here.bearer(), here.bearer(Role.annotator)

        def send(visitor: Any, name: str, content: bytes) -> Any:
            return visitor.post(f"{at}/teach", data={"why": "May"}, files={"files": (name, content)})

        for name in ("a.npz", "b.parquet"):
            assert send(annotator, name, (tmp_path / name).read_bytes()).status_code == 403
            sent = send(admin, name, (tmp_path / name).read_bytes())
            assert sent.status_code == 202, sent.text
            service.work()
            got = admin.get(f"{at}/repairs/{sent.json()['id']}").json()
            assert (got["state"], got["error"], got["why"]) == ("done", None, "May")
        assert send(admin, "c.pdf", b"%PDF-1.7 no data at all").status_code == 422
        broken = send(admin, "b.parquet", (tmp_path / "b.parquet").read_bytes()[:-9])
        service.work()
        got = admin.get(f"{at}/repairs/{broken.json()['id']}").json()
        assert (got["state"], got["error"]) == ("failed", "file.parquet is not a whole parquet file")
        assert admin.post(f"{at}/repairs/{got['id']}/drop").json()["state"] == "dropped"
        assert admin.post(f"{at}/teach", json={"path": "/etc/passwd"}).status_code == 403
        assert len(admin.get(f"{at}/versions").json()) == 3
        assert admin.post(f"{at}/forget", json={"person": 1, "samples": []}).status_code == 422
        assert admin.post(f"{at}/forget", json={}).status_code == 422
        assert admin.post(f"{at}/classes/split", json={"label": "nobody"}).status_code == 404
        assert admin.get(f"{at}/repairs/999").status_code == 404
        assert admin.get(f"/api/agents/{service.agent}/repairs/{got['id']}").status_code == 404
    whole = world.agent(method="cual-plus", buffer=500).teach(world.pool, y)
    assert_same(service.workspace.load_agent(agent), whole, world.pool)


def test_a_head_that_trains_is_taught_by_training_and_says_so(service: Service, world: World) -> None:
    done = taught(service, service.agent, X=world.pool, y=list(world.truth.values()))
    assert done.state == "done", done.error
    change = service.workspace.versions(service.agent)[-1].change
    assert change is not None
    assert change["how"] == "trained with replay"


# -- forgetting ------------------------------------------------------------------------------------------------


def in_any_file(workspace: Workspace, agent: int, x: np.ndarray) -> list[int]:
    """Versions in whose files the features of a sample are, whole or as half precision."""
    found = []
    for version in workspace.versions(agent):
        data = workspace.home.agent_file(agent, version.number).read_bytes()
        if x.astype(np.float32).tobytes() in data or x.astype(np.float16).tobytes() in data:
            found.append(version.number)
    return found


def test_a_sample_is_taken_back_from_all_versions_and_its_original_removed(
    service: Service, plus: tuple[int, int], world: World
) -> None:
    workspace, (agent, pool) = service.workspace, plus
    before = workspace.load_agent(agent)
    y = list(world.truth.values())
    taught(service, agent, X=world.pool, y=y)
    workspace.rename_class(agent, "owl", "barn owl", service.ann)
    sample, x = world.ids[3], world.pool[3]
    assert in_any_file(workspace, agent, x) == [1, 2]
    held = workspace.load_agent(agent, 1)  # in memory, too
    asked = workspace.forget(agent, service.ann, pool, [sample], earlier=True, originals=True, why="withdrawn")
    service.work()
    done = workspace.repair(agent, asked.id)
    assert (done.state, done.version, done.why) == ("done", 3, "withdrawn"), done.error
    assert in_any_file(workspace, agent, x) == []
    rest = np.arange(len(y)) != 3
    never = before.teach(world.pool[rest], [label for row, label in enumerate(y) if row != 3])
    assert_same(workspace.load_agent(agent, 1), never, world.pool)
    assert workspace.load_agent(agent, 1) is not held
    assert workspace.load_agent(agent, 1).history == held.history
    assert_same(workspace.load_agent(agent), never.rename_class("owl", "barn owl"), world.pool)
    row = next(row for row in workspace.audit(OPERATOR) if row.action == "forget in versions")
    assert (row.person, row.details["rewritten"], row.details["removed"]) == ("ann", [2, 1], [])
    with pytest.raises(NotFound):
        workspace.picture(pool, 3)
    assert workspace.columns(pool, [3, 4]) == {3: {}, 4: {"note": f"note on {world.ids[4]}"}}
    assert workspace.picture(pool, 4).is_file()
    assert workspace.home.database is not None
    with workspace.database.reading() as connection:
        wanted = connection.execute(
            sa.select(db.repairs.c.wanted).where(db.repairs.c.id == done.id)
        ).scalar_one()
    assert wanted == {"why": "withdrawn"}  # nothing of the sample is left there either


def test_earlier_versions_and_originals_stay_unless_asked(
    service: Service, plus: tuple[int, int], world: World
) -> None:
    workspace, (agent, pool) = service.workspace, plus
    taught(service, agent, X=world.pool, y=list(world.truth.values()))
    workspace.forget(agent, service.ann, pool, [world.ids[3]])
    service.work()
    assert in_any_file(workspace, agent, world.pool[3]) == [1]
    assert workspace.picture(pool, 3).is_file()
    again = workspace.forget(agent, service.ann, pool, [world.ids[3]])
    service.work()
    assert "taken back already" in str(workspace.repair(agent, again.id).error)
    strange = workspace.forget(agent, service.ann, pool, ["img_999.jpg"])
    service.work()
    assert "the pool has no sample 'img_999.jpg'" in str(workspace.repair(agent, strange.id).error)


def adapted(service: Service, agent: int, pool: int, people: list[Person]) -> int:
    """An adaptation whose questions people answer in turn, finished."""
    workspace = service.workspace
    task = workspace.start(agent, pool, 12, service.ann).id
    service.work()
    turn = 0
    while workspace.adaptation(task).state == "asking":
        person = people[turn % len(people)]
        lent = workspace.lend(task, person, 1)
        workspace.answer(task, person, {q.id: service.truth(q.sample) for q in lent})
        turn += 1
        service.work()
    service.finish(task)
    return task


def test_what_one_person_answered_is_taken_back(service: Service, plus: tuple[int, int], world: World) -> None:
    workspace, (agent, pool) = service.workspace, plus
    adapted(service, agent, pool, [service.ann, service.bob])
    before = workspace.load_agent(agent)
    asked = workspace.forget(agent, service.ann, of=service.bob.id, earlier=True)
    service.work()
    done = workspace.repair(agent, asked.id)
    assert done.state == "done", done.error
    change = workspace.versions(agent)[-1].change
    assert change is not None
    assert (change["change"], change["how"], change["answers_of"]) == ("forgot", "exact", "one person")
    assert change["samples"] >= 3  # what he answered, and what was believed of a class that nobody else named
    assert "bob" not in str(change)
    after = workspace.load_agent(agent)
    assert after.version == before.version + 1
    assert len(after.learned) < len(before.learned)
    (rewritten,) = [row for row in workspace.audit(OPERATOR) if row.action == "forget in versions"]
    assert rewritten.details["rewritten"] == [1]
    assert_same(workspace.load_agent(agent, 1), after, world.pool)
    again = workspace.forget(agent, service.ann, of=service.bob.id)
    service.work()
    assert "nothing of it is in the current version" in str(workspace.repair(agent, again.id).error)


def test_all_answers_of_an_adaptation_are_taken_back(
    service: Service, plus: tuple[int, int], world: World
) -> None:
    workspace, (agent, pool) = service.workspace, plus
    task = adapted(service, agent, pool, [service.ann])
    assert len(workspace.agent(agent).classes) > 2
    asked = workspace.forget(agent, service.ann, adaptation=task)
    service.work()
    assert workspace.repair(agent, asked.id).state == "done", workspace.repair(agent, asked.id).error
    assert workspace.agent(agent).classes == ["cat", "dog"]


def test_a_head_that_trains_forgets_by_training_again(service: Service, world: World) -> None:
    workspace = service.workspace
    taught(service, service.agent, X=world.pool, y=list(world.truth.values()))
    asked = workspace.forget(service.agent, service.ann, service.pool, [world.ids[0]], earlier=True)
    service.work()
    assert workspace.repair(service.agent, asked.id).state == "done"
    change = workspace.versions(service.agent)[-1].change
    assert change is not None
    assert change["how"] == "trained again"
    assert in_any_file(workspace, service.agent, world.pool[0]) == []


def test_a_version_that_cannot_be_rewritten_is_removed(service: Service, world: World) -> None:
    workspace = service.workspace
    first = Agent.fit(world.X[:30], ["cat"] * 30, method="cual-plus")
    only = first.teach(world.pool[:1], ["owl"]).remove_class("cat")
    agent = workspace.add_agent("one", only, OPERATOR).id
    pool = workspace.add_pool("more", Pool(world.pool, world.ids), agent, OPERATOR).id
    service.work()
    taught(service, agent, X=world.X, y=world.y)
    workspace.forget(agent, service.ann, pool, [world.ids[0]], earlier=True)
    service.work()
    assert [version.number for version in workspace.versions(agent)] == [1, 2]
    assert not workspace.home.agent_file(agent, 0).exists()
    row = next(row for row in workspace.audit(OPERATOR) if row.action == "forget in versions")
    assert (row.details["rewritten"], row.details["removed"]) == ([1], [0])


def test_a_kill_after_the_version_was_made_goes_on_with_the_others(
    service: Service, plus: tuple[int, int], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cual.serve.jobs import forgetting

    workspace, (agent, pool) = service.workspace, plus
    taught(service, agent, X=world.pool, y=list(world.truth.values()))
    with monkeypatch.context() as broken:
        broken.setattr(forgetting.Forgetting, "_replace", lambda *_: (_ for _ in ()).throw(Conflict("killed")))
        asked = workspace.forget(agent, service.ann, pool, [world.ids[3]], earlier=True)
        service.work()
    failed = workspace.repair(agent, asked.id)
    assert (failed.state, failed.version) == ("failed", 2)
    job = next(job for job in workspace.jobs() if job.repair == asked.id)
    workspace.retry_job(job.id, service.ann)
    service.work()
    assert workspace.repair(agent, asked.id).state == "done"
    assert len(workspace.versions(agent)) == 3
    assert in_any_file(workspace, agent, world.pool[3]) == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({}, "say which samples"),
        ({"pool": 1}, "by their ids"),
        ({"samples": ["a"]}, "of a pool that is named"),
        ({"pool": 2, "samples": ["a"], "of": 1}, "say which samples"),
        ({"of": 1, "originals": True}, "with samples, not with answers"),
        ({"pool": 2, "samples": [str(n) for n in range(10_001)]}, "at most 10000"),
    ],
)
def test_what_cannot_be_forgotten(
    service: Service, plus: tuple[int, int], wanted: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadOption, match=why):
        service.workspace.forget(plus[0], service.ann, **wanted)


def test_what_is_of_others_or_not_there(service: Service, plus: tuple[int, int]) -> None:
    workspace, (agent, _) = service.workspace, plus
    with pytest.raises(Conflict, match="not one of this agent"):
        workspace.forget(agent, service.ann, service.pool, ["a"])
    with pytest.raises(NotFound):
        workspace.forget(agent, service.ann, 999, ["a"])
    with pytest.raises(NotFound):
        workspace.forget(agent, service.ann, of=999)
    task = service.start()
    service.workspace.drop(task, service.ann)
    with pytest.raises(Conflict, match="made a version of this agent"):
        workspace.forget(service.agent, service.ann, adaptation=task)


# -- splitting -------------------------------------------------------------------------------------------------


@pytest.fixture
def birds(service: Service, plus: tuple[int, int], world: World) -> tuple[int, int]:
    """An agent that takes two kinds of animals for one."""
    y = ["bird" if label not in ("cat", "dog") else label for label in world.truth.values()]
    assert taught(service, plus[0], X=world.pool, y=y).state == "done"
    return plus


def test_a_class_is_split_by_names_of_groups_and_a_few_answers(
    service: Service, birds: tuple[int, int], world: World
) -> None:
    workspace, (agent, pool) = service.workspace, birds
    asked = workspace.split_class(agent, "bird", service.ann, questions=4, why="two kinds")
    service.work()
    record = workspace.repair(agent, asked.id)
    assert record.state == "asking", record.error
    split = record.split
    assert split is not None
    assert (split.label, split.size, split.missing, len(split.groups)) == ("bird", 30, 0, 2)
    truth = list(world.truth.values())
    assert all(sample.pool == pool for group in split.groups for sample in group.examples)
    names = [truth[group.examples[0].row or 0] for group in split.groups]
    assert set(names) == {"owl", "Füchsin mit Schal"}
    answers = {sample.sample: truth[sample.row or 0] for sample in split.questions}
    assert len(answers) == 4
    workspace.answer_split(agent, asked.id, names, answers, service.ann)
    service.work()
    done = workspace.repair(agent, asked.id)
    assert (done.state, done.version, done.split) == ("done", 2, None), done.error
    change = workspace.versions(agent)[-1].change
    assert change is not None
    assert (change["change"], change["class"], change["answered"], change["why"]) == (
        "split",
        "bird",
        4,
        "two kinds",
    )
    loaded = workspace.load_agent(agent)
    assert set(loaded.classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}
    novel = [row for row, label in enumerate(truth) if label not in ("cat", "dog")]
    assert np.mean(loaded.predict(world.pool[novel]) == np.array(truth)[novel]) > 0.9
    assert not workspace.home.repair_folder(agent, asked.id).exists()


def test_what_a_split_refuses(service: Service, birds: tuple[int, int], world: World) -> None:
    workspace, (agent, _) = service.workspace, birds
    with pytest.raises(UnknownClass):
        workspace.split_class(agent, "birds", service.ann)
    with pytest.raises(BadOption, match="2 to 20 parts"):
        workspace.split_class(agent, "bird", service.ann, parts=1)
    with pytest.raises(BadOption, match="0 to 100"):
        workspace.split_class(agent, "bird", service.ann, questions=101)
    asked = workspace.split_class(agent, "bird", service.ann)
    with pytest.raises(Conflict, match=f"repair {asked.id} of this agent is under way"):
        workspace.split_class(agent, "bird", service.ann)
    with pytest.raises(Conflict, match="asks nothing"):
        workspace.answer_split(agent, asked.id, ["a", "b"], {}, service.ann)
    service.work()
    with pytest.raises(BadLabels, match="2 groups, but 1 names"):
        workspace.answer_split(agent, asked.id, ["a"], {}, service.ann)
    with pytest.raises(BadLabels, match="control"):
        workspace.answer_split(agent, asked.id, ["a", "b\x07"], {}, service.ann)
    with pytest.raises(UnknownSample):
        workspace.answer_split(agent, asked.id, ["a", "b"], {30: "a"}, service.ann)
    workspace.rename_class(agent, "cat", "tomcat", service.ann)
    with pytest.raises(Conflict, match="another version has become the current one"):
        workspace.answer_split(agent, asked.id, ["a", "b"], {}, service.ann)
    assert workspace.drop_repair(agent, asked.id, service.ann).state == "dropped"
    assert not workspace.home.repair_folder(agent, asked.id).exists()
    with pytest.raises(Conflict, match="cannot be dropped"):
        workspace.drop_repair(agent, asked.id, service.ann)


def test_what_is_nowhere_kept_stays_in_the_class_if_that_is_wished(service: Service, world: World) -> None:
    workspace = service.workspace
    y = ["bird" if label not in ("cat", "dog") else label for label in world.truth.values()]
    small = world.agent(method="cual-plus", buffer=20).teach(world.pool, y)
    agent = workspace.add_agent("small", small, OPERATOR).id
    asked = workspace.split_class(agent, "bird", service.ann)
    service.work()
    split = workspace.repair(agent, asked.id).split
    assert split is not None
    assert split.missing > 0
    assert {sample.pool for group in split.groups for sample in group.examples} == {None}
    with pytest.raises(SamplesMissing, match="leave_rest"):
        workspace.answer_split(agent, asked.id, ["a", "b"], {}, service.ann)
    workspace.answer_split(agent, asked.id, ["a", "b"], {}, service.ann, leave_rest=True)
    service.work()
    assert set(workspace.agent(agent).classes) == {"cat", "dog", "bird", "a", "b"}


# -- all of them -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["teach", "forget", "split", "merge", "remove"])
def test_only_administrators_and_only_while_nothing_is_under_way(
    service: Service, world: World, what: str
) -> None:
    workspace = service.workspace

    def change(person: Person) -> object:
        if what == "teach":
            file = upload(workspace, X=world.pool, y=list(world.truth.values()))
            return workspace.teach(service.agent, file, person)
        if what == "forget":
            return workspace.forget(service.agent, person, service.pool, [world.ids[0]])
        if what == "merge":
            return workspace.merge_classes(service.agent, "cat", ["dog"], person)
        if what == "remove":
            return workspace.remove_class(service.agent, "cat", person)
        return workspace.split_class(service.agent, "cat", person)

    for person in (service.bob, service.eve):
        with pytest.raises(NotAllowed):
            change(person)
    task = service.start()
    with pytest.raises(Conflict, match=f"adaptation {task} is under way"):
        change(service.ann)
    assert workspace.repairs(service.agent) == []


def test_an_agent_is_deleted_with_its_repairs(service: Service, birds: tuple[int, int]) -> None:
    workspace, (agent, pool) = service.workspace, birds
    workspace.split_class(agent, "bird", service.ann)
    workspace.delete_pool(pool, service.ann)
    workspace.delete_agent(agent, service.ann)
    service.work()
    with workspace.database.reading() as connection:
        assert connection.execute(sa.select(db.repairs).where(db.repairs.c.agent == agent)).all() == []


def test_an_agent_that_is_deleted_under_a_repair_leaves_no_folder(
    service: Service, birds: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cual.serve.jobs import repairing

    workspace, (agent, pool) = service.workspace, birds
    workspace.delete_pool(pool, service.ann)
    write = repairing.storage.write

    def deleted_meanwhile(*arguments: Any) -> None:
        workspace.delete_agent(agent, service.ann)
        write(*arguments)

    workspace.split_class(agent, "bird", service.ann)
    monkeypatch.setattr(repairing.storage, "write", deleted_meanwhile)
    service.work()
    monkeypatch.undo()
    assert not workspace.home.agent_folder(agent).exists()


def test_a_repair_that_was_under_way_has_failed_after_a_restore(
    service: Service, birds: tuple[int, int], tmp_path: Path
) -> None:
    workspace, (agent, _) = service.workspace, birds
    workspace.split_class(agent, "bird", service.ann)
    file = workspace.backup(tmp_path / "all.zip", OPERATOR)
    restored = Workspace.restore(file, tmp_path / "restored")
    try:
        last = restored.repairs(agent)[0]
        assert (last.state, last.split) == ("failed", None)
        assert "under way when the backup was made" in str(last.error)
        assert restored.agent(agent).classes == workspace.agent(agent).classes
        assert not [job for job in restored.jobs() if job.state == "waiting"]
    finally:
        restored.close()
