"""Input that is wrong, odd or extreme: an error that says where, or a sensible result, and nothing lost."""

from typing import Any

import numpy as np
import pytest
import torch

from cual import Agent, Pool
from cual.errors import BadBudget, BadFeatures, BadLabels, DuplicateIds, EmptyPool, TooFewSamples
from worlds import SMALL, World

RNG = np.random.default_rng(0)


def blob(centre: float, n: int, d: int = 6) -> np.ndarray:
    return RNG.normal(centre, 1, (n, d)).astype(np.float32)


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")])
def test_nan_and_infinite_rows_are_named(world: World, value: float, word: str):
    pool = world.pool.copy()
    pool[7, :3] = value
    pool[9, 0] = value
    with pytest.raises(
        BadFeatures, match=rf"pool row 7 \(id '{world.ids[7]}'\) holds {word}.* 3 of 16 .*2 rows"
    ):
        world.agent().adapt(pool, 5, ids=world.ids)
    X = world.X.copy()
    X[4, 1] = value
    with pytest.raises(BadFeatures, match=f"X row 4 holds {word}"):
        Agent.fit(X, world.y, **SMALL)
    for call in ("predict", "predict_proba", "novelty"):
        with pytest.raises(BadFeatures, match="X row 4"):
            getattr(world.agent(), call)(X)


def test_values_too_large_for_float32_are_infinite(world: World):
    X = world.X.astype(np.float64)
    X[3, 0] = 1e300
    with pytest.raises(BadFeatures, match="too large for float32"):
        Agent.fit(X, world.y, **SMALL)


def test_wrong_width(world: World):
    agent = world.agent()
    for call in (agent.predict, agent.novelty, lambda X: agent.adapt(X, 5)):
        with pytest.raises(BadFeatures, match=r"15 wide.*16 wide"):
            call(world.pool[:, :15])


@pytest.mark.parametrize(
    "X", [np.zeros(5), np.zeros((2, 2, 2)), np.zeros((3, 0)), np.array([["a"]]), np.eye(2) * 1j]
)
def test_what_is_not_a_table_of_numbers(world: World, X: Any):
    with pytest.raises(BadFeatures):
        world.agent().predict(X)
    with pytest.raises(BadFeatures):
        Pool(X)


def test_empty_pool(world: World):
    with pytest.raises(EmptyPool):
        world.agent().adapt(world.pool[:0], 5)
    assert world.agent().predict(world.pool[:0]).tolist() == []
    assert world.agent().novelty(world.pool[:0]).shape == (0,)


def test_nothing_to_learn_from():
    with pytest.raises(TooFewSamples):
        Agent.fit(np.empty((0, 3)), [])


def test_duplicate_and_strange_ids(world: World):
    ids = list(world.ids)
    ids[5] = ids[2]
    with pytest.raises(DuplicateIds, match="rows 2 and 5"):
        Pool(world.pool, ids)
    with pytest.raises(BadFeatures, match="70 pool samples came with 3 ids"):
        Pool(world.pool, [1, 2, 3])
    with pytest.raises(BadFeatures, match="id of pool row 0"):
        Pool(world.pool[:1], [1.5])
    assert Pool(world.pool[:2], np.array([10, 20])).ids == (10, 20)


@pytest.mark.parametrize("budget", [0, -1, 0.0, 1e-9, -0.1, 1.5, float("nan"), True, "3", None])
def test_a_budget_below_one_label_or_no_budget_at_all(world: World, budget: Any):
    with pytest.raises(BadBudget):
        world.adapt(budget=budget)


def test_a_budget_larger_than_the_pool_asks_about_all_of_it(world: World):
    agent = world.agent(first="random", then="random", ends_below_threshold=False, pseudo="")
    task = world.answer_all(world.adapt(agent, budget=10_000))
    assert task.budget == task.labels_used == len(world.pool)
    assert len(task.finish().classes_) == 4


def test_labels(world: World):
    for y in (world.y[:-1], [*world.y[:-1], 3], [*world.y[:-1], None], [0.5] * 60, [True] * 60):
        with pytest.raises(BadLabels):
            Agent.fit(world.X, y, **SMALL)


def test_labels_of_a_type_not_seen_before():
    agent = Agent.fit(np.concatenate([blob(0, 20), blob(9, 20)]), [1] * 20 + [2] * 20, **SMALL)
    task = agent.adapt(blob(-9, 30), 3)
    query = task.ask()
    assert query is not None
    with pytest.raises(BadLabels, match=r"'3' is str, but .* int"):
        task.tell(query.id, {query.ids[0]: "3"})
    task.tell(query.id, {i: np.int64(3) for i in query.ids})
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, 3))
    assert task.finish().classes_.tolist() == [1, 2, 3]


def test_one_sample_classes():
    X = np.concatenate([blob(0, 30), blob(9, 30), blob(-9, 1)])
    agent = Agent.fit(X, ["a"] * 30 + ["b"] * 30 + ["rare"], **SMALL)
    assert agent.classes_.tolist() == ["a", "b", "rare"]
    assert np.isfinite(agent.novelty(X)).all()
    # a novel class of which only one sample exists
    pool = np.concatenate([blob(0, 20), blob(40, 1)])
    task = agent.adapt(pool, budget=21)
    while query := task.ask():
        task.tell(query.id, {i: "one" if i == 20 else "a" for i in query.ids})
    assert "one" in task.finish().classes_


def test_too_few_samples_to_set_a_threshold():
    agent = Agent.fit(np.eye(2), ["a", "b"], **SMALL)
    assert set(agent.predict(np.eye(2))) <= {"a", "b"}
    with pytest.raises(TooFewSamples, match="validation"):
        agent.adapt(np.eye(2), 1)


def test_constant_features():
    X = np.ones((40, 5), np.float32)
    agent = Agent.fit(X, [0] * 20 + [1] * 20, **SMALL)
    assert agent.novelty(X).max() == 0
    task = agent.adapt(X, 3)
    assert task.ask() is None
    assert task.outcome["new_classes"] == []
    task.finish()
    novel = agent.adapt(X + 1, 3)
    while query := novel.ask():
        novel.tell(query.id, dict.fromkeys(query.ids, 2))
    after = novel.finish()
    assert after.classes_.tolist() == [0, 1, 2]
    assert np.isfinite(after.predict_proba(X)).all()


def test_names_with_spaces_and_other_scripts_survive(tmp_path):
    names = ["Sea, Lake", "Weiße Rübe 🥕", "森林"]
    X = np.concatenate([blob(8 * c, 20) for c in range(3)])
    agent = Agent.fit(X, [n for n in names for _ in range(20)], **SMALL)
    agent.save(tmp_path / "a b ü.safetensors")
    again = Agent.load(tmp_path / "a b ü.safetensors")
    assert again.classes_.tolist() == sorted(names)
    assert again.predict(X).tolist() == agent.predict(X).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, "bfloat16", "tensor16"])
def test_features_of_any_number_type(world: World, dtype: Any):
    def cast(X: np.ndarray) -> Any:
        if dtype == "bfloat16":
            return torch.from_numpy(X).bfloat16()
        return torch.from_numpy(X).half() if dtype == "tensor16" else (X * 10).astype(dtype)

    agent = Agent.fit(cast(world.X), world.y, **SMALL)
    task = agent.adapt(cast(world.pool), 8, ids=world.ids)
    after = world.answer_all(task).finish()
    assert len(after.predict(cast(world.pool))) == len(world.pool)


def test_inputs_are_not_changed(world: World):
    X, pool = world.X.copy(), world.pool.copy()
    world.answer_all(world.adapt()).finish()
    np.testing.assert_array_equal(world.X, X)
    np.testing.assert_array_equal(world.pool, pool)
