"""Made-up pools for strategies that choose whom to ask."""

from typing import Any

import numpy as np

from cual.acquisition import PoolView

Rows = np.ndarray


def view_of(X: Rows, novelty: Rows | None = None, asked: Rows | None = None, **given: Any) -> PoolView:
    """Samples that look novel, or as novel as is said: 1 is more novel than all known samples."""
    novelty = np.ones(len(X), np.float32) if novelty is None else novelty.astype(np.float32)
    asked = np.empty((0, X.shape[1])) if asked is None else asked
    return PoolView(
        scores=novelty,
        threshold=0.5,
        features=lambda at: X[at].astype(np.float32),
        asked=lambda: asked.astype(np.float32),
        first=lambda: novelty,
        **given,
    )


def doubtful(doubt: Rows) -> dict[str, Any]:
    """Fields of a view in which a novel class holds each sample but for its doubt, and nobody the rest."""
    p = np.stack([np.zeros(len(doubt)), 1 - doubt], axis=1).astype(np.float32)
    return {"classes": np.ones(len(doubt), np.int64), "n_old": 1, "probabilities": lambda: p}


def clusters(sizes: list[int], width: int = 16, noise: float = 0.03, seed: int = 0) -> tuple[Rows, Rows]:
    """Directions around as many centres as there are sizes, in an order by chance, and their clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((len(sizes), width))
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = centres[y] / np.linalg.norm(centres[y], axis=1, keepdims=True)
    return X + noise * rng.standard_normal((len(y), width)), y


def unit(v: Rows) -> Rows:
    return v / np.linalg.norm(v)
