"""Who to ask: the highest scores (the ablation AL-Top, paper section 3). Choosing only."""

import numpy as np

from cual.acquisition.base import PoolView, acquisition, highest
from cual.types import IntArray


@acquisition("top")
class Top:
    """Ask about the samples that are most confidently novel.

    >>> view = PoolView(scores=np.array([0.1, 0.9, 0.52]), threshold=0.5)
    >>> Top().choose(view, n=2, rng=np.random.default_rng(0)).tolist()
    [1, 2]
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        return highest(view.scores, n)
