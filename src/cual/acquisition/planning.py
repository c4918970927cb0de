"""What questions are planned by: samples that may be asked about, groups of them, long plans in parts.

No strategy is here; `coverage` and `diverse` are beside this file.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from cual.acquisition.base import PoolView, highest
from cual.types import FloatArray, IntArray

AT_ONCE = 256
"""Questions that are planned together; longer plans are made in parts."""
BLOCK = 2048
"""Candidates whose features are looked at together."""
PER_QUESTION = 5
"""Candidates for each question, at least."""
PARTS_TURNS = 5
"""Turns of the k-means that makes parts."""


@dataclass(frozen=True)
class Wanted:
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

    def take(self, rows: Tensor) -> "Wanted":
        return Wanted(self.directions[rows], self.novel[rows], self.doubt[rows], self.met_before[rows])


def most_wanted(view: PoolView, n: int, least_doubt: float) -> tuple[IntArray, Wanted]:
    """The `n` most wanted samples, by position."""
    novel = np.maximum(view.novelty() ** 4, 1e-4).astype(np.float32)
    doubt = np.maximum(doubts(view), least_doubt).astype(np.float32)
    at = np.sort(highest(novel * doubt, n))
    found = [directions(view.features(at[i : i + BLOCK])) for i in range(0, len(at), BLOCK)]
    measures = map(torch.from_numpy, (novel[at], doubt[at], view.met_before(at)))
    return at, Wanted(_stacked(found, len(at)), *measures)


def doubts(view: PoolView) -> FloatArray:
    """The share of each sample that its likeliest class does not hold; 1 while no novel class is known."""
    if not (view.classes >= view.n_old).any():
        return np.ones(len(view.scores), np.float32)
    held = view.held()
    return 1 - np.maximum(held.likeliest_old, held.likeliest_novel)


def directions(features: FloatArray) -> Tensor:
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


Plan = Callable[[Wanted, Tensor, int], Tensor]
"""Positions of some wanted samples, the most needed first, beside those that were asked before."""


def planned(
    view: PoolView, n: int, candidates: int, least_doubt: float, plan: Plan, rng: np.random.Generator
) -> IntArray:
    """The first `n` positions of a plan of all questions that are left."""
    n = min(n, len(view.scores))
    if not n:
        return np.empty(0, np.int64)
    left = min(max(n, view.left), len(view.scores))
    at, wanted = most_wanted(view, max(candidates, PER_QUESTION * left), least_doubt)
    return at[in_parts(plan, wanted, directions(view.asked()), left, rng)[:n].numpy()]


def in_parts(plan: Plan, wanted: Wanted, asked: Tensor, n: int, rng: np.random.Generator) -> Tensor:
    """`n` positions of `wanted`, the most needed first. A long plan is made in parts, for its cost."""
    if n <= AT_ONCE:
        return plan(wanted, asked, n)
    centres, nearest = grouped(wanted, asked[:0], math.isqrt(n), PARTS_TURNS, rng)
    if len(nearest.unique()) == 1:  # all alike: the only part would be the whole again, and nothing to plan
        return wanted.weights.argsort(descending=True, stable=True)[:n]
    part_of = (asked @ centres.T).argmax(dim=1) if len(asked) else torch.empty(0, dtype=torch.int64)
    rows = [(nearest == g).nonzero().flatten() for g in range(len(centres))]
    masses = torch.stack([wanted.weights[r].sum() for r in rows]).numpy()
    plans: list[Tensor] = []
    for r, g, m in zip(rows, range(len(rows)), dealt(n, masses, [len(r) for r in rows]), strict=True):
        if m:
            plans.append(r[in_parts(plan, wanted.take(r), asked[part_of == g], m, rng)])
    places = torch.cat([torch.arange(len(plan)) / len(plan) for plan in plans])
    return torch.cat(plans)[places.argsort(stable=True)]


def dealt(n: int, masses: FloatArray, sizes: list[int]) -> list[int]:
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


def grouped(
    wanted: Wanted, asked: Tensor, n: int, turns: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Weighted k-means of `n` centres beside the fixed `asked`: all centres, and the nearest of each sample."""
    D, w, k = wanted.directions, wanted.weights, len(asked)
    centres = torch.cat([asked.reshape(k, D.shape[1]), D[starts(wanted, asked, n, rng)]])
    nearest = (D @ centres.T).argmax(dim=1)
    for _ in range(turns):
        sums = (one_hot(nearest, len(centres)) * w[:, None]).T @ D
        moved = torch.where(sums.any(dim=1, keepdim=True), normalize(sums, dim=1), centres)
        centres = torch.cat([centres[:k], moved[k:]])
        before, nearest = nearest, (D @ centres.T).argmax(dim=1)
        if torch.equal(before, nearest):
            break
    return centres, nearest


def starts(wanted: Wanted, asked: Tensor, n: int, rng: np.random.Generator) -> list[int]:
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
