"""What commands read, and where they write: one image, columns by name, answers of all kinds, wrong folders."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import cual, done, refused
from cual import Agent
from cual.cli.answers import filled_in, read_answers
from cual.data.labels import SKIP, ClassNames, near_name
from cual.errors import BadFile, DamagedFile
from worlds import World

NAMES = ClassNames(("Forest", "Sea"))
IDS = ("a.jpg", "b.jpg", "=c.jpg")


# -- one image, columns of tables ------------------------------------------------------------------------------


def test_predict_takes_one_image(pictures: Any) -> None:
    given = ("predict", pictures.agent, pictures.pool / "000.png", "--encoder", pictures.encoder)
    (row,) = csv.DictReader(io.StringIO(done(*given).stdout))
    assert (row["id"], row["label"]) == ("000.png", "Forest")
    broken = pictures.folder / "broken.png"
    broken.write_bytes(b"no image")
    said = cual("predict", pictures.agent, broken, "--encoder", pictures.encoder)
    assert said.exit_code == 2
    assert "broken.png" in said.stderr
    (pictures.folder / "a.txt").write_text("x")
    assert "neither an image" in refused("predict", pictures.agent, pictures.folder / "a.txt")


def test_columns_are_named_wherever_a_table_is_read(texts: Any) -> None:
    encoder = ("--encoder", texts.encoder)
    named = ("--text", "message", "--id", "key")
    rows = csv.DictReader(io.StringIO(done("predict", texts.agent, texts.pool, *named, *encoder).stdout))
    assert [row["id"] for row in rows] == list(texts.truth)
    with (texts.folder / "answers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "label"), *texts.truth.items()])
    given = ("adapt", texts.agent, texts.pool, "-o", texts.next, "--budget", 9, *named, *encoder)
    assert "music" in done(*given, "--labels", texts.folder / "answers.csv").stdout
    evaluated = done("evaluate", texts.next, texts.first, *texts.flags, *encoder).stdout
    assert "the mean over 2 classes" in evaluated
    taught = ("teach", texts.agent, texts.first, "-o", texts.folder / "v2.agent", *texts.flags, *encoder)
    assert "were known before" in done(*taught).stdout.replace("\n", " ")
    assert "no column of text" in refused("predict", texts.agent, texts.pool, *encoder)
    assert "no column 'x'" in refused("predict", texts.agent, texts.pool, "--text", "x", *encoder)


def test_columns_of_parquet_features_are_named_too(world: World, tmp_path: Path) -> None:
    file = tmp_path / "first.parquet"
    pq.write_table(pa.table({"x": list(world.X), "kind": world.y, "key": [f"s{i}" for i in range(60)]}), file)
    named = ("--label", "kind", "--id", "key")
    done("fit", file, "-o", tmp_path / "a.agent", *named)
    assert Agent.load(tmp_path / "a.agent").classes_.tolist() == ["cat", "dog"]
    assert "s59" in done("predict", tmp_path / "a.agent", file, *named).stdout
    quick = ("--methods", "er-random", "--first", 1, "--budget", 4, "--option", "head.epochs=1")
    done("bench", "run", "--features", file, "--label", "kind", *quick, "--out", tmp_path / "results")
    assert json.loads((tmp_path / "results" / "run.json").read_text())["setting"]["label"] == "kind"
    np.savez(tmp_path / "first.npz", X=world.X, y=np.array(world.y))
    message = refused("fit", tmp_path / "first.npz", "-o", tmp_path / "b.agent", "--label", "kind")
    assert "name columns of a table" in message


# -- files of answers ------------------------------------------------------------------------------------------


def written(tmp_path: Path, name: str, text: str) -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def test_a_ledger_is_a_file_of_answers(tmp_path: Path) -> None:
    rows = (
        {"sample": "a.jpg", "answer": "Forest", "skipped": False, "suggestion": "Sea"},
        {"sample": "b.jpg", "answer": None, "skipped": True},
        {"sample": "=c.jpg", "answer": None, "skipped": False},
    )
    file = written(tmp_path, "l.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert read_answers(file, NAMES, IDS).answers == {"a.jpg": "Forest", "b.jpg": SKIP}


def test_exported_labels_are_answers_but_for_what_is_believed(tmp_path: Path) -> None:
    head = "sample,label,source,counts\n"
    file = written(
        tmp_path,
        "l.csv",
        head + "a.jpg,Sea,answer,0\na.jpg,Forest,answer,1\nb.jpg,Sea,pseudo-label,1\n'=c.jpg,'=x,answer,1\n",
    )
    recorded = read_answers(file, NAMES, IDS)
    assert recorded.answers == {"a.jpg": "Forest", "=c.jpg": "=x"}
    assert recorded.believed == [4]


def test_what_an_empty_label_means_depends_on_who_reads(tmp_path: Path) -> None:
    file = written(tmp_path, "f.csv", "id,label\na.jpg,Sea\nb.jpg,\n=c.jpg,?\n")
    assert read_answers(file, NAMES, IDS).answers == {"a.jpg": "Sea", "b.jpg": SKIP, "=c.jpg": SKIP}
    filled = read_answers(file, NAMES, IDS, reading=filled_in)
    assert filled.answers == {"a.jpg": "Sea", "=c.jpg": SKIP}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{\n", DamagedFile, "line 1"),
        ("3\n", BadFile, "expected an object"),
        ('{"label": "Sea"}\n', BadFile, "there is no id"),
    ],
)
def test_json_lines_that_are_none(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_answers(written(tmp_path, "f.jsonl", text), NAMES, IDS)


def test_the_ledger_of_an_adaptation_repeats_it(world: World, tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", X=world.pool, ids=np.array(world.ids))
    world.agent().save(tmp_path / "v0.agent")
    answers = "id,label\n" + "".join(f"{i},{c}\n" for i, c in world.truth.items())
    written(tmp_path, "answers.csv", answers)
    adapt = ("adapt", tmp_path / "v0.agent", tmp_path / "pool.npz", "--budget", 8, "--only-asked", "--labels")
    ledger = tmp_path / "ledger.jsonl"
    done(*adapt, tmp_path / "answers.csv", "-o", tmp_path / "one", "--ledger", ledger)
    again = done(*adapt, ledger, "-o", tmp_path / "two")
    assert "skipped" not in again.stderr
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


# -- names that are nearly known -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "near"),
    [("forest", "Forest"), ("Forests", "Forest"), ("sea ", "Sea"), ("River", None), ("Seal", "Sea")],
)
def test_near_names(text: str, near: str | None) -> None:
    assert near_name(text, NAMES) == near


def test_numbers_are_never_near() -> None:
    assert near_name("12", ClassNames((11, 13))) is None
    assert near_name("class 12", ClassNames(("class 11", "class 13"))) is None
    assert near_name("CLASS 11", ClassNames(("class 11", "class 13"))) == "class 11"


def test_a_file_is_asked_what_it_meant(pictures: Any) -> None:
    truth = {sample: label.lower() for sample, label in pictures.truth.items()}
    text = "id,label\n" + "".join(f"{sample},{label}\n" for sample, label in truth.items())
    file = written(pictures.folder, "answers.csv", text)
    given = ("adapt", pictures.agent, pictures.pool, "-o", pictures.next, "--budget", 9, "--labels", file)
    said = done(*given, "--encoder", pictures.encoder).stderr
    assert "'forest' is taken for a new class; did you mean 'Forest'?" in said
    assert "desert" not in said


# -- where to write --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "predict", "embed", "evaluate", "adapt"])
def test_a_folder_that_is_not_there_is_an_error_before_the_work(pictures: Any, command: str) -> None:
    where = pictures.folder / "mistyped" / "out.file"
    source = (pictures.first,) if command in ("fit", "embed") else (pictures.agent, pictures.first)
    more = ("--budget", 3) if command == "adapt" else ()
    message = refused(command, *source, "-o", where, *more, "--encoder", pictures.encoder)
    assert "mistyped is not there" in message
    assert not where.parent.exists()
