"""The space of cual-plus: directions under a head's whitening, of known samples, of old classes and of a pool.

Here is measured; what the measures make of a sample is decided in `competition`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from cual.data.pool import Pool, chunks
from cual.graph import Value, cannot
from cual.heads import DrawsWhitening, Whitens
from cual.learners.base import Knowledge
from cual.learners.prototypes.drift import Moved, shared_shift
from cual.learners.prototypes.neighbours import BLOCK, Nearest, Neighbours, PoolNearest
from cual.learners.prototypes.options import PrototypeOptions
from cual.learners.prototypes.search import most_alike
from cual.seeds import generator
from cual.types import IntArray
from cual.uncertainty import Threshold, at_rate

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of something over the known validation samples, to measure others by.

    >>> scale = Scale.of(torch.tensor([1.0, 3.0]))
    >>> scale, scale.deviations(torch.tensor([5.0]))
    (Scale(mean=2.0, std=1.0), tensor([3.]))
    """

    mean: float
    std: float

    @classmethod
    def of(cls, values: Tensor) -> "Scale":
        if not len(values):
            return cls(0.0, 1.0)
        return cls(float(values.mean()), max(float(values.std(correction=0)), 1e-6))

    def deviations(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std


@dataclass(frozen=True)
class Seen:
    """Samples as the competition sees them.

    Attributes
    ----------
    directions, to_old
        Directions, and cosines to the old classes.
    nearest
        Neighbours.
    strange
        How strange their surroundings are, in deviations of known samples.
    """

    directions: Tensor
    to_old: Tensor
    nearest: Nearest
    strange: Tensor


# -- work on a chunk of features, which can be sent to other processes -----------------------------------------


@dataclass(frozen=True)
class OnDirections:
    """Work on the directions of features."""

    head: Whitens | Moved
    work: Callable[..., Any]

    def __call__(self, X: Tensor, *others: Any) -> Any:
        return self.work(normalize(self.head.whiten(X), dim=1), *others)


@dataclass(frozen=True)
class OnSeen:
    """Work on samples as the competition sees them; `old` are the directions of the old classes."""

    old: Tensor
    work: Callable[[Seen], Any]

    def __call__(self, U: Tensor, nearest: Nearest, strange: Tensor) -> Any:
        return self.work(Seen(U, U @ self.old.T, nearest, strange))


@dataclass(frozen=True)
class NoveltyOf:
    """How novel features look, `at_once` rows at a time, whose cosines to all known samples are held."""

    detector: "KnownSpace"
    at_once: int

    def __call__(self, X: Tensor) -> Tensor:
        return torch.cat([self.detector.novelty(part) for part in X.split(self.at_once)])


class KnownSpace:
    """Known samples and old classes in the whitened space: what can be said of a sample without a pool.

    Three views, each in deviations of the known validation samples and added up: the angle to the nearest old
    class, the distance to its mean (which sees lengths, too), and the angle to the nearest known samples.
    """

    def __init__(self, head: Whitens, agent: Knowledge, part: PrototypeOptions) -> None:
        self._head = head.shrunk(part.shrink)
        self._nearest = part.neighbours
        self._means = self._head.whitened_means()[: len(agent.names)]
        self._old = normalize(self._means, dim=1)
        self._known = normalize(self._head.whiten(agent.replay.samples().X.float()), dim=1)
        views = self._views(agent.validation.X)
        self._scales = [Scale.of(view) for view in views]
        self._validation = self._sum(views)
        self._false_alarms = part.false_alarms

    @property
    def threshold(self) -> Threshold:
        """What the share `false_alarms` of known validation samples exceeds, at most."""
        return at_rate(self._validation, self._false_alarms)

    def novelty(self, X: Tensor) -> Tensor:
        return self._sum(self._views(X))

    def _sum(self, views: list[Tensor]) -> Tensor:
        deviations = [scale.deviations(view) for scale, view in zip(self._scales, views, strict=True)]
        return torch.stack(deviations).sum(dim=0)

    def _views(self, X: Tensor) -> list[Tensor]:
        whitened = self._head.whiten(X)
        directions = normalize(whitened, dim=1)
        views = [
            1 - (directions @ self._old.T).max(dim=1).values,
            torch.cdist(whitened, self._means).min(dim=1).values,
        ]
        if len(self._known):
            views.append(1 - most_alike(directions, self._known, self._nearest)[0].mean(dim=1))
        return views

    def draw(self, X: Value) -> Value:
        """What `novelty` computes, as a graph."""
        if not isinstance(self._head, DrawsWhitening):
            raise cannot(self._head, "does not say as a graph how it whitens (a method draw_whitened)")
        whitened = self._head.draw_whitened(X)
        directions = whitened.unit()
        alike = [(directions @ self._old.T).max(1)]
        if len(self._known):
            k = min(self._nearest, len(self._known))
            alike.append((directions @ self._known.T).top(k)[0].mean(1))
        apart = whitened.squared_distances(self._means).min(1).sqrt().to(np.float32)
        views = [alike[0] * -1.0 + 1.0, apart, *(view * -1.0 + 1.0 for view in alike[1:])]
        first, *others = [
            (view - scale.mean) / scale.std for scale, view in zip(self._scales, views, strict=True)
        ]
        return sum(others, first)


class Space:
    """Directions in the whitened space of a head: of the pool, of known samples and of the old classes.

    Of a pool that has `drifted`, the shift that all of it has made is taken away.
    """

    def __init__(
        self, head: Whitens, agent: Knowledge, pool: Pool, part: PrototypeOptions, drifted: bool = False
    ) -> None:
        self._head = head.shrunk(part.drift_shrink if drifted else part.shrink)
        self._pool = pool
        self._device = agent.device
        self._part = part
        self.drifted = drifted
        shift = shared_shift(self._head, agent, pool) if drifted else None
        self._lens: Whitens | Moved = self._head if shift is None else Moved(self._head, shift)
        self.old = normalize(self._head.whitened_means()[: len(agent.names)], dim=1)
        self._fits = len(pool) * self.old.shape[1] * 4 <= _room_on(agent.device, part.keep_bytes)
        self._kept: Tensor | None = None
        self.anchors, self.weights = self._chosen_anchors(agent)
        """Rows that represent the pool, and how many rows each of them stands for."""
        known = agent.replay.samples()
        self._remembered = self.directions(agent.unexplained.float())
        self._met_before = np.full(len(pool), -1, np.int8)
        """What `met_before` says of each row; −1 where nobody has asked yet."""
        held_out = self.directions(agent.validation.X)
        anchors = torch.cat([U for _, U in self.chunks(self.anchors)])
        of_known = self.directions(known.X.float())
        self.neighbours = Neighbours(self.anchors, anchors, of_known, known.y, part.neighbours)
        self._nearest = PoolNearest(len(pool), part.keep_bytes)
        for _, nearest in self.map(self.neighbours.of, beside=_row_numbers):
            self._nearest.append(nearest)
        around, of_known = self._nearest.take(self.anchors), self.neighbours.of(held_out)
        walk = self.neighbours.walk(around, part.walk)
        strange = self._walked(walk)
        strange[torch.from_numpy(self.anchors).to(strange.device)] = walk
        scale = Scale.of(_logit(self.neighbours.walked(of_known, walk, part.walk)))
        self._strange = scale.deviations(_logit(strange))
        strange_known = scale.deviations(_logit(self.neighbours.walked(of_known, walk, part.walk)))
        directions = torch.cat([anchors, held_out])
        self.anchors_and_validation = Seen(
            directions,
            directions @ self.old.T,
            Nearest.joined([around, of_known]),
            torch.cat([self.strangeness(self.anchors), strange_known]),
        )
        """One after the other, because the competition always looks at both."""
        cosines = self.anchors_and_validation.to_old[len(anchors) :]
        y = agent.validation.y
        own = cosines.gather(1, y[:, None])[:, 0]
        self.likeness = float(own.mean().clamp(0.01, 0.99)) ** 2
        """Expected cosine of two samples of one class: the square of that of a sample and its class."""
        self.sharpness = _sharpness(cosines, y)
        self.told_apart = (float((cosines.argmax(dim=1) == y).sum()) + 0.5) / (len(y) + 1)
        """Share of known validation samples that are nearest to their own class."""
        self.stranger = _stranger(self.sharpness * cosines, y) / self.sharpness
        """The cosine that a class which nobody has named yet is given to every sample."""

    def _walked(self, walk: Tensor) -> Tensor:
        """The chance that a walk ends by itself, for every row of the pool; `walk` is that of the anchors."""
        walked = torch.empty(len(self._pool), device=walk.device)
        for rows in chunks(len(self._pool), 4 * self._part.neighbours):
            walked[rows] = self.neighbours.walked(self._nearest.take(rows), walk, self._part.walk)
        return walked

    def _chosen_anchors(self, agent: Knowledge) -> tuple[IntArray, Tensor]:
        """All rows; of a large pool the most novel ones, and others at random, which stand for the rest."""
        n, most = len(self._pool), self._part.anchors
        if n <= most:
            return np.arange(n), torch.ones(n, device=self._device)
        at_once = n if self._fits and self._device.type == "cpu" else BLOCK
        look = NoveltyOf(KnownSpace(self._head, agent, self._part), at_once)
        novelty = torch.empty(
            n, device=self._device
        )  # small parts, kept among large ones, would hold on to those
        for rows, part in self._pool.map(look, None, self._device, self._room):
            novelty[rows] = part
        novel = novelty.topk(most // 2).indices.cpu().numpy()
        rng = generator(agent.seed, agent.version + 1, 0, "anchors")
        order = rng.permutation(n)[:most].copy()
        others = order[~np.isin(order, novel)][: most - len(novel)]
        rows = np.sort(np.concatenate([novel, others]))
        weights = np.where(np.isin(rows, novel), 1.0, (n - len(novel)) / max(1, len(others)))
        return rows, torch.from_numpy(weights).float().to(self._device)

    def directions(self, X: Tensor) -> Tensor:
        """Of samples that are known."""
        return normalize(self._head.whiten(X), dim=1)

    def _of_pool(self, X: Tensor) -> Tensor:
        """Directions of samples of the pool, without the shift that all of it has made."""
        return normalize(self._lens.whiten(X), dim=1)

    @property
    def _room(self) -> int:
        """Width of a chunk; where directions are not kept, with room for all that is made of them."""
        return 0 if self._fits else self._made

    @property
    def _made(self) -> int:
        """Of a chunk several tables are made, as wide as directions or with a column for each class."""
        classes, width = self.old.shape
        return 4 * max(width, 4 * (classes + self._part.neighbours))

    def _features(self, rows: IntArray | None = None) -> Iterator[tuple[slice, Tensor]]:
        return self._pool.chunks(rows, self._device, self._room)

    def chunks(self, rows: IntArray | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Directions of pool rows, or of all, in chunks."""
        if self._fits and self._kept is None:
            self._kept = torch.cat([self._of_pool(X) for _, X in self._features()])
        if self._kept is not None:
            if rows is None or np.array_equal(rows, np.arange(len(self._kept))):
                whole = [slice(0, len(self._kept))]
                for part in whole if self._device.type == "cpu" else chunks(len(self._kept), self._made):
                    yield part, self._kept[part]  # no copy
            else:
                yield slice(0, len(rows)), self._kept[torch.from_numpy(rows).to(self._device)]
            return
        for part, X in self._features(rows):
            yield part, self._of_pool(X)

    def map(
        self,
        work: Callable[..., T],
        rows: IntArray | None = None,
        beside: Callable[[slice], tuple[Any, ...]] = lambda part: (),
    ) -> Iterator[tuple[slice, T]]:
        """What `work` makes of the directions of pool rows, or of all, in chunks; as `Pool.map` does it.

        A pool whose directions are kept is worked on here.
        """
        if self._fits:
            for part, U in self.chunks(rows):
                yield part, work(U, *beside(part))
        else:
            yield from self._pool.map(OnDirections(self._lens, work), rows, self._device, self._room, beside)

    def map_seen(self, work: Callable[[Seen], T]) -> Iterator[tuple[slice, T]]:
        """What `work` makes of the whole pool, as the competition sees it, in chunks."""
        return self.map(
            OnSeen(self.old, work), beside=lambda rows: (self._nearest.take(rows), self._strange[rows])
        )

    def look(self, rows: IntArray) -> Seen:
        """Some rows of the pool."""
        U = joined([U for _, U in self.chunks(rows)]).reshape(len(rows), self.old.shape[1]).to(self._device)
        return Seen(U, U @ self.old.T, self._nearest.take(rows), self.strangeness(rows))

    def strangeness(self, rows: IntArray) -> Tensor:
        """How strange the surroundings of pool rows are, in deviations of known samples."""
        return self._strange[torch.from_numpy(rows).to(self._device)]

    def met_before(self, rows: IntArray) -> Tensor:
        """1 for pool rows whose nearest sample of known and unexplained ones is an unexplained one."""
        known = self.neighbours.known
        if not len(self._remembered) or not len(known):
            return torch.zeros(len(rows))
        new = rows[self._met_before[rows] < 0]
        for part, directions in self.chunks(new):
            nearer = [
                most_alike(U, self._remembered, 1)[0][:, 0] > most_alike(U, known, 1)[0][:, 0]
                for U in directions.split(4 * BLOCK)
            ]
            self._met_before[new[part]] = joined(nearer).cpu().numpy()
        return torch.from_numpy(self._met_before[rows]).float()

    def novelty_of_pool(self) -> Tensor:
        """How novel the pool looks before anything was answered: how strange its surroundings are."""
        return self._strange

    def novelty_of_validation(self) -> Tensor:
        return self.anchors_and_validation.strange[len(self.anchors) :]


def _room_on(device: torch.device, keep_bytes: int) -> int:
    """Bytes that directions may take: on a GPU, which is there for that, a sixteenth of its memory at least."""
    if device.type != "cuda":
        return keep_bytes
    return max(keep_bytes, torch.cuda.get_device_properties(device).total_memory // 16)


def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if parts else torch.empty(0)


def _sharpness(cosines: Tensor, y: Tensor) -> float:
    """The factor on cosines under which the known validation samples are likeliest, of 1 to 256."""
    factors = 2 ** torch.linspace(0, 8, 33)
    losses = torch.stack([cross_entropy(float(f) * cosines, y) for f in factors])
    return float(factors[int(losses.argmin())])


def _stranger(logits: Tensor, y: Tensor) -> float:
    """The logit of a class that has not been named: under which known samples, with and without their own class
    among the named ones, are likeliest.

    >>> round(_stranger(torch.tensor([[5.0, 0], [0, 5]]), torch.tensor([0, 1])), 1)
    2.5
    """
    own = logits.gather(1, y[:, None])[:, 0]
    every = logits.logsumexp(dim=1)
    others = logits.scatter(1, y[:, None], -torch.inf).logsumexp(dim=1)
    candidates = torch.linspace(0, max(float(own.max()), 1e-6), 101)
    losses = [
        float((torch.logaddexp(every, t.to(every)) - own + torch.logaddexp(others, t.to(every)) - t).mean())
        for t in candidates
    ]
    return float(candidates[int(np.argmin(losses))])


def _row_numbers(rows: slice) -> tuple[IntArray]:
    return (np.arange(rows.start, rows.stop),)


def _logit(chance: Tensor) -> Tensor:
    return torch.logit(chance.clamp(1e-3, 1 - 1e-3))
