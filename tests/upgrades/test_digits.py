"""The rows that `cual bench run` wrote of the digits with release 0.1.0 come out again, number for number."""

import json
from pathlib import Path

import pytest
import typer.testing

from cual.cli import app
from cual.methods import methods
from upgrades.release import FOLDER, Row, comparable

PROTOCOL = ("--features", "digits", "--first", "2", "--increment", "1", "--budget", "0.02", "--buffer", "500")
"""That of `cual demo`."""
ADDED = {"natural": False, "imbalance": None, "wrong_among_new": False, "synonyms": 0.0}
"""What a row says today that those of the release do not."""
NOT_COMPARED = ("cual", "cual-plus", "oracle-ridge", "oracle-novel")
"""The first two are above; oracle-ridge counted samples as often as pools showed them; the last is new."""

pytestmark = pytest.mark.usefixtures("bits")


def expected(method: str, seed: int) -> list[Row]:
    rows = [json.loads(line) for line in (FOLDER / "digits-rows.jsonl").read_text().splitlines()]
    return [row for row in rows if (row["method"], row["seed"]) == (method, seed)]


def check(method: str, seed: int, out: Path) -> None:
    arguments = ["bench", "run", *PROTOCOL, "--methods", method, "--seeds", str(seed), "--out", str(out)]
    done = typer.testing.CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found = comparable(json.loads(line) for line in (out / "results.jsonl").read_text().splitlines())
    theirs = expected(method, seed)
    assert len(found) == len(theirs) == 8
    for mine, row in zip(found, theirs, strict=True):
        assert mine == row | ADDED


@pytest.mark.parametrize("method", ["cual", "cual-plus"])
def test_the_rows_of_the_first_seed(method: str, tmp_path: Path) -> None:
    check(method, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("method", ["cual", "cual-plus"])
def test_the_rows_of_the_other_seeds(method: str, seed: int, tmp_path: Path) -> None:
    check(method, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in methods.names() if name not in NOT_COMPARED])
def test_the_rows_of_the_other_methods(method: str, tmp_path: Path) -> None:
    check(method, 0, tmp_path)
