"""How large a product is cut into tiles, and in which order they are computed."""
# pyright: basic
# Triton's language has no types.

import triton
import triton.language as tl

ROWS, COLUMNS, DEPTH = 256, 128, 64
"""A tile of the product, and how much of the features is multiplied at a time."""
TOGETHER = 8
"""Row tiles that go through the same columns one after the other, while these are in the cache."""


@triton.jit
def tile_of(program, n, n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TOGETHER: tl.constexpr):
    """Which tile a program computes: that of which rows, and of which columns."""
    row_tiles, column_tiles = tl.cdiv(n, ROWS), tl.cdiv(n_columns, COLUMNS)
    group = program // (TOGETHER * column_tiles)
    tall = tl.minimum(row_tiles - group * TOGETHER, TOGETHER)
    place = program % (TOGETHER * column_tiles)
    return group * TOGETHER + place % tall, place // tall
