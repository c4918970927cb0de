"""The rows that `cual bench run` wrote of the digits with release 0.1.0 come out again, number for number.

But for those of cual-plus, which asks and believes otherwise since: a walk tells what is novel, a class without
a name competes, and all questions are planned. Its rows are of the same tasks and budgets.
"""

import json
from pathlib import Path

import pytest
import typer.testing

from cual.cli import app
from cual.methods import methods
from upgrades.release import FIRST, PROTOCOL, Row, comparable

ADDED = {"natural": False, "imbalance": None, "wrong_among_new": False, "synonyms": 0.0}
"""What a row says today that those of the release do not."""
NOT_COMPARED = ("cual", "cual-plus", "oracle-ridge", "oracle-novel")
"""cual is above, cual-plus was changed; oracle-ridge counted samples as often as pools showed them; the last is
new."""

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
@pytest.mark.parametrize("method", [name for name in methods.names() if name not in NOT_COMPARED])
def test_the_rows_of_the_other_methods(method: str, tmp_path: Path) -> None:
    check(method, 0, tmp_path)
