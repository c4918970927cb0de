"""Who to ask, by lot: anywhere, or above T_inner (the paper's first queries). Choosing only."""

import numpy as np

from cual.acquisition.base import PoolView, acquisition
from cual.types import IntArray


@acquisition("random")
class Random:
    """Ask about any samples, each as likely as the other.

    >>> view = PoolView(scores=np.array([0.1, 0.9, 0.52]), threshold=0.5)
    >>> sorted(Random().choose(view, n=3, rng=np.random.default_rng(0)).tolist())
    [0, 1, 2]
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        return rng.permutation(len(view.scores))[:n].astype(np.int64)


@acquisition("novel")
class Novel:
    """Ask about any samples above T_inner: how an adaptation begins (appendix 4.1.2, i = 0).

    >>> view = PoolView(scores=np.array([0.1, 0.9, 0.52]), threshold=0.5)
    >>> sorted(Novel().choose(view, n=3, rng=np.random.default_rng(0)).tolist())
    [1, 2]
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        above = np.flatnonzero(view.scores > view.threshold)
        return rng.permutation(above)[:n].astype(np.int64)
