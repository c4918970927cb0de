"""The built-in example, handwritten digits: an agent that knows 0 to 4, a pool in which 5 to 9 turn up too."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cual.agent import Agent
from cual.data.pool import Pool
from cual.errors import Unavailable
from cual.types import AnyArray, IntArray, Progress

KNOWN = 5
POOL = "New digits"
_PER_CLASS, _OLD, _NEW = 80, 400, 200
_SIDE = 96


@dataclass(frozen=True)
class DemoData:
    """Scikit-learn's digits, taken apart for the example."""

    X: AnyArray
    y: list[str]
    images: AnyArray
    first: IntArray
    """Rows that the agent is fitted on."""
    pool: IntArray
    """Rows of the pool, old and new digits mixed 2 : 1."""


def demo_data(seed: int = 0) -> DemoData:
    """The same rows for the same seed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise Unavailable("the built-in example needs scikit-learn: pip install 'cual[sklearn]'") from error

    digits: Any = load_digits()
    numbers: IntArray = digits.target
    rng = np.random.default_rng(seed)
    old = [rng.permutation(np.flatnonzero(numbers == c)) for c in range(KNOWN)]
    rest = rng.permutation(np.concatenate([rows[_PER_CLASS:] for rows in old]))[:_OLD]
    new = rng.permutation(np.flatnonzero(numbers >= KNOWN))[:_NEW]
    pool = rng.permutation(np.concatenate([rest, new]))
    first = np.concatenate([rows[:_PER_CLASS] for rows in old])
    labels = [str(number) for number in numbers.tolist()]
    return DemoData(digits.data / 16, labels, digits.images, first, pool)


def demo_agent(data: DemoData, method: str, progress: Progress | None = None) -> Agent:
    """An agent that knows the first digits."""
    labels = [data.y[i] for i in data.first]
    return Agent.fit(data.X[data.first], labels, method=method, progress=progress)


def demo_pool(data: DemoData) -> Pool:
    return Pool(data.X[data.pool], ids=[f"digit-{i:04d}" for i in data.pool])


def drawn(images: AnyArray) -> AnyArray:
    """Digits of 8 × 8 as pictures that a person can look at: larger, smooth, dark on white."""
    from PIL import Image

    ink = (255 - np.pad(images, ((0, 0), (2, 2), (2, 2))) * (255 / 16)).astype(np.uint8)
    size = (_SIDE, _SIDE)
    return np.stack([np.asarray(Image.fromarray(i).resize(size, Image.Resampling.BICUBIC)) for i in ink])
