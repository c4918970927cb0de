"""Names for the array types and callbacks that several modules share. Next to no logic."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
Row: TypeAlias = dict[str, Any]
"""One plain JSON row of a ledger, a history or a journal."""


class LazyRows(ABC):
    """A table of numbers (n, d) that lies on disk; indexing reads the rows asked for, and only those."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ndim = 2
    encoder: str | None
    """Fingerprint of the encoder that made the rows, where it is known."""

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, rows: Any) -> AnyArray: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.asarray(self[:], dtype=dtype)

    @abstractmethod
    def reference(self) -> Row:
        """Where the rows lie, as plain JSON, so that a saved adaptation need not copy them."""


if TYPE_CHECKING:
    ArrayLike: TypeAlias = AnyArray | Tensor | LazyRows
else:
    ArrayLike = Any  # a name is not worth importing torch: processes that only decode images have no use for it
Label: TypeAlias = str | int
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, total)``; the command line turns it into bars."""
