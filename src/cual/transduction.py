"""A_s of cual-plus: the whole pool is labelled at once, old and novel classes competing for every sample.

Classes are directions (prototypes) in the space that the ridge head whitens. Old ones are known; novel ones
start from the answers and are refined by what they win in the pool. What a sample's neighbours are, known
samples or others of the pool, counts as well (`cual.neighbours`). Whom to ask is decided elsewhere.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, one_hot

from cual.heads import Lesson, Ridge, Samples
from cual.neighbours import Nearest, Neighbours
from cual.pool import Pool
from cual.seeds import generator
from cual.short_term import Accepted, Scored
from cual.types import FloatArray, IntArray
from cual.uncertainty import Threshold

if TYPE_CHECKING:
    from cual.agent import Agent

SHRINK = 0.3
"""Ridge of the covariance that whitens; the head's own, for predictions, is larger."""
REFINEMENTS = 6
"""Rounds in which novel prototypes win samples and move; neighbours count from the third on."""
ANSWER_WEIGHT = 3.0
"""What a person's answer counts in a prototype, against 1 for a sample that was only won."""
LEAST_SHARE = 0.3
"""A sample moves a prototype only if the class holds at least this share of it."""
NEIGHBOUR_WEIGHT = 3.0
"""What it counts, in logits, if all neighbours of a sample are of one class."""
CROWD_WEIGHT = 2.0
"""What a deviation of `Neighbours.crowding` counts, in logits, for the novel classes."""
CROWD_EDGE = 0.8
"""Deviations of crowding that speak neither for nor against them."""
ANCHORS = 4096
"""Pool samples that prototypes and neighbours are sought among; a larger pool is represented by that many."""
KEEP_BYTES = 2**28
"""Whitened pools up to this size are kept; larger ones are whitened again when needed."""
EVEN = Threshold(value=0.5, mean=0.0, std=0.2)
"""Where old and novel classes hold the same share of a sample, and how far around that is ambiguous."""


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
class Prototypes:
    """Novel classes, as sums of the directions of what they hold.

    Attributes
    ----------
    sums, mass
        Of each class, the sum of the directions and the weight that it rests on.
    won
        What each anchor adds to each sum (anchors, classes), so that nothing is judged by itself.
    odds
        How much more frequent a novel class is than an old one in this pool, as a logarithm.
    shares
        Of the anchors, by which the prototypes came about (anchors, old and novel classes).
    voting
        Whether neighbours count yet.
    """

    sums: Tensor
    mass: Tensor
    won: Tensor
    odds: float
    shares: Tensor
    voting: bool


class Space:
    """Directions in the whitened space of a head: of the pool, of known samples and of the old classes."""

    def __init__(self, head: Ridge, agent: "Agent", pool: Pool) -> None:
        self._head, self._pool, self._device = head.shrunk(SHRINK), pool, agent.device
        self.old = normalize(self._head.whitened_means()[: len(agent.names)], dim=1)
        self._kept: Tensor | None = None
        every = np.arange(len(pool))
        rng = generator(agent.seed, agent.version + 1, 0, "anchors")
        self.anchors = np.sort(rng.permutation(len(pool))[:ANCHORS])
        self.anchor_directions = torch.cat([U for _, U in self.chunks(self.anchors)])
        known = agent.replay.samples()
        self.neighbours = Neighbours(
            self.anchors, self.anchor_directions, self.directions(known.X.float()), known.y
        )
        self._nearest = Nearest.joined([self.neighbours.of(U, every[part]) for part, U in self.chunks(every)])
        places = np.searchsorted(self.anchors, every).clip(max=len(self.anchors) - 1)
        self._place = torch.from_numpy(np.where(self.anchors[places] == every, places, -1)).to(agent.device)
        self.validation = self.directions(agent.validation.X)
        self.nearest_of_validation = self.neighbours.of(self.validation)
        cosines = self.validation @ self.old.T
        own = cosines.gather(1, agent.validation.y[:, None])[:, 0]
        self.likeness = float(own.mean().clamp(0.01, 0.99)) ** 2
        """Expected cosine of two samples of one class: the square of that of a sample and its class."""
        self.sharpness = _sharpness(cosines, agent.validation.y)
        self.angle = Scale.of(1 - cosines.max(dim=1).values)
        self.crowd = Scale.of(self.nearest_of_validation.crowding)

    def directions(self, X: Tensor) -> Tensor:
        return normalize(self._head.whiten(X), dim=1)

    def chunks(self, rows: IntArray) -> Iterator[tuple[slice, Tensor]]:
        """Directions of pool rows, in chunks."""
        if self._kept is None and len(self._pool) * self.old.shape[1] * 4 <= KEEP_BYTES:
            every = np.arange(len(self._pool))
            self._kept = torch.cat([self.directions(X) for _, X in self._pool.chunks(every, self._device)])
        if self._kept is not None:
            yield slice(0, len(rows)), self._kept[torch.from_numpy(rows).to(self._device)]
            return
        for part, X in self._pool.chunks(rows, self._device):
            yield part, self.directions(X)

    def around(self, rows: IntArray) -> Nearest:
        """Neighbours of pool rows."""
        return self._nearest.take(torch.from_numpy(rows).to(self._device))

    def won(self, rows: IntArray, found: Prototypes) -> Tensor:
        """What pool rows have added to the prototypes: nothing, unless they are anchors."""
        place = self._place[torch.from_numpy(rows).to(self._device)]
        return found.won[place.clamp(min=0)] * (place >= 0)[:, None]

    def novelty(self, directions: Tensor, nearest: Nearest) -> Tensor:
        """Two views, in deviations of known samples: the angle to the nearest old class and the crowd."""
        angle = 1 - (directions @ self.old.T).max(dim=1).values
        return self.angle.deviations(angle) + self.crowd.deviations(nearest.crowding)


class PrototypeLearner:
    """Novelty: far from old classes, in a crowd of its own; later, the share that novel classes hold."""

    def __init__(self, agent: "Agent", pool: Pool) -> None:
        self._agent, self._pool, self._n_old = agent, pool, len(agent.names)
        self._accepted = Accepted(*(np.empty(0, np.int64) for _ in range(3)))
        self._last = False
        self._shares: tuple[IntArray, FloatArray] | None = None

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        self._last = last
        space = self._home
        if not self._novel():
            parts = [space.novelty(U, space.around(rows[part])) for part, U in space.chunks(rows)]
            known = space.novelty(space.validation, space.nearest_of_validation)
            return Scored(_joined(parts).cpu().numpy(), np.full(len(rows), -1), known)
        found = self._refined(space)
        if last:
            space = Space(self._taught(space, found), self._agent, self._pool)
            found = self._refined(space)
        shares = _joined(
            [
                self._share(space, U, space.around(rows[part]), found, space.won(rows[part], found))
                for part, U in space.chunks(rows)
            ]
        )
        known = self._share(space, space.validation, space.nearest_of_validation, found)
        self._shares = rows, shares.cpu().numpy()
        classes = self._numbers()[shares.argmax(dim=1).cpu().numpy()] if len(rows) else np.empty(0, np.int64)
        novel = [s[:, self._n_old :].sum(dim=1) for s in (shares, known)]
        return Scored(novel[0].cpu().numpy(), classes, novel[1], EVEN)

    # -- the space -----------------------------------------------------------------------------------------

    @cached_property
    def _home(self) -> Space:
        """The space of the agent as it is."""
        return Space(cast("Ridge", self._agent.head), self._agent, self._pool)

    def _taught(self, space: Space, found: Prototypes) -> Ridge:
        """The agent's head with what the anchors are taken for, so that novel classes shape the space too."""
        held = (found.shares.max(dim=1).values > 0.5).cpu().numpy()
        X = self._pool.take(space.anchors[held], self._agent.device)
        n_classes = found.shares.shape[1]
        none = Samples(X[:0], torch.empty(0, dtype=torch.int64, device=X.device))
        believed = Samples(X, found.shares[torch.from_numpy(held).to(X.device)])
        head = cast("Ridge", self._agent.head)
        return head.learn(Lesson(n_classes, none, believed, none), np.random.default_rng(0))

    # -- the competition -----------------------------------------------------------------------------------

    def _novel(self) -> list[int]:
        return np.unique(self._accepted.of(True, self._n_old)[1]).tolist()

    def _numbers(self) -> IntArray:
        """The class of each column of the shares."""
        return np.concatenate([np.arange(self._n_old), self._novel()]).astype(np.int64)

    def _refined(self, space: Space) -> Prototypes:
        """Prototypes of the novel classes, after a few rounds of winning anchors."""
        answered, classes = self._accepted.of(True, self._n_old)
        column = torch.from_numpy(np.searchsorted(self._novel(), classes)).to(self._agent.device)
        labels = one_hot(column, len(self._novel())).float()
        said = torch.zeros(labels.shape[1], space.old.shape[1], device=self._agent.device)
        for part, U in space.chunks(answered):
            said += labels[part].T @ U
        counts = labels.sum(dim=0)
        anchors, around = space.anchor_directions, space.around(space.anchors)
        nothing = torch.zeros(len(anchors), len(counts)).to(said)
        found = Prototypes(said, counts, won=nothing, odds=0.0, shares=nothing, voting=False)
        for turn in range(REFINEMENTS):
            shares = self._certain(space, self._share(space, anchors, around, found, found.won))
            novel = shares[:, self._n_old :]
            won = novel * (novel > LEAST_SHARE)
            found = Prototypes(
                sums=won.T @ anchors + (ANSWER_WEIGHT - 1) * said,
                mass=won.sum(dim=0) + (ANSWER_WEIGHT - 1) * counts,
                won=won,
                odds=self._odds(space, novel, found, len(answered)),
                shares=shares,
                voting=turn > 0,
            )
        return found

    def _odds(self, space: Space, novel: Tensor, found: Prototypes, least: int) -> float:
        """How frequent novel classes are: what they hold of the pool beyond what they hold of known samples."""
        known = self._share(space, space.validation, space.nearest_of_validation, found)
        mistaken = min(0.95, float(known[:, self._n_old :].sum(dim=1).mean()))
        n, n_novel = len(novel), novel.shape[1]
        frequent = (float(novel.sum()) - n * mistaken) / (1 - mistaken)
        frequent = min(max(frequent, least), 0.9 * n)
        return math.log(frequent / n_novel) - math.log((n - frequent) / self._n_old)

    def _certain(self, space: Space, shares: Tensor) -> Tensor:
        """Shares of the anchors, where an answered one is its class's alone."""
        places = np.searchsorted(space.anchors, self._accepted.rows).clip(max=len(space.anchors) - 1)
        told = (self._accepted.human == 1) & (space.anchors[places] == self._accepted.rows)
        column = np.searchsorted(self._numbers(), self._accepted.classes[told])
        shares[torch.from_numpy(places[told])] = one_hot(torch.from_numpy(column), shares.shape[1]).to(shares)
        return shares

    def _share(
        self, space: Space, U: Tensor, around: Nearest, found: Prototypes, won: Tensor | None = None
    ) -> Tensor:
        """What each class holds of each sample: softmax over cosines, the crowd, the neighbours and the odds.

        `won` is what the samples have added to the prototypes, which is taken off before they are compared.
        A prototype of few samples is noisy, which is made up for: with ρ the cosine expected of two samples of
        one class, the cosine to the mean of n samples is expected to be √(ρ / (ρ + (1 − ρ) / n)) of that to the
        true mean.
        """
        along, length = U @ found.sums.T, found.sums.square().sum(dim=1)
        if won is not None:
            along, length = along - won, length - 2 * won * along + won.square()
        rho = space.likeness
        fair = ((rho + (1 - rho) / found.mass.clamp(min=1)) / rho).sqrt()
        crowd = CROWD_WEIGHT * (space.crowd.deviations(around.crowding) - CROWD_EDGE) + found.odds
        novel = space.sharpness * along / length.clamp(min=1e-6).sqrt() * fair + crowd[:, None]
        logits = torch.cat([space.sharpness * (U @ space.old.T), novel], dim=1)
        if found.voting:
            logits += NEIGHBOUR_WEIGHT * space.neighbours.votes(around, found.shares)
        return torch.softmax(logits, dim=1)

    # -- the rest of the contract --------------------------------------------------------------------------

    def learn(self, accepted: Accepted, iteration: int) -> None:
        """Take over the answers; prototypes are refined when the pool is scored."""
        del iteration
        self._accepted, self._shares = accepted, None

    def probabilities(self, rows: IntArray) -> FloatArray:
        """The share of each row that each class holds."""
        if self._shares is None or not np.isin(rows, self._shares[0]).all():
            space = self._home
            if not self._novel():
                parts = [
                    torch.softmax(space.sharpness * (U @ space.old.T), dim=1) for _, U in space.chunks(rows)
                ]
                return _joined(parts).cpu().numpy()
            self.score(rows, self._last)
        assert self._shares is not None
        known, shares = self._shares
        return shares[np.searchsorted(known, rows)]

    def features(self, rows: IntArray) -> FloatArray:
        return _joined([U for _, U in self._home.chunks(rows)]).cpu().numpy()

    def nearest_old(self, rows: IntArray) -> IntArray:
        space = self._home
        return _joined([(U @ space.old.T).argmax(dim=1) for _, U in space.chunks(rows)]).cpu().numpy()

    def state(self) -> dict[str, Tensor]:
        a = self._accepted
        arrays = {
            "rows": a.rows,
            "classes": a.classes,
            "human": a.human,
            "last": np.array([self._last], np.int64),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._accepted = Accepted(*(state[name].cpu().numpy() for name in ("rows", "classes", "human")))
        self._last = bool(state["last"].item())


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if parts else torch.empty(0)


def _sharpness(cosines: Tensor, y: Tensor) -> float:
    """The factor on cosines under which the known validation samples are likeliest, of 1 to 256."""
    factors = 2 ** torch.linspace(0, 8, 33)
    losses = torch.stack([cross_entropy(float(f) * cosines, y) for f in factors])
    return float(factors[int(losses.argmin())])
