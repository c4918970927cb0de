"""Who to ask: the samples whose answers would settle most of what looks novel (cual-plus). Choosing only.

An answer settles the samples that are probably of the same class, whether it was given before or is planned. So
asking one by one looks for the same as asking all at once, knowing more.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cual import options
from cual.acquisition.base import PoolView, acquisition
from cual.acquisition.planning import PER_QUESTION, Wanted, planned
from cual.types import IntArray

PAIRS = 20_000
"""Pairs of samples that it is seen from how alike samples are."""
STEEPNESS = 2.0
"""What a deviation of the pairs' cosines counts, in logits, for being of one class."""
LEAST_DEVIATION = 1e-3
"""Of cosines, where samples are all alike."""
LAZY = 32
"""Samples whose gain is computed anew together."""


@acquisition("coverage")
class Coverage:
    """Ask where an answer settles most, one question after the other.

    A sample weighs q⁴ max(doubt, d), where q is the share of known validation samples that looked less novel at
    first, and doubt the share that its likeliest class does not hold (1 while no novel class is known); twice
    that if something like it stayed unexplained in an earlier pool. Two samples of cosine c are of one class
    with the chance σ(2 (c − t) / s), where s is the deviation of the cosines of pairs, and t what one pair in
    2 n exceeds, for n questions in all. What an answer adds is the weight of all samples, each by how much
    likelier it is of this class than of the nearest that was asked about before. A sample that is like no other
    settles itself alone.

    Parameters
    ----------
    least_doubt
        d: what is certain counts so much, because a class that nobody has named yet may look like another.
    candidates
        Samples that are looked at, at most: the most wanted ones, or five for each question.

    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [-1, 0]], dtype=np.float32)
    >>> view = PoolView(scores=np.array([9, 9, 9, 9, 0.0]), threshold=5, validation=np.array([0, 1, 2.0]),
    ...                 features=lambda at: X[at])
    >>> chosen = Coverage().choose(view, n=2, rng=np.random.default_rng(0))
    >>> len({int(i) // 2 for i in chosen})
    2
    """

    def __init__(self, least_doubt: float = 0.3, candidates: int = 5000) -> None:
        self.least_doubt = options.number("least_doubt", least_doubt, 0, 1)
        self.candidates = options.whole("candidates", candidates)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"candidates": 4}, {"least_doubt": 1.0}]

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        def plan(some: Wanted, asked: Tensor, m: int) -> Tensor:
            most = min(len(some.novel), max(self.candidates, PER_QUESTION * m))  # all pairs are held
            at = some.weights.topk(most).indices.sort().values
            return at[settling(some.take(at), asked, m, rng)]

        return planned(view, n, self.candidates, self.least_doubt, plan, rng)


def settling(wanted: Wanted, asked: Tensor, n: int, rng: np.random.Generator) -> Tensor:
    """`n` positions of `wanted`, each the one that settles most beside `asked` and those before it.

    What is settled is submodular: a gain never grows while others are chosen. So only those that may be the
    largest are computed anew.
    """
    D, weights = wanted.directions, wanted.weights * (1 + wanted.met_before)
    middle, deviation = _alike(D, weights, len(asked) + n, rng)

    def same(cosines: Tensor) -> Tensor:
        return cosines.sub_(middle).mul_(STEEPNESS / deviation).sigmoid_()

    pairs = same(D @ D.T)
    settled = same(D @ asked.T).max(dim=1).values if len(asked) else torch.zeros(len(D))
    gains = _gains(pairs, settled, weights)
    chosen: list[int] = []
    for _ in range(n):
        best = _largest(gains, pairs, settled, weights)
        chosen.append(best)
        settled = torch.maximum(settled, pairs[best])
        gains[best] = -torch.inf
    return torch.tensor(chosen, dtype=torch.int64)


def _alike(D: Tensor, weights: Tensor, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Of pairs of samples, drawn by weight: the cosine that one in 2 `n` exceeds, and the deviation."""
    odds = np.cumsum(weights.double().clamp(min=1e-12).numpy())
    drawn = np.searchsorted(odds, rng.random((2, PAIRS)) * odds[-1], side="right").clip(max=len(D) - 1)
    first, second = torch.from_numpy(drawn[:, drawn[0] != drawn[1]])
    if len(first) < 2:
        return 0.5, LEAST_DEVIATION
    cosines = torch.cat(
        [(D[i] * D[j]).sum(dim=1) for i, j in zip(first.split(2048), second.split(2048), strict=True)]
    )
    return float(cosines.quantile(1 - 0.5 / n)), max(float(cosines.std()), LEAST_DEVIATION)


def _gains(pairs: Tensor, settled: Tensor, weights: Tensor) -> Tensor:
    """What each row of `pairs` would settle beyond what is `settled`."""
    return torch.cat([(part - settled).clamp_(min=0) @ weights for part in pairs.split(256)])


def _largest(gains: Tensor, pairs: Tensor, settled: Tensor, weights: Tensor) -> int:
    """The sample of the largest gain, of which `gains` are upper bounds; they are brought down on the way."""
    while True:
        some = gains.topk(min(LAZY, len(gains))).indices
        gains[some] = torch.where(gains[some].isneginf(), gains[some], _gains(pairs[some], settled, weights))
        best = some[gains[some].argmax()]
        if not gains.max() > gains[best]:  # of equals, too: others are no larger than they look
            return int(best)
