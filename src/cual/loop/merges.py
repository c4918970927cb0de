"""Which classes are probably one: people may give one new class two names, or name a class by mistake.

Nothing is merged here: whoever answered tells the samples again with one name. Only answers and their
neighbourhoods count, no pseudo-labels: two names of one class compete for its samples, so what is believed of
them lies apart even where the answers do not.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray

from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.learners import Accepted
from cual.loop.machine import Composed
from cual.seeds import generator
from cual.types import FloatArray, IntArray, Label

SAMPLES = 200
"""Remembered samples of a known class, and answers of any class, that are looked at."""
CROWD = 5000
"""Samples of a pool that are looked at, besides the answers: enough to find neighbours among."""
NEIGHBOURS = 20
DRAWS = 150
"""Pairs of each kind, one class and two classes, by which a likeness becomes a probability."""
SIZES = (1, 2, 4, 8, 16)
"""Answers of a class, as they are calibrated: the largest size that there are answers for."""
OF_KNOWN = 50
"""Samples that stand for a known class."""
GUESSED = 2.0
"""The likeness within a class of few answers is what it usually is, as if so many answers had said it."""


@dataclass(frozen=True)
class Merge:
    """Two names, and how probable it is that they are one class.

    Attributes
    ----------
    a, b
        The classes; `a` is new and has not more answers than `b`, unless `b` was known before.
    answers_a, answers_b
        Answers of this adaptation that name each.

    >>> print(Merge("Woods", "Forest", 0.87, 3, 5))
    "Woods" (3 answers) and "Forest" (5 answers) are probably one class (87 %). If so, tell the samples of one \
again with the other's name, before finish.
    """

    a: Label
    b: Label
    probability: float
    answers_a: int
    answers_b: int

    @property
    def probable(self) -> bool:
        return self.probability > 0.5

    def __str__(self) -> str:
        chance = f"{100 * self.probability:.0f} %"
        if self.answers_a == 1 and self.answers_b != 1:
            return (
                f'One answer says "{self.a}" among samples that are called "{self.b}" ({chance}): '
                "a mistake, or two names for one class? If so, tell it again as the other, before finish."
            )
        return (
            f'"{self.a}" ({_counted(self.answers_a)}) and "{self.b}" ({_counted(self.answers_b)}) are '
            f"{'probably' if self.probable else 'probably not'} one class ({chance}). "
            "If so, tell the samples of one again with the other's name, before finish."
        )


def _counted(answers: int) -> str:
    return f"{answers} answer{'s' if answers > 1 else ''}" if answers else "known before"


def compared(agent: Composed, pool: Pool, accepted: Accepted, names: ClassNames) -> list[Merge]:
    """Every new class that answers name with every other one and with every known one, the most probable first.

    What is known decides what a likeness means, so of an agent that remembers fewer than two classes nothing is
    said. Before looking, a name is as likely a second name for one of the others as a class of its own.

    Parameters
    ----------
    agent
        The one that the adaptation started from.
    accepted, names
        What was accepted so far, and the classes by number.
    """
    accepted = accepted.take(_looked_at(accepted))
    rows, classes = accepted.rows, accepted.classes
    new = [c for c in np.unique(classes).tolist() if c >= len(agent.names)]
    if not new:
        return []
    crowd = _Crowd(agent, pool, rows)
    known = crowd.known
    if len(known) < 2:
        return []
    answers = {c: crowd.answers[classes == c] for c in new}
    counts = np.bincount(classes, minlength=len(names))
    new.sort(key=lambda c: (counts[c], -c))
    prior = -math.log(len(new) - 1 + len(known))
    merges: list[Merge] = []
    for place, a in enumerate(new):
        others = {c: answers[c] for c in new[place + 1 :]} | {c: r[:OF_KNOWN] for c, r in known.items()}
        for b, theirs in others.items():
            odds = crowd.evidence(answers[a], theirs, b in known) + prior
            probability = torch.sigmoid(torch.tensor(odds, dtype=torch.float64)).item()
            merges.append(Merge(names.names[a], names.names[b], probability, int(counts[a]), int(counts[b])))
    return sorted(merges, key=lambda merge: -merge.probability)


def _looked_at(accepted: Accepted) -> IntArray:
    """Places of the answers, of each class the first so many."""
    answers = np.flatnonzero(accepted.human == 1)
    order = np.argsort(accepted.classes[answers], kind="stable")
    classes = accepted.classes[answers][order]
    rank = np.arange(len(classes)) - np.searchsorted(classes, classes)
    return np.sort(answers[order[rank < SAMPLES]])


class _Crowd:
    """Answers among remembered samples and samples of the pool, as directions from the middle of the pool.

    From the middle, because new classes have in common that they are unlike the known ones.
    """

    def __init__(self, agent: Composed, pool: Pool, rows: IntArray) -> None:
        self._generator = partial(generator, agent.seed, agent.version + 1, purpose="merges")
        rng = self._generator(0)
        memory = agent.replay.samples()
        y = memory.y.cpu().numpy()
        drawn = [rng.permutation(np.flatnonzero(y == c))[:SAMPLES] for c in range(len(agent.names))]
        remembered = np.concatenate([mine if len(mine) > 1 else mine[:0] for mine in drawn])
        others = rng.permutation(np.setdiff1d(np.arange(len(pool)), rows))[:CROWD]
        everything = torch.cat(
            [memory.X.cpu()[torch.from_numpy(remembered)].float(), pool.take(rows), pool.take(others)]
        )
        learner = agent.method.learner.begin(agent, Pool(everything))
        features = learner.features(np.arange(len(everything)))
        features = features - features[len(remembered) :].mean(axis=0)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        self._directions: FloatArray = features / np.maximum(lengths, 1e-12)
        self.answers: IntArray = len(remembered) + np.arange(len(rows))
        """Places of the answers."""
        self.known: Mapping[int, IntArray] = {
            c: np.flatnonzero(y[remembered] == c) for c in np.unique(y[remembered]).tolist()
        }
        """Places of the remembered samples of each known class, in a random order."""
        self._calibrated: dict[tuple[int, int], _Calibration] = {}

    @cached_property
    def _neighbours(self) -> IntArray:
        """Of remembered samples and answers, each one's nearest samples."""
        U = self._directions
        places = np.arange(int(self.answers[-1]) + 1)
        parts = np.array_split(places, 1 + len(places) // 500)
        return np.concatenate([_nearest(U, part, min(NEIGHBOURS + 1, len(U))) for part in parts])

    @cached_property
    def _views(self) -> list["_View"]:
        """Samples alone, and with their neighbours."""
        U = self._directions
        together = np.stack([U[places].sum(axis=0) for places in self._neighbours])
        return [_View.of(U, 1, self.known), _View.of(together, self._neighbours.shape[1], self.known)]

    @cached_property
    def _atypical(self) -> Mapping[int, IntArray]:
        """Of each known class the half that is less like it: answers are asked for because they are hard."""
        U = self._directions
        order = {c: places[np.argsort(U[places] @ U[places].mean(axis=0))] for c, places in self.known.items()}
        return {c: places[: max(2, len(places) // 2)] for c, places in order.items()}

    def _alike(self, a: IntArray, b: IntArray) -> FloatArray:
        """How alike samples are, how alike their surroundings are, and what share of these they have both."""
        around_a, around_b = np.unique(self._neighbours[a]), np.unique(self._neighbours[b])
        shared = len(np.intersect1d(around_a, around_b)) / min(len(around_a), len(around_b))
        return np.array([*(view.alike(a, b) for view in self._views), shared], dtype=np.float32)

    def evidence(self, a: IntArray, b: IntArray, known: bool) -> float:
        """How much likelier samples `a` and `b` are of one class than of two, as a logarithm."""
        sizes = _size(len(a)), OF_KNOWN if known else _size(len(b))
        if sizes not in self._calibrated:
            self._calibrated[sizes] = self._calibration(*sizes)
        return self._calibrated[sizes].evidence(self._alike(a, b))

    def _calibration(self, n_a: int, n_b: int) -> "_Calibration":
        """What known classes say: samples of one class, and of two, in these numbers."""
        rng = self._generator(1000 * n_a + n_b)
        classes = list(self.known)
        same: list[FloatArray] = []
        different: list[FloatArray] = []
        for _ in range(DRAWS):
            one, two = rng.choice(classes, 2, replace=False).tolist()
            others = self.known if n_b == OF_KNOWN else self._atypical
            a = rng.permutation(self._atypical[one])
            a = a[: min(n_a, len(a) // 2)]
            mine, theirs = rng.permutation(others[one]), rng.permutation(others[two])
            same.append(self._alike(a, mine[~np.isin(mine, a)][:n_b]))
            different.append(self._alike(a, theirs[:n_b]))
        return _Calibration.of(np.array(same), np.array(different))


def _nearest(U: FloatArray, places: IntArray, k: int) -> IntArray:
    """The k samples that are most like each, itself among them."""
    return torch.from_numpy(U[places] @ U.T).topk(k, dim=1).indices.numpy()


def _size(n: int) -> int:
    return max(size for size in SIZES if size <= n)


@dataclass(frozen=True)
class _View:
    """Samples, or groups of `size` samples each, by the sum of their directions.

    Attributes
    ----------
    within
        The mean cosine of two samples of one known class.
    """

    sums: FloatArray
    size: int
    within: float

    @classmethod
    def of(cls, sums: FloatArray, size: int, known: Mapping[int, IntArray]) -> "_View":
        return cls(
            sums, size, float(np.mean([_inside(sums[rows], size * len(rows)) for rows in known.values()]))
        )

    def alike(self, a: IntArray, b: IntArray) -> float:
        """The cosine of two classes: between their samples, over that within each, which cancels noise."""
        between = self.sums[a].mean(axis=0) @ self.sums[b].mean(axis=0) / self.size**2
        return float(between / np.sqrt(self._within(a) * self._within(b)))

    def _within(self, rows: IntArray) -> float:
        n = self.size * len(rows)
        inside = _inside(self.sums[rows], n) if n > 1 else 0.0
        weight = n - 1
        return max((weight * inside + GUESSED * self.within) / (weight + GUESSED), self.within / 10, 1e-3)


def _inside(sums: FloatArray, n: int) -> float:
    """The mean cosine of two of n samples whose directions add up to `sums`, none with itself."""
    total = sums.sum(axis=0)
    return float((total @ total - n) / (n * (n - 1)))


@dataclass(frozen=True)
class _Calibration:
    """A logistic regression: from likenesses to the odds of one class, both kinds being equally frequent."""

    mean: FloatArray
    std: FloatArray
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, same: FloatArray, different: FloatArray, ridge: float = 1.0, steps: int = 25) -> "_Calibration":
        """Newton's method; `ridge` keeps weights finite where the kinds lie apart."""
        alike = np.concatenate([same, different])
        mean, std = alike.mean(axis=0), alike.std(axis=0) + 1e-6
        X = np.column_stack([(alike - mean) / std, np.ones(len(alike))])
        y = np.repeat([1.0, 0.0], [len(same), len(different)])
        penalty = ridge * np.eye(X.shape[1])
        penalty[-1, -1] = 1e-6
        weights = np.zeros(X.shape[1])
        for _ in range(steps):
            p = 1 / (1 + np.exp(-X @ weights))
            hessian = (X * (p * (1 - p))[:, None]).T @ X + penalty
            weights = weights - np.linalg.solve(hessian, X.T @ (p - y) + penalty @ weights)
        return cls(mean, std, weights)

    def evidence(self, alike: FloatArray) -> float:
        return float(((alike - self.mean) / self.std) @ self.weights[:-1] + self.weights[-1])
