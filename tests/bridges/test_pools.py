"""What strategies of other libraries are given, and what a file may say of them. No such library is needed."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cual import Agent
from cual.acquisition import PoolView
from cual.bridges.pools import Seen, chosen_option, needed, shared_random_state, whole
from cual.checks.views import view_of
from cual.errors import BadOption, CualError, Unavailable
from worlds import World

BOTH = ("skactiveml", "small_text")


@pytest.fixture(params=BOTH)
def bridge(request: pytest.FixtureRequest) -> Any:
    """Imported here and not above: that registers a strategy that contracts cannot try without its package."""
    import importlib

    return importlib.import_module(f"cual.bridges.{request.param}")


def test_all_of_a_small_pool_is_seen_and_the_highest_scores_of_a_large_one() -> None:
    view = view_of(30)
    assert Seen.of(view, 100).at.tolist() == list(range(30))
    at = Seen.of(view, 7).at.tolist()
    assert at == sorted(np.argsort(-view.scores)[:7].tolist())


def test_features_and_probabilities_are_those_of_the_candidates() -> None:
    view = view_of(30)
    seen = Seen.of(view, 7)
    assert np.array_equal(seen.X, view.features(seen.at))
    assert np.allclose(seen.probabilities(), view.probabilities()[seen.at], atol=1e-6)
    assert seen.both.shape == (7, 3)


def test_what_was_answered_comes_after_the_candidates() -> None:
    asked = np.full((2, 3), 9, np.float32)
    view = PoolView(
        np.arange(4.0), 1.0, features=lambda at: np.zeros((len(at), 3), np.float32), asked=lambda: asked
    )
    assert Seen.of(view, 4).both[4:].tolist() == asked.tolist()


def test_what_is_chosen_twice_or_not_at_all_is_made_up_by_the_highest_scores() -> None:
    view = PoolView(np.array([1.0, 4, 3, 2]), 1.0, features=lambda at: np.zeros((len(at), 1), np.float32))
    seen = Seen.of(view, 4)
    assert seen.positions([3, 3], 3).tolist() == [3, 1, 2]
    assert seen.positions([], 9).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_rows_of_probabilities_add_up_to_one(columns: int) -> None:
    given = np.random.default_rng(0).uniform(0, 1 / columns, (20, columns)).astype(np.float32)
    p = whole(given)
    assert p.shape[1] == columns + 1
    assert np.allclose(p.sum(axis=1), 1)
    assert np.allclose(p[:, :columns], given, atol=1e-6)


def test_the_shared_generator_is_left_as_it_was() -> None:
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    with shared_random_state(np.random.default_rng(0)):
        _ = np.random.random(3)  # noqa: NPY002
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("name", ["os.system", "__init__", "cual.bridges", "", "QueryByCommittee", 3, None])
def test_only_names_of_the_list_are_looked_up(bridge: Any, name: Any) -> None:
    with pytest.raises(BadOption):
        bridge.Strategy(name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"random_state": 1}, "has no option random_state"),
        ({"cluster_algo": "os.system"}, "has no option cluster_algo"),
        ({"metric": np.sum}, "takes a number, a name"),
        ({"metric_dict": {"f": {"g": 1}}}, "takes a number, a name"),
        ("euclidean", "options by name"),
    ],
)
def test_only_options_of_the_list_may_be_set_to_plain_values(options: Any, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        chosen_option("CoreSet", options, {"CoreSet": ("metric", "metric_dict")}, "scikit-activeml")


def test_a_missing_package_is_named_with_its_extra(bridge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = {"skactiveml": "skactiveml.pool", "small_text": "small_text.query_strategies"}
    name = bridge.__name__.rpartition(".")[2]
    monkeypatch.setitem(sys.modules, package[name], None)
    with pytest.raises(Unavailable, match=r"pip install 'cual\[(skactiveml|small-text)\]'"):
        bridge.Strategy().choose(view_of(30), 3, np.random.default_rng(0))


def test_an_agent_with_a_strategy_predicts_without_its_package(
    bridge: Any, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("skactiveml", "small_text"):
        monkeypatch.setitem(sys.modules, module, None)
    name = {"skactiveml": "skactiveml", "small_text": "small-text"}[bridge.__name__.rpartition(".")[2]]
    agent = world.agent(then={"name": name, "strategy": "RandomSampling", "candidates": 9})
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    assert loaded.method.then.candidates == 9
    assert loaded.predict(world.X).tolist() == agent.predict(world.X).tolist()


def test_a_file_that_names_something_else_is_refused(bridge: Any, world: World, tmp_path: Path) -> None:
    """The name is checked as it is read: nothing is looked up, nothing imported."""
    name = {"skactiveml": "skactiveml", "small_text": "small-text"}[bridge.__name__.rpartition(".")[2]]
    agent = world.agent(then={"name": name, "strategy": "RandomSampling"})
    agent.method.then.strategy = "antigravity"
    agent.save(tmp_path / "agent")
    with pytest.raises(CualError, match="is no strategy of"):
        Agent.load(tmp_path / "agent")
    assert "antigravity" not in sys.modules


def test_a_module_that_is_there_is_given() -> None:
    assert needed("json", "json", "json") is json
