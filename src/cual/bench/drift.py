"""How known classes change along a stream: what kind of drift, how strong, and features that have drifted.

Which rows a pool of another look holds is in `looks`; what a drifting run is measured by, in `drift_rows`.
"""

from dataclasses import dataclass

import numpy as np

from cual.errors import BadOption
from cual.seeds import generator
from cual.types import AnyArray, FloatArray

LOOKS = "looks"
"""The features file says of which look a row is."""
GIVEN = "given"
"""Whoever makes the data brings features of the same rows for every task: `cual.bench.runner.Data.changed`."""
SMOOTH = ("shift", "rotation", "scale")
"""Changes of features that the bench makes itself, from any file."""
KINDS = (LOOKS, *SMOOTH, GIVEN)
BOTH, DRIFT, NOVELTY = "both", "drift", "novelty"
POOLS = (BOTH, DRIFT, NOVELTY)


@dataclass(frozen=True)
class Drift:
    """What changes from task to task beside the classes.

    Parameters
    ----------
    kind
        "looks", or a smooth change: "shift", "rotation", "scale" (`Change`).
    looks
        Names of looks: of the one that the first classes are learned from, then of the one of each task. A look
        may come again. Without names, all looks of the file in the order of their names.
    strength
        How much stronger a smooth change is in each task than in the one before.
    pools
        What is unfamiliar about a pool: "drift" (no class is new), "novelty" (nothing drifts), or "both".

    >>> drift = Drift("shift", strength=0.5)
    >>> drift.named, [drift.amount(task) for task in (0, 1, 2)]
    (False, [0.0, 0.5, 1.0])
    >>> Drift("looks", pools="novelty").amount(3)
    0.0
    """

    kind: str
    looks: tuple[str, ...] = ()
    strength: float = 0.5
    pools: str = BOTH

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadOption(f"drift is one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.pools not in POOLS:
            raise BadOption(f"pools brings one of {', '.join(POOLS)}, not {self.pools!r}")
        if self.looks and self.kind != LOOKS:
            raise BadOption(f"looks are named, but the drift is {self.kind}; say drift {LOOKS}")
        if len(self.looks) == 1:
            raise BadOption(
                f"one look, {self.looks[0]!r}, has nothing to drift to; name that of each task, too"
            )
        if not 0 < self.strength < np.inf:
            raise BadOption(f"strength ({self.strength}) must be a number above 0")

    @property
    def named(self) -> bool:
        """Whether pools are of looks that the file names."""
        return self.kind == LOOKS

    def amount(self, task: int) -> float:
        """How strong a smooth change is in a task; it grows linearly, from nothing before the first."""
        return 0.0 if self.pools == NOVELTY else self.strength * task


@dataclass(frozen=True)
class Change:
    """A smooth change of features, by any amount, about the mean of the rows learned first.

    What one unit of amount is, says the kind. D is the deviation of the first rows: the root of the mean square
    of their distances from their mean, over all classes.

    shift
        Every sample moves by D in one direction, a random mixture of those in which the first rows vary.
    rotation
        Features turn in pairs, which the seed draws: every sample moves along an arc about the mean that is as
        long as its distance from it, so by D in the root of the mean square.
    scale
        Of every other feature, in an order that the seed draws, the deviation from the mean is multiplied by
        1 + amount; of the others it is divided by that.

    >>> X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    >>> turned = Change.of(X, "rotation", seed=0).at(X, np.pi)
    >>> mean = X.mean(axis=0)
    >>> bool(np.allclose(turned - mean, mean - X, atol=1e-5))  # half a turn
    True
    """

    kind: str
    mean: FloatArray
    deviation: float
    direction: FloatArray
    order: AnyArray

    @classmethod
    def of(cls, X: AnyArray, kind: str, seed: int) -> "Change":
        """The change that a seed draws for features whose first rows are `X`."""
        mean = X.mean(axis=0, dtype=np.float64)
        centred = X - mean
        deviation = float(np.sqrt(np.square(centred).sum(axis=1).mean()))
        rng = generator(seed, 0, 0, f"bench {kind}")
        direction = rng.standard_normal(len(X)) @ centred
        length = float(np.linalg.norm(direction))
        if not length:
            raise BadOption("the rows learned first are all alike: they have no deviation to measure drift in")
        unit = (direction / length).astype(np.float32)
        return cls(kind, mean.astype(np.float32), deviation, unit, rng.permutation(X.shape[1]))

    def at(self, X: AnyArray, amount: float) -> FloatArray:
        """Features as they look at an amount of change.

        >>> X = np.random.default_rng(0).normal(size=(50, 4))
        >>> change = Change.of(X, "shift", seed=0)
        >>> moved = change.at(X, 2.0)
        >>> bool(np.allclose(np.linalg.norm(moved - X, axis=1), 2 * change.deviation, rtol=1e-4))
        True
        """
        centred = X.astype(np.float32) - self.mean
        if self.kind == "shift":
            moved = centred + np.float32(amount * self.deviation) * self.direction
        elif self.kind == "rotation":
            moved = self._turned(centred, amount)
        else:
            moved = centred * self._gains(amount)
        return moved + self.mean

    def _turned(self, centred: FloatArray, angle: float) -> FloatArray:
        pairs = len(self.order) // 2  # of an odd number of features one stays
        one, two = self.order[:pairs], self.order[pairs : 2 * pairs]
        turned = centred.copy()
        cosine, sine = np.float32(np.cos(angle)), np.float32(np.sin(angle))
        turned[:, one] = cosine * centred[:, one] - sine * centred[:, two]
        turned[:, two] = sine * centred[:, one] + cosine * centred[:, two]
        return turned

    def _gains(self, amount: float) -> FloatArray:
        gains = np.empty(len(self.order), np.float32)
        gains[self.order[::2]] = 1 + amount
        gains[self.order[1::2]] = 1 / (1 + amount)
        return gains
