"""`cual ask` and `cual tell`: files that go out, come back filled in, and give the agent of the terminal."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from commands import cual, done, refused
from cual import Adaptation, Agent
from cual.cli.question_files import LIST, UNKNOWN


class Round:
    """Rounds of a desk's adaptation, each in a file of its own."""

    def __init__(self, desk: Any, suffix: str, budget: int = 8) -> None:
        self.desk, self.suffix, self.budget = desk, suffix, budget
        self.task = desk.folder / "v1.task"
        self.number = 0

    @property
    def file(self) -> Path:
        return self.desk.folder / f"round-{self.number}{self.suffix}"

    def ask(self, *more: object) -> bool:
        """Write the next questions; whether there are any."""
        self.number += 1
        named = ("--text", "message", "--id", "key") if self.desk.pool.suffix else ()
        given = ("ask", self.desk.agent, self.desk.pool, "--task", self.task, "--budget", self.budget, *named)
        said = done(*given, "-o", self.file, "--encoder", self.desk.encoder, *more).stdout
        assert ("No more questions" in said) != self.file.exists()
        return self.file.exists()

    def tell(self, *more: object) -> Any:
        return cual("tell", self.task, self.file, *more)


def fill_csv(file: Path, truth: dict[str, str], most: int = 1000) -> list[dict[str, str]]:
    with file.open(encoding="utf-8-sig", newline="") as text:
        rows = list(csv.DictReader(text))
    for row in rows[:most]:
        row["label"] = truth[row["id"]]
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return rows


def fill_jsonl(file: Path, truth: dict[str, str]) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    filled = ({**row, "label": truth[row["id"]]} for row in rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in filled), encoding="utf-8")
    return rows


def fill_folder(folder: Path, truth: dict[str, str]) -> list[str]:
    links = [entry for entry in folder.iterdir() if entry.is_symlink()]
    for link in links:
        target = folder / truth[link.name]
        target.mkdir(exist_ok=True)
        link.rename(target / link.name)
    return [link.name for link in links]


def expected(desk: Any, tmp_path: Path) -> bytes:
    """The agent of the same answers, asked in one go."""
    file = tmp_path / "answers.csv"
    file.write_text("id,label\n" + "".join(f"{s},{c}\n" for s, c in desk.truth.items()), encoding="utf-8")
    named = ("--text", "message", "--id", "key") if desk.pool.suffix else ()
    given = ("adapt", desk.agent, desk.pool, "-o", tmp_path / "one.agent", "--budget", 8, *named)
    done(*given, "--labels", file, "--only-asked", "--encoder", desk.encoder)
    return (tmp_path / "one.agent").read_bytes()


def test_texts_go_out_as_csv_and_come_back_round_by_round(texts: Any, tmp_path: Path) -> None:
    rounds = Round(texts, ".csv")
    asked: list[str] = []
    written = {line.split(",")[0]: line.split(",")[1] for line in texts.pool.read_text().splitlines()}
    while rounds.ask():
        rows = fill_csv(rounds.file, texts.truth)
        asked += [row["id"] for row in rows]
        assert all(row["text"] == written[row["id"]] for row in rows)
        assert {row["round"] for row in rows} == {str(rounds.number)}
        assert f"{len(rows)} answer" in rounds.tell().stdout
    assert len(asked) == len(set(asked)) == 8
    told = done("tell", rounds.task, "-o", texts.next, "--export", texts.folder / "labels.csv")
    assert "music" in told.stdout
    assert texts.next.read_bytes() == expected(texts, tmp_path)
    with (texts.folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        labels = list(csv.DictReader(file))
    assert {row["source"] for row in labels} == {"answer", "pseudo-label"}
    believed = Adaptation.load(rounds.task).pseudo_labels
    assert {row["sample"]: row["label"] for row in labels if row["source"] == "pseudo-label"} == believed


def test_images_go_out_as_a_folder_of_links(pictures: Any, tmp_path: Path) -> None:
    rounds = Round(pictures, "")
    while rounds.ask():
        assert {"Forest", "Sea", UNKNOWN, LIST} <= {entry.name for entry in rounds.file.iterdir()}
        for link in (entry for entry in rounds.file.iterdir() if entry.is_symlink()):
            assert os.readlink(link) == str((pictures.pool / link.name).resolve())
        moved = fill_folder(rounds.file, pictures.truth)
        assert f"{len(moved)} answer" in rounds.tell().stdout
    done("tell", rounds.task, "-o", pictures.next)
    assert pictures.next.read_bytes() == expected(pictures, tmp_path)


def test_images_go_out_as_json_lines_with_their_paths(pictures: Any, tmp_path: Path) -> None:
    rounds = Round(pictures, ".jsonl")
    while rounds.ask():
        for row in fill_jsonl(rounds.file, pictures.truth):
            assert row["label"] is None
            assert row["file"] == str(pictures.pool / row["id"])
        assert rounds.tell().exit_code == 0
    done("tell", rounds.task, "-o", pictures.next)
    assert pictures.next.read_bytes() == expected(pictures, tmp_path)


def test_a_file_may_come_in_parts_and_again_and_corrected(texts: Any) -> None:
    rounds = Round(texts, ".csv")
    rounds.ask()
    rows = fill_csv(rounds.file, texts.truth, most=2)
    told = rounds.tell("--by", "ada")
    assert f"2 of 8 labels used; {len(rows) - 2} questions of round 1 open" in told.stdout
    assert "0 answers taken" in rounds.tell("--by", "ada").stdout
    assert Adaptation.load(rounds.task).labels_used == 2
    first = rows[0]["id"]
    fill_csv(rounds.file, {**texts.truth, first: "weather" if texts.truth[first] != "weather" else "refund"}, 2)
    rounds.tell("--by", "ada")
    ledger = Adaptation.load(rounds.task).ledger
    row = next(row for row in ledger if row["sample"] == first)
    assert (row["corrected"], row["person"], row["charged"]) == (texts.truth[first], "ada", 1)
    again = texts.folder / "again.csv"
    given = ("ask", texts.agent, texts.pool, "--task", rounds.task, "--budget", 8, "--text", "message")
    done(*given, "--id", "key", "-o", again, "--encoder", texts.encoder)
    with again.open(encoding="utf-8-sig", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [row["id"] for row in rows[2:]]


def test_who_cannot_tell_and_who_has_enough(pictures: Any) -> None:
    rounds = Round(pictures, "")
    rounds.ask()
    links = sorted(entry for entry in rounds.file.iterdir() if entry.is_symlink())
    links[0].rename(rounds.file / UNKNOWN / links[0].name)
    links[1].rename(rounds.file / "Sea" / links[1].name)
    early = rounds.tell("-o", pictures.next)
    assert early.exit_code == 1
    assert "is not written; --done asks no more" in early.stderr
    assert not pictures.next.exists()
    task = Adaptation.load(rounds.task)
    assert (task.state.skipped, task.labels_used) == (1, 1)
    done("tell", rounds.task, "--rest-unknown")
    assert Adaptation.load(rounds.task).state.skipped == len(links) - 1
    done("tell", rounds.task, "--done", "-o", pictures.next)
    assert Agent.load(pictures.next).version == 1


def test_a_larger_budget_asks_on(texts: Any) -> None:
    rounds = Round(texts, ".csv", budget=4)
    while rounds.ask():
        fill_csv(rounds.file, texts.truth)
        rounds.tell()
    rounds.budget = 7
    assert rounds.ask()
    while rounds.file.exists():
        fill_csv(rounds.file, texts.truth)
        rounds.tell()
        rounds.ask()
    assert Adaptation.load(rounds.task).labels_used == 7


def test_what_cannot_be_told(pictures: Any) -> None:
    rounds = Round(pictures, "")
    rounds.ask()
    assert "is not empty" in refused(
        "ask", pictures.agent, pictures.pool, "--task", rounds.task, "--budget", 8, "-o", rounds.file
    )
    assert "as .jsonl, or as a folder" in refused(
        "ask", pictures.agent, pictures.pool, "--task", rounds.task, "--budget", 8, "-o", "q.xlsx"
    )
    link = next(entry for entry in rounds.file.iterdir() if entry.is_symlink())
    (rounds.file / "Sea" / "stranger.png").write_bytes(b"")
    assert "no question was written under this name" in refused("tell", rounds.task, rounds.file)
    (rounds.file / "Sea" / "stranger.png").unlink()
    for name in ("Sea", "Forest"):
        (rounds.file / name / link.name).symlink_to(link)
    assert "lies in another folder as well" in refused("tell", rounds.task, rounds.file)
    assert "holds no adaptation; cual ask begins one" in refused("tell", pictures.pool, rounds.file)
    assert "is no folder of questions" in refused("tell", rounds.task, pictures.first)
    unasked = pictures.folder / "more.csv"
    asked = Adaptation.load(rounds.task).state.questions
    other = next(sample for sample in pictures.truth if sample not in asked)
    unasked.write_text(f"id,label\n{other},Sea\nnobody.png,Sea\n", encoding="utf-8")
    told = cual("tell", rounds.task, unasked)
    assert f"1 sample nobody asked about, as {other}; not used" in told.stderr
    assert "line 3: no such sample in the pool" in told.stderr
    assert Adaptation.load(rounds.task).labels_used == 0


def test_texts_are_no_links(texts: Any) -> None:
    given = ("ask", texts.agent, texts.pool, "--task", texts.folder / "t", "--budget", 8, "--text", "message")
    message = refused(*given, "--id", "key", "-o", texts.folder / "links", "--encoder", texts.encoder)
    assert "has no file that a link could lead to; write .csv or .jsonl" in message


@pytest.mark.parametrize("command", ["ask", "tell", "evaluate"])
def test_every_command_teaches_by_example(command: str) -> None:
    assert command in done("--help").stdout
    shown = done(command, "--help").stdout.splitlines()
    assert any(f"cual {command}" in line and "Usage" not in line for line in shown)
