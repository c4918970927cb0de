"""Who lies around a sample: known samples, whose classes are known, or others of the pool. No learning.

Novel samples have each other for neighbours, old ones have known samples not far away. A walk from neighbour to
neighbour tells them apart better than any distance (docs/cual-plus.md has figures).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, one_hot, pad

from cual.data.scratch import Scratch
from cual.learners.prototypes.search import most_alike
from cual.types import IntArray

BLOCK = 2048
"""Rows whose cosines to all others are held at once."""
FEW_VOTES = 2**26
"""Known samples × classes up to which the votes of known samples are a matrix of their own."""
STEPS = 60
"""After so many steps, a walk that goes on with a chance of 0.9 has ended but for 0.2 %."""


@dataclass(frozen=True)
class Nearest:
    """The nearest samples of some samples, numbered pool first, known ones next, and what each counts.

    >>> few = Nearest(torch.tensor([[4]]), torch.tensor([[1.0]]))
    >>> more = Nearest(torch.tensor([[1, 2]]), torch.tensor([[0.5, 0.5]]))
    >>> Nearest.joined([few, more]).weights
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """

    voters: Tensor
    weights: Tensor

    @classmethod
    def joined(cls, parts: Sequence["Nearest"]) -> "Nearest":
        """One after the other; what some lack, as rows of a small pool do, counts nothing."""
        most = max((part.voters.shape[1] for part in parts), default=0)
        lacking = [(0, most - part.voters.shape[1]) for part in parts]
        voters = [pad(part.voters, few) for part, few in zip(parts, lacking, strict=True)]
        weights = [pad(part.weights, few) for part, few in zip(parts, lacking, strict=True)]
        return cls(torch.cat(voters), torch.cat(weights))


class PoolNearest:
    """The neighbours of every row of a pool: in memory while they are few, else in a temporary file.

    Parameters
    ----------
    rows
        How many rows there will be.
    keep_bytes
        How many bytes stay in memory.

    >>> kept = PoolNearest(rows=2, keep_bytes=0)  # all of it lies in a temporary file
    >>> kept.append(Nearest(torch.tensor([[4], [7]]), torch.tensor([[1.0], [1.0]])))
    >>> kept.take(np.array([1])).voters
    tensor([[7]])
    """

    def __init__(self, rows: int, keep_bytes: int) -> None:
        self._rows = rows
        self._keep_bytes = keep_bytes
        self._filled = 0
        self._kept: Nearest | None = None
        self._away: tuple[Scratch, Scratch] | None = None
        self._device = torch.device("cpu")

    def append(self, nearest: Nearest) -> None:
        """Add the neighbours of the next rows."""
        if not self._filled:
            self._begin(nearest)
        if self._away is not None:
            for scratch, part in zip(self._away, (nearest.voters, nearest.weights), strict=True):
                scratch.append(part.cpu().numpy())
        elif self._kept is not None:
            rows = slice(self._filled, self._filled + len(nearest.voters))
            self._kept.voters[rows], self._kept.weights[rows] = nearest.voters, nearest.weights
        self._filled += len(nearest.voters)

    def _begin(self, first: Nearest) -> None:
        shape, self._device = (self._rows, first.voters.shape[1]), first.weights.device
        if 8 * shape[0] * shape[1] > self._keep_bytes:
            self._away = Scratch(shape[1], np.int32), Scratch(shape[1], np.float32)
        else:
            voters = torch.empty(shape, dtype=torch.int32, device=self._device)
            self._kept = Nearest(voters, torch.empty(shape, device=self._device))

    def take(self, rows: IntArray | slice) -> Nearest:
        """The neighbours of some rows."""
        if self._away is not None:
            voters, weights = (torch.from_numpy(part[rows]).to(self._device) for part in self._away)
            return Nearest(voters.long(), weights)
        assert self._kept is not None
        at = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(self._device)
        return Nearest(self._kept.voters[at].long(), self._kept.weights[at])


class Neighbours:
    """Looks for neighbours among anchors (samples of the pool) and known samples, by cosine.

    Parameters
    ----------
    anchors, pool
        Rows of the pool that may be neighbours, ascending, and their directions.
    known, y
        Directions of known samples, and their classes.
    voters
        Nearest samples, of either kind, that are a sample's neighbours.

    >>> pool, known = torch.tensor([[1.0, 0], [0, 1], [0, 1]]), torch.tensor([[1.0, 0]])
    >>> around = Neighbours(np.arange(3), pool, known, torch.tensor([0]), voters=1)
    >>> walk = around.walk(around.of(pool, np.arange(3)), chance=0.5)
    >>> [round(s, 2) for s in walk.tolist()]  # the last two have each other, the first a known one
    [0.5, 1.0, 1.0]
    """

    def __init__(self, anchors: IntArray, pool: Tensor, known: Tensor, y: Tensor, voters: int = 15) -> None:
        self._anchors = anchors
        self._others = torch.cat([pool, known])
        self._y = y
        self._voters = voters

    @property
    def known(self) -> Tensor:
        """Directions of known samples."""
        return self._others[len(self._anchors) :]

    def of(self, directions: Tensor, rows: IntArray | None = None) -> Nearest:
        """Neighbours of samples; `rows` says which rows of the pool they are: nobody neighbours itself."""
        return Nearest.joined([self._of_block(directions, rows, b) for b in range(0, len(directions), BLOCK)])

    def _of_block(self, directions: Tensor, rows: IntArray | None, start: int) -> Nearest:
        itself = None
        if rows is not None:
            mine = rows[start : start + BLOCK]
            at = np.searchsorted(self._anchors, mine).clip(max=len(self._anchors) - 1)
            itself = torch.from_numpy(np.where(self._anchors[at] == mine, at, -1)).to(directions.device)
        U = directions[start : start + BLOCK]
        likeness, voters = most_alike(U, self._others, self._voters, itself)
        likeness = likeness.clamp(min=1e-6)
        return Nearest(voters, likeness / likeness.sum(dim=1, keepdim=True))

    def walk(self, anchors: Nearest, chance: float) -> Tensor:
        """For each anchor, the chance that a walk from it ends before it meets a known sample.

        Parameters
        ----------
        anchors
            The neighbours of the anchors.
        chance
            Of going on, at each step: to a neighbour, or to a sample whose neighbour it is.
        """
        n, k = anchors.voters.shape
        start, to = torch.arange(n).repeat_interleave(k), anchors.voters.flatten().cpu()
        weight, inside = (
            anchors.weights.flatten().cpu(),
            to < n,
        )  # not on a GPU, whose sums vary in their last bits
        ends = torch.zeros(n).index_add_(0, start[~inside], weight[~inside])
        start, to, weight = start[inside], to[inside], weight[inside] / 2
        out = ends.index_add(0, start, weight).index_add(0, to, weight).clamp(min=1e-9)
        strange = torch.ones(n)
        for _ in range(STEPS):
            met = torch.zeros(n).index_add_(0, start, weight * strange[to])
            met = met.index_add_(0, to, weight * strange[start])
            strange = (1 - chance) + chance * met / out
        return strange.to(anchors.weights.device)

    def walked(self, nearest: Nearest, walk: Tensor, chance: float) -> Tensor:
        """The same for any samples, whose first step leads to an anchor or to a known sample."""
        every = pad(walk, (0, len(self._y)))
        return (1 - chance) + chance * (every[nearest.voters] * nearest.weights).sum(dim=1)

    def votes(self, nearest: Nearest, shares: Tensor) -> Tensor:
        """The classes of each sample's neighbours (n, C); `shares` (anchors, C) says those of the anchors."""
        n_anchors, n_classes = shares.shape
        if len(self._y) * n_classes <= FEW_VOTES:
            every = torch.cat([shares, one_hot(self._y, n_classes).to(shares)])
            return embedding_bag(nearest.voters, every, mode="sum", per_sample_weights=nearest.weights)
        known = nearest.voters >= n_anchors
        of_anchors = nearest.voters.masked_fill(known, 0), nearest.weights.masked_fill(known, 0.0)
        votes = embedding_bag(of_anchors[0], shares, mode="sum", per_sample_weights=of_anchors[1])
        classes = self._y[(nearest.voters - n_anchors).clamp(min=0)]
        return votes.scatter_add_(1, classes, nearest.weights.masked_fill(~known, 0.0))
