"""The one type that features come in: rows, ids, labels, encoder, origin. Files are read beside it.

Whatever reads or makes features gives a `Table`, and its shape, labels and ids are checked when it is made, so
nobody after that checks them again. Numbers that are NaN or infinite are found by whoever first reads all rows
(`cual.data.pool`): a table may lie on disk, and be larger than memory.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from cual.data.ids import check_ids
from cual.errors import BadFeatures, BadLabels
from cual.types import AnyArray


@dataclass(frozen=True)
class Table:
    """Features with what belongs to them; `X` keeps the precision it has on disk.

    >>> table = Table(np.zeros((2, 3), np.float16), y=np.array([1, 0]), class_names=("cat", "dog"))
    >>> table.labels().tolist()
    ['dog', 'cat']
    >>> table.sha256() == Table(table.X, y=np.array(["dog", "cat"])).sha256()
    True
    """

    X: AnyArray
    y: AnyArray | None = None
    ids: AnyArray | None = None
    class_names: tuple[str, ...] | None = None
    encoder: str | None = None
    """Fingerprint of the encoder that made them, where it is known."""
    unlabelled: str | None = None
    """Why there is no `y`, where some of the rows do have a label."""
    source: str | None = None
    """Where they came from: the file or folder that the user named."""
    domain: AnyArray | None = None
    """Of which look each row is (photo, sketch, a month), where that is known."""

    def __post_init__(self) -> None:
        check_rows(self.X, self.X.dtype.kind in "fiub", self._name)
        if self.y is not None:
            self._check_labels(self.y)
        if self.ids is not None:
            check_ids(self.ids, len(self.X), self._name)
        if self.domain is not None and (
            self.domain.shape != (len(self.X),) or self.domain.dtype.kind not in "iuU"
        ):
            raise BadLabels(
                f"{self._name}: domain must hold a name or whole number for each of {len(self.X)} rows, not "
                f"{self.domain.dtype} of shape {self.domain.shape}"
            )

    def __len__(self) -> int:
        return len(self.X)

    def labels(self) -> AnyArray:
        """The label of each row: its class name where there are names, what `y` holds otherwise."""
        if self.y is None:
            raise BadLabels(f"{self.source or 'the table'} has no labels: {self.unlabelled or 'there is no y'}")
        if self.class_names is not None and self.y.dtype.kind in "iu":
            return np.array(self.class_names)[self.y]
        return self.y

    def sha256(self) -> str:
        """Fingerprint of features, labels and looks, the same whatever file format they came from."""
        digest = hashlib.sha256()
        arrays = (self.X, None if self.y is None else self.labels(), self.domain)
        for array in (array for array in arrays if array is not None):
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            for start in range(0, len(array), 4096):
                digest.update(np.ascontiguousarray(array[start : start + 4096]).tobytes())
        return digest.hexdigest()

    @property
    def _name(self) -> str:
        """What an error calls it."""
        return self.source or "X"

    def _check_labels(self, y: AnyArray) -> None:
        n = len(self.X)
        if y.shape != (n,):
            raise BadLabels(f"{self._name}: {n} rows but labels of shape {y.shape}")
        if y.dtype.kind not in "iuU":
            raise BadLabels(f"{self._name}: labels must be whole numbers or names, not {y.dtype}")
        if self.class_names is None or y.dtype.kind not in "iu" or not n:
            return
        lowest = int(y.min())
        highest = int(y.max())
        if lowest < 0 or highest >= len(self.class_names):
            raise BadLabels(
                f"{self._name}: labels run from {lowest} to {highest}, but there are {len(self.class_names)} "
                "class names"
            )


def check_rows(X: Any, real: bool, what: str) -> None:
    """Refuse an array or tensor that is no table of numbers; `real` says whether its type is one of numbers.

    >>> check_rows(np.zeros(3), True, "pool")
    Traceback (most recent call last):
    cual.errors.BadFeatures: pool has the shape (3,); features are a table (samples, width)
    """
    if not real:
        raise BadFeatures(f"{what} holds {X.dtype}, not real numbers")
    if X.ndim != 2 or not X.shape[1]:
        raise BadFeatures(f"{what} has the shape {tuple(X.shape)}; features are a table (samples, width)")
