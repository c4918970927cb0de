"""Who to ask: samples whose score lies closest to T_inner (paper, appendix 4.1.2). Choosing only."""

import numpy as np

from cual.acquisition.base import PoolView, acquisition, highest
from cual.types import IntArray


@acquisition("ambiguous")
class Ambiguous:
    """Ask about samples that are neither clearly old nor clearly novel.

    Ambiguity is ``1 / (S - T_inner)**2``, so the order is that of ``|S - T_inner|``.

    >>> view = PoolView(scores=np.array([0.1, 0.9, 0.52]), threshold=0.5)
    >>> Ambiguous().choose(view, n=1, rng=np.random.default_rng(0)).tolist()
    [2]
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        return highest(-np.abs(view.scores - view.threshold), n)
