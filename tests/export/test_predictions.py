"""`cual predict`: names that a spreadsheet would take for formulas stay text, and are read back so."""

import csv
from pathlib import Path

import numpy as np
import pytest

from commands import cual
from cual import Agent
from cual.cli.answers import read_answers

NAMES = ['=HYPERLINK("http://evil.example","cat")', "+1", "-1+2", "@SUM(A1)", "'tis", "＝1", "\t=1"]


@pytest.fixture
def world(tmp_path: Path) -> Agent:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20 * len(NAMES), 8)) + 9 * np.repeat(rng.normal(size=(len(NAMES), 8)), 20, axis=0)
    agent = Agent.fit(X, np.repeat(NAMES, 20))
    agent.save(tmp_path / "v0.agent")
    np.savez(tmp_path / "more.npz", X=X[::20], ids=np.array([f"{name} {i}" for i, name in enumerate(NAMES)]))
    return agent


def test_predictions_hold_no_formulas_and_are_read_back(world: Agent, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert cual("predict", tmp_path / "v0.agent", tmp_path / "more.npz", "-o", out).exit_code == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row[name].startswith("'") for row in rows for name in ("id", "label"))
    assert all(
        float(row["probability"]) >= 0 and float(row["novelty"]) == float(row["novelty"]) for row in rows
    )
    ids = [f"{name} {i}" for i, name in enumerate(NAMES)]
    recorded = read_answers(out, world.names, ids)
    assert list(recorded.answers) == ids
    assert set(recorded.answers.values()) <= set(NAMES)
    assert recorded.answers[ids[0]] == NAMES[0]
    printed = cual("predict", tmp_path / "v0.agent", tmp_path / "more.npz").stdout
    assert printed == out.read_text()
