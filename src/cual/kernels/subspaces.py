"""FRE to many classes on a GPU, in Triton: what is squared and summed per class never leaves the chip.

`inside` does nearly all of the work in half precision, `measured` the few pairs that need more. Which these are
is decided in `cual.uncertainty.stacked`. Matrix units cut sums off instead of rounding them, which makes long
ones too small by some 1e-5: where that matters, they are short.
"""
# pyright: basic, reportCallIssue=false
# Triton's language has no types.

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad
from triton.tools.tensor_descriptor import TensorDescriptor

from cual.kernels.tiles import COLUMNS, DEPTH, ROWS, TOGETHER, tile_of

PAIR_ROWS, PAIR_COLUMNS, PAIR_DEPTH = 64, 128, 32
"""A tile of the products of pairs of a sample and a class."""


@triton.jit
def _rounded(X, centre, U, scales, norms, width, WIDTH: tl.constexpr):
    row, depth = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    here = depth < width
    x = tl.load(X + row * width + depth, mask=here, other=0.0).to(tl.float32)
    x = tl.where(here, x - tl.load(centre + depth, mask=here, other=0.0), 0.0)
    largest = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-30)
    scale = tl.exp2(8.0 - tl.ceil(tl.log2(largest)))
    u = (x * scale).to(tl.float16)
    tl.store(U + row * width + depth, u, mask=here)
    exact = u.to(tl.float32) / scale
    tl.store(scales + row, 1.0 / scale)
    tl.store(norms + row, tl.sum(exact * exact, axis=0))


def rounded(X: Tensor, centre: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Samples less `centre` in half precision, each divided by a power of two; the powers, and ‖u‖² as rounded.

    A row's largest entry becomes 128 to 256: far from what half precision cannot hold.
    """
    n, width = X.shape
    U = torch.empty(n, width, dtype=torch.float16, device=X.device)
    scales, norms = torch.empty(2, n, device=X.device)
    _rounded[(n,)](X, centre, U, scales, norms, width, triton.next_power_of_2(width), num_warps=4)
    return U, scales, norms


@triton.jit
def _dots(
    U,
    high,
    low,
    scales,
    dots,
    n,
    n_columns,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    row_tile, column_tile = tl.program_id(0), tl.program_id(1)
    products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for k in range(0, width, DEPTH):
        u = U.load([row_tile * ROWS, k])
        products = tl.dot(u, high.load([column_tile * COLUMNS, k]).T, products)
        products = tl.dot(u, low.load([column_tile * COLUMNS, k]).T, products)
    rows, columns = row_tile * ROWS + tl.arange(0, ROWS), column_tile * COLUMNS + tl.arange(0, COLUMNS)
    scale = tl.load(scales + rows, mask=rows < n, other=0.0)
    here = (rows[:, None] < n) & (columns[None, :] < n_columns)
    tl.store(dots + columns[None, :].to(tl.int64) * n + rows[:, None], products * scale[:, None], mask=here)


def dots(U: Tensor, scales: Tensor, M: Tensor) -> Tensor:
    """Products of the rows of `M` with those that were rounded, (len(M), n)."""
    (n, width), found = U.shape, torch.empty(len(M), len(U), device=U.device)
    size = M.abs().max().clamp(min=1e-30).log2().ceil().exp2() / 2**8
    high = (M / size).half()
    low = (M / size - high.float()).half()
    high, low = (TensorDescriptor.from_tensor(part, [PAIR_COLUMNS, DEPTH]) for part in (high, low))
    _dots[(-(-n // COLUMNS), -(-len(M) // PAIR_COLUMNS))](
        TensorDescriptor.from_tensor(U, [COLUMNS, DEPTH]), high, low, scales * size, found, n, len(M), width,
        COLUMNS, PAIR_COLUMNS, DEPTH, num_warps=8, num_stages=3,
    )  # fmt: skip
    return found


@triton.jit
def _inside(
    U, W, scales, offsets, lengths, owners, parts, n, n_columns, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, TOGETHER: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    row_tile, column_tile = tile_of(tl.program_id(0), n, n_columns, ROWS, COLUMNS, TOGETHER)
    products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for k in range(0, width, DEPTH):
        u = U.load([row_tile * ROWS, k])
        w = W.load([column_tile * COLUMNS, k])
        products = tl.dot(u, w.T, products)
    rows, columns = row_tile * ROWS + tl.arange(0, ROWS), column_tile * COLUMNS + tl.arange(0, COLUMNS)
    here = columns < n_columns
    scale = tl.load(scales + rows, mask=rows < n, other=0.0)
    offset = tl.load(offsets + columns, mask=here, other=0.0)
    length = tl.load(lengths + columns, mask=here, other=0.0)
    products = (products * scale[:, None] - offset[None, :]) * length[None, :]
    squares = products * products
    owner = tl.load(owners + columns, mask=here, other=-1)
    first = tl.load(owners + column_tile * COLUMNS)
    for slot in range(SLOTS):
        part = tl.sum(tl.where(owner[None, :] == first + slot, squares, 0.0), axis=1)
        tl.store(parts + (column_tile * SLOTS + slot).to(tl.int64) * n + rows, part, mask=rows < n)


@dataclass(frozen=True)
class Layout:
    """Which column of the stacked components belongs to which class, and where its sums are put together.

    Attributes
    ----------
    first, owners
        Where the components of each class begin, and the end; the class of each component. On the GPU.
    slots
        Classes in a tile, at most.
    places
        Which parts belong to each class, (most parts of a class, classes); the last part, zeros, fills up.
    """

    first: Tensor
    owners: Tensor
    slots: int
    places: Tensor

    @classmethod
    def of(cls, counts: Sequence[int], device: torch.device) -> "Layout":
        """The layout of classes with so many components each; at least one has some."""
        first = torch.tensor([0, *counts]).cumsum(0)
        owners = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        begin = owners[::COLUMNS].tolist()
        end = [int(owners[min(start + COLUMNS, len(owners)) - 1]) for start in range(0, len(owners), COLUMNS)]
        slots = max(high - low for low, high in zip(begin, end, strict=True)) + 1
        mine = [list[int]() for _ in counts]
        for tile, (low, high) in enumerate(zip(begin, end, strict=True)):
            for c in range(low, high + 1):
                mine[c].append(tile * slots + c - low)
        most, zeros = max(map(len, mine)), len(begin) * slots
        places = torch.tensor([parts + [zeros] * (most - len(parts)) for parts in mine]).T
        return cls(first.to(device), owners.int().to(device), slots, places.to(device))

    @property
    def parts(self) -> int:
        """Sums of each sample that are written before they are put together, and zeros."""
        return -(-len(self.owners) // COLUMNS) * self.slots + 1


def inside(U: Tensor, scales: Tensor, W: Tensor, offsets: Tensor, lengths: Tensor, layout: Layout) -> Tensor:
    """Σₖ ((u · wₖ − offsetₖ) · lengthₖ)² over the components k of each class, (classes, n).

    Parameters
    ----------
    U, scales
        Samples (n, d), as `rounded` gives them.
    W
        The components of all classes (Σk, d), in half precision.
    offsets, lengths
        One number for each component.
    layout
        Whose components these are.
    """
    n, width = U.shape
    parts = torch.empty(layout.parts, n, device=U.device)
    parts[-1] = 0
    _inside[(-(-n // ROWS) * -(-len(W) // COLUMNS),)](
        TensorDescriptor.from_tensor(U, [ROWS, DEPTH]), TensorDescriptor.from_tensor(W, [COLUMNS, DEPTH]),
        scales, offsets, lengths, layout.owners, parts, n, len(W), width,
        ROWS, COLUMNS, DEPTH, TOGETHER, layout.slots, num_warps=8, num_stages=3,
    )  # fmt: skip
    within = parts[layout.places[0]]
    for places in layout.places[1:]:
        within += parts[places]
    return within


@triton.jit
def _measured(
    X, means, W, first, rows, blocks, bounds, squares, norms, n_classes, width, one,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    if block >= tl.load(blocks + n_classes):
        return
    low, high = 0, n_classes  # the class of this block: blocks[c] <= block < blocks[c + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(blocks + middle) <= block:
            low = middle
        else:
            high = middle
    places = tl.load(bounds + low) + (block - tl.load(blocks + low)) * ROWS + tl.arange(0, ROWS)
    here = places < tl.load(bounds + low + 1)
    row = tl.load(rows + places, mask=here, other=0)
    start, stop = tl.load(first + low), tl.load(first + low + 1)
    square = tl.zeros((ROWS,), dtype=tl.float32)
    for column in range(start, stop, COLUMNS):
        columns = column + tl.arange(0, COLUMNS)
        products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for k in range(0, width, DEPTH):
            depth = k + tl.arange(0, DEPTH)
            x = tl.load(X + row[:, None] * width + depth[None, :], mask=depth[None, :] < width, other=0.0)
            v = x.to(tl.float32) - tl.load(means + low * width + depth, mask=depth < width, other=0.0)[None, :]
            inside = (columns[:, None] < stop) & (depth[None, :] < width)
            w = tl.load(W + columns[:, None].to(tl.int64) * width + depth[None, :], mask=inside, other=0.0)
            products += one * tl.dot(v, w.T, input_precision="tf32x3")  # rounded to nearest, not cut off
        square += tl.sum(products * products, axis=1)
    norm = tl.zeros((ROWS,), dtype=tl.float32)
    for k in range(0, width, DEPTH):
        depth = k + tl.arange(0, DEPTH)
        x = tl.load(X + row[:, None] * width + depth[None, :], mask=depth[None, :] < width, other=0.0)
        v = x.to(tl.float32) - tl.load(means + low * width + depth, mask=depth < width, other=0.0)[None, :]
        norm += tl.sum(tl.where(depth[None, :] < width, v * v, 0.0), axis=1)
    tl.store(squares + places, square, mask=here)
    tl.store(norms + places, norm, mask=here)


def measured(
    X: Tensor, means: Tensor, W: Tensor, layout: Layout, classes: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """‖Wv‖² and ‖v‖², v = u − mean, of some pairs of a class and a row of `X`, in nearly single precision.

    Parameters
    ----------
    X, means, W
        Samples (n, d), class means (classes, d), and the components of all classes (Σk, d).
    layout
        Whose components these are.
    classes, rows
        The pairs, sorted by class.
    """
    bounds = torch.searchsorted(classes, torch.arange(len(means) + 1, device=classes.device))
    blocks = pad((bounds.diff() + PAIR_ROWS - 1).div(PAIR_ROWS, rounding_mode="floor").cumsum(0), (1, 0))
    squares, norms = torch.empty(2, len(rows), device=X.device)
    grid = (len(rows) // PAIR_ROWS + len(means),)
    _measured[grid](
        X, means, W, layout.first, rows, blocks, bounds, squares, norms, len(means), X.shape[1],
        1.0,
        PAIR_ROWS, PAIR_COLUMNS, PAIR_DEPTH, num_warps=4, num_stages=3,
    )  # fmt: skip
    return squares, norms
