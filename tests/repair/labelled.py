"""Labelled samples for tests of teaching and repair, and what makes two agents the same."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from cual import Agent

NAMES = ("cat", "dog", "owl", "fox", "hen")


@dataclass(frozen=True)
class Labelled:
    """Samples of five classes, in eight dimensions."""

    X: np.ndarray
    y: np.ndarray

    def of(self, *names: str) -> "Labelled":
        chosen = np.isin(self.y, names)
        return Labelled(self.X[chosen], self.y[chosen])

    def only(self, chosen: Any) -> "Labelled":
        return Labelled(self.X[chosen], self.y[chosen])


def draw(seed: int, n: int = 12, width: int = 8) -> Labelled:
    """Some samples of each class; another seed gives others of the same classes."""
    centres = np.random.default_rng(0).normal(0, 3, (len(NAMES), width))
    rng = np.random.default_rng(seed + 1)
    X = np.concatenate([centre + rng.normal(0, 1, (n, width)) for centre in centres])
    return Labelled(X.astype(np.float32), np.repeat(NAMES, n))


def fitted(first: Labelled, **options: Any) -> Agent:
    return Agent.fit(first.X, first.y, **options)


def logits(agent: Agent, X: np.ndarray) -> dict[str, np.ndarray]:
    """Of each class, by name: numbers may differ."""
    table = agent.head.logits(torch.from_numpy(X)).numpy()
    return {name: table[:, c] for c, name in enumerate(agent.names.names)}


def assert_same(one: Agent, other: Agent, X: np.ndarray) -> None:
    """The same logits, to 1e-5, the same novelty, threshold and probabilities, from the same kept samples."""
    mine, theirs = logits(one, X), logits(other, X)
    assert mine.keys() == theirs.keys()
    for name in mine:
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(one.novelty(X), other.novelty(X), rtol=1e-4, atol=1e-4)
    assert one.threshold.value == pytest.approx(other.threshold.value, rel=1e-4, abs=1e-4)
    assert kept(one) == kept(other)
    assert (one.learned.complete, recorded(one)) == (other.learned.complete, recorded(other))


def kept(agent: Agent) -> tuple[set[Any], set[Any]]:
    """What memory and validation set hold, by name, in whatever order."""
    parts = (agent.replay.samples(), agent.validation)
    return tuple(  # pyright: ignore[reportReturnType]
        {(x.tobytes(), agent.names.names[c]) for x, c in zip(part.X.numpy(), part.y.tolist(), strict=True)}
        for part in parts
    )


def recorded(agent: Agent) -> list[Any]:
    record = agent.learned
    names = [agent.names.names[c] for c in record.classes.tolist()]
    rows = zip(record.marks.tolist(), names, record.weights.tolist(), record.human.tolist(), strict=True)
    return sorted(rows)
