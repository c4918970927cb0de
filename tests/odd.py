"""Odd things that somebody may pass where something else was meant. What doors do with them, tests say."""

from datetime import datetime
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

HALF = "half \ud800"
THINGS: list[Any] = [
    None,
    True,
    0,
    -1,
    2**64,
    1.5,
    float("nan"),
    float("inf"),
    1j,
    "",
    "cat",
    "q0",
    HALF,
    b"cat",
    (),
    [],
    {},
    set[str](),
    ["cat"],
    [["cat"], []],
    [None],
    [[1.0, 2.0], [3.0]],
    {"cat": "dog"},
    {None: 1},
    {"cat"},
    range(3),
    object(),
    len,
    int,
    datetime(2026, 1, 1),
    np.array(3),
    np.array("cat"),
    np.array(None),
    np.float32(2.5),
    np.str_("cat"),
    np.bool_(True),
    np.empty(0),
    np.empty((0, 16)),
    np.empty((3, 0)),
    np.zeros(16),
    np.zeros((1, 1, 16)),
    np.zeros((2, 16), "datetime64[s]"),
    np.zeros((2, 16), [("a", "f4")]),
    np.array([["a"]]),
    np.array([None, 3], dtype=object),
    np.full((2, 16), np.nan),
    np.full((2, 16), 1e30),
    np.ma.masked_all((2, 16)),
    torch.tensor(3),
    torch.empty(0),
    torch.zeros(2, 16, dtype=torch.complex64),
    torch.zeros(2, 16, device="meta"),
    torch.zeros(2, 16).to_sparse(),
]
things = st.sampled_from(THINGS)
"""Each of them; text and numbers that nobody thought of come from `anything`."""
anything = things | st.text() | st.integers() | st.floats() | st.lists(things, max_size=3)
