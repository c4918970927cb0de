"""cual-plus where it is hard: nothing novel, many classes at once, narrow and wide features, rare classes."""

from typing import Any

import numpy as np
import pytest
import torch

from cual import Adaptation, Agent


def blobs(classes: int, each: int, width: int, seed: int = 0, spread: float = 4.0) -> tuple[Any, Any]:
    """Well separated classes; class centres depend on neither `each` nor the number of classes."""
    rng = np.random.default_rng([seed, width])
    centres = np.stack([np.random.default_rng([c, width]).standard_normal(width) for c in range(classes)])
    y = np.repeat(np.arange(classes), each)
    X = spread * centres[y] + rng.standard_normal((len(y), width))
    return X.astype(np.float32), y


def adapted(X: Any, y: Any, known: int, budget: int, **options: Any) -> tuple[Adaptation, Agent]:
    """Fit on every other sample of the first `known` classes, adapt to all the rest."""
    first = (y < known) & (np.arange(len(y)) % 2 == 0)
    task = Agent.fit(X[first], y[first], "cual-plus", **options).adapt(X[~first], budget)
    truth = y[~first]
    while query := task.ask():
        task.tell(query.id, {i: int(truth[i]) for i in query.ids})
    return task, task.finish()


def test_nothing_novel() -> None:
    X, y = blobs(3, 60, 32)
    task, agent = adapted(X, y, known=3, budget=6)
    assert task.outcome["new_classes"] == []
    assert task.pseudo_labels == {}
    assert (agent.predict(X) == y).mean() > 0.98
    assert task.outlook.novel is not None
    assert task.outlook.novel < 20


def test_a_hundred_classes_at_once() -> None:
    X, y = blobs(110, 20, 64)
    task, agent = adapted(X, y, known=10, budget=300)
    assert len(agent.classes_) >= 10 + 98
    assert task.labels_used == 300
    fresh, truth = blobs(110, 5, 64, seed=1)
    assert (agent.predict(fresh) == truth).mean() > 0.9


@pytest.mark.parametrize("width", [2, 64, 384, 1500, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", [False, True])
def test_features_of_any_width_and_length(width: int, unit: bool) -> None:
    X, y = blobs(5, 40, width, spread=6.0)
    if width == 2:  # on a circle, so that directions tell the classes apart
        angle = 2 * np.pi * y / 5 + np.random.default_rng(0).normal(0, 0.1, len(y))
        X = (5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(np.float32)
    if unit:
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    task, agent = adapted(X, y, known=3, budget=8)
    assert set(agent.classes_) == set(range(5))
    assert (agent.predict(X) == y).mean() > 0.95
    assert len(task.pseudo_labels) > 40


def test_a_rare_class_is_found() -> None:
    X, y = blobs(4, 200, 64)
    rare = np.flatnonzero(y == 3)[6:]  # six of them among three hundred
    keep = np.setdiff1d(np.arange(len(y)), rare)
    _, agent = adapted(X[keep], y[keep], known=3, budget=6)
    assert 3 in agent.classes_
    assert (agent.predict(X[rare]) == 3).mean() > 0.9


def test_probabilities_are_about_as_sure_as_right() -> None:
    X, y = blobs(5, 80, 64, spread=0.25)
    agent = Agent.fit(X, y)
    fresh, truth = blobs(5, 200, 64, seed=1, spread=0.25)
    right = agent.predict(fresh) == truth
    assert 0.3 < right.mean() < 0.97  # hard enough to be unsure
    sure = agent.predict_proba(fresh).max(axis=1).mean()
    as_it_is = float(torch.softmax(agent.head.logits(torch.from_numpy(fresh)), dim=1).max(dim=1).values.mean())
    assert abs(sure - right.mean()) < 0.1 < as_it_is - right.mean()
