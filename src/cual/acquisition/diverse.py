"""Who to ask: samples that are wanted and differ from each other, by k-means (cual-plus). Choosing only."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from cual import options
from cual.acquisition.base import PoolView, acquisition, highest
from cual.types import FloatArray, IntArray


@acquisition("diverse")
class Diverse:
    """Ask about the medoids of a k-means over the novel samples, so that every novel class gets a question.

    A sample weighs (1 − p)⁴, where p is the share of known validation samples that score at least as high.

    Parameters
    ----------
    candidates
        Samples that k-means looks at, at most: the most wanted ones.
    turns
        Of k-means, at most.

    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [-1, 0]], dtype=np.float32)
    >>> view = PoolView(scores=np.array([9, 9, 9, 9, 0.0]), threshold=5, validation=np.array([0, 1, 2.0]),
    ...                 features=lambda at: X[at])
    >>> chosen = Diverse().choose(view, n=2, rng=np.random.default_rng(0))
    >>> len({int(i) // 2 for i in chosen})
    2
    """

    def __init__(self, candidates: int = 5000, turns: int = 15) -> None:
        self.candidates = options.whole("candidates", candidates)
        self.turns = options.whole("turns", turns)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"candidates": 4, "turns": 1}]

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        known = np.sort(view.validation)
        p = 1 - np.searchsorted(known, view.scores, side="left") / max(1, len(known))
        return _medoids(view, ((1 - p) ** 4).astype(np.float32), n, self.candidates, self.turns, rng)


@acquisition("diverse-uncertain")
class DiverseUncertain:
    """Ask about samples that look novel, belong to no class for certain, have company, and differ.

    A sample weighs P(novel) · (1 − maxᶜ P(c)) times its company, the mean cosine to its nearest samples of the
    pool: an answer about one that lies alone says nothing of others.

    Parameters
    ----------
    company
        Nearest samples that are a sample's company; 0 if company shall not count.
    likely
        For each question, so many samples are looked at for their company,
    candidates
        … and so many of those by k-means.
    others
        Samples that represent a large pool where company is looked for.
    turns
        Of k-means, at most.

    >>> X = np.eye(3, dtype=np.float32)
    >>> p = np.array([[0.1, 0.9], [0.4, 0.6], [0.9, 0.1]], dtype=np.float32)
    >>> view = PoolView(scores=p[:, 1], threshold=0.5, features=lambda at: X[at], probabilities=lambda: p)
    >>> DiverseUncertain().choose(view, n=1, rng=np.random.default_rng(0)).tolist()
    [1]
    """

    def __init__(
        self, company: int = 10, likely: int = 40, candidates: int = 10, others: int = 5000, turns: int = 15
    ) -> None:
        self.company = options.whole("company", company, 0)
        self.likely = options.whole("likely", likely)
        self.candidates = options.whole("candidates", candidates)
        self.others = options.whole("others", others)
        self.turns = options.whole("turns", turns)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"company": 0, "likely": 1, "candidates": 1, "others": 2, "turns": 1}]

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        if not len(view.scores):
            return np.empty(0, np.int64)
        weights = view.scores * (1 - view.probabilities().max(axis=1))
        likely = highest(weights, max(self.likely * n, 200))
        if self.company:
            weights[likely] *= self._company(view, likely)
        weights[np.isin(np.arange(len(weights)), likely, invert=True)] = 0
        return _medoids(view, weights, n, max(self.candidates * n, 20), self.turns, rng)

    def _company(self, view: PoolView, positions: IntArray) -> FloatArray:
        """Mean cosine of samples to the nearest ones of the pool, as a share of the highest.

        A large pool is represented by every k-th of its samples.
        """
        every = np.arange(len(view.scores))
        others = every[:: max(1, len(every) // self.others)]
        cosines = _directions(view, positions) @ _directions(view, others).T
        cosines[torch.from_numpy(positions[:, None] == others)] = -1
        company = cosines.topk(min(self.company, len(others)), dim=1).values.mean(dim=1).clamp(min=0).numpy()
        return company / company.max() if company.max() > 0 else np.ones_like(company)


def _directions(view: PoolView, positions: IntArray) -> Tensor:
    """In torch: threads of two libraries of linear algebra would get in each other's way."""
    return normalize(torch.from_numpy(view.features(positions)).float(), dim=1)


def _medoids(
    view: PoolView, weights: FloatArray, n: int, most: int, turns: int, rng: np.random.Generator
) -> IntArray:
    """Positions of `n` medoids of a weighted k-means over the `most` heaviest samples."""
    n = min(n, len(weights))
    if n == 0:
        return np.empty(0, np.int64)
    candidates = np.sort(highest(weights, max(most, n)))
    directions = _directions(view, candidates)
    heavy = np.maximum(weights[candidates], 1e-4)
    centres = directions[_spread(directions, heavy, n, rng)]
    nearest = torch.empty(0)
    for _ in range(turns):
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
