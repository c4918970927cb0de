"""Who to ask: the questions that are left are planned, the most needed asked now (cual-plus). Choosing only.

The plan is a k-means over what looks novel. Answered samples stay centres of their own, so what they explain is
not asked about again, and asking one by one looks for the same as asking all at once, knowing more.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from cual import options
from cual.acquisition.base import PoolView, acquisition, highest
from cual.types import FloatArray, IntArray

AT_ONCE = 256
"""Questions that are planned together; longer plans are made in parts."""
BLOCK = 2048
"""Candidates whose features are looked at together."""


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
        n = min(n, len(view.scores))
        if not n:
            return np.empty(0, np.int64)
        planned = min(max(n, view.left), len(view.scores))
        at, wanted = self._candidates(view, max(self.candidates, 5 * planned))
        plan = _plan(wanted, _directions(view.asked()), planned, self.turns, rng)
        return at[plan[:n].numpy()]

    def _candidates(self, view: PoolView, n: int) -> tuple[IntArray, "_Wanted"]:
        """The `n` most wanted samples, by position."""
        novel = np.maximum(view.novelty() ** 4, 1e-4).astype(np.float32)
        doubt = np.maximum(_doubt(view), self.least_doubt).astype(np.float32)
        at = np.sort(highest(novel * doubt, n))
        directions = [_directions(view.features(at[i : i + BLOCK])) for i in range(0, len(at), BLOCK)]
        measures = map(torch.from_numpy, (novel[at], doubt[at], view.met_before(at)))
        return at, _Wanted(_stacked(directions, len(at)), *measures)


def _doubt(view: PoolView) -> FloatArray:
    """The share of each sample that its likeliest class does not hold; 1 while no novel class is known."""
    if not (view.classes >= view.n_old).any():
        return np.ones(len(view.scores), np.float32)
    held = view.held()
    return 1 - np.maximum(held.likeliest_old, held.likeliest_novel)


def _directions(features: FloatArray) -> Tensor:
    """In torch: threads of two libraries of linear algebra would get in each other's way."""
    return normalize(torch.from_numpy(features).float(), dim=1)


def _stacked(parts: list[Tensor], n: int) -> Tensor:
    """One table of `n` rows; parts are let go as they are copied."""
    if len(parts) == 1:
        return parts[0]
    stacked = torch.empty(n, parts[0].shape[1])
    while parts:
        part = parts.pop()
        stacked[n - len(part) : n] = part
        n -= len(part)
    return stacked


@dataclass(frozen=True)
class _Wanted:
    """Samples that may be asked about.

    Attributes
    ----------
    directions
        Where they lie.
    novel, doubt
        How novel they look, and how doubtful their class is.
    met_before
        1 where something like it stayed unexplained in an earlier pool.
    """

    directions: Tensor
    novel: Tensor
    doubt: Tensor
    met_before: Tensor

    @property
    def weights(self) -> Tensor:
        return self.novel * self.doubt

    def take(self, rows: Tensor) -> "_Wanted":
        return _Wanted(self.directions[rows], self.novel[rows], self.doubt[rows], self.met_before[rows])


def _plan(wanted: _Wanted, asked: Tensor, n: int, turns: int, rng: np.random.Generator) -> Tensor:
    """`n` positions of `wanted`, the most needed first. A long plan is made in parts, for its cost."""
    if n <= AT_ONCE:
        return _short_plan(wanted, asked, n, turns, rng)
    centres, nearest = _grouped(wanted, asked[:0], math.isqrt(n), turns // 3, rng)
    if len(nearest.unique()) == 1:  # all alike: the only part would be the whole again
        return _short_plan(wanted, asked, n, turns, rng)
    part_of = (asked @ centres.T).argmax(dim=1) if len(asked) else torch.empty(0, dtype=torch.int64)
    rows = [(nearest == g).nonzero().flatten() for g in range(len(centres))]
    masses = torch.stack([wanted.weights[r].sum() for r in rows]).numpy()
    plans: list[Tensor] = []
    for r, g, m in zip(rows, range(len(rows)), _dealt(n, masses, [len(r) for r in rows]), strict=True):
        if m:
            plans.append(r[_plan(wanted.take(r), asked[part_of == g], m, turns, rng)])
    places = torch.cat([torch.arange(len(plan)) / len(plan) for plan in plans])
    return torch.cat(plans)[places.argsort(stable=True)]


def _dealt(n: int, masses: FloatArray, sizes: list[int]) -> list[int]:
    """`n` questions dealt out by mass, to no group more than it has samples."""
    masses = np.maximum(masses, 1e-9)  # where everything is certain, nothing has any
    shares = np.minimum(n * masses / masses.sum(), sizes)
    counts = np.floor(shares).astype(np.int64)
    order = np.argsort(counts - shares, kind="stable")
    while counts.sum() < n:
        for g in order.tolist():
            if counts[g] < sizes[g] and counts.sum() < n:
                counts[g] += 1
    return counts.tolist()


def _short_plan(wanted: _Wanted, asked: Tensor, n: int, turns: int, rng: np.random.Generator) -> Tensor:
    """Medoids of `n` groups beside those of the answered samples."""
    centres, nearest = _grouped(wanted, asked, n, turns, rng)
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


def _grouped(
    wanted: _Wanted, asked: Tensor, n: int, turns: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Weighted k-means of `n` centres beside the fixed `asked`: all centres, and the nearest of each sample."""
    D, w, k = wanted.directions, wanted.weights, len(asked)
    centres = torch.cat([asked.reshape(k, D.shape[1]), D[_starts(wanted, asked, n, rng)]])
    nearest = (D @ centres.T).argmax(dim=1)
    for _ in range(turns):
        sums = (one_hot(nearest, len(centres)) * w[:, None]).T @ D
        moved = torch.where(sums.any(dim=1, keepdim=True), normalize(sums, dim=1), centres)
        centres = torch.cat([centres[:k], moved[k:]])
        before, nearest = nearest, (D @ centres.T).argmax(dim=1)
        if torch.equal(before, nearest):
            break
    return centres, nearest


def _starts(wanted: _Wanted, asked: Tensor, n: int, rng: np.random.Generator) -> list[int]:
    """Starting points by k-means++: each next one is likely where weight is high and no centre is near."""
    D, weights = wanted.directions, wanted.weights.double().numpy()
    far = np.ones(len(D))
    if len(asked):
        far = 1 - (D @ asked.T).max(dim=1).values.numpy()
    chosen: list[int] = []
    for _ in range(n):
        odds = np.cumsum(weights * np.maximum(far, 1e-9))
        i = min(int(np.searchsorted(odds, rng.random() * odds[-1], side="right")), len(D) - 1)
        chosen.append(i)
        far = np.minimum(far, 1 - (D @ D[i]).numpy())
    return chosen
