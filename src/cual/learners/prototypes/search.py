"""The most alike of many samples, exactly. What they are good for is decided elsewhere."""

import torch
from torch import Tensor

from cual import kernels

COLUMNS = 2**15
"""Samples whose cosines to a block of others are held at once."""
ROUNDING = 1.1e-3
"""What half precision moves the cosine of two unit vectors by, at most: 2⁻¹¹ for each of them, and sums."""
SPARE = 17
"""Groups that are looked at beyond those that are needed at least."""


def most_alike(U: Tensor, others: Tensor, k: int, itself: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Of each row of `U`, the `k` largest cosines to rows of `others`, and which rows these are; descending.

    Parameters
    ----------
    U, others
        Unit vectors in rows.
    k
        How many; all of them where there are fewer.
    itself
        For each row of `U` the row of `others` that does not count, -1 for none.

    >>> others = torch.tensor([[1.0, 0], [0, 1], [0.6, 0.8]])
    >>> [found.tolist() for found in most_alike(others[:1], others, 1, torch.tensor([0]))]
    [[[0.6000000238418579]], [[2]]]
    """
    k = min(k, max(1, len(others) - (itself is not None)))
    if len(others) > COLUMNS and len(U) and kernels.usable(U):
        return _by_groups(U.contiguous(), others.contiguous(), k, itself)
    return _by_blocks(U, others, k, itself)


def _by_blocks(U: Tensor, others: Tensor, k: int, itself: Tensor | None) -> tuple[Tensor, Tensor]:
    """A block of the others at a time, and the best so far."""
    likeness, places = U.new_empty(len(U), 0), torch.empty(len(U), 0, dtype=torch.int64, device=U.device)
    for start in range(0, len(others), COLUMNS):
        cosines = U @ others[start : start + COLUMNS].T
        _leave_out(cosines, None if itself is None else itself - start)
        found = cosines.topk(min(k, cosines.shape[1]), dim=1)
        if not start:
            likeness, places = found
            continue
        both = torch.cat([likeness, found.values], dim=1).topk(k, dim=1)
        places = torch.cat([places, found.indices + start], dim=1).gather(1, both.indices)
        likeness = both.values
    return likeness, places


def _leave_out(cosines: Tensor, itself: Tensor | None) -> None:
    """Nobody is alike to itself, in place."""
    if itself is not None:
        rows = ((itself >= 0) & (itself < cosines.shape[1])).nonzero()[:, 0]
        cosines[rows, itself[rows]] = -torch.inf


def _by_groups(U: Tensor, others: Tensor, k: int, itself: Tensor | None) -> tuple[Tensor, Tensor]:
    """All in half precision, of which only the largest of each group is kept; then the best groups exactly.

    The k most alike lie in the k groups with the largest cosines, but for rounding. Where that could matter,
    because a group that was not looked at comes as near as rounding may move it, all are compared after all.
    """
    from cual.kernels.cosines import GROUP, cosines, largest

    best = largest(U.half(), others.half())
    looked = min(k + SPARE, best.shape[1] - 1)
    order = best.topk(looked + 1, dim=1)
    groups, next_best = order.indices[:, :looked], order.values[:, looked]
    exact = cosines(U, others, groups)
    columns = (groups[:, :, None] * GROUP + torch.arange(GROUP, device=U.device)).flatten(1)
    if itself is not None:
        exact[columns == itself[:, None]] = -torch.inf
    likeness, found = exact.topk(k, dim=1)
    places = columns.gather(1, found)
    unsure = (likeness[:, -1] < next_best + ROUNDING).nonzero()[:, 0]
    for rows in unsure.split(2048) if len(unsure) else ():
        mine = None if itself is None else itself[rows]
        likeness[rows], places[rows] = _by_blocks(U[rows], others, k, mine)
    return likeness, places
