"""Drift: what all of a pool has in common, apart from what is novel in some of it. Only measured here.

A new look (sketches after photos, another season, a worn sensor) moves every sample by about the same; a new
class moves its own samples only. So a shift is drift if nearly all of the pool has made it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from cual.data.pool import Pool
from cual.heads import Whitens
from cual.learners.base import Knowledge
from cual.seeds import generator
from cual.types import IntArray

LEAST = 8
"""Known samples, samples of half a pool, and known samples of the pool's look: fewer prove nothing."""
MOST = 4096
"""Rows of a pool that its shift is measured on."""
SPLITS = 3
"""How often a pool is split in halves: one split is noisy where it is small."""


@dataclass(frozen=True)
class Moved:
    """A head's space as a drifted pool sees it: without the shift that all of the pool has made."""

    head: Whitens
    shift: Tensor

    def whiten(self, X: Tensor) -> Tensor:
        return self.head.whiten(X) - self.shift


def drift_size(head: Whitens, agent: Knowledge, pool: Pool) -> float:
    """How far nine tenths of the pool have moved together, in deviations of known samples; 0 if too few."""
    rng = generator(agent.seed, agent.version + 1, 0, "drift")
    means = head.whitened_means()[: len(agent.names)]
    known = head.whiten(agent.validation.X.float())
    return moved_together(_off(_whitened(head, agent, pool), means), _off(known, means), rng)


def shared_shift(head: Whitens, agent: Knowledge, pool: Pool) -> Tensor:
    """From the mean of the known classes, each counting the same, to the mean of the pool."""
    centre = head.whitened_means()[: len(agent.names)].mean(dim=0)
    return _whitened(head, agent, pool).mean(dim=0) - centre


def moved_together(pool: Tensor, known: Tensor, rng: np.random.Generator) -> float:
    """How far the lowest tenth of a pool has moved off the known classes, in deviations of known samples.

    Both are given as what separates samples from the class that they are most like: so a pool of few classes
    has not moved. Along the line to the mean of one half of the pool, the first decile of the other half is
    compared with that of the known samples: halves, because the noise of many dimensions looks like a shift of
    the samples that the line was drawn by; the first decile, because novel classes leave it to old ones. Where
    known samples have gone half of the way, the pool's look is known, and it is compared with them.

    >>> rng = np.random.default_rng(0)
    >>> known = torch.from_numpy(rng.normal(size=(400, 8)))
    >>> novel = known.clone()
    >>> novel[:200] += 20
    >>> [round(moved_together(pool, known, rng)) for pool in (known, known + 3, novel)]
    [0, 8, 0]
    """
    if min(len(pool) // 2, len(known)) < LEAST:
        return 0.0
    sizes: list[float] = []
    for _ in range(SPLITS):
        order = torch.from_numpy(rng.permutation(len(pool))).to(pool.device)
        halves = order[: len(pool) // 2], order[len(pool) // 2 :]
        for drawn, other in (halves, halves[::-1]):
            line = normalize(pool[drawn].mean(dim=0), dim=0)
            sizes.append(_along(pool[other] @ line, known @ line))
    return sum(sizes) / len(sizes)


def _along(here: Tensor, there: Tensor) -> float:
    """From the first decile of known samples `there` to that of the pool, in deviations."""
    half_way = there > (here.mean() + there.mean()) / 2
    known_look = bool(here.mean() > there.mean()) and int(half_way.sum()) >= LEAST
    reference = there[half_way] if known_look else there
    return float((here.quantile(0.1) - reference.quantile(0.1)) / there.std().clamp(min=1e-6))


def _whitened(head: Whitens, agent: Knowledge, pool: Pool) -> Tensor:
    """Some rows of the pool in the whitened space."""
    rows = _some(len(pool), generator(agent.seed, agent.version + 1, 0, "rows of drift"))
    return torch.cat([head.whiten(X) for _, X in pool.chunks(rows, agent.device)])


def _off(whitened: Tensor, means: Tensor) -> Tensor:
    """What separates samples from the mean of the class that they are most like."""
    return whitened - means[(normalize(whitened, dim=1) @ normalize(means, dim=1).T).argmax(dim=1)]


def _some(n: int, rng: np.random.Generator) -> IntArray:
    return np.arange(n) if n <= MOST else np.sort(rng.choice(n, MOST, replace=False))
