"""What every strategy and every rule of belief keeps to (`cual.checks`), and what ours promise besides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import contracts
from cual.acquisition import PoolView, acquisitions
from cual.checks.base import Check
from cual.checks.views import views
from cual.pseudo_labels import pseudo_labels


@pytest.mark.parametrize("check", contracts(acquisitions))
def test_a_strategy_keeps_its_contract(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", contracts(pseudo_labels))
def test_a_rule_of_belief_keeps_its_contract(check: Check) -> None:
    check()


@pytest.mark.parametrize("name", [name for name in acquisitions if name != "novel"])
def test_no_question_is_left_unasked(name: str) -> None:
    """Except where only what lies above T_inner may be asked about."""
    for case, view in views():
        for n in (0, 1, 6):
            chosen = acquisitions[name]().choose(view, n, np.random.default_rng(7))
            assert len(chosen) == min(n, len(view.scores)), case


@pytest.mark.parametrize("name", ["most-novel", "most-certain"])
@settings(max_examples=40, deadline=None)
@given(
    scores=st.lists(st.floats(0, 10, width=32), max_size=30), threshold=st.floats(0, 10), alpha=st.floats(0, 1)
)
def test_no_more_than_the_share_alpha_is_believed(name, scores, threshold, alpha):
    classes = np.arange(len(scores)) % 4
    view = PoolView(np.array(scores, dtype=np.float32), threshold, classes, n_old=2)
    assert len(pseudo_labels[name](alpha).choose(view)) <= np.ceil(alpha * (classes >= 2).sum())


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
