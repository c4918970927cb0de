"""One value for each sample, however it came: as a Python list. What the values must be, others say."""

from collections.abc import Iterable, Mapping, Set
from typing import Any, cast


def listed(values: Any) -> list[Any] | None:
    """The values of a list, array, tensor or column; None where it is one value, or has no order.

    A text is one value: its letters are not meant. Keys of a mapping are not either.

    >>> listed(("a", "b")), listed("ab"), listed(3)
    (['a', 'b'], None, None)
    """
    if isinstance(values, str | bytes | Mapping | Set):
        return None
    try:
        plain = values.tolist() if hasattr(values, "tolist") else values
        return list(cast("Iterable[Any]", plain))
    except (TypeError, ValueError, RuntimeError):  # of arrays and tensors without a dimension, or without data
        return None
