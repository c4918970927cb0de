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
class Holdings:
    """What classes hold of each sample, in short: three numbers of each, whatever the number of classes.

    Attributes
    ----------
    old
        What old classes hold together.
    likeliest_old, likeliest_novel
        What the old and the novel class hold that hold most; 0 where there is none.

    >>> held = Holdings.of(np.array([[0.7, 0.1, 0.2], [0.1, 0.1, 0.8]]), n_old=2)
    >>> held.likeliest_novel.tolist(), held.take(np.array([1])).likeliest_old.tolist()
    ([0.2, 0.8], [0.1])
    """

    old: FloatArray
    likeliest_old: FloatArray
    likeliest_novel: FloatArray

    @classmethod
    def of(cls, probabilities: FloatArray, n_old: int) -> "Holdings":
        """From class probabilities (n, C).

        >>> Holdings.of(np.array([[0.25, 0.5, 0.125]]), n_old=2)
        Holdings(old=array([0.75]), likeliest_old=array([0.5]), likeliest_novel=array([0.125]))
        """
        old, novel = np.split(probabilities, [n_old], axis=1)
        return cls(old.sum(axis=1), old.max(axis=1, initial=0), novel.max(axis=1, initial=0))

    def take(self, rows: IntArray) -> "Holdings":
        """Those of some samples."""
        return Holdings(self.old[rows], self.likeliest_old[rows], self.likeliest_novel[rows])


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
    holdings
        What classes hold of each sample, in short, computed only when called; None where it takes
        `probabilities` to tell.
    features
        Features (m, d) of m positions, computed only when called.
    asked
        Features (k, d) of the samples that were answered in this adaptation, computed only when called.
    left
        Questions that are left, those of this round included; 0 where nobody knows.
    met_before
        1 for samples that are like something that stayed unexplained in an earlier pool, else 0.
    first
        `novelty` as it was before any answer; None where that is what the scores say.

    >>> view = PoolView(scores=np.array([0.2, 0.9]), threshold=0.5, n_old=1,
    ...                 probabilities=lambda: np.array([[0.9, 0.1], [0.3, 0.7]]))
    >>> view.held().likeliest_novel.tolist()
    [0.1, 0.7]
    """

    scores: FloatArray
    threshold: float
    classes: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    n_old: int = 0
    learning: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    validation: FloatArray = field(default_factory=lambda: np.empty(0, np.float32))
    probabilities: Callable[[], FloatArray] = _nothing
    holdings: Callable[[], Holdings] | None = None
    features: Callable[[IntArray], FloatArray] = _nothing
    asked: Callable[[], FloatArray] = lambda: np.empty((0, 0), np.float32)
    left: int = 0
    met_before: Callable[[IntArray], FloatArray] = lambda at: np.zeros(len(at), np.float32)
    first: Callable[[], FloatArray] | None = None

    def held(self) -> Holdings:
        """What classes hold of each sample."""
        return Holdings.of(self.probabilities(), self.n_old) if self.holdings is None else self.holdings()

    def novelty(self) -> FloatArray:
        """Of each sample, the share of known validation samples that look less novel.

        >>> view = PoolView(scores=np.array([0, 5.0]), threshold=1, validation=np.array([1, 2, 3.0]))
        >>> view.novelty().tolist()
        [0.0, 1.0]
        """
        if self.first is not None:
            return self.first()
        known = np.sort(self.validation)
        return (np.searchsorted(known, self.scores, side="left") / max(1, len(known))).astype(np.float32)


class Acquisition(Protocol):
    """Chooses whom to ask about."""

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        """At most `n` different positions of `view`, the most wanted first."""
        ...


acquisitions = Registry[type[Acquisition]]("acquisition strategy")
acquisition = acquisitions.add


def highest(values: FloatArray, n: int) -> IntArray:
    """Positions of the `n` highest values, highest first; of equals the earlier.

    In time linear in the values, as long as few of them are wanted.

    >>> highest(np.array([1.0, 3, 2, 3, 2]), 3).tolist()
    [1, 3, 2]
    """
    lowest = -np.partition(-values, n - 1)[n - 1] if 0 < n < len(values) else np.nan
    if np.isnan(lowest):
        return np.argsort(-values, kind="stable")[:n].astype(np.int64)
    above = np.flatnonzero(values > lowest)
    chosen = np.sort(np.concatenate([above, np.flatnonzero(values == lowest)[: n - len(above)]]))
    return chosen[np.argsort(-values[chosen], kind="stable")].astype(np.int64)
