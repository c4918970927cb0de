"""Mahalanobis distance to one Gaussian per class, usable with fewer samples than features."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cual import options
from cual.graph import Value
from cual.uncertainty.base import columns, uncertainties
from cual.uncertainty.drawing import weighted_distances
from cual.uncertainty.subspace import ClassSubspace

TINY = 1e-12  # variance of a class that is all zeros


@uncertainties.add("mahalanobis")
class Mahalanobis:
    """Distance to a class's Gaussian: its variances inside the principal subspace, their average outside.

    The covariance is shrunk towards an isotropic one of the same total variance, which counts as one sample.
    Where there is no variance (one sample, constant features), the mean square of the class mean's features
    stands in for it: the only scale that such a class has.

    Parameters
    ----------
    variance : float
        Share of a class's variance that is modelled direction by direction.

    >>> mahalanobis = Mahalanobis()
    >>> wide = mahalanobis.fit(torch.tensor([[-9.0, 0.1], [9.0, 0.0], [0.0, -0.1]]))
    >>> along, across = mahalanobis.distances(torch.tensor([[6.0, 0.0], [0.0, 6.0]]), [wide]).flatten()
    >>> bool(along < across)
    True
    """

    def __init__(self, variance: float = 0.995) -> None:
        self.variance = options.number("variance", variance, 0, 1, without_low=True)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"variance": 0.5}]

    def fit(self, X: Tensor) -> ClassSubspace:
        """Mean and leading variances of the class whose samples are the rows of `X`."""
        return ClassSubspace.fit(X, self.variance)

    def distances(self, X: Tensor, models: Sequence[ClassSubspace]) -> Tensor:
        """Mahalanobis distance of each row of `X` to each class, (n, len(models))."""
        return columns([_mahalanobis(X, subspace) for subspace in models], X)

    def draw(self, X: Value, models: Sequence[ClassSubspace]) -> Value:
        """The distances as a graph."""
        variances = [_variances(subspace) for subspace in models]
        return weighted_distances(
            X, models, [1 / outside for _, outside in variances], [1 / inside for inside, _ in variances]
        )

    def load(self, state: Mapping[str, Tensor]) -> ClassSubspace:
        """The model whose `state` was given."""
        return ClassSubspace.from_state(state)


def _variances(subspace: ClassSubspace) -> tuple[Tensor, float]:
    """Along each component, and along any direction outside them."""
    k, d = subspace.components.shape
    prior = subspace.total / d or max(TINY, float(subspace.mean.double().square().mean()))
    inside = subspace.variances + (prior - subspace.variances) / subspace.n
    left = max(0.0, subspace.total - float(subspace.variances.sum(dtype=torch.float64)))
    outside = left / max(1, d - k)
    outside += (prior - outside) / subspace.n
    return inside, outside


def _mahalanobis(X: Tensor, subspace: ClassSubspace) -> Tensor:
    inside, outside = _variances(subspace)
    squares = torch.empty(len(X), device=X.device)
    for rows, norm, p in subspace.projections(X):
        p.square_()
        squares[rows] = (norm - p.sum(1)).clamp(min=0) / outside + (p / inside).sum(1)
    return squares.sqrt_()
