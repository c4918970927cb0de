"""What the sums of the ridge head come to when classes are joined, left out or seen from elsewhere.

Over samples z, less a fixed offset: n_c and s_c = Σ z of each class, and T = Σ z zᵀ of all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Sums(NamedTuple):
    """The sums of a head; of T only what lies on and below the diagonal counts."""

    offset: Tensor
    counts: Tensor
    sums: Tensor
    moment: Tensor


def recentred(sums: Sums) -> Sums:
    """The same samples, seen from their mean: an offset that was taken from other samples leaves no trace.

    With d = Σ_c s_c / N: T' = T − N d dᵀ and s_c' = s_c − n_c d.

    >>> sums = Sums(torch.zeros(1), torch.tensor([2.0]), torch.tensor([[6.0]]), torch.tensor([[20.0]]))
    >>> recentred(sums)  # of 2 and 4: seen from 3 they add up to 0, and their squares to 2
    Sums(offset=tensor([3.]), counts=tensor([2.]), sums=tensor([[0.]]), moment=tensor([[2.]]))
    """
    n = sums.counts.sum()
    if float(n) < 1e-9:  # no samples: what is left is rounding
        return Sums(*(torch.zeros_like(part) for part in sums))
    shift = sums.sums.sum(dim=0) / n
    return Sums(
        sums.offset + shift,
        sums.counts,
        torch.addr(sums.sums, sums.counts, shift, alpha=-1),
        torch.addr(sums.moment, shift, shift, alpha=-float(n)).tril_(),  # above it, the old offset would remain
    )


def joined(sums: Sums, numbers: Sequence[int]) -> Sums:
    """Sums under other class numbers, ``numbers[c]`` for class c: those of one number are added up, exactly.

    A class of −1 is left out, but for its part of T, which nobody can tell from that of the others.

    >>> counts, of_classes = torch.tensor([2.0, 3.0, 1.0]), torch.tensor([[1.0], [2.0], [5.0]])
    >>> together = joined(Sums(torch.zeros(1), counts, of_classes, torch.eye(1)), [0, 1, 0])
    >>> together.counts.tolist(), together.sums.flatten().tolist()
    ([3.0, 3.0], [6.0, 2.0])
    """
    kept = [c for c, number in enumerate(numbers) if number >= 0]
    rows = torch.tensor([numbers[c] for c in kept], device=sums.counts.device)
    n = 1 + max(numbers)
    counts = sums.counts.new_zeros(n).index_add_(0, rows, sums.counts[kept])
    of_classes = sums.sums.new_zeros(n, sums.sums.shape[1]).index_add_(0, rows, sums.sums[kept])
    return Sums(sums.offset, counts, of_classes, sums.moment)


def without_class(sums: Sums, c: int) -> Sums:
    """Sums from which a class is gone, as if it had spread as all classes do on average.

    So the covariance within classes stays what it was: what the class told of that cannot be taken back.

    >>> counts, of_classes = torch.tensor([2.0, 3.0]), torch.tensor([[1.0], [2.0]])
    >>> less = without_class(Sums(torch.zeros(1), counts, of_classes, 9 * torch.eye(1)), 1)
    >>> less.counts.tolist(), less.sums.flatten().tolist()
    ([2.0, 0.0], [1.0, 0.0])
    """
    n, mine = sums.counts.sum(), sums.counts[c]
    weighs = sums.counts > 0
    between = sums.sums[weighs] / sums.counts[weighs, None].sqrt()
    within = torch.addmm(sums.moment, between.t(), between, alpha=-1) / n
    moment = torch.addr(sums.moment, sums.sums[c], sums.sums[c], alpha=-1 / float(mine.clamp(min=1e-12)))
    moment = moment - mine * within
    gone = torch.arange(len(sums.counts), device=sums.counts.device) == c
    return Sums(
        sums.offset,
        sums.counts.masked_fill(gone, 0),
        sums.sums.masked_fill(gone[:, None], 0),
        moment,
    )
