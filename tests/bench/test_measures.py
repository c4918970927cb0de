import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from cual import Agent
from cual.bench.measures import aupr, auroc, class_accuracy, confusion
from cual.bench.rows import Truth, evaluation_row
from cual.bench.streams import Stream, Task
from cual.data.table import Table

scored = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
    lambda pairs: len({novel for _, novel in pairs}) == 2
)


@given(scored)
def test_auroc_counts_pairs(pairs):
    scores, novel = (np.array(column) for column in zip(*pairs, strict=True))
    above = [(a > b) + (a == b) / 2 for a in scores[novel] for b in scores[~novel]]
    assert auroc(scores, novel) == pytest.approx(np.mean(above))


@given(scored)
def test_auroc_and_aupr_agree_with_scikit_learn(pairs):
    scores, novel = (np.array(column) for column in zip(*pairs, strict=True))
    assert auroc(scores, novel) == pytest.approx(roc_auc_score(novel, scores))
    assert aupr(scores, novel) == pytest.approx(average_precision_score(novel, scores))


def test_without_both_kinds_there_is_nothing_to_measure():
    scores, none = np.array([1.0, 2.0]), np.array([False, False])
    assert auroc(scores, none) is None
    assert auroc(scores, ~none) is None
    assert aupr(scores, none) is None


def test_accuracy_is_per_class_and_unknown_classes_count_zero():
    truth = np.array(["a"] * 8 + ["b"] * 2 + ["c"])
    predicted = np.array(["a"] * 6 + ["b"] * 2 + ["b", "a"] + ["a"])
    assert class_accuracy(truth, predicted, ["a", "b", "c"]) == {"a": 0.75, "b": 0.5, "c": 0.0}
    assert confusion(truth, predicted, ["a", "b", "c"]) == [[6, 2, 0], [1, 1, 0], [1, 0, 0]]


def test_accuracy_is_the_mean_over_classes_however_many_samples_each_has() -> None:
    """Six of one class, all right, and two of another, both wrong: a half, not three quarters."""
    rng = np.random.default_rng(0)
    at = np.array([3, 0, 0, 0])
    near, far = at + rng.normal(0, 0.1, (30, 4)), rng.normal(0, 0.1, (30, 4)) - at
    agent = Agent.fit(np.concatenate([near, far]), ["a"] * 30 + ["b"] * 30, "cual-plus")
    table = Table(near[:8].astype(np.float32), np.array(["a"] * 6 + ["b"] * 2))
    rows = np.arange(8)
    stream = Stream((0, 1), rows, (Task(1, rows, (1,), (0,)),), {0: rows[:6], 1: rows[6:]})
    row = evaluation_row(agent, table, stream, 1, Truth.of(table), last=True)
    assert row["per_class"] == {"a": 1.0, "b": 0.0}
    assert row["accuracy"] == 0.5
    assert row["confusion"] == [[6, 0], [2, 0]]
