"""The journal's file: a line per event, appended; what a crash cut off is dropped, others are noticed."""

import json
import logging
from pathlib import Path

import pytest

from cual import Adaptation
from cual.errors import DamagedFile, FolderInUse, NewerFormat
from cual.loop import files
from cual.loop.journal import Journal
from worlds import World, without_sums


def asked(world: World, folder: Path) -> tuple[Adaptation, tuple[object, ...]]:
    task = world.adapt(budget=8)
    query = task.ask()
    assert query is not None
    task.save(folder)
    return task, query.ids


def test_an_answer_is_one_line_more_and_nothing_else_is_written(world: World, tmp_path: Path) -> None:
    task, ids = asked(world, tmp_path)
    before = {p.name: (p.stat().st_ino, p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.iterdir()}
    lines = (tmp_path / "journal.jsonl").read_bytes()
    task.tell("q0", {ids[0]: "owl"})
    task.save(tmp_path)
    after = {p.name: (p.stat().st_ino, p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"journal.jsonl"}
    assert after["journal.jsonl"][0] == before["journal.jsonl"][0]
    new = (tmp_path / "journal.jsonl").read_bytes()
    assert new.startswith(lines)
    (line,) = new[len(lines) :].splitlines()
    row = json.loads(line)
    assert (row["event"], row["sample"], row["answer"]) == ("told", ids[0], "owl")


@pytest.mark.parametrize("left", [1, 10, 40])
def test_a_line_that_a_crash_cut_off_is_dropped_and_can_be_said_again(world: World, tmp_path: Path, left: int):
    task, ids = asked(world, tmp_path)
    whole = (tmp_path / "journal.jsonl").read_bytes()
    task.tell("q0", {ids[0]: "owl"})
    task.save(tmp_path)
    (tmp_path / "journal.jsonl").write_bytes((tmp_path / "journal.jsonl").read_bytes()[: len(whole) + left])
    again = Adaptation.load(tmp_path)
    assert again.answers == {}
    again.tell("q0", {ids[0]: "owl"})
    again.save(tmp_path)
    assert Adaptation.load(tmp_path).answers == {ids[0]: "owl"}


def test_two_that_write_to_one_folder_notice_it(world: World, tmp_path: Path) -> None:
    task, ids = asked(world, tmp_path)
    other = Adaptation.load(tmp_path)
    other.tell("q0", {ids[0]: "owl"})
    other.save(tmp_path)
    task.tell("q0", {ids[0]: "cat"})
    with pytest.raises(FolderInUse, match="written by somebody else"):
        task.save(tmp_path)
    assert Adaptation.load(tmp_path).answers == {ids[0]: "owl"}


def test_a_damaged_cache_is_computed_again(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task, _ = asked(world, tmp_path)
    cache = tmp_path / "cache.safetensors"
    cache.write_bytes(cache.read_bytes()[:-50])
    with caplog.at_level(logging.WARNING, logger="cual"):
        again = Adaptation.load(tmp_path)
    assert "computed again" in caplog.text
    assert again.ask() == task.ask()


def test_a_journal_of_another_pool_is_noticed(world: World, tmp_path: Path) -> None:
    asked(world, tmp_path)
    rows = [json.loads(line) for line in without_sums(tmp_path / "journal.jsonl").read_text().splitlines()]
    rows[1]["samples"] = rows[1]["samples"][1:]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "cache.safetensors").unlink()
    with pytest.raises(DamagedFile, match="computing round 0 again gave something else"):
        Adaptation.load(tmp_path).ask()


def test_a_first_save_that_was_killed_halfway_left_no_adaptation(world: World, tmp_path: Path) -> None:
    task = world.adapt(budget=8)
    files.begin(tmp_path, task.agent, task.pool)
    journal = Journal(task.journal)
    journal.begin(tmp_path / files.JOURNAL)
    assert not files.is_saved(tmp_path)
    journal.flush()
    assert files.is_saved(tmp_path)


@pytest.mark.parametrize("kind", ["answer", "_class__", "ledger_row", "no such"])
def test_an_event_that_there_is_not_is_a_named_error(world: World, tmp_path: Path, kind: str) -> None:
    asked(world, tmp_path)
    with without_sums(tmp_path / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"event": kind, "at": "", "sample": "a"}) + "\n")
    with pytest.raises(DamagedFile, match=f"there is no event '{kind}'"):
        Adaptation.load(tmp_path)


def test_a_newer_journal_is_refused(world: World, tmp_path: Path) -> None:
    asked(world, tmp_path)
    file = without_sums(tmp_path / "journal.jsonl")
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(NewerFormat, match="update cual"):
        Adaptation.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{}\n", "[]\n", '{"event": "no such"}\n', '{"event": "told"}\n', "\x00\n"]
)
def test_what_is_no_journal_is_a_named_error(world: World, tmp_path: Path, text: str) -> None:
    asked(world, tmp_path)
    (tmp_path / "journal.jsonl").write_text(text)
    with pytest.raises(DamagedFile, match=r"journal\.jsonl"):
        Adaptation.load(tmp_path)
