"""Replay: a memory of bounded size that is shared evenly between classes (paper 4.1.4). No training here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cual.heads.base import Samples


def shares(counts: Sequence[int] | NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
    """How many samples each class may keep: equal shares, with what short classes leave going to the others.

    All of `capacity` is given out while there are samples for it. What does not divide goes to the largest
    classes, among equals to the last.

    >>> shares([2, 50, 50], capacity=20).tolist()
    [2, 9, 9]
    >>> shares([50, 50, 50], capacity=20).tolist()
    [6, 7, 7]
    """
    share = np.zeros(len(counts), dtype=np.int64)
    left = capacity
    for rank, label in enumerate(np.argsort(counts, kind="stable")):
        share[label] = min(counts[label], left // (len(counts) - rank))
        left -= share[label]
    return share


@dataclass(frozen=True, eq=False)
class Replay:
    """At most `capacity` samples of all classes so far. It never changes: an update gives a new one.

    Attributes
    ----------
    X, y
        Features (n, d), in the type they were first given in, and class numbers (n,).
    preferred
        Bool (n,): samples that others of their class make way for (those a person has labelled).

    Examples
    --------
    >>> replay = Replay(capacity=4)
    >>> y = torch.tensor([0, 0, 0, 0, 0, 1])
    >>> replay.updated(torch.rand(6, 2), y, np.random.default_rng(0)).y.tolist()
    [0, 0, 0, 1]
    >>> replay = replay.updated(torch.eye(2), torch.tensor([0, 1]), np.random.default_rng(0))
    >>> len(replay.samples()), Replay.from_state(replay.state()).y.tolist()
    (2, [0, 1])
    """

    capacity: int
    X: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    y: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    preferred: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.bool))

    def __len__(self) -> int:
        return len(self.y)

    def samples(self) -> Samples:
        """All that is remembered."""
        return Samples(self.X, self.y)

    def updated(
        self,
        X: Tensor | Callable[[Tensor], Tensor],
        y: Tensor,
        rng: np.random.Generator,
        keep: Tensor | None = None,
    ) -> "Replay":
        """A memory of what is here and what is given; classes over their share lose samples at random.

        Parameters
        ----------
        X
            Features (n, d), or what reads those of some of them.
        keep
            Bool (n,): given samples to prefer, now and in later updates, over others of their class.
        """
        keep = torch.zeros_like(y, dtype=torch.bool) if keep is None else keep
        read = X.__getitem__ if isinstance(X, Tensor) else X
        old = self if len(self) else Replay(self.capacity, read(y[:0].long()), y[:0], keep[:0])
        labels = np.concatenate([old.y.cpu().numpy(), y.cpu().numpy()])
        preferred = np.concatenate([old.preferred.cpu().numpy(), keep.cpu().numpy()])
        rows = torch.from_numpy(chosen(labels, preferred, self.capacity, rng)).to(y.device)
        here, given = rows[rows < len(old)], rows[rows >= len(old)] - len(old)
        return Replay(
            self.capacity,
            torch.cat([old.X[here], read(given).to(old.X.dtype)]),
            torch.cat([old.y[here], y[given]]),
            torch.cat([old.preferred[here], keep[given]]),
        )

    def only(self, chosen: Tensor) -> "Replay":
        """A memory of some of it: a bool for each sample."""
        return Replay(self.capacity, self.X[chosen], self.y[chosen], self.preferred[chosen])

    def renumbered(self, numbers: Tensor) -> "Replay":
        """The same with other class numbers, ``numbers[c]`` for c; samples of −1 are left out."""
        changed = replace(self, y=numbers.to(self.y.device)[self.y])
        return changed.only(changed.y >= 0)

    def state(self) -> dict[str, Tensor]:
        """All there is to save, as tensors."""
        return {
            "capacity": torch.tensor(self.capacity),
            "X": self.X,
            "y": self.y,
            "preferred": self.preferred,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> "Replay":
        """The memory that `state` was taken from, on the device of its tensors."""
        return cls(int(state["capacity"].item()), state["X"], state["y"], state["preferred"])


def chosen(
    y: NDArray[np.int64], preferred: NDArray[np.bool_], capacity: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows to keep, in order: each class' share, preferred ones first, else at random.

    >>> y, by_people = np.array([0, 0, 0, 1]), np.array([False, False, True, False])
    >>> chosen(y, by_people, capacity=2, rng=np.random.default_rng(0)).tolist()
    [2, 3]
    """
    _, dense, counts = np.unique(y, return_inverse=True, return_counts=True)
    order = np.lexsort((rng.random(len(y)), ~preferred, dense))  # class by class, who stays longest first
    rank = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[rank < np.repeat(shares(counts, capacity), counts)])
