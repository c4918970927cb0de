"""What every acquisition strategy and pseudo-label rule keeps to, found through the registries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual.acquisition import PoolView, acquisitions
from cual.pseudo_labels import pseudo_labels


def view_of(scores: list[float], threshold: float, seed: int = 0) -> PoolView:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), len(scores)).astype(np.float32)
    X = rng.normal(size=(len(scores), 3)).astype(np.float32)
    return PoolView(
        scores=np.array(scores, dtype=np.float32),
        threshold=threshold,
        classes=rng.integers(0, 4, len(scores)),
        n_old=2,
        validation=rng.uniform(0, 10, 20).astype(np.float32),
        probabilities=lambda: p,
        features=lambda at: X[at],
    )


SCORES = st.lists(st.floats(0, 10, width=32), max_size=30)


@pytest.mark.parametrize("name", acquisitions.names())
@settings(max_examples=40, deadline=None)
@given(scores=SCORES, threshold=st.floats(0, 10), n=st.integers(0, 40))
def test_chooses_at_most_n_different_samples_the_same_way_each_time(name, scores, threshold, n):
    view = view_of(scores, threshold)
    before = view.scores.copy()
    chosen, again = (acquisitions[name]().choose(view, n, np.random.default_rng(7)) for _ in range(2))
    assert chosen.dtype == np.int64
    assert len(chosen) <= n
    assert len(np.unique(chosen)) == len(chosen)
    assert np.isin(chosen, np.arange(len(scores))).all()
    np.testing.assert_array_equal(chosen, again)
    np.testing.assert_array_equal(view.scores, before)
    if name != "novel":
        assert len(chosen) == min(n, len(scores))


@pytest.mark.parametrize("name", pseudo_labels.names())
@settings(max_examples=40, deadline=None)
@given(scores=SCORES, threshold=st.floats(0, 10), alpha=st.floats(0, 1))
def test_believes_only_novel_predictions_and_no_more_than_allowed(name, scores, threshold, alpha):
    view = view_of(scores, threshold)
    rule = pseudo_labels[name]() if name == "likelier-than-not" else pseudo_labels[name](alpha)
    chosen = rule.choose(view)
    novel = int((view.classes >= view.n_old).sum())
    most = novel if name == "likelier-than-not" else np.ceil(alpha * novel)
    assert len(np.unique(chosen)) == len(chosen) <= most
    assert (view.classes[chosen] >= view.n_old).all()


def test_an_old_class_that_is_being_learned_takes_its_surest_samples():
    p = np.array([[0.9, 0.05, 0.05], [0.6, 0.2, 0.2], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
    view = PoolView(
        scores=p[:, 2],
        threshold=0.5,
        classes=p.argmax(axis=1),
        n_old=2,
        learning=np.array([0]),
        probabilities=lambda: p,
    )
    assert pseudo_labels["likelier-than-not"](most_old=2).choose(view).tolist() == [0, 2, 4]
