"""What was learned, sample by sample: a mark of each, its class, and what it counted. No features, no ids.

With it a sample that is given again is recognised, so that it can be taken back exactly, with the label that it
was learned with, and never twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cual.data.pool import chunks
from cual.seeds import generator
from cual.types import BoolArray, FloatArray, IntArray

MOST = 2**22
"""Samples that are recorded, at most (68 MiB): of more, the record is not complete."""
_FACTORS = 0x63756C  # draws the factors of marks; another number would make other marks of the same samples


def marks_of(X: Tensor) -> IntArray:
    """A number of 64 bits for each sample, which depends on every bit of its float32 features.

    >>> marks = marks_of(torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))
    >>> bool(marks[0] == marks[1]), bool(marks[0] == marks[2])
    (True, False)
    """
    pairs = (int(X.shape[1]) + 1) // 2  # of numbers: each is 64 bits
    drawn = np.random.default_rng(_FACTORS).integers(-(2**63), 2**63 - 1, pairs, endpoint=True)
    factors = torch.from_numpy(drawn).to(X.device)
    sums = np.empty(len(X), np.int64)
    for part in chunks(len(X), 8 * pairs):
        features = F.pad(X[part].float(), (0, int(X.shape[1]) % 2)).add(0.0)  # −0.0 and 0.0 are one number
        bits = features.contiguous().view(torch.int64)
        bits ^= bits >> 32  # round numbers end in zeros, which a product keeps: so the halves are mixed
        sums[part] = bits.mul_(factors).sum(dim=1).cpu().numpy()
    return _mixed(sums)


def coins(marks: IntArray, seed: int) -> FloatArray:
    """A number in 0 … 1 for each mark, as if drawn: always the same for the same sample and seed.

    >>> marks = np.array([12, 99])
    >>> print(coins(marks, seed=0).round(2), coins(marks[1:], seed=0).round(2))
    [0.94 0.06] [0.06]
    """
    key = generator(seed, 0, 0, "taught").integers(-(2**63), 2**63 - 1, endpoint=True)
    return ((_mixed(marks ^ key).view(np.uint64) >> 40) / 2**24).astype(np.float32)


def _mixed(numbers: IntArray) -> IntArray:
    """Numbers in which every bit depends on all bits of those given (the last steps of splitmix64)."""
    x: NDArray[np.uint64] = numbers.astype(np.int64).view(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)


@dataclass(frozen=True, eq=False)
class Learned:
    """One entry for each sample that a head learned. It never changes.

    Attributes
    ----------
    marks, classes, weights, human
        Of each sample: `marks_of` it, class number, what it counted, whether a person gave the label.
    complete
        Whether everything that was learned is here: not where an earlier release learned some of it.

    >>> one = Learned.nothing().plus(np.array([7]), np.array([0]), None, np.array([True]))
    >>> two = one.plus(np.array([9]), np.array([1]), None, np.array([False]))
    >>> len(two), two.only(two.human).marks.tolist(), two.renumbered(np.array([-1, 0])).classes.tolist()
    (2, [7], [0])
    >>> Learned.from_state(two.state(), complete=True).marks.tolist()
    [7, 9]
    >>> Learned.nothing(complete=False).complete
    False
    """

    marks: IntArray
    classes: NDArray[np.int32]
    weights: FloatArray
    human: BoolArray
    complete: bool = True

    @classmethod
    def nothing(cls, complete: bool = True) -> "Learned":
        none = np.empty(0, np.int64)
        return cls(none, none.astype(np.int32), none.astype(np.float32), none.astype(np.bool_), complete)

    def __len__(self) -> int:
        return len(self.marks)

    def plus(
        self, marks: IntArray, classes: IntArray, weights: FloatArray | None, human: BoolArray
    ) -> "Learned":
        """This and further samples, as far as there is room."""
        room = slice(max(0, MOST - len(self)))
        counts = np.ones(len(marks), np.float32) if weights is None else weights.astype(np.float32)
        return Learned(
            np.concatenate([self.marks, marks[room]]),
            np.concatenate([self.classes, classes[room].astype(np.int32)]),
            np.concatenate([self.weights, counts[room]]),
            np.concatenate([self.human, human[room].astype(np.bool_)]),
            self.complete and len(self) + len(marks) <= MOST,
        )

    def only(self, chosen: BoolArray) -> "Learned":
        """Some of it."""
        return Learned(
            self.marks[chosen], self.classes[chosen], self.weights[chosen], self.human[chosen], self.complete
        )

    def renumbered(self, numbers: IntArray) -> "Learned":
        """With other class numbers, ``numbers[c]`` for c; entries of −1 are left out."""
        classes = numbers[self.classes].astype(np.int32)
        changed = Learned(self.marks, classes, self.weights, self.human, self.complete)
        return changed.only(classes >= 0) if (classes < 0).any() else changed

    def state(self) -> dict[str, Tensor]:
        """All there is to save but `complete`, as tensors."""
        arrays = {"marks": self.marks, "classes": self.classes, "weights": self.weights, "human": self.human}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], complete: bool) -> "Learned":
        """The record that `state` was taken from; of a file without one, nothing, which is not complete."""
        if not state:
            return cls.nothing(complete=False)
        marks, classes, weights, human = (
            state[name].numpy() for name in ("marks", "classes", "weights", "human")
        )
        return cls(marks, classes, weights, human, complete)
