"""FRE to many classes on a GPU, in Triton: what is squared and summed per class never leaves the chip.

`inside` does nearly all of the work in half precision, `measured` the few pairs that need more. Which these are
is said by `cual.uncertainty.stacked`, and found out on the GPU. Matrix units cut sums off instead of rounding
them, which makes long ones too small by some 1e-5: where that matters, they are short.
"""
# pyright: basic, reportCallIssue=false, reportOperatorIssue=false
# Triton's language has no types.

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad
from triton.tools.tensor_descriptor import TensorDescriptor

from cual.kernels.tiles import COLUMNS, DEPTH, ROWS, TOGETHER, tile_of

PAIR_ROWS, PAIR_COLUMNS, PAIR_DEPTH = 64, 64, 64
"""A tile of the products of pairs of a sample and a class."""
FINER = tl.constexpr(2048.0)
"""What the digits that half precision leaves out are multiplied with: alone they would be too small for it."""
SIZES = ["n", "n_columns", "n_classes", "slots", "most"]
"""What changes from pool to pool: a kernel is not compiled again for it."""
SOME = 1024
"""Samples whose sums are put together at a time."""


@triton.jit
def _rounded(X, centre, U, rest, scales, norms, width, WIDTH: tl.constexpr, FINER: tl.constexpr):
    row, depth = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    here = depth < width
    x = tl.load(X + row * width + depth, mask=here, other=0.0).to(tl.float32)
    x = tl.where(here, x - tl.load(centre + depth, mask=here, other=0.0), 0.0)
    largest = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-30)
    scale = tl.exp2(8.0 - tl.ceil(tl.log2(largest)))
    u = (x * scale).to(tl.float16)
    tl.store(U + row * width + depth, u, mask=here)
    tl.store(rest + row * width + depth, ((x * scale - u.to(tl.float32)) * FINER).to(tl.float16), mask=here)
    exact = u.to(tl.float32) / scale
    tl.store(scales + row, 1.0 / scale)
    tl.store(norms + row, tl.sum(exact * exact, axis=0))


@dataclass(frozen=True)
class Rounded:
    """Samples less the centre of the classes in half precision, each divided by a power of two.

    Attributes
    ----------
    U, rest
        The samples (n, d), and what rounding left of them, times `FINER`.
    scales, norms
        The powers of two, and ‖u‖² as rounded.
    """

    U: Tensor
    rest: Tensor
    scales: Tensor
    norms: Tensor


def rounded(X: Tensor, centre: Tensor) -> Rounded:
    """Samples in half precision. A row's largest entry becomes 128 to 256: far from what that cannot hold."""
    n, width = X.shape
    U, rest = torch.empty(2, n, width, dtype=torch.float16, device=X.device)
    scales, norms = torch.empty(n, device=X.device), torch.empty(n, device=X.device)
    wide = triton.next_power_of_2(width)
    _rounded[(n,)](X, centre, U, rest, scales, norms, width, wide, FINER, num_warps=4)
    return Rounded(U, rest, scales, norms)


@triton.jit(do_not_specialize=SIZES)
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


def dots(samples: Rounded, M: Tensor) -> Tensor:
    """Products of the rows of `M` with samples as rounded, (len(M), n)."""
    U, scales = samples.U, samples.scales
    (n, width), found = U.shape, torch.empty(len(M), len(U), device=U.device)
    size = M.abs().max().clamp(min=1e-30).log2().ceil().exp2() / 2**8
    high = (M / size).half()
    low = (M / size - high.float()).half()
    high, low = (TensorDescriptor.from_tensor(part, [COLUMNS, DEPTH]) for part in (high, low))
    _dots[(-(-n // COLUMNS), -(-len(M) // COLUMNS))](
        TensorDescriptor.from_tensor(U, [COLUMNS, DEPTH]), high, low, scales * size, found, n, len(M), width,
        COLUMNS, COLUMNS, DEPTH, num_warps=8, num_stages=3,
    )  # fmt: skip
    return found


@triton.jit(do_not_specialize=SIZES)
def _inside(
    U, W, scales, offsets, lengths, owners, parts, n, n_columns, width, slots,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, TOGETHER: tl.constexpr,
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
    last = tl.load(owners + tl.minimum(column_tile * COLUMNS + COLUMNS, n_columns) - 1)
    for slot in range(last - first + 1):
        part = tl.sum(tl.where(owner[None, :] == first + slot, squares, 0.0), axis=1)
        tl.store(parts + (column_tile * slots + slot).to(tl.int64) * n + rows, part, mask=rows < n)


@dataclass(frozen=True)
class Layout:
    """Which column of the stacked components belongs to which class, and where its sums are put together.

    Attributes
    ----------
    first, owners
        Where the components of each class begin, and the end; the class of each component. On the GPU.
    places
        Which parts belong to each class, (most parts of a class, classes); -1 fills up.
    slots
        Classes in a tile, at most.
    """

    first: Tensor
    owners: Tensor
    places: Tensor
    slots: int

    @classmethod
    def of(cls, counts: Sequence[int], device: torch.device) -> "Layout":
        """The layout of classes with so many components each; at least one has some."""
        first = list(accumulate(counts, initial=0))
        owners = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        begin = owners[::COLUMNS].tolist()
        end = [*owners[COLUMNS - 1 :: COLUMNS].tolist(), int(owners[-1])][: len(begin)]
        slots = max(high - low for low, high in zip(begin, end, strict=True)) + 1
        mine = [list[int]() for _ in counts]
        for tile, (low, high) in enumerate(zip(begin, end, strict=True)):
            for c in range(low, high + 1):
                mine[c].append(tile * slots + c - low)
        most = max(map(len, mine))
        places = [[parts[i] if i < len(parts) else -1 for parts in mine] for i in range(most)]
        sent = (torch.tensor(first), owners.int(), torch.tensor(places, dtype=torch.int32))
        return cls(*(tensor.to(device) for tensor in sent), slots)

    @property
    def parts(self) -> int:
        """Sums of each sample that are written before they are put together."""
        return -(-len(self.owners) // COLUMNS) * self.slots


@triton.jit
def _halved(
    W, owners, centred, high, low, offsets, rounded_offsets, lengths, width,
    WIDTH: tl.constexpr, FINER: tl.constexpr,
):  # fmt: skip
    column, depth = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    here, at = depth < width, column * width + depth
    w = tl.load(W + at, mask=here, other=0.0)
    mean = tl.load(centred + tl.load(owners + column).to(tl.int64) * width + depth, mask=here, other=0.0)
    large = w.to(tl.float16)
    rounded = large.to(tl.float32)
    tl.store(high + at, large, mask=here)
    tl.store(low + at, ((w - rounded) * FINER).to(tl.float16), mask=here)
    tl.store(offsets + column, tl.sum(w * mean, axis=0))
    tl.store(rounded_offsets + column, tl.sum(rounded * mean, axis=0))
    tl.store(lengths + column, 1.0 / tl.sqrt(tl.sum(rounded * rounded, axis=0)))


class Classes:
    """The subspaces of some classes as the kernels need them.

    Parameters
    ----------
    means
        Of each class, (classes, d).
    W
        The components of all classes, (Σk, d).
    counts
        How many components each has; at least one has some.
    """

    def __init__(self, means: Tensor, W: Tensor, counts: Sequence[int]) -> None:
        self.means, self.W = means, W
        self.centre = means.mean(dim=0)
        self.centred = means - self.centre
        self.reaches = self.centred.square().sum(dim=1)
        self.layout = Layout.of(counts, W.device)
        self.high, self.low = torch.empty(2, *W.shape, dtype=torch.float16, device=W.device)
        self.offsets, self.rounded_offsets, self.lengths = (W.new_empty(len(W)) for _ in range(3))
        width = W.shape[1]
        _halved[(len(W),)](
            W, self.layout.owners, self.centred, self.high, self.low,
            self.offsets, self.rounded_offsets, self.lengths,
            width, triton.next_power_of_2(width), FINER, num_warps=4,
        )  # fmt: skip


def inside(samples: Rounded, classes: Classes) -> Tensor:
    """Σₖ ((u · wₖ − offsetₖ) · lengthₖ)² over the components k of each class in a tile, (parts, n)."""
    U, W, layout = samples.U, classes.high, classes.layout
    n, width = U.shape
    parts = torch.empty(layout.parts, n, device=U.device)
    _inside[(-(-n // ROWS) * -(-len(W) // COLUMNS),)](
        TensorDescriptor.from_tensor(U, [ROWS, DEPTH]), TensorDescriptor.from_tensor(W, [COLUMNS, DEPTH]),
        samples.scales, classes.rounded_offsets, classes.lengths, layout.owners, parts, n, len(W), width,
        layout.slots, ROWS, COLUMNS, DEPTH, TOGETHER, num_warps=8, num_stages=3,
    )  # fmt: skip
    return parts


@triton.jit(do_not_specialize=SIZES)
def _combined(
    parts, places, dots, reaches, norms, distances, pairs, counts, n, n_classes, close, most,
    ROWS: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = rows < n
    within = tl.zeros((ROWS,), dtype=tl.float32)
    for i in range(most):
        place = tl.load(places + i * n_classes + c)
        if place >= 0:
            within += tl.load(parts + place.to(tl.int64) * n + rows, mask=here, other=0.0)
    own = c.to(tl.int64) * n
    reach = tl.load(reaches + c) + tl.load(norms + rows, mask=here, other=0.0)
    square = reach - 2 * tl.load(dots + own + rows, mask=here, other=0.0) - within  # ‖v‖² − ‖Wv‖²
    tl.store(distances + own + rows, tl.sqrt(tl.maximum(square, 0.0)), mask=here)
    doubtful = here & (square < close * reach)
    many = tl.sum(doubtful.to(tl.int32), axis=0)
    if many > 0:
        first = tl.atomic_add(counts + c, many)
        order = tl.cumsum(doubtful.to(tl.int32), axis=0) - 1
        tl.store(pairs + own + first + order, rows, mask=doubtful)


def combined(
    parts: Tensor, dots: Tensor, samples: Rounded, classes: Classes, close: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Put what was multiplied together, without waiting for the GPU.

    Parameters
    ----------
    parts, dots
        What `inside` and `dots` gave.
    samples, classes
        What was measured to what.
    close
        The share of ‖u‖² and ‖mean‖² below which FRE² is doubtful.

    Returns
    -------
    distances, pairs, counts
        FRE of each sample to each class, (classes, n); the rows that are doubtful for each class, in no order,
        in the first places of (classes, n); and how many these are.
    """
    (m, n), places = dots.shape, classes.layout.places
    distances, pairs = torch.empty_like(dots), torch.empty_like(dots, dtype=torch.int32)
    counts = torch.zeros(m, dtype=torch.int32, device=dots.device)
    _combined[(-(-n // SOME), m)](
        parts, places, dots, classes.reaches, samples.norms, distances, pairs, counts, n, m, close,
        len(places), SOME, num_warps=4,
    )  # fmt: skip
    return distances, pairs, counts


@triton.jit(do_not_specialize=SIZES)
def _measured(
    U, rest, scales, means, high, low, offsets, first, pairs, counts, blocks, distances, lost, many_lost,
    n, n_classes, width, one, cancelled,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, FINER: tl.constexpr,
):  # fmt: skip
    long = tl.zeros((), dtype=tl.int64) + n
    for block in range(tl.program_id(0), tl.load(blocks + n_classes), tl.num_programs(0)):
        c, end = 0, n_classes  # the class of this block: blocks[c] <= block < blocks[c + 1]
        while end - c > 1:
            middle = (c + end) // 2
            if tl.load(blocks + middle) <= block:
                c = middle
            else:
                end = middle
        places = (block - tl.load(blocks + c)) * ROWS + tl.arange(0, ROWS)
        here = places < tl.load(counts + c)
        row = tl.load(pairs + c * long + places, mask=here, other=0).to(tl.int64)
        scale = tl.load(scales + row)
        start, stop = tl.load(first + c), tl.load(first + c + 1)
        square, norm = tl.zeros((ROWS,), dtype=tl.float32), tl.zeros((ROWS,), dtype=tl.float32)
        for column in range(start, stop, COLUMNS):
            columns = column + tl.arange(0, COLUMNS)
            large = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
            small = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
            for k in range(0, width, DEPTH):
                depth = k + tl.arange(0, DEPTH)
                there = row[:, None] * width + depth[None, :]
                u = tl.load(U + there, mask=depth[None, :] < width, other=0.0)
                inside = (columns[:, None] < stop) & (depth[None, :] < width)
                at = columns[:, None].to(tl.int64) * width + depth[None, :]
                w = tl.load(high + at, mask=inside, other=0.0)
                large += one * tl.dot(u, w.T)  # rounded to nearest, not cut off
                small = tl.dot(u, tl.load(low + at, mask=inside, other=0.0).T, small)
                small = tl.dot(tl.load(rest + there, mask=depth[None, :] < width, other=0.0), w.T, small)
            offset = tl.load(offsets + columns, mask=columns < stop, other=0.0)
            products = (large + small / FINER) * scale[:, None] - offset[None, :]
            square += tl.sum(products * products, axis=1)
        for k in range(0, width, DEPTH):
            depth = k + tl.arange(0, DEPTH)
            there, inside = row[:, None] * width + depth[None, :], depth[None, :] < width
            u, finer = tl.load(U + there, mask=inside, other=0.0), tl.load(rest + there, mask=inside, other=0.0)
            mean = tl.load(means + c * width + depth, mask=depth < width, other=0.0)
            v = (u.to(tl.float32) + finer.to(tl.float32) / FINER) * scale[:, None] - mean[None, :]
            norm += tl.sum(v * v, axis=1)
        says_nothing = here & (norm - square < cancelled * norm)
        tl.store(distances + c * long + row, tl.sqrt(tl.maximum(norm - square, 0.0)), mask=here)
        many = tl.sum(says_nothing.to(tl.int32), axis=0)
        if many > 0:
            place = tl.atomic_add(many_lost, many) + tl.cumsum(says_nothing.to(tl.int32), axis=0) - 1
            tl.store(lost + place, (c * long + row).to(tl.int32), mask=says_nothing)


@triton.jit(do_not_specialize=SIZES)
def _residuals(
    X, means, W, first, distances, lost, many_lost, n, width, WIDTH: tl.constexpr, COLUMNS: tl.constexpr
):
    depth = tl.arange(0, WIDTH)
    here = depth < width
    for i in range(tl.program_id(0), tl.load(many_lost), tl.num_programs(0)):
        pair = tl.load(lost + i)
        c, row = pair // n, pair % n
        x = tl.load(X + row.to(tl.int64) * width + depth, mask=here, other=0.0).to(tl.float64)
        v = x - tl.load(means + c * width + depth, mask=here, other=0.0).to(tl.float64)
        rest, stop = v, tl.load(first + c + 1)
        for column in range(tl.load(first + c), stop, COLUMNS):
            columns = column + tl.arange(0, COLUMNS)
            inside = (columns[:, None] < stop) & here[None, :]
            at = columns[:, None].to(tl.int64) * width + depth[None, :]
            w = tl.load(W + at, mask=inside, other=0.0).to(tl.float64)
            rest -= tl.sum(tl.expand_dims(tl.sum(w * v[None, :], axis=1), 1) * w, axis=0)
        tl.store(distances + pair, tl.sqrt(tl.sum(rest * rest, axis=0)).to(tl.float32))


def measured(
    X: Tensor,
    classes: Classes,
    samples: Rounded,
    found: tuple[Tensor, Tensor, Tensor],
    cancelled: float,
) -> None:
    """Measure doubtful pairs again, in place: with all digits of the components, or the residual in float64.

    Parameters
    ----------
    X, samples
        Samples (n, d), and what `rounded` made of them.
    classes
        What they are measured to.
    found
        What `combined` gave.
    cancelled
        The share of ‖v‖² below which FRE² is the square of the residual itself.
    """
    distances, pairs, counts = found
    (n, width), device = X.shape, X.device
    blocks = pad((counts + (PAIR_ROWS - 1)).div(PAIR_ROWS, rounding_mode="floor").cumsum(0), (1, 0))
    lost, many_lost = torch.empty_like(pairs), torch.zeros(1, dtype=torch.int32, device=device)
    _measured[(_programs(device),)](
        samples.U, samples.rest, samples.scales,
        classes.centred, classes.high, classes.low, classes.offsets, classes.layout.first,
        pairs, counts, blocks, distances, lost, many_lost, n, len(classes.centred), width, 1.0, cancelled,
        PAIR_ROWS, PAIR_COLUMNS, PAIR_DEPTH, FINER, num_warps=4, num_stages=3,
    )  # fmt: skip
    wide = triton.next_power_of_2(width)
    _residuals[(_programs(device),)](
        X, classes.means, classes.W, classes.layout.first, distances, lost, many_lost, n, width,
        wide, max(1, 2**14 // wide), num_warps=8,
    )  # fmt: skip


def _programs(device: torch.device) -> int:
    """How many of them a GPU runs at a time: nobody waits for it to learn how many there are to be."""
    return 4 * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
