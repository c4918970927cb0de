"""Strategies of small-text as acquisitions of ours, with the real package. What they see: test_pools.py."""

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cual.acquisition.classifier import closeness, entropy
from cual.checks import check_acquisition
from cual.checks.views import view_of
from worlds import World

pytestmark = pytest.mark.neighbours


@pytest.fixture
def bridge() -> Any:
    pytest.importorskip("small_text", reason="small-text is not installed")
    from cual.bridges import small_text

    return small_text


def test_every_strategy_of_the_list_keeps_the_contract(bridge: Any) -> None:
    check_acquisition(bridge.Strategy)


def test_the_list_names_public_strategies_and_their_options(bridge: Any) -> None:
    from small_text import query_strategies

    for name, options in bridge.STRATEGIES.items():
        assert set(options) <= set(inspect.signature(getattr(query_strategies, name)).parameters)


@pytest.mark.parametrize(
    ("strategy", "measure"),
    [
        ("PredictionEntropy", entropy),
        ("BreakingTies", closeness),
        ("LeastConfidence", lambda p: -p.max(axis=1)),
    ],
)
def test_what_is_least_certain_is_chosen_first(bridge: Any, strategy: str, measure: Any) -> None:
    view = view_of(60)
    chosen = bridge.Strategy(strategy).choose(view, 8, np.random.default_rng(0))
    assert chosen.tolist() == np.argsort(-measure(view.probabilities()))[:8].tolist()


def test_the_core_set_keeps_away_from_what_was_answered(bridge: Any) -> None:
    X = np.array([[0, 1], [1, 0], [1, 0.1], [0.1, 1]], dtype=np.float32)
    view = replace(view_of(4), features=lambda at: X[at], asked=lambda: np.array([[1, 0.05]], np.float32))
    assert bridge.Strategy("GreedyCoreset").choose(view, 1, np.random.default_rng(0)).tolist() == [0]


def test_without_answers_the_core_set_starts_from_the_highest_score(bridge: Any) -> None:
    view = view_of(20)
    chosen = bridge.Strategy("GreedyCoreset").choose(view, 3, np.random.default_rng(0))
    assert chosen[0] == view.scores.argmax()
    assert len(set(chosen.tolist())) == 3


@pytest.mark.parametrize("strategy", ["BreakingTies", "GreedyCoreset", "EmbeddingKMeans", "RandomSampling"])
def test_an_adaptation_asks_whom_the_strategy_chooses(bridge: Any, world: World, strategy: str) -> None:
    def asked() -> tuple[list[Any], list[Any]]:
        agent = world.agent(then={"name": "small-text", "strategy": strategy}, method="cual-plus")
        task = world.answer_all(world.adapt(agent, budget=10))
        return [row["sample"] for row in task.ledger], task.finish().classes_.tolist()

    samples, classes = asked()
    assert len(samples) == len(set(samples)) == 10
    assert asked() == (samples, classes)
    assert {"owl", "Füchsin mit Schal"} & set(classes)
