"""The MLP head: the agent's long-term classifier A (paper 3.1)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from cual import options
from cual.heads.base import heads
from cual.heads.perceptron import Perceptron


@heads.add("mlp")
class MLP(Perceptron):
    """A perceptron of one hidden layer.

    Parameters
    ----------
    hidden
        Of the hidden layer.
    epochs, batch, lr
        Of each lesson; Adam starts afresh each time.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from cual.heads import Lesson, Samples
    >>> X, y = torch.eye(3), torch.arange(3)
    >>> none = Samples(X[:0], y[:0])
    >>> head = MLP(hidden=64, epochs=100)
    >>> head = head.learn(Lesson(3, Samples(X, y), none, none), np.random.default_rng(0))
    >>> head.logits(X).argmax(1).tolist()
    [0, 1, 2]
    >>> head.n_classes, MLP.from_state(head.state(), hidden=64).logits(X).equal(head.logits(X))
    (3, True)
    """

    OPTIONS: ClassVar[Mapping[str, type[int] | type[float]]] = {
        "hidden": int,
        "epochs": int,
        "batch": int,
        "lr": float,
    }

    def __init__(self, hidden: int = 4096, epochs: int = 20, batch: int = 50, lr: float = 1e-3) -> None:
        self.hidden = options.whole("hidden", hidden)
        self.epochs, self.batch = options.whole("epochs", epochs), options.whole("batch", batch)
        self.lr = options.number("lr", lr, 0, without_low=True)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{"hidden": 32}, {"hidden": 24, "epochs": 10, "batch": 7, "lr": 1e-2}]

    def _hidden_widths(self) -> tuple[int, ...]:
        return (self.hidden,)
