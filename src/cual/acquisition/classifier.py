"""Who to ask: samples on which a classifier hesitates (Shannon entropy, margin). Choosing only.

The formulas are functions, because the ER baselines also use them as scores.
"""

import numpy as np

from cual.acquisition.base import PoolView, acquisition, highest
from cual.types import FloatArray, IntArray


def entropy(probabilities: FloatArray) -> FloatArray:
    """Shannon entropy of each row, in nats.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]], dtype=np.float32)).round(3).tolist()
    [0.0, 0.6930000185966492]
    """
    p = probabilities.astype(np.float64)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1).astype(np.float32) + np.float32(0)


def closeness(probabilities: FloatArray) -> FloatArray:
    """One minus the margin between the two likeliest classes: 1 where they tie. One class: 0.

    >>> closeness(np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]], dtype=np.float32)).round(3).tolist()
    [0.5, 1.0]
    """
    if probabilities.shape[1] < 2:
        return np.zeros(len(probabilities), dtype=np.float32)
    two = np.partition(probabilities, -2, axis=1)[:, -2:]
    return (1 - (two[:, 1] - two[:, 0])).astype(np.float32)


@acquisition("entropy")
class Entropy:
    """Ask about samples whose predicted class probabilities have the highest entropy.

    >>> unsure, sure = [0.5, 0.5], [0.9, 0.1]
    >>> view = PoolView(np.zeros(2), threshold=0, probabilities=lambda: np.array([sure, unsure]))
    >>> Entropy().choose(view, n=1, rng=np.random.default_rng(0)).tolist()
    [1]
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        return highest(entropy(view.probabilities()), n)


@acquisition("margin")
class Margin:
    """Ask about samples whose two likeliest classes lie closest together.

    >>> close, clear = [0.45, 0.4, 0.15], [0.5, 0.25, 0.25]
    >>> view = PoolView(np.zeros(2), threshold=0, probabilities=lambda: np.array([clear, close]))
    >>> Margin().choose(view, n=1, rng=np.random.default_rng(0)).tolist()
    [1]
    """

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        return highest(closeness(view.probabilities()), n)
