"""Questions planned by a k-means over what looks novel. Choosing only.

Answered samples stay centres of their own, so what they explain is not asked about again, and asking one by one
looks for the same as asking all at once, knowing more.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from cual import options
from cual.acquisition.base import PoolView, acquisition
from cual.acquisition.planning import Wanted, grouped, planned
from cual.types import IntArray


@acquisition("diverse")
class Diverse:
    """Ask about the middle of groups that look novel, differ from each other and from what was asked before.

    A sample weighs q⁴ max(doubt, d), where q is the share of known validation samples that looked less novel at
    first, and doubt the share that its likeliest class does not hold (1 while no novel class is known). Groups
    come in the order of their mean doubt, if they have company, unless they are like one that comes before;
    what was met in an earlier pool and stayed unexplained counts up to twice.

    Parameters
    ----------
    least_doubt
        d: what is certain counts so much, because a class that nobody has named yet may look like another.
    candidates
        Samples that k-means looks at, at most: the most wanted ones, or five for each question.
    turns
        Of k-means, at most.

    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [-1, 0]], dtype=np.float32)
    >>> view = PoolView(scores=np.array([9, 9, 9, 9, 0.0]), threshold=5, validation=np.array([0, 1, 2.0]),
    ...                 features=lambda at: X[at])
    >>> chosen = Diverse().choose(view, n=2, rng=np.random.default_rng(0))
    >>> len({int(i) // 2 for i in chosen})
    2
    """

    def __init__(self, least_doubt: float = 0.3, candidates: int = 5000, turns: int = 15) -> None:
        self.least_doubt = options.number("least_doubt", least_doubt, 0, 1)
        self.candidates = options.whole("candidates", candidates)
        self.turns = options.whole("turns", turns)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"candidates": 4, "turns": 1}, {"least_doubt": 1.0}]

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        def plan(some: Wanted, asked: Tensor, m: int) -> Tensor:
            return _short_plan(some, asked, m, self.turns, rng)

        return planned(view, n, self.candidates, self.least_doubt, plan, rng)


def _short_plan(wanted: Wanted, asked: Tensor, n: int, turns: int, rng: np.random.Generator) -> Tensor:
    """Medoids of `n` groups beside those of the answered samples."""
    centres, nearest = grouped(wanted, asked, n, turns, rng)
    k, D = len(asked), wanted.directions
    inside = one_hot(nearest, len(centres)).float()
    mass, need, again = (w @ inside for w in (wanted.novel, wanted.weights, wanted.novel * wanted.met_before))
    sums = (inside * wanted.novel[:, None]).T @ D
    means = torch.where(sums.any(dim=1, keepdim=True), normalize(sums, dim=1), centres)
    value = (need / (1 + mass) * (1 + again / mass.clamp(min=1e-6)))[k:]
    far = (1 - (means[k:] @ means[:k].T).max(dim=1).values).clamp(max=1) if k else torch.ones(n)
    likeness = D @ centres[k:].T
    chosen: list[int] = []
    for _ in range(n):
        j = int((value * far.clamp(min=1e-3)).argmax())
        value[j] = -1.0
        chosen.append(int(likeness[:, j].argmax()))
        likeness[chosen[-1]] = -torch.inf
        far = torch.minimum(far, 1 - means[k:] @ means[k + j])
    return torch.tensor(chosen, dtype=torch.int64)
