"""A_s of cual-plus: the whole pool is labelled at once, old and novel classes competing for every sample.

Classes are directions (prototypes) in the space that the ridge head whitens. Old ones are known. Novel ones,
and old ones of which too little is known, start from the answers and are refined by what they win in the pool.
What a sample's neighbours are, known samples or others of the pool, counts as well (`cual.neighbours`). Whom to
ask is decided elsewhere.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, one_hot, pad

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
"""Rounds in which prototypes win samples and move; neighbours count from the third on."""
ANSWER_WEIGHT = 3.0
"""What a person's answer counts in a prototype, against 1 for a sample that was only won."""
LEAST_SHARE = 0.3
"""A sample moves a prototype only if the class holds at least this share of it."""
NEIGHBOUR_WEIGHT = 3.0
"""What it counts, in logits, if all neighbours of a sample are of one class."""
CROWD_WEIGHT = 2.0
"""What a deviation of `Neighbours.crowding` counts, in logits, for classes that are still being learned."""
CROWD_EDGE = 0.8
"""Deviations of crowding that speak neither for nor against them."""
FEW = 100
"""An old class of fewer samples (if all are small, than a quarter of the largest) goes on being learned if an
answer names it …"""
CONTRADICTED = 2
"""… and any old class does if so many answers name it although their samples look novel …"""
LOOKS_NOVEL = 2.0
"""… by this many deviations of crowding."""
KNOWN_WEIGHT = 12.0
"""What is known of such a class counts in its prototype as at most so many samples."""
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
    """The classes that are still being learned, as sums of the directions of what they hold.

    Attributes
    ----------
    columns
        Which columns of the shares they are, ascending.
    sums, mass
        Of each class, the sum of the directions and the weight that it rests on.
    odds
        How much more frequent a novel class is than an old one in this pool, as a logarithm.
    shares
        Of the anchors, by which the prototypes came about (anchors, old and novel classes).
    voting
        Whether neighbours count yet.
    """

    columns: Tensor
    sums: Tensor
    mass: Tensor
    odds: float
    shares: Tensor
    voting: bool


@dataclass(frozen=True)
class Seen:
    """Samples as the competition sees them: directions, cosines to the old classes, and neighbours."""

    directions: Tensor
    to_old: Tensor
    nearest: Nearest


class Space:
    """Directions in the whitened space of a head: of the pool, of known samples and of the old classes."""

    def __init__(self, head: Ridge, agent: "Agent", pool: Pool) -> None:
        self._head, self._pool, self._device = head.shrunk(SHRINK), pool, agent.device
        self.old = normalize(self._head.whitened_means()[: len(agent.names)], dim=1)
        self._kept: Tensor | None = None
        every = np.arange(len(pool))
        rng = generator(agent.seed, agent.version + 1, 0, "anchors")
        self.anchors = np.sort(rng.permutation(len(pool))[:ANCHORS])
        known, held = agent.replay.samples(), self.directions(agent.validation.X)
        directions = torch.cat([*(U for _, U in self.chunks(self.anchors)), held])
        anchors = directions[: len(self.anchors)]
        self.neighbours = Neighbours(self.anchors, anchors, self.directions(known.X.float()), known.y)
        self._nearest = Nearest.joined([self.neighbours.of(U, every[part]) for part, U in self.chunks(every)])
        around = Nearest.joined([self._around(self.anchors), self.neighbours.of(held)])
        self.anchors_and_validation = Seen(directions, directions @ self.old.T, around)
        """One after the other, because the competition always looks at both."""
        cosines, y = self.anchors_and_validation.to_old[len(anchors) :], agent.validation.y
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
        if self._kept is None and len(self._pool) * self.old.shape[1] * 4 <= KEEP_BYTES:
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
        angle = 1 - seen.to_old.max(dim=1).values
        return self.angle.deviations(angle) + self.crowd.deviations(seen.nearest.crowding)


class PrototypeLearner:
    """Novelty: far from old classes, in a crowd of its own; later, the share that novel classes hold."""

    def __init__(self, agent: "Agent", pool: Pool) -> None:
        self._agent, self._pool, self._n_old = agent, pool, len(agent.names)
        self._accepted = Accepted(*(np.empty(0, np.int64) for _ in range(3)))
        self._last = False
        self._shares: FloatArray | None = None

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        self._last, space = last, self._home
        if self._novel():
            shares, known = self._compete()
            return Scored(shares[rows][:, self._n_old :].sum(axis=1), self._classes(rows), known, EVEN)
        novelty = _joined([space.novelty(seen) for seen in space.seen()]).cpu().numpy()
        known = space.novelty(space.anchors_and_validation)[len(space.anchors) :]
        classes = self._classes(rows) if last and len(self.learning()) else np.full(len(rows), -1)
        return Scored(novelty[rows], classes, known)

    def _compete(self) -> tuple[FloatArray, Tensor]:
        """What each class holds of the pool, and what novel ones hold of the validation set."""
        space = self._home
        found = self._refined(space)
        if self._last:
            space = Space(self._taught(space, found), self._agent, self._pool)
            found = self._refined(space)
        self._shares = _joined([self._share(space, seen, found) for seen in space.seen()]).cpu().numpy()
        known = self._share(space, space.anchors_and_validation, found)[len(space.anchors) :]
        return self._shares, known[:, self._n_old :].sum(dim=1)

    def _classes(self, rows: IntArray) -> IntArray:
        """The likeliest class of each row."""
        return self._numbers()[self.probabilities(rows).argmax(axis=1)]

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

    def learning(self) -> IntArray:
        """Old classes in the pool of which too little is known, or something that the answers contradict."""
        rows, classes = self._accepted.old(self._n_old)
        if not len(rows):
            return np.empty(0, np.int64)
        counts = cast("Ridge", self._agent.head).counts[: self._n_old].cpu().numpy()
        few = counts < min(FEW, counts.max() / 4)
        surprising = (self._home.crowdedness(rows) > LOOKS_NOVEL).cpu().numpy()
        named, contradicted = (np.bincount(c, minlength=self._n_old) for c in (classes, classes[surprising]))
        return np.flatnonzero((few & (named > 0)) | (contradicted >= CONTRADICTED))

    def _refined(self, space: Space) -> Prototypes:
        """Prototypes of the classes that are still being learned, after a few rounds of winning anchors."""
        learning, device = self.learning(), self._agent.device
        classes = np.concatenate([learning, self._novel()]).astype(np.int64)
        told = (self._accepted.human == 1) & np.isin(self._accepted.classes, classes)
        column = torch.from_numpy(np.searchsorted(classes, self._accepted.classes[told])).to(device)
        labels = one_hot(column, len(classes)).float()
        said = torch.zeros(len(classes), space.old.shape[1], device=device)
        for part, U in space.chunks(self._accepted.rows[told]):
            said += labels[part].T @ U
        known, weight = self._known(space, learning, len(classes))
        counts, n = labels.sum(dim=0), len(space.anchors)
        anchors = space.anchors_and_validation.directions[:n]
        n_validation = len(space.anchors_and_validation.directions) - n
        columns = torch.from_numpy(np.searchsorted(self._numbers(), classes)).to(device)
        found = Prototypes(
            columns, known + said, weight + counts, odds=0.0, shares=anchors[:, :0], voting=False
        )
        for turn in range(REFINEMENTS):
            shares, of_known = self._share(space, space.anchors_and_validation, found).split((n, n_validation))
            shares = self._certain(space, shares)
            won = shares[:, columns]
            won = won * (won > LEAST_SHARE)
            found = Prototypes(
                columns,
                sums=known + won.T @ anchors + (ANSWER_WEIGHT - 1) * said,
                mass=weight + won.sum(dim=0) + (ANSWER_WEIGHT - 1) * counts,
                odds=self._odds(shares[:, self._n_old :], of_known[:, self._n_old :]),
                shares=shares,
                voting=turn > 0,
            )
        return found

    def _known(self, space: Space, learning: IntArray, n: int) -> tuple[Tensor, Tensor]:
        """What was known before of `n` classes, the first of which are `learning`: sums of directions, weights.

        The sum of k directions that are alike by ρ is expected to be √(k + k (k − 1) ρ) long.
        """
        counts = cast("Ridge", self._agent.head).counts[torch.from_numpy(learning)]
        k = counts.float().clamp(1.0, KNOWN_WEIGHT)
        length = (k + k * (k - 1) * space.likeness).sqrt()
        sums = torch.zeros(n, space.old.shape[1], device=k.device)
        sums[: len(k)] = length[:, None] * space.old[torch.from_numpy(learning)]
        return sums, pad(k, (0, n - len(k)))

    def _odds(self, novel: Tensor, of_known: Tensor) -> float:
        """How frequent novel classes are: what they hold of the pool beyond what they hold of known samples."""
        n, n_novel = novel.shape
        if not n_novel:
            return 0.0
        mistaken = min(0.95, float(of_known.sum(dim=1).mean()))
        frequent = (float(novel.sum()) - n * mistaken) / (1 - mistaken)
        frequent = min(max(frequent, len(self._accepted.of(True, self._n_old)[0])), 0.9 * n)
        return math.log(frequent / n_novel) - math.log((n - frequent) / self._n_old)

    def _certain(self, space: Space, shares: Tensor) -> Tensor:
        """Shares of the anchors, where an answered one is its class's alone."""
        places = np.searchsorted(space.anchors, self._accepted.rows).clip(max=len(space.anchors) - 1)
        told = (self._accepted.human == 1) & (space.anchors[places] == self._accepted.rows)
        column = np.searchsorted(self._numbers(), self._accepted.classes[told])
        shares[torch.from_numpy(places[told])] = one_hot(torch.from_numpy(column), shares.shape[1]).to(shares)
        return shares

    def _share(self, space: Space, seen: Seen, found: Prototypes) -> Tensor:
        """What each class holds of each sample: softmax over cosines, the crowd, the neighbours and the odds.

        A prototype of few samples is noisy, which is made up for: with ρ the cosine expected of two samples of
        one class, the cosine to the mean of n samples is expected to be √(ρ / (ρ + (1 − ρ) / n)) of that to the
        true mean.
        """
        rho = space.likeness
        fair = ((rho + (1 - rho) / found.mass.clamp(min=1)) / rho).sqrt()
        crowd = CROWD_WEIGHT * (space.crowd.deviations(seen.nearest.crowding) - CROWD_EDGE)
        cosines = seen.directions @ (normalize(found.sums, dim=1) * fair[:, None]).T
        logits = space.sharpness * pad(seen.to_old, (0, len(self._novel())))
        logits[:, found.columns] = space.sharpness * cosines + crowd[:, None]
        logits[:, self._n_old :] += found.odds
        if found.voting:
            logits += NEIGHBOUR_WEIGHT * space.neighbours.votes(seen.nearest, found.shares)
        return torch.softmax(logits, dim=1)

    # -- the rest of the contract --------------------------------------------------------------------------

    def learn(self, accepted: Accepted, iteration: int) -> None:
        """Take over the answers; prototypes are refined when the pool is scored."""
        del iteration
        self._accepted, self._shares = accepted, None

    def probabilities(self, rows: IntArray) -> FloatArray:
        """The share of each row that each class holds."""
        if self._shares is not None:
            return self._shares[rows]
        if self._novel() or (self._last and len(self.learning())):
            return self._compete()[0][rows]
        space = self._home
        parts = [torch.softmax(space.sharpness * seen.to_old, dim=1) for seen in space.seen()]
        return _joined(parts).cpu().numpy()[rows]

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
