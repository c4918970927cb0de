"""Strategies of scikit-activeml as acquisitions, with the real package. What they are given: test_pools.py."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cual.acquisition.classifier import closeness, entropy
from cual.checks import check_acquisition, check_method
from cual.checks.views import view_of
from cual.methods import methods
from cual.types import FloatArray
from neighbours_page import run
from worlds import World

pytestmark = pytest.mark.neighbours
SKACTIVEML = "scikit-activeml is not installed"


@pytest.fixture
def bridge() -> Any:
    pytest.importorskip("skactiveml", reason=SKACTIVEML)
    from cual.bridges import skactiveml

    return skactiveml


def test_every_strategy_of_the_list_keeps_the_contract(bridge: Any) -> None:
    check_acquisition(bridge.Strategy)


def test_the_list_names_public_strategies_and_their_options(bridge: Any) -> None:
    import inspect

    from skactiveml import pool

    for name, options in bridge.STRATEGIES.items():
        assert name in pool.__all__
        assert set(options) <= set(inspect.signature(getattr(pool, name)).parameters)


@pytest.mark.parametrize(
    ("method", "measure"),
    [
        ("entropy", entropy),
        ("margin_sampling", closeness),
        ("least_confident", lambda p: -p.max(axis=1)),
    ],
)
def test_uncertainty_sampling_chooses_by_our_probabilities(bridge: Any, method: str, measure: Any) -> None:
    view = view_of(60)
    strategy = bridge.Strategy("UncertaintySampling", {"method": method})
    chosen = strategy.choose(view, 8, np.random.default_rng(0))
    assert chosen.tolist() == np.argsort(-measure(view.probabilities()))[:8].tolist()


def test_the_core_set_keeps_away_from_what_was_answered(bridge: Any) -> None:
    X = np.array([[0.0, 0], [0, 1], [9, 9], [5, 0]], dtype=np.float32)

    def asked() -> FloatArray:
        return np.array([[9, 9.5], [5, 0.5]], dtype=np.float32)

    view = replace(view_of(4), features=lambda at: X[at])
    strategy = bridge.Strategy("CoreSet")
    told = strategy.choose(replace(view, asked=asked), 1, np.random.default_rng(0))
    assert told.tolist() == [0]  # the farthest from both


@pytest.mark.parametrize("strategy", ["UncertaintySampling", "ProbCover", "TypiClust", "Badge", "Clue"])
def test_an_adaptation_asks_whom_the_strategy_chooses(bridge: Any, world: World, strategy: str) -> None:
    def asked(seed: int) -> tuple[Any, Any]:
        agent = world.agent(then={"name": "skactiveml", "strategy": strategy}, seed=seed)
        task = world.answer_all(world.adapt(agent, budget=10))
        return [row["sample"] for row in task.ledger], task.finish()

    samples, agent = asked(0)
    assert len(samples) == len(set(samples)) == 10
    assert asked(0)[0] == samples
    assert {"owl", "Füchsin mit Schal"} & set(agent.classes_.tolist())


def test_a_method_with_it_keeps_the_contract_of_methods(bridge: Any) -> None:
    part = {"name": "skactiveml", "strategy": "Falcun"}
    check_method(methods["cual"].but(name="with-falcun", head="linear", then=part))


@pytest.mark.parametrize("how", ["use", "python"])
def test_fit_adapt_and_bench_run_take_it_on_the_command_line(bridge: Any, tmp_path: Path, how: str) -> None:
    from cual.cli import app

    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    np.savez(tmp_path / "all.npz", X=rng.normal(4 * y[:, None], 1, (180, 8)).astype(np.float32), y=y)
    use = ["--use", "cual.bridges.skactiveml"]
    named = "skactiveml" if how == "use" else "python:cual.bridges.skactiveml:Strategy"
    options = ["--option", f"then={named}", "--option", "then.strategy=CoreSet"]
    options += ["--option", "then.options.metric=cityblock"]

    def run(*words: Any) -> None:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output

    before = use if how == "use" else []
    agent = tmp_path / "v0.agent"
    run(*before, "fit", tmp_path / "all.npz", "-o", agent, "--method", "cual", *options)
    said = tmp_path / "said.csv"
    said.write_text("id,label\n" + "".join(f"{i},{c}\n" for i, c in enumerate(y)))
    new = tmp_path / "v1.agent"
    run(*use, "adapt", agent, tmp_path / "all.npz", "-o", new, "--budget", 6, "--labels", said)
    assert new.exists()
    out = tmp_path / "results"
    words = ["--methods", "cual", "--first", "2", "--budget", "6", "--out", out, *options]
    run(*before, "bench", "run", "--features", tmp_path / "all.npz", *words)
    (row,) = (json.loads(line) for line in (out / "results.jsonl").read_text().splitlines())
    assert row["labels_used"] == 6


def test_the_example_of_the_page_runs(bridge: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("cual.bridges.skactiveml")
    assert capsys.readouterr().out == "[0, 1, 2]\n"
