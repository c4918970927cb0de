"""Kernels in Triton, for GPUs: products of matrices of which only little is kept. Optional.

Nobody has to know of them but `uncertainty.stacked` and `learners.prototypes.search`. Where there is no Triton,
plain PyTorch does the same.
"""

from importlib.util import find_spec

from torch import Tensor


def usable(X: Tensor) -> bool:
    """Whether kernels can work on such a matrix: there is Triton, it is on a GPU, rows start at 16 bytes."""
    return X.is_cuda and X.shape[1] % 8 == 0 and find_spec("triton") is not None
