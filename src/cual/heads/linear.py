"""The linear head: the short-term classifier A_s of an adaptation (paper 3.1)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cual import options
from cual.heads.base import heads
from cual.heads.perceptron import Perceptron


@heads.add("linear")
class Linear(Perceptron):
    """One fully connected layer. A new class starts from zero.

    A_s learns for a handful of steps from a handful of samples: a random start would still decide its
    answers afterwards, the more so the narrower the features. The problem is convex, so zero is a fair start.

    Parameters
    ----------
    epochs, batch, lr
        Of each lesson; Adam starts afresh each time.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from cual.heads import Lesson, Samples
    >>> X, y = torch.eye(3), torch.arange(3)
    >>> none = Samples(X[:0], y[:0])
    >>> head = Linear(epochs=100, lr=0.1)
    >>> head = head.learn(Lesson(3, Samples(X, y), none, none), np.random.default_rng(0))
    >>> head.logits(X).argmax(1).tolist()
    [0, 1, 2]
    >>> head.n_classes, Linear.from_state(head.state(), epochs=100, lr=0.1).logits(X).equal(head.logits(X))
    (3, True)
    """

    OPTIONS: ClassVar[Mapping[str, type[int] | type[float]]] = {
        "epochs": int,
        "batch": int,
        "lr": float,
    }

    def __init__(self, epochs: int = 5, batch: int = 16, lr: float = 1e-3) -> None:
        self.epochs, self.batch = options.whole("epochs", epochs), options.whole("batch", batch)
        self.lr = options.number("lr", lr, 0, without_low=True)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"epochs": 2, "batch": 7, "lr": 0.1}]

    def _hidden_widths(self) -> tuple[int, ...]:
        return ()

    def _new_rows(self, n: int, inputs: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        return torch.zeros(n, inputs), torch.zeros(n)
