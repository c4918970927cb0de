"""The space of cual-plus: directions under a head's whitening, of known samples, of old classes and of a pool.

Here is measured; what the measures make of a sample is decided in `competition`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from cual.heads import Whitens
from cual.learners.base import Knowledge
from cual.learners.prototypes.neighbours import Nearest, Neighbours
from cual.learners.prototypes.options import PrototypeOptions
from cual.pool import Pool
from cual.seeds import generator
from cual.types import IntArray


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of something over the known validation samples, to measure others by."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Tensor) -> "Scale":
        return cls(float(values.mean()), max(float(values.std(correction=0)), 1e-6))

    def deviations(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std


@dataclass(frozen=True)
class Seen:
    """Samples as the competition sees them: directions, cosines to the old classes, and neighbours."""

    directions: Tensor
    to_old: Tensor
    nearest: Nearest


class KnownSpace:
    """Directions of known samples and of the old classes: what can be said of a sample without a pool."""

    def __init__(self, head: Whitens, agent: Knowledge, part: PrototypeOptions) -> None:
        self._head = head.shrunk(part.shrink)
        self._crowd = part.crowd
        self.old = normalize(self._head.whitened_means()[: len(agent.names)], dim=1)
        known = agent.replay.samples()
        self.known = self.directions(known.X.float())
        held_out = self.directions(agent.validation.X)
        self._angle = Scale.of(self._to_old(held_out))
        self._distance = Scale.of(self._to_known(held_out))
        self.validation = self.novelty(held_out)
        """Of the known validation samples."""

    def directions(self, X: Tensor) -> Tensor:
        return normalize(self._head.whiten(X), dim=1)

    def novelty(self, directions: Tensor) -> Tensor:
        """The angle to the nearest old class and the distance to the nearest known samples, in deviations."""
        angle = self._angle.deviations(self._to_old(directions))
        return angle + self._distance.deviations(self._to_known(directions))

    def _to_old(self, directions: Tensor) -> Tensor:
        return 1 - (directions @ self.old.T).max(dim=1).values

    def _to_known(self, directions: Tensor) -> Tensor:
        if not len(self.known):
            return torch.zeros(len(directions), device=directions.device)
        k = min(self._crowd, len(self.known))
        return 1 - (directions @ self.known.T).topk(k, dim=1).values.mean(dim=1)


class Space:
    """Directions in the whitened space of a head: of the pool, of known samples and of the old classes."""

    def __init__(self, head: Whitens, agent: Knowledge, pool: Pool, part: PrototypeOptions) -> None:
        self._head = head.shrunk(part.shrink)
        self._pool = pool
        self._device = agent.device
        self._part = part
        self.old = normalize(self._head.whitened_means()[: len(agent.names)], dim=1)
        self._kept: Tensor | None = None
        every = np.arange(len(pool))
        rng = generator(agent.seed, agent.version + 1, 0, "anchors")
        self.anchors = np.sort(rng.permutation(len(pool))[: part.anchors])
        known = agent.replay.samples()
        held_out = self.directions(agent.validation.X)
        directions = torch.cat([*(U for _, U in self.chunks(self.anchors)), held_out])
        anchors = directions[: len(self.anchors)]
        self.neighbours = Neighbours(
            self.anchors, anchors, self.directions(known.X.float()), known.y, part.crowd, part.voters
        )
        self._nearest = Nearest.joined([self.neighbours.of(U, every[rows]) for rows, U in self.chunks(every)])
        around = Nearest.joined([self._around(self.anchors), self.neighbours.of(held_out)])
        self.anchors_and_validation = Seen(directions, directions @ self.old.T, around)
        """One after the other, because the competition always looks at both."""
        cosines = self.anchors_and_validation.to_old[len(anchors) :]
        y = agent.validation.y
        own = cosines.gather(1, y[:, None])[:, 0]
        self.likeness = float(own.mean().clamp(0.01, 0.99)) ** 2
        """Expected cosine of two samples of one class: the square of that of a sample and its class."""
        self.sharpness = _sharpness(cosines, y)
        self.angle = Scale.of(1 - cosines.max(dim=1).values)
        self.crowd = Scale.of(around.crowding[len(anchors) :])

    def directions(self, X: Tensor) -> Tensor:
        return normalize(self._head.whiten(X), dim=1)

    def chunks(self, rows: IntArray) -> Iterator[tuple[slice, Tensor]]:
        """Directions of pool rows, in chunks."""
        if self._kept is None and len(self._pool) * self.old.shape[1] * 4 <= self._part.keep_bytes:
            every = np.arange(len(self._pool))
            self._kept = torch.cat([self.directions(X) for _, X in self._pool.chunks(every, self._device)])
        if self._kept is not None:
            if np.array_equal(rows, np.arange(len(self._kept))):
                yield slice(0, len(rows)), self._kept  # no copy
            else:
                yield slice(0, len(rows)), self._kept[torch.from_numpy(rows).to(self._device)]
            return
        for part, X in self._pool.chunks(rows, self._device):
            yield part, self.directions(X)

    def seen(self) -> Iterator[Seen]:
        """The pool, in chunks."""
        every = np.arange(len(self._pool))
        for part, U in self.chunks(every):
            yield Seen(U, U @ self.old.T, self._around(every[part]))

    def _around(self, rows: IntArray) -> Nearest:
        return self._nearest.take(torch.from_numpy(rows).to(self._device))

    def crowdedness(self, rows: IntArray) -> Tensor:
        """The crowding of pool rows, in deviations of known samples."""
        return self.crowd.deviations(self._around(rows).crowding)

    def novelty(self, seen: Seen) -> Tensor:
        """Two views, in deviations of known samples: the angle to the nearest old class and the crowd."""
        angle = self.angle.deviations(1 - seen.to_old.max(dim=1).values)
        if not self._part.crowd_in_novelty:
            return angle
        return angle + self.crowd.deviations(seen.nearest.crowding)

    def novelty_of_pool(self) -> Tensor:
        return joined([self.novelty(seen) for seen in self.seen()])

    def novelty_of_validation(self) -> Tensor:
        return self.novelty(self.anchors_and_validation)[len(self.anchors) :]


def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if parts else torch.empty(0)


def _sharpness(cosines: Tensor, y: Tensor) -> float:
    """The factor on cosines under which the known validation samples are likeliest, of 1 to 256."""
    factors = 2 ** torch.linspace(0, 8, 33)
    losses = torch.stack([cross_entropy(float(f) * cosines, y) for f in factors])
    return float(factors[int(losses.argmin())])
