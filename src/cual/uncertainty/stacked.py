"""FRE to many classes at once on a GPU: the components of all classes as one matrix, in half precision.

A sample is rounded to half precision once, and everything is measured of the rounded one: that moves FRE by
less than 1e-5 of itself. Rounding the components moves ‖Wv‖² by some 1e-5 of it, which is too much only where
FRE is small. Such pairs of a sample and a class, in practice those of samples that the class was learned from,
are measured again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cual import kernels
from cual.uncertainty.subspace import ClassSubspace

CLOSE = 0.02
"""Half precision gives FRE to 1e-3 unless FRE² is below this share of what it is the difference of: the squared
lengths of sample and class mean."""
CANCELLED = 3e-4
"""FRE²/‖v‖² below which the second measurement, nearly in single precision, does not either."""
WORTH_IT = 2**24
"""Products of a sample and a component below which nothing is gained."""
PARTS = 2**29
"""Bytes that sums of a chunk of samples may take before they are put together."""


class StackedSubspaces:
    """The subspaces of some classes, side by side; one of them has a component at least.

    Parameters
    ----------
    models
        The classes, all on one GPU.
    """

    def __init__(self, models: Sequence[ClassSubspace]) -> None:
        from cual.kernels.subspaces import Layout

        self._models = models
        self._means = torch.stack([model.mean for model in models])
        self._centre = self._means.mean(dim=0)
        self._centred = self._means - self._centre
        self._W = torch.cat([model.components for model in models])
        self._layout = Layout.of([model.k for model in models], self._W.device)
        self._half = self._W.half()
        rounded = self._half.float()
        self._offsets = (rounded * self._centred[self._layout.owners]).sum(dim=1)
        self._lengths = 1 / torch.linalg.vector_norm(rounded, dim=1)

    @staticmethod
    def pays(X: Tensor, models: Sequence[ClassSubspace]) -> bool:
        """Whether there is a GPU with Triton, and enough to do for it."""
        return kernels.usable(X) and len(X) * sum(model.k for model in models) >= WORTH_IT

    def distances(self, X: Tensor) -> Tensor:
        """FRE of each row of `X` to each class, (n, classes)."""
        return torch.cat([distances.T for distances in self._in_parts(X)])

    def nearest(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Of each row of `X`, the distance to the nearest class, and which that is."""
        least = [distances.min(dim=0) for distances in self._in_parts(X)]
        return torch.cat([part.values for part in least]), torch.cat([part.indices for part in least])

    def _in_parts(self, X: Tensor) -> Iterator[Tensor]:
        rows = max(1, PARTS // (4 * self._layout.parts))
        return (self._distances(part.contiguous()) for part in X.split(rows))

    def _distances(self, X: Tensor) -> Tensor:
        """FRE of each row of `X` to each class, (classes, n)."""
        from cual.kernels.subspaces import dots, inside, measured, rounded

        U, scales, norms = rounded(X, self._centre)
        within = inside(U, scales, self._half, self._offsets, self._lengths, self._layout)
        reach = torch.linalg.vector_norm(self._centred, dim=1).square()[:, None] + norms
        squares = (reach - 2 * dots(U, scales, self._centred)).sub_(within).clamp_(min=0)  # ‖v‖² − ‖Wv‖²
        classes, rows = (squares < CLOSE * reach).nonzero(as_tuple=True)
        if len(rows):
            within, norms = measured(X, self._means, self._W, self._layout, classes, rows)
            squares[classes, rows] = (norms - within).clamp(min=0)
            cancelled = norms - within < CANCELLED * norms
            self._take_residuals(X, squares, classes, rows, cancelled)
        return squares.sqrt_()

    def _take_residuals(self, X: Tensor, squares: Tensor, classes: Tensor, rows: Tensor, which: Tensor) -> None:
        """Measure the residual itself, in float64, where a difference says nothing; in place."""
        some = which.nonzero()[:, 0]
        mine = classes[some].tolist()
        for c in sorted(set(mine)):
            first, end = bisect_left(mine, c), bisect_right(mine, c)
            for part in rows[some[first:end]].split(4096):
                squares[c, part] = self._models[c].residual_square(X[part])
