"""Who to ask: samples that are wanted and differ from each other, by k-means (cual-plus). Choosing only."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from cual.acquisition.base import PoolView, acquisition, highest
from cual.types import FloatArray, IntArray

CANDIDATES = 5000
"""Samples that k-means looks at, at most: the most wanted ones."""
ROUNDS = 15
NEAREST = 10
"""Samples that are a sample's company."""


@acquisition("diverse")
class Diverse:
    """Ask about the medoids of a k-means over the novel samples, so that every novel class gets a question.

    A sample weighs (1 − p)⁴, where p is the share of known validation samples that score at least as high.

    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [-1, 0]], dtype=np.float32)
    >>> view = PoolView(scores=np.array([9, 9, 9, 9, 0.0]), threshold=5, validation=np.array([0, 1, 2.0]),
    ...                 features=lambda at: X[at])
    >>> chosen = Diverse().choose(view, n=2, rng=np.random.default_rng(0))
    >>> len({int(i) // 2 for i in chosen})
    2
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        known = np.sort(view.validation)
        p = 1 - np.searchsorted(known, view.scores, side="left") / max(1, len(known))
        return _medoids(view, ((1 - p) ** 4).astype(np.float32), n, CANDIDATES, rng)


@acquisition("diverse-ambiguous")
class DiverseAmbiguous:
    """Ask about samples close to T_inner that differ from each other.

    >>> X = np.array([[1, 0], [1, 0.01], [0, 1], [-1, 0]], dtype=np.float32)
    >>> view = PoolView(scores=np.array([5, 5.1, 5.2, 0]), threshold=5, features=lambda at: X[at])
    >>> sorted(DiverseAmbiguous().choose(view, n=2, rng=np.random.default_rng(0)).tolist())[1]
    2
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        distance = np.abs(view.scores - view.threshold)
        wanted = 1 / (1 + distance / max(float(np.median(distance)), 1e-9)) if len(distance) else distance
        return _medoids(view, wanted.astype(np.float32), n, max(5 * n, 20), rng)


@acquisition("diverse-uncertain")
class DiverseUncertain:
    """Ask about samples that look novel, belong to no class for certain, have company, and differ.

    A sample weighs P(novel) · (1 − maxᶜ P(c)) times its company, the mean cosine to its nearest samples of the
    pool: an answer about one that lies alone says nothing of others.

    >>> X = np.eye(3, dtype=np.float32)
    >>> p = np.array([[0.1, 0.9], [0.4, 0.6], [0.9, 0.1]], dtype=np.float32)
    >>> view = PoolView(scores=p[:, 1], threshold=0.5, features=lambda at: X[at], probabilities=lambda: p)
    >>> DiverseUncertain().choose(view, n=1, rng=np.random.default_rng(0)).tolist()
    [1]
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        if not len(view.scores):
            return np.empty(0, np.int64)
        weights = view.scores * (1 - view.probabilities().max(axis=1))
        likely = highest(weights, max(40 * n, 200))
        weights[likely] *= _company(view, likely)
        weights[np.isin(np.arange(len(weights)), likely, invert=True)] = 0
        return _medoids(view, weights, n, max(10 * n, 20), rng)


def _company(view: PoolView, positions: IntArray) -> FloatArray:
    """Mean cosine of samples to the nearest ones of the pool, as a share of the highest.

    A large pool is represented by every k-th of its samples.
    """
    every = np.arange(len(view.scores))
    others = every[:: max(1, len(every) // CANDIDATES)]
    cosines = _directions(view, positions) @ _directions(view, others).T
    cosines[torch.from_numpy(positions[:, None] == others)] = -1
    company = cosines.topk(min(NEAREST, len(others)), dim=1).values.mean(dim=1).clamp(min=0).numpy()
    return company / company.max() if company.max() > 0 else np.ones_like(company)


def _directions(view: PoolView, positions: IntArray) -> Tensor:
    """In torch: threads of two libraries of linear algebra would get in each other's way."""
    return normalize(torch.from_numpy(view.features(positions)).float(), dim=1)


def _medoids(view: PoolView, weights: FloatArray, n: int, most: int, rng: np.random.Generator) -> IntArray:
    """Positions of `n` medoids of a weighted k-means over the `most` heaviest samples."""
    n = min(n, len(weights))
    if n == 0:
        return np.empty(0, np.int64)
    candidates = np.sort(highest(weights, max(most, n)))
    directions = _directions(view, candidates)
    heavy = np.maximum(weights[candidates], 1e-4)
    centres = directions[_spread(directions, heavy, n, rng)]
    nearest = torch.empty(0)
    for _ in range(ROUNDS):
        before, nearest = nearest, (directions @ centres.T).argmax(dim=1)
        if torch.equal(before, nearest):
            break
        sums = (one_hot(nearest, n) * torch.from_numpy(heavy)[:, None]).float().T @ directions
        centres = torch.where(sums.any(dim=1, keepdim=True), normalize(sums, dim=1), centres)
    likeness = (directions @ centres.T).numpy()
    chosen: list[int] = []
    for j in range(n):  # the closest sample to each centre that no other centre took
        order = np.argsort(-likeness[:, j], kind="stable")
        chosen.append(next(int(i) for i in order if int(i) not in chosen))
    return candidates[chosen]


def _spread(directions: Tensor, weights: FloatArray, n: int, rng: np.random.Generator) -> list[int]:
    """Starting points by k-means++: each next one is likely where weight is high and no start is near."""
    chosen: list[int] = []
    far = np.ones(len(weights), dtype=np.float64)
    for _ in range(n):
        odds = np.cumsum(weights * np.maximum(far, 1e-9))
        i = min(int(np.searchsorted(odds, rng.random() * odds[-1], side="right")), len(weights) - 1)
        chosen.append(i)
        far = np.minimum(far, 1 - (directions @ directions[i]).numpy())
    return chosen
