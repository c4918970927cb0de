"""Data as nobody wishes for: an adaptation ends with numbers that are finite, or is refused by name.

Constant columns, rows that are there many times, classes of one sample, huge and tiny values, pools of one row.
"""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cual import Adaptation, Agent
from cual.errors import BadFeatures, CualError, EmptyPool, TooFewSamples
from cual.methods import methods
from cual.registry import options_of
from worlds import World

pytestmark = pytest.mark.more

METHODS = ("cual", "cual-plus", "er-entropy", "pseudo-er-margin", "ccic", "incdfm", "only-al", "oracle-ridge")
SCALES = (0.0, 1e-14, 1e-6, 1.0, 1e6, 1e14)
numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-7]) | st.floats(-9, 9, width=32)
features = st.integers(1, 5).flatmap(lambda width: st.tuples(_table(width, 6, 30), _table(width, 1, 20)))


def _table(width: int, least: int, most: int) -> st.SearchStrategy[np.ndarray]:
    """Few rows of few values, each perhaps many times; columns at scales of their own."""
    rows = arrays(np.float32, st.tuples(st.integers(1, 6), st.just(width)), elements=numbers)
    picked = st.lists(st.integers(0, 5), min_size=least, max_size=most)
    scales = st.lists(st.sampled_from(SCALES), min_size=width, max_size=width) | st.just([1.0] * width)
    return st.builds(
        lambda X, p, s: (X[np.array(p) % len(X)].astype(np.float64) * s).astype(np.float32),
        rows,
        picked,
        scales,
    )


def quick(method: str) -> dict[str, Any]:
    """Options with which a method learns quickly, and nothing well."""
    known = options_of(methods[method].head)
    few = {"hidden": 8, "epochs": 2, "expand": 32}
    return {"method": method, "buffer": 40, "head_options": {k: v for k, v in few.items() if k in known}}


def walked(task: Adaptation, labels: list[str]) -> Adaptation:
    """Answer whatever is asked, in turn."""
    answers = iter(labels * 100)
    while query := task.ask():
        task.tell(query.id, {sample: next(answers) for sample in query.ids})
    return task


def assert_finite(agent: Agent, task: Adaptation, X: Any) -> None:
    after = task.finish()
    rows = {"history": task.history, "journal": task.journal, "outcome": task.outcome, "ledger": task.ledger}
    json.dumps(rows, allow_nan=False)
    json.dumps(list(after.history), allow_nan=False)
    assert all(0 <= doubt <= 1 for doubt in task.doubts.values())
    assert np.isfinite(list(task.margins().values())).all()
    for version in (agent, after):
        shares = version.predict_proba(X)
        assert np.isfinite(shares).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-4)
        calibrated = version.calibrated(X)
        assert calibrated is None or np.isfinite(calibrated).all()
        assert np.isfinite(version.novelty(X)).all()
        scores, threshold = version.novelty_together(X)
        assert np.isfinite(scores).all()
        assert np.isfinite([threshold.value, version.threshold.value, version.threshold_at(0.1).value]).all()


@pytest.mark.parametrize("method", METHODS)
@given(
    tables=features,
    classes=st.integers(1, 4),
    labels=st.lists(st.sampled_from("abcxyz"), min_size=1, max_size=5),
)
@settings(max_examples=10, deadline=None)
def test_an_adaptation_is_finite_or_refused(
    method: str, tables: tuple[np.ndarray, np.ndarray], classes: int, labels: list[str]
):
    X, pool = tables
    try:
        agent = Agent.fit(X, ["abcd"[i % classes] for i in range(len(X))], **quick(method))
        task = walked(agent.adapt(pool, 3), labels)
    except CualError:
        return
    assert_finite(agent, task, pool)


def variants(X: np.ndarray) -> dict[str, Any]:
    """The same features, otherwise laid out."""
    wide = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)
    read_only = X.copy()
    read_only.flags.writeable = False
    return {
        "float64": X.astype(np.float64),
        "columns first": np.asfortranarray(X),
        "every other": wide[::2, ::2],
        "backwards": X[::-1].copy()[::-1],
        "big-endian": X.astype(">f4"),
        "read-only": read_only,
        "a list": X.tolist(),
        "a tensor": torch.from_numpy(X),
        "a turned tensor": torch.from_numpy(np.ascontiguousarray(X.T)).T,
        "a tensor that learns": torch.from_numpy(X.copy()).requires_grad_(),
    }


@pytest.mark.parametrize("method", ["cual", "cual-plus"])
@pytest.mark.parametrize("name", variants(np.zeros((2, 2), np.float32)))
def test_how_features_are_laid_out_changes_nothing(world: World, method: str, name: str):
    def ended(X: Any, pool: Any) -> tuple[list[Any], np.ndarray]:
        agent = Agent.fit(X, world.y, **quick(method))
        task = agent.adapt(pool, 6, ids=world.ids)
        return world.answer_all(task).history, task.finish().predict_proba(pool)

    history, shares = ended(world.X, world.pool)
    again, same = ended(variants(world.X)[name], variants(world.pool)[name])
    assert again == history
    np.testing.assert_array_equal(same, shares)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.int64, np.bool_])
def test_whole_and_half_numbers(world: World, method: str, dtype: Any):
    X, pool = ((10 * table).clip(0, 100).astype(dtype) for table in (world.X, world.pool))
    agent = Agent.fit(X, world.y, **quick(method))
    assert_finite(agent, world.answer_all(agent.adapt(pool, 6, ids=world.ids)), pool)


@pytest.mark.parametrize("method", METHODS)
def test_one_sample_of_each_class(world: World, method: str):
    """Nothing can be held out, so there is no threshold: that is said."""
    agent = Agent.fit(world.X[:4], ["a", "b", "c", "d"], **quick(method))
    assert np.isfinite(agent.predict_proba(world.pool)).all()
    with pytest.raises(TooFewSamples, match="validation"):
        agent.adapt(world.pool, 3)


@pytest.mark.parametrize("method", METHODS)
def test_pools_of_nothing_and_of_one(world: World, method: str):
    agent = Agent.fit(world.X, world.y, **quick(method))
    for nothing in (world.pool[:0], [], np.empty((0, 16), np.float16)):
        with pytest.raises((EmptyPool, BadFeatures)):
            agent.adapt(nothing, 1)
    assert_finite(agent, walked(agent.adapt(world.pool[:1], 1), ["x"]), world.pool)
    assert agent.predict_proba(world.pool[:0]).shape == (0, 2)
