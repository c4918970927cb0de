"""Feature reconstruction error (eq. 3) as a member of the axis. Its formula lives in `subspace`."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cual import kernels, options
from cual.graph import Value
from cual.uncertainty.base import Finder, columns, uncertainties
from cual.uncertainty.drawing import weighted_distances
from cual.uncertainty.nearest import NearestSubspace
from cual.uncertainty.stacked import StackedSubspaces
from cual.uncertainty.subspace import ClassSubspace

log = logging.getLogger(__name__)


@uncertainties.add("fre")
class FRE:
    """FREₘ(u): distance to the principal subspace of class m (eq. 3; the ℓ2 norm, not its square).

    Parameters
    ----------
    variance : float
        Share of a class's variance that its components retain.

    >>> fre = FRE(variance=0.9)
    >>> line = fre.fit(torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]))
    >>> fre.distances(torch.tensor([[99.0, 0.0], [2.0, 3.0]]), [line]).round(decimals=3)
    tensor([[0.],
            [3.]])
    """

    def __init__(self, variance: float = 0.995) -> None:
        self.variance = options.number("variance", variance, 0, 1, without_low=True)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"variance": 0.5}]

    def fit(self, X: Tensor) -> ClassSubspace:
        """The principal subspace 𝒯ₘ of the class whose samples are the rows of `X`."""
        return ClassSubspace.fit(X, self.variance)

    def warn_about(self, models: Sequence[ClassSubspace]) -> None:
        """Say so where a subspace is all of space: every sample lies in it, so nothing is ever far from it."""
        full = [model for model in models if model.k == model.mean.numel()]
        if full:
            log.warning(
                "FRE keeps all %d dimensions of %d of %d classes, so that no sample can lie outside them and "
                "distances mean nothing. Let it retain less than %g of the variance "
                '(learner={"uncertainty": {"variance": 0.9}}), or use another distance '
                '(learner={"uncertainty": "mahalanobis"}).',
                full[0].k,
                len(full),
                len(models),
                self.variance,
            )

    def distances(self, X: Tensor, models: Sequence[ClassSubspace]) -> Tensor:
        """FREₘ(u) of each row u of `X` to each class m, (n, len(models))."""
        if StackedSubspaces.pays(X, models):
            return StackedSubspaces(models).distances(X)
        return columns([subspace.fre(X) for subspace in models], X)

    def nearest(self, models: Sequence[ClassSubspace]) -> Finder | None:
        """Finds the class with the least FRE: on a GPU all are measured at once, else bounds rule many out."""
        if kernels.usable(models[0].basis) and any(model.k for model in models):
            return StackedSubspaces(models).nearest
        return NearestSubspace(models) if NearestSubspace.pays(models) else None

    def draw(self, X: Value, models: Sequence[ClassSubspace]) -> Value:
        """FREₘ(u) as a graph."""
        return weighted_distances(X, models, [1.0] * len(models), [torch.zeros(model.k) for model in models])

    def load(self, state: Mapping[str, Tensor]) -> ClassSubspace:
        """The subspace whose `state` was given."""
        return ClassSubspace.from_state(state)
