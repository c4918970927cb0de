"""DataFrames as features: their values, their index as ids. No package of frames is imported here."""

from typing import Any

import numpy as np

from cual.errors import BadLabels
from cual.types import AnyArray


def index_of(X: Any) -> AnyArray | None:
    """The index of a pandas DataFrame, as ids; None for anything that has none.

    >>> import pandas as pd
    >>> index_of(pd.DataFrame([[0.5], [0.7]], index=["a.jpg", "b.jpg"])).tolist(), index_of([[0.5]])
    (['a.jpg', 'b.jpg'], None)
    """
    return np.asarray(X.index) if hasattr(X, "iloc") else None


def values_of(X: Any) -> AnyArray:
    """The numbers of a DataFrame, of a list of lists, of whatever numpy takes.

    Columns that may have gaps (pandas' own types) come as objects, and gaps as NaN, which is reported later.

    >>> import pandas as pd
    >>> values_of(pd.DataFrame({"x": pd.array([1, None], dtype="Int64")})).tolist()
    [[1.0], [nan]]
    """
    values = np.asarray(X)
    if values.dtype.kind != "O" or not hasattr(X, "to_numpy"):
        return values
    try:
        return X.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        return values


def check_aligned(X: Any, y: Any) -> None:
    """Refuse a DataFrame and a Series whose rows are named alike, but stand in another order.

    >>> import pandas as pd
    >>> X = pd.DataFrame([[0.5], [0.7]], index=["a", "b"])
    >>> check_aligned(X, pd.Series(["cat", "dog"], index=["b", "a"]))
    Traceback (most recent call last):
    cual.errors.BadLabels: the indexes of X and of the labels differ, first in row 0: 'a' and 'b'; ...
    """
    of_X, of_y = index_of(X), index_of(y)
    if of_X is None or of_y is None:
        return
    for row, (one, other) in enumerate(zip(of_X.tolist(), of_y.tolist(), strict=False)):
        if one != other:
            raise BadLabels(
                f"the indexes of X and of the labels differ, first in row {row}: {one!r} and {other!r}; sort "
                "them alike, or give arrays"
            )
