"""Ids of samples: a str or an int each, no two alike. The only check of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cual.errors import BadFeatures, DuplicateIds
from cual.types import AnyArray, Label


def check_ids(ids: Sequence[Any] | AnyArray, n: int, what: str) -> tuple[Label, ...]:
    """The ids of `n` rows of `what`, or an error that names the row at fault.

    >>> check_ids(np.array(["a", "b"]), 2, "pool")
    ('a', 'b')
    >>> check_ids(["a", "b", "a"], 3, "pool")
    Traceback (most recent call last):
    cual.errors.DuplicateIds: the id 'a' stands in pool rows 0 and 2; ids must be unique
    """
    values: list[Any] = list(ids.tolist() if isinstance(ids, np.ndarray) else ids)
    if len(values) != n:
        raise BadFeatures(f"{n} {what} samples came with {len(values)} ids")
    plain: list[Label] = []
    for row, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise BadFeatures(f"the id of {what} row {row} is {value!r}; an id is a str or an int")
        plain.append(value if isinstance(value, str) else int(value))
    if len(set(plain)) < n:
        first_row: dict[Label, int] = {}
        for row, value in enumerate(plain):
            if first_row.setdefault(value, row) != row:
                raise DuplicateIds(
                    f"the id {value!r} stands in {what} rows {first_row[value]} and {row}; ids must be unique"
                )
    return tuple(plain)
