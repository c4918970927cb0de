"""Who lies around a sample: known samples, whose classes are known, or others of the pool. No learning.

Novel samples crowd together in the pool where no known sample is; old ones have known neighbours. That tells
novelty apart far better than the distance to class means alone (docs/cual-plus.md has figures).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, one_hot

from cual.types import IntArray

BLOCK = 2048  # rows whose cosines to all others are held at once


@dataclass(frozen=True)
class Nearest:
    """Neighbours of some samples.

    Attributes
    ----------
    crowding
        Mean cosine to the nearest samples of the pool less that to the nearest known samples.
    voters, weights
        The nearest samples, first those of the pool, then the known ones, and what each counts (sum 1).
    """

    crowding: Tensor
    voters: Tensor
    weights: Tensor

    @classmethod
    def joined(cls, parts: Sequence["Nearest"]) -> "Nearest":
        return cls(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    def take(self, rows: Tensor) -> "Nearest":
        return Nearest(self.crowding[rows], self.voters[rows], self.weights[rows])


class Neighbours:
    """Looks for neighbours among anchors (samples of the pool) and known samples, by cosine.

    Parameters
    ----------
    anchors, pool
        Rows of the pool that may be neighbours, ascending, and their directions.
    known, y
        Directions of known samples, and their classes.
    crowd
        Nearest samples of each kind that `Nearest.crowding` looks at.
    voters
        Nearest samples, of either kind, whose classes count.

    >>> pool, known = torch.tensor([[1.0, 0], [0, 1], [0, 1]]), torch.tensor([[1.0, 0]])
    >>> around = Neighbours(np.arange(3), pool, known, torch.tensor([0]))
    >>> around.of(pool, np.arange(3)).crowding.tolist()  # the last two have each other, the first a known one
    [-1.0, 0.5, 0.5]
    """

    def __init__(
        self, anchors: IntArray, pool: Tensor, known: Tensor, y: Tensor, crowd: int = 10, voters: int = 15
    ) -> None:
        self._anchors = anchors
        self._pool = pool
        self._known = known
        self._y = y
        self._crowd = crowd
        self._voters = voters

    def of(self, directions: Tensor, rows: IntArray | None = None) -> Nearest:
        """Neighbours of samples; `rows` says which rows of the pool they are: nobody neighbours itself."""
        return Nearest.joined([self._of_block(directions, rows, b) for b in range(0, len(directions), BLOCK)])

    def _of_block(self, directions: Tensor, rows: IntArray | None, start: int) -> Nearest:
        U = directions[start : start + BLOCK]
        cosines = torch.cat([U @ self._pool.T, U @ self._known.T], dim=1)
        n_pool, others = len(self._pool), len(self._pool)
        if rows is not None:
            at = np.searchsorted(self._anchors, rows[start : start + BLOCK]).clip(max=n_pool - 1)
            itself = np.flatnonzero(self._anchors[at] == rows[start : start + BLOCK])
            cosines[torch.from_numpy(itself), torch.from_numpy(at[itself])] = -1.0
            others -= 1
        crowding = torch.zeros(len(U), device=U.device)
        if others > 0 and len(self._known):
            near = cosines[:, :n_pool].topk(min(self._crowd, others), dim=1).values
            known = cosines[:, n_pool:].topk(min(self._crowd, len(self._known)), dim=1).values
            crowding = near.mean(dim=1) - known.mean(dim=1)
        likeness, voters = cosines.topk(min(self._voters, cosines.shape[1]), dim=1)
        likeness = likeness.clamp(min=1e-6)
        return Nearest(crowding, voters, likeness / likeness.sum(dim=1, keepdim=True))

    def votes(self, nearest: Nearest, shares: Tensor) -> Tensor:
        """The classes of each sample's neighbours (n, C); `shares` (anchors, C) says those of the anchors."""
        every = torch.cat([shares, one_hot(self._y, shares.shape[1]).to(shares)])
        return embedding_bag(nearest.voters, every, mode="sum", per_sample_weights=nearest.weights)
