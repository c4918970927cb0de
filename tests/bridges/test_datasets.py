"""Hugging Face datasets in and out: features, texts and images, pools, answers and pseudo-labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cual import Agent, Pool
from cual.cli import app
from cual.data.files import read
from cual.data.table import Table
from cual.encoders.anything import is_features
from cual.errors import BadFeatures, BadLabels, BadOption, DamagedFile, WrongEncoder
from worlds import World

library = pytest.importorskip("datasets", reason="the package datasets is not installed")

from cual.bridges.datasets import dataset_of, labels_of, table_of  # noqa: E402

ENCODER = "python:toy:letters?kind=text@0123456789ab"


@pytest.fixture
def table(world: World) -> Table:
    ids = np.array([f"s{i}" for i in range(len(world.y))])
    return Table(world.X, np.array(world.y), ids, encoder=ENCODER)


def check_same(one: Table, other: Table) -> None:
    assert np.array_equal(np.asarray(one.X), np.asarray(other.X))
    assert one.labels().tolist() == other.labels().tolist()
    assert one.ids is not None
    assert other.ids is not None
    assert one.ids.tolist() == other.ids.tolist()
    assert one.encoder == other.encoder


def test_features_go_out_and_come_back(table: Table, tmp_path: Path) -> None:
    dataset = dataset_of(table)
    assert dataset.column_names == ["id", "features", "label", "encoder"]
    check_same(table_of(dataset), table)
    dataset.save_to_disk(str(tmp_path / "rows"))
    assert is_features(tmp_path / "rows")
    check_same(read(tmp_path / "rows"), table)
    check_same(table_of(library.load_from_disk(str(tmp_path / "rows"))), table)


def test_what_is_done_to_rows_is_done_to_features(table: Table) -> None:
    """A selection has an order of its own, which the file behind it does not have."""
    chosen = dataset_of(table).shuffle(seed=1).select(range(20))
    part = table_of(chosen)
    assert part.ids is not None
    rows = [int(name[1:]) for name in part.ids.tolist()]
    assert rows != sorted(rows)
    assert np.array_equal(part.X, np.asarray(table.X)[rows])
    assert part.labels().tolist() == table.labels()[rows].tolist()


def test_an_agent_of_a_dataset_is_the_agent_of_its_rows(world: World, table: Table) -> None:
    given = table_of(dataset_of(table))
    agent = Agent.fit(given.X, given.labels(), encoder=given.encoder)
    assert agent.encoder == ENCODER
    pool = Pool.of(table_of(dataset_of(Pool(world.pool, world.ids, ENCODER))))
    assert pool.encoder == ENCODER
    assert list(pool.ids) == world.ids
    assert np.array_equal(agent.predict(pool.data), Agent.fit(world.X, world.y).predict(world.pool))


def test_answers_and_pseudo_labels_go_out_and_teach_the_next_agent(world: World) -> None:
    task = world.answer_all(world.adapt())
    rows = labels_of(task)
    assert {row["sample"]: row["label"] for row in rows if row["source"] == "answer"} == task.answers
    believed = {row["sample"]: row["label"] for row in rows if row["source"] != "answer"}
    assert believed == task.pseudo_labels
    labelled = {row["sample"]: row["label"] for row in rows}
    pool = dataset_of(task.pool).filter(lambda row: row["id"] in labelled)
    pool = pool.add_column("label", [labelled[name] for name in pool["id"]])
    back = table_of(pool)
    assert dict(zip(back.ids.tolist(), back.labels().tolist(), strict=True)) == labelled
    grown = world.agent().teach(back.X, back.labels())
    assert set(grown.classes_) == {"cat", "dog", *labelled.values()}


def test_texts_and_images_are_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from cual.encoders import FunctionEncoder

    monkeypatch.setenv("CUAL_CACHE", str(tmp_path / "cache"))
    classes = library.ClassLabel(names=["short", "long"])
    texts = library.Dataset.from_dict(
        {"utterance": ["a", "aaa", "bb"], "intent": [0, 1, -1]},
        features=library.Features({"utterance": library.Value("string"), "intent": classes}),
    )
    lengths = FunctionEncoder(
        lambda items: np.array([[len(t), t.count("b")] for t in items]), "lengths", "text"
    )
    told = table_of(texts.select([1, 0]), label="intent", encoder=lengths)
    assert np.asarray(told.X).tolist() == [[3, 0], [1, 0]]
    assert told.labels().tolist() == ["long", "short"]
    assert told.encoder == lengths.fingerprint
    with pytest.raises(BadLabels, match="no label"):
        table_of(texts, label="intent", encoder=lengths).labels()
    pictures = library.Dataset.from_dict(
        {"image": [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")], "label": ["r", "b"]}
    ).cast_column("image", library.Image())
    red = FunctionEncoder(lambda items: np.array([[np.asarray(i)[0, 0, 0]] for i in items]), "red", "image")
    told = table_of(pictures, encoder=red)
    assert (np.asarray(told.X)[0] > np.asarray(told.X)[1]).all()
    assert told.labels().tolist() == ["r", "b"]


@pytest.mark.more
def test_a_folder_of_a_dataset_goes_to_every_command(world: World, table: Table, tmp_path: Path) -> None:
    dataset_of(table).save_to_disk(str(tmp_path / "first"))
    pool = Table(world.pool, ids=np.array(world.ids), encoder=ENCODER)
    dataset_of(pool).save_to_disk(str(tmp_path / "pool"))
    answers = "".join(f"{sample},{label}\n" for sample, label in world.truth.items())
    (tmp_path / "answers.csv").write_text("id,label\n" + answers, encoding="utf-8")

    def cual(*arguments: Any) -> str:
        done = CliRunner().invoke(app, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output
        return done.output

    cual("fit", tmp_path / "first", "-o", tmp_path / "v0.agent")
    assert Agent.load(tmp_path / "v0.agent").encoder == ENCODER
    task = tmp_path / "task"
    labels = ("--labels", tmp_path / "answers.csv", "--only-asked", "--task", task)
    cual("adapt", tmp_path / "v0.agent", tmp_path / "pool", "-o", tmp_path / "v1.agent", "--budget", 8, *labels)
    cual("export", task, "-o", tmp_path / "labels", "--format", "datasets")
    assert set(library.load_from_disk(str(tmp_path / "labels"))["sample"]) <= set(world.ids)
    assert "accuracy" in cual("evaluate", tmp_path / "v1.agent", tmp_path / "first")
    cual("predict", tmp_path / "v1.agent", tmp_path / "pool", "-o", tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(world.ids) + 1


def test_which_columns_are_features(tmp_path: Path) -> None:
    def is_table(**columns: list[Any]) -> bool:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        library.Dataset.from_dict(columns).save_to_disk(str(folder))
        return is_features(folder)

    assert is_table(features=[[1.0, 2.0]], label=["a"])
    assert is_table(vectors_of_mine=[[1.0, 2.0]], label=["a"])
    assert is_table(f0=[1.0], f1=[2.0], label=[3])
    assert is_table(text=["a"], embedding=[[1.0, 2.0]])
    assert not is_table(text=["a"], tokens=[[1, 2]])
    assert not is_table(text=["a"], label=[1])
    assert not is_table(sound=["a"])


def test_odd_datasets_are_named_errors(table: Table, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="DatasetDict is no"):
        table_of(library.DatasetDict({"train": dataset_of(table)}))
    both = library.concatenate_datasets(
        [dataset_of(table), dataset_of(Table(table.X, table.y, table.ids, encoder="another@0123456789ab"))]
    )
    with pytest.raises(WrongEncoder, match="rows of several encoders"):
        table_of(both)
    ragged = library.Dataset.from_dict({"features": [[1.0], [1.0, 2.0]]})
    with pytest.raises(BadFeatures, match="lists of one length"):
        table_of(ragged)
    classes = library.Features(
        {"X": library.Sequence(library.Value("float32")), "label": library.ClassLabel(names=["a"])}
    )
    partly = library.Dataset.from_dict({"X": [[1.0], [2.0]], "label": [0, -1]}, features=classes)
    with pytest.raises(BadLabels, match="1 of 2 rows have no label"):
        table_of(partly).labels()
    partly.save_to_disk(str(tmp_path / "d"))
    info = (tmp_path / "d" / "dataset_info.json").read_text()
    (tmp_path / "d" / "dataset_info.json").write_text(info.replace('"a"', ""))
    with pytest.raises(DamagedFile, match="there are 0 classes"):
        read(tmp_path / "d")


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hub.md").read_text(encoding="utf-8")
    (example,) = [block for block in page.split("```python\n")[1:] if "labels_of(task)" in block]
    exec(compile(example.split("```")[0], "hub.md", "exec"), {})
    assert capsys.readouterr().out == "['answer', 'pseudo-label'] ['id', 'features']\n"
