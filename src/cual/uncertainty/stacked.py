"""FRE to many classes at once on a GPU: the components of all classes as one matrix, in half precision.

A sample is rounded to half precision once, and everything is measured of the rounded one: that moves FRE by
less than 1e-5 of itself. Rounding the components moves ‖Wv‖² by some 1e-5 of it, which is too much only where
FRE is small. Such pairs of a sample and a class, in practice those of samples that the class was learned from,
are measured again with all digits, and where FRE is next to nothing, by the residual itself.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cual import kernels
from cual.uncertainty.subspace import ClassSubspace

CLOSE = 0.02
"""Half precision gives FRE to 1e-3 unless FRE² is below this share of what it is the difference of: the squared
lengths of sample and class mean."""
CANCELLED = 3e-4
"""FRE²/‖v‖² below which the second measurement does not either."""
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
        from cual.kernels.subspaces import Classes

        means, W = (
            torch.stack([model.mean for model in models]),
            torch.cat([model.components for model in models]),
        )
        self._classes = Classes(means, W, [model.k for model in models])

    @staticmethod
    def pays(X: Tensor, models: Sequence[ClassSubspace]) -> bool:
        """Whether there is a GPU with Triton, and enough to do for it."""
        return kernels.usable(X) and len(X) * sum(model.k for model in models) >= WORTH_IT

    def distances(self, X: Tensor) -> Tensor:
        """FRE of each row of `X` to each class, (n, classes)."""
        parts = list(self._in_parts(X))
        return parts[0].T if len(parts) == 1 else torch.cat([distances.T for distances in parts])

    def nearest(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Of each row of `X`, the distance to the nearest class, and which that is."""
        least = [distances.min(dim=0) for distances in self._in_parts(X)]
        return torch.cat([part.values for part in least]), torch.cat([part.indices for part in least])

    def _in_parts(self, X: Tensor) -> Iterator[Tensor]:
        rows = max(1, PARTS // (4 * self._classes.layout.parts))
        return (self._distances(part.contiguous()) for part in X.split(rows))

    def _distances(self, X: Tensor) -> Tensor:
        """FRE of each row of `X` to each class, (classes, n). Nothing here waits for the GPU."""
        from cual.kernels.subspaces import combined, dots, inside, measured, rounded

        samples, classes = rounded(X, self._classes.centre), self._classes
        parts = inside(samples, classes)
        found = combined(parts, dots(samples, classes.centred), samples, classes, CLOSE)
        measured(X, classes, samples, found, CANCELLED)
        return found[0]
