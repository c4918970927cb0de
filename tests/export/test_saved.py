"""Labels of adaptations in folders: those of the library, and `cual export`, which changes nothing there."""

import json
from pathlib import Path

import pytest

from commands import cual, refused
from cual import Adaptation
from cual.errors import BadOption, DamagedFile
from cual.export.saved import saved_labels
from cual.loop import files
from worlds import World


@pytest.fixture
def saved(world: World, tmp_path: Path) -> Path:
    """An adaptation that is over, with two verdicts."""
    task = world.answer_all(world.adapt())
    believed = list(task.pseudo_labels)
    task.confirm(believed[:1])
    task.reject(believed[1:2])
    task.save(tmp_path / "task")
    return tmp_path / "task"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_labels_are_those_of_the_adaptation(saved: Path) -> None:
    before, task = files_of(saved), Adaptation.load(saved)
    labels = saved_labels(saved)
    rows = list(labels.rows)
    assert {row.sample: row.label for row in rows} == task.answers | task.pseudo_labels
    assert {row.sample: row.doubt for row in rows if row.source != "answer"} == task.doubts
    assert all(task.pool.ids[row.row] == row.sample for row in rows if row.row is not None)
    assert None not in [row.row for row in rows]
    assert labels.numbers == frozenset()
    assert len(list(saved_labels(saved, everything=True).rows)) == len(rows) + 3  # two verdicts, on three rows
    assert files_of(saved) == before


def test_one_that_somebody_is_writing_to(saved: Path) -> None:
    journal = saved / files.JOURNAL
    whole = list(saved_labels(saved).rows)
    with journal.open("ab") as file:
        file.write(b'{"event": "rejec')
    before = files_of(saved)
    assert list(saved_labels(saved).rows) == whole
    assert files_of(saved) == before, "the line may be finished yet: it is left alone"


def test_without_a_cache_doubts_are_not_known_and_nothing_is_computed(saved: Path) -> None:
    known = list(saved_labels(saved).rows)
    (saved / files.CACHE).unlink()
    (saved / files.POOL).unlink()  # nothing could be computed
    assert list(saved_labels(saved).rows) == [row._replace(row=None, doubt=None) for row in known]


def test_damaged_and_missing_ones_are_named(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no adaptation"):
        saved_labels(tmp_path)
    (saved / files.JOURNAL).write_text('{"event": "told"}\n')
    with pytest.raises(DamagedFile):
        saved_labels(saved)


def test_an_adaptation_of_the_first_release() -> None:
    folder = Path(__file__).parents[1] / "upgrades" / "release-0.1.0" / "adaptations"
    for saved in sorted(path.parent for path in folder.rglob("state.safetensors")):
        task = Adaptation.load(saved)
        answers = {sample: answer for sample, answer in task.answers.items() if isinstance(answer, str | int)}
        rows = saved_labels(saved).rows
        assert {row.sample: row.label for row in rows} == answers | task.pseudo_labels


# -- on the command line ---------------------------------------------------------------------------------------


def test_cual_export(saved: Path, tmp_path: Path) -> None:
    n = len(list(saved_labels(saved).rows))
    assert f"{n} labels" in cual("export", saved, "-o", tmp_path / "labels.jsonl").stdout
    lines = (tmp_path / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [row._asdict() for row in saved_labels(saved).rows]
    assert "exists" in refused("export", saved, "-o", tmp_path / "labels.jsonl")
    everything = cual("export", saved, "-o", tmp_path / "labels.jsonl", "--force", "--everything")
    assert f"{n + 3} labels" in everything.stdout
    for name, output in (("csv", "labels.txt"), ("parquet", "labels.parquet"), ("datasets", "labels.hf")):
        assert cual("export", saved, "-o", tmp_path / output, "--format", name).exit_code == 0
        assert (tmp_path / output).exists()
    assert "not empty" in refused(
        "export", saved, "-o", tmp_path / "labels.hf", "--format", "datasets", "--force"
    )


def test_cual_export_as_links(saved: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    rows = list(saved_labels(saved).rows)
    for row in rows[1:]:
        (photos / str(row.sample)).write_text("a picture")
    out = tmp_path / "sorted"
    told = cual("export", saved, "-o", out, "--format", "folder", "--files", photos)
    assert f"{len(rows) - 1} links" in told.stdout
    assert "1 sample without a file" in told.stderr
    assert {path.name for path in out.iterdir() if path.is_dir()} == {str(row.label) for row in rows[1:]}
    assert (out / str(rows[1].label) / str(rows[1].sample)).read_text() == "a picture"
    assert "not empty" in refused("export", saved, "-o", out, "--format", "folder", "--files", photos)


def test_what_cual_export_refuses(saved: Path, tmp_path: Path) -> None:
    target = ("-o", tmp_path / "x")
    assert "say the format" in refused("export", saved, *target)
    assert "no export format is called 'xml'" in refused("export", saved, *target, "--format", "xml")
    assert "needs --files" in refused("export", saved, *target, "--format", "folder")
    assert "no such folder" in refused("export", saved, *target, "--format", "folder", "--files", "/not/there")
    assert "goes with" in refused("export", saved, *target, "--format", "csv", "--files", tmp_path)
    assert "neither" in refused("export", tmp_path, *target, "--format", "csv")
    assert "one adaptation" in refused("export", saved, *target, "--format", "csv", "--agent", 1)
    assert "no columns of a table" in refused("export", saved, *target, "--format", "csv", "--columns")
    assert not (tmp_path / "x").exists()
