"""A folder of results that `cual bench run` of release 0.1.0 wrote is taken for what it is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cual.bench.jobs import run
from cual.bench.report import terminal
from cual.bench.settings import DIGITS, Setting, digits
from cual.errors import BadOption
from upgrades.release import FIRST

METHODS = ("er-random", "only-al")
SETTING = {
    "features": "digits", "methods": list(METHODS), "seeds": [0], "first": 2, "increment": 1, "budget": 0.02,
    "buffer": 500, "name": "digits", "rarity": None, "reuse": True, "wrong": 0.0, "skip": 0.0, "device": "cpu",
    "options": {},
}  # fmt: skip
"""As the release wrote it."""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rows = [json.loads(line) for line in (FIRST / "digits-rows.jsonl").read_text().splitlines()]
    times = {"seconds": 1.0, "timings": {"scoring": 0.5}}  # the fixture has none, as they differ
    lines = [json.dumps(row | times) + "\n" for row in rows if row["method"] in METHODS]
    (tmp_path / "results.jsonl").write_text("".join(lines))
    started = {"format": 1, "setting": SETTING, "features_sha256": digits().sha256()}
    (tmp_path / "run.json").write_text(json.dumps(started))
    return tmp_path


def test_a_run_of_the_release_is_the_same_run(results: Path) -> None:
    same = Setting(DIGITS, METHODS, budget=0.02, buffer=500)
    before = (results / "results.jsonl").read_bytes()
    run(same, results)
    assert (results / "results.jsonl").read_bytes() == before, "it was over"
    assert set(json.loads((results / "summary.json").read_text())) == set(METHODS)
    with pytest.raises(BadOption, match=r"imbalance is None there, 10\.0 here"):
        run(replace(same, imbalance=10.0), results)


def test_rows_of_the_release_and_of_today_are_reported_together(results: Path) -> None:
    text = terminal(results)
    assert "er-random" in text
    row = json.loads((results / "results.jsonl").read_text().splitlines()[0])
    assert "natural" not in row
    with (results / "results.jsonl").open("a") as file:
        file.write(json.dumps(row | {"seed": 9, "natural": False, "imbalance": None}) + "\n")
    assert "usual sizes" not in terminal(results), "rows of today's defaults are on the same streams"
