"""What rows must be before a features folder takes them: as wide as it is, finite, with ids that last."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cual.data.folder.manifest import Manifest
from cual.errors import BadFeatures, BadLabels
from cual.types import AnyArray, Label


def check_table(ids: Sequence[Any], labels: Sequence[Any]) -> None:
    """Ids and labels are names or whole numbers: whatever else, JSON and numpy would change on the way.

    >>> check_table(["a.jpg", 7], ["cat", None])
    >>> check_table([0.5], [])
    Traceback (most recent call last):
    cual.errors.BadLabels: ids are names or whole numbers, not 0.5
    """
    for what, values in (("ids", ids), ("labels", [v for v in labels if v is not None])):
        for value in values:
            if not isinstance(value, str | int) or isinstance(value, bool):
                raise BadLabels(f"{what} are names or whole numbers, not {value!r}")


def as_rows(X: AnyArray, ids: Sequence[Label], manifest: Manifest) -> AnyArray:
    """Features in the folder's type; refused if they do not fit it, or are no numbers.

    >>> as_rows(np.array([[0.5, 1e6]]), ["a.jpg"], Manifest(2, "float16"))
    Traceback (most recent call last):
    cual.errors.BadFeatures: the features of 1 of 1 samples do not fit into float16; use float32; ...
    """
    rows, n = np.asarray(X), len(ids)
    if rows.shape != (n, manifest.width):
        raise BadFeatures(
            f"{n} ids with features of the shape {rows.shape}; they must be {manifest.width} wide"
        )
    with np.errstate(over="ignore"):
        kept = rows.astype(manifest.dtype)
    bad = np.flatnonzero(~np.isfinite(kept).all(axis=1))
    if len(bad):
        lost = np.isfinite(rows[bad]).all()
        why = f"do not fit into {manifest.dtype}; use float32" if lost else "are NaN or infinite"
        raise BadFeatures(f"the features of {len(bad)} of {n} samples {why}; the first is {ids[bad[0]]!r}")
    return kept
