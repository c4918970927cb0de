"""The rows that `cual bench run` wrote of the digits with release 0.1.0 come out again, number for number.

But for those of ccic, whose loss is divided by the number of classes since, and of cual-plus, which asks and
believes otherwise: a walk tells what is novel, a class without a name competes, and all questions are planned.
Its rows are of the same tasks and budgets.
"""

import json
from pathlib import Path

import pytest
import typer.testing

from cual.cli import app
from upgrades.release import FIRST, PROTOCOL, Row, comparable

ADDED = {"natural": False, "imbalance": None, "wrong_among_new": False, "synonyms": 0.0, "protocol": 1}
"""What a row says today that those of the release do not."""
CHANGED = ("cual-plus", "ccic", "oracle-ridge")
"""The last counted samples as often as pools showed them."""

SAME = {
    "dataset",
    "seed",
    "task",
    "classes_known",
    "pool_size",
    "labels_used",
    "labels_budgeted",
    "novel_in_pool",
}
"""What a row of cual-plus says still: the task, the budget and that the class was found."""

pytestmark = [pytest.mark.more, pytest.mark.usefixtures("bits")]


def expected(method: str, seed: int) -> list[Row]:
    rows = [json.loads(line) for line in (FIRST / "digits-rows.jsonl").read_text().splitlines()]
    return [row for row in rows if (row["method"], row["seed"]) == (method, seed)]


def rows(method: str, seed: int, out: Path) -> list[Row]:
    arguments = ["bench", "run", *PROTOCOL, "--methods", method, "--seeds", str(seed), "--out", str(out)]
    done = typer.testing.CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return comparable(json.loads(line) for line in (out / "results.jsonl").read_text().splitlines())


OTHERS = {json.loads(line)["method"] for line in (FIRST / "digits-rows.jsonl").read_text().splitlines()} - {
    "cual",
    *CHANGED,
}
"""Methods of which there are rows; cual has tests of its own."""


def check(method: str, seed: int, out: Path) -> None:
    found, theirs = rows(method, seed, out), expected(method, seed)
    assert len(found) == len(theirs) == 8
    for mine, row in zip(found, theirs, strict=True):
        assert mine == row | ADDED


def test_the_rows_of_the_first_seed(tmp_path: Path) -> None:
    check("cual", 0, tmp_path)


def test_cual_plus_finds_the_classes_of_the_same_tasks_with_as_many_answers(tmp_path: Path) -> None:
    found, theirs = rows("cual-plus", 0, tmp_path), expected("cual-plus", 0)
    assert len(found) == len(theirs) == 8
    for mine, row in zip(found, theirs, strict=True):
        assert {k: mine[k] for k in SAME} == {k: row[k] for k in SAME}
    assert found[-1]["accuracy"] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_the_rows_of_the_other_seeds(seed: int, tmp_path: Path) -> None:
    check("cual", seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(OTHERS))
def test_the_rows_of_the_other_methods(method: str, tmp_path: Path) -> None:
    check(method, 0, tmp_path)
