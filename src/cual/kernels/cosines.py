"""Who is most alike, on a GPU, in Triton: of a million cosines, the largest of each group is kept.

`largest` looks at all of them in half precision, `cosines` at the groups that come into question. Which these
are is decided in `cual.learners.prototypes.search`.
"""
# pyright: basic, reportCallIssue=false
# Triton's language has no types.

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from cual.kernels.tiles import COLUMNS, DEPTH, ROWS, TOGETHER, tile_of

SIZES = ["n", "n_columns", "groups", "per_row"]
"""What changes from pool to pool: a kernel is not compiled again for it."""
GROUP = 32
"""Samples next to each other of which the most alike one stands for all."""


@triton.jit(do_not_specialize=SIZES)
def _largest(
    U, B, found, n, n_columns, groups, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, TOGETHER: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row_tile, column_tile = tile_of(tl.program_id(0), n, n_columns, ROWS, COLUMNS, TOGETHER)
    products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for k in range(0, width, DEPTH):
        u = U.load([row_tile * ROWS, k])
        b = B.load([column_tile * COLUMNS, k])
        products = tl.dot(u, b.T, products)
    columns = column_tile * COLUMNS + tl.arange(0, COLUMNS)
    products = tl.where(columns[None, :] < n_columns, products, float("-inf"))
    best = tl.max(tl.reshape(products, (ROWS, COLUMNS // GROUP, GROUP)), axis=2)
    rows = row_tile * ROWS + tl.arange(0, ROWS)
    places = column_tile * (COLUMNS // GROUP) + tl.arange(0, COLUMNS // GROUP)
    here = (rows[:, None] < n) & (places[None, :] < groups)
    tl.store(found + rows[:, None].to(tl.int64) * groups + places[None, :], best, mask=here)


def largest(U: Tensor, B: Tensor) -> Tensor:
    """The largest product of each row of `U` with those of each `GROUP` rows of `B`, (n, groups).

    Parameters
    ----------
    U, B
        Matrices in half precision, rows contiguous.
    """
    groups = -(-len(B) // GROUP)
    found = torch.empty(len(U), groups, device=U.device)
    _largest[(-(-len(U) // ROWS) * -(-len(B) // COLUMNS),)](
        TensorDescriptor.from_tensor(U, [ROWS, DEPTH]), TensorDescriptor.from_tensor(B, [COLUMNS, DEPTH]),
        found, len(U), len(B), groups, U.shape[1],
        ROWS, COLUMNS, DEPTH, TOGETHER, GROUP, num_warps=8, num_stages=3,
    )  # fmt: skip
    return found


@triton.jit(do_not_specialize=SIZES)
def _cosines(
    U, B, groups, found, n_columns, width, per_row,
    GROUP: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    row, place = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.load(groups + row * per_row + place) * GROUP + tl.arange(0, GROUP)
    sums = tl.zeros((GROUP, DEPTH), dtype=tl.float32)
    for k in range(0, width, DEPTH):
        depth = k + tl.arange(0, DEPTH)
        u = tl.load(U + row * width + depth, mask=depth < width, other=0.0)
        here = (columns[:, None] < n_columns) & (depth[None, :] < width)
        b = tl.load(B + columns[:, None].to(tl.int64) * width + depth[None, :], mask=here, other=0.0)
        sums += u[None, :] * b
    products = tl.where(columns < n_columns, tl.sum(sums, axis=1), float("-inf"))
    tl.store(found + (row * per_row + place) * GROUP + tl.arange(0, GROUP), products)


def cosines(U: Tensor, B: Tensor, groups: Tensor) -> Tensor:
    """Products of each row of `U` with the rows of `B` in some groups, (n, groups of a row × GROUP), float32.

    Parameters
    ----------
    U, B
        Matrices in single precision, rows contiguous.
    groups
        Which groups of rows of `B`, (n, groups of a row).
    """
    n, per_row = groups.shape
    found = torch.empty(n, per_row * GROUP, device=U.device)
    _cosines[(n, per_row)](
        U, B, groups.contiguous(), found, len(B), U.shape[1], per_row, GROUP, 128, num_warps=4
    )
    return found
