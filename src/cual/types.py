"""Names for the array types and callbacks that several modules share. No logic."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
ArrayLike: TypeAlias = AnyArray | Tensor
Row: TypeAlias = dict[str, Any]
"""One plain JSON row of a ledger, a history or a journal."""
Label: TypeAlias = str | int
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, total)``; the command line turns it into bars."""
