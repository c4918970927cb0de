"""What to believe without asking: which unlabelled samples take the class they are taken for. Choosing only."""

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cual import options
from cual.acquisition.base import Holdings, PoolView, highest
from cual.registry import Registry
from cual.types import FloatArray, IntArray


class PseudoLabels(Protocol):
    """Chooses samples that are labelled without a person."""

    def choose(self, view: PoolView) -> IntArray:
        """Positions of `view` that take the class ``view.classes`` says."""
        ...

    def doubts(self, view: PoolView) -> FloatArray:
        """How doubtful it is, 0 … 1, that the samples of `view` are what ``view.classes`` says."""
        ...


@runtime_checkable
class BelievesKnown(Protocol):
    """A rule that also believes classes known before, which no answer about the pool has named."""

    believes_known: bool


pseudo_labels = Registry[type[PseudoLabels]]("rule of belief")


@pseudo_labels.add("most-novel")
class MostNovel:
    """The share α of the samples above T_inner with the highest Sⁱ (paper, appendix 4.1.1).

    Parameters
    ----------
    alpha
        α, believed in each round.

    >>> view = PoolView(scores=np.array([1, 9, 5, 7, 8.0]), threshold=2, classes=np.full(5, 2), n_old=2)
    >>> MostNovel(alpha=0.5).choose(view).tolist()
    [1, 4]
    >>> print(MostNovel().doubts(view).round(2))
    [1.   0.22 0.4  0.29 0.25]
    """

    def __init__(self, alpha: float = 0.2) -> None:
        self.alpha = options.number("alpha", alpha, 0, 1)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{"alpha": 0.2}, {"alpha": 0.0}, {"alpha": 1.0}]

    def choose(self, view: PoolView) -> IntArray:
        above = int(((view.scores > view.threshold) & (view.classes >= view.n_old)).sum())
        scores = np.where(view.classes >= view.n_old, view.scores, -np.inf).astype(np.float32)
        return highest(scores, math.ceil(self.alpha * above))

    def doubts(self, view: PoolView) -> FloatArray:
        """1 where the score lies at T_inner, less the farther above it lies."""
        return _share_of(view.threshold, view.scores)


@pseudo_labels.add("likelier-than-not")
class LikelierThanNot:
    """Every sample that a novel class wins, whose likeliest class it is (cual-plus).

    So does an old class that is still being learned, with the samples that it holds most. Nobody wins what is
    likelier of a class without a name.

    Parameters
    ----------
    share
        What a class must hold of a sample.
    precision
        Share of the pseudo-labels that is to be right, as far as the answers tell: the doubtful ones are left
        out until what is left is held by so much on average. 0 leaves none out.
    most_old
        Pseudo-labels of one old class in one pool, at most: it is known well by then, and pools may be huge.

    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.1, 0.9], [0.2, 0.3]], dtype=np.float32)
    >>> classes = np.array([0, 1, 1, -1])
    >>> view = PoolView(scores=p[:, 1], threshold=0.5, classes=classes, n_old=1, probabilities=lambda: p)
    >>> LikelierThanNot().choose(view).tolist(), LikelierThanNot(share=0.8).choose(view).tolist()
    ([1, 2], [2])
    >>> [LikelierThanNot(precision=p).choose(view).tolist() for p in (0.7, 0.8, 0.95)]
    [[1, 2], [2], []]
    >>> print(LikelierThanNot().doubts(view).round(2))
    [0.1 0.4 0.1 0.8]
    """

    def __init__(self, share: float = 0.0, precision: float = 0.0, most_old: int = 2500) -> None:
        self.share = options.number("share", share, 0, 1)
        self.precision = options.number("precision", precision, 0, 1)
        self.most_old = options.whole("most_old", most_old)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"share": 0.3, "most_old": 2}, {"precision": 0.9}]

    def choose(self, view: PoolView) -> IntArray:
        if not len(view.scores):
            return np.empty(0, np.int64)
        held = 1 - _doubts(view, view.held())
        chosen = [np.flatnonzero((held >= self.share) & (view.classes >= view.n_old))]
        for c in view.learning.tolist():
            mine = np.flatnonzero((held >= self.share) & (view.classes == c))
            chosen.append(mine[highest(held[mine], self.most_old)])
        return np.sort(np.concatenate([self._precise(rows, held) for rows in chosen]))

    def _precise(self, rows: IntArray, held: FloatArray) -> IntArray:
        """The surest of some rows, as many as are held by `precision` on average."""
        surest = rows[np.argsort(-held[rows], kind="stable")]
        average = np.cumsum(held[surest], dtype=np.float64) / np.arange(1, len(surest) + 1)
        return surest[average >= self.precision]

    def doubts(self, view: PoolView) -> FloatArray:
        """The share that the class does not hold."""
        if not len(view.scores):
            return np.empty(0, np.float32)
        return _doubts(view, view.held())


def _doubts(view: PoolView, held: Holdings) -> FloatArray:
    return 1 - np.where(view.classes < view.n_old, held.likeliest_old, held.likeliest_novel)


@pseudo_labels.add("most-certain")
class MostCertain:
    """The share α of the samples predicted as a novel class whose uncertainty is lowest (PseudoER).

    Parameters
    ----------
    alpha
        α, believed in each round.

    >>> view = PoolView(scores=np.array([1, 9, 5.0]), threshold=2, classes=np.array([0, 2, 2]), n_old=2)
    >>> MostCertain(alpha=0.5).choose(view).tolist()
    [2]
    >>> print(MostCertain().doubts(view).round(2))
    [0.5 1.  1. ]
    """

    def __init__(self, alpha: float = 0.2) -> None:
        self.alpha = options.number("alpha", alpha, 0, 1)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{"alpha": 0.2}, {"alpha": 0.0}, {"alpha": 1.0}]

    def choose(self, view: PoolView) -> IntArray:
        novel = view.classes >= view.n_old
        scores = np.where(novel, -view.scores, -np.inf).astype(np.float32)
        return highest(scores, math.ceil(self.alpha * int(novel.sum())))

    def doubts(self, view: PoolView) -> FloatArray:
        """1 where the uncertainty reaches T_inner, less the farther below it lies."""
        return _share_of(view.scores, view.threshold)


@pseudo_labels.add("most-certain-of-all")
class MostCertainOfAll(MostCertain):
    """The share α of all samples whose uncertainty is lowest, taken for an old class or a novel one (PseudoER).

    Parameters
    ----------
    alpha
        α, believed in each round.

    >>> view = PoolView(scores=np.array([1, 9, 5.0]), threshold=2, classes=np.array([0, 2, 2]), n_old=2)
    >>> MostCertainOfAll(alpha=0.5).choose(view).tolist()
    [0, 2]
    """

    believes_known = True

    def __init__(self, alpha: float = 0.2) -> None:
        super().__init__(alpha)

    def choose(self, view: PoolView) -> IntArray:
        taken = view.classes >= 0
        scores = np.where(taken, -view.scores, -np.inf).astype(np.float32)
        return highest(scores, math.ceil(self.alpha * int(taken.sum())))


def _share_of(low: FloatArray | float, high: FloatArray | float) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.asarray(np.divide(low, high), dtype=np.float64)
    return np.clip(np.nan_to_num(shares, nan=1.0), 0, 1).astype(np.float32)
