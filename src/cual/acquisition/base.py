"""The axis "who to ask": what a strategy is given and gives back. The strategies are beside this file."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cual.registry import Registry
from cual.types import FloatArray, IntArray


def _nothing(*positions: IntArray) -> FloatArray:
    del positions
    raise LookupError("this view does not carry what the strategy asks for")


@dataclass(frozen=True)
class PoolView:
    """What a strategy may know of the samples that are still unlabelled. Positions, not ids.

    Attributes
    ----------
    scores
        S⁰ or Sⁱ of each sample: the higher, the more novel.
    threshold
        T_inner of this round.
    classes
        The class each sample is taken for, were it novel; −1 where none is known yet.
    n_old
        Classes below this number are old.
    learning
        Old classes of which too little is known: they may be believed, as novel ones may.
    validation
        The same score of known validation samples.
    probabilities
        Class probabilities (n, C), computed only when called.
    features
        Features (m, d) of m positions, computed only when called.
    """

    scores: FloatArray
    threshold: float
    classes: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    n_old: int = 0
    learning: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    validation: FloatArray = field(default_factory=lambda: np.empty(0, np.float32))
    probabilities: Callable[[], FloatArray] = _nothing
    features: Callable[[IntArray], FloatArray] = _nothing


class Acquisition(Protocol):
    """Chooses whom to ask about."""

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        """At most `n` different positions of `view`, the most wanted first."""
        ...


acquisitions = Registry[type[Acquisition]]("acquisition strategy")
acquisition = acquisitions.add


def highest(values: FloatArray, n: int) -> IntArray:
    """Positions of the `n` highest values, highest first; of equals the earlier."""
    return np.argsort(-values, kind="stable")[:n].astype(np.int64)
