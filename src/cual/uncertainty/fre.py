"""Feature reconstruction error (eq. 3) as a member of the axis. Its formula lives in `subspace`."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from cual.uncertainty.base import columns, uncertainties
from cual.uncertainty.subspace import ClassSubspace


@uncertainties.add("fre")
class FRE:
    """FREₘ(u): distance to the principal subspace of class m (eq. 3; the ℓ2 norm, not its square).

    Parameters
    ----------
    variance : float
        Share of a class's variance that its components retain.
    """

    def __init__(self, variance: float = 0.995) -> None:
        self.variance = variance

    def fit(self, X: Tensor) -> ClassSubspace:
        """The principal subspace 𝒯ₘ of the class whose samples are the rows of `X`."""
        return ClassSubspace.fit(X, self.variance)

    def distances(self, X: Tensor, models: Sequence[ClassSubspace]) -> Tensor:
        """FREₘ(u) of each row u of `X` to each class m, (n, len(models))."""
        return columns([subspace.fre(X) for subspace in models], X)

    def load(self, state: Mapping[str, Tensor]) -> ClassSubspace:
        """The subspace whose `state` was given."""
        return ClassSubspace.from_state(state)
