"""What all per-class uncertainties have in common: two protocols and the registry. No formula."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

from cual.graph import Value
from cual.registry import Registry


class ClassModel(Protocol):
    """What is known of one class. Never changes: more samples make another model."""

    @property
    def n(self) -> int:
        """How many samples the model has seen."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All of the model as tensors, for `from_state`."""
        ...

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """The model whose `state` was given."""
        ...


M = TypeVar("M", bound=ClassModel)


class Uncertainty(Protocol[M]):
    """Elemental uncertainty: how far samples are from each class (paper, section 2.2.1)."""

    def fit(self, X: Tensor) -> M:
        """The model of the class whose samples are the rows of `X` (at least one)."""
        ...

    def distances(self, X: Tensor, models: Sequence[M]) -> Tensor:
        """Distance of each row of `X` to each class: (n, len(models)), float32, never negative."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> M:
        """The model whose `state` was given."""
        ...


@runtime_checkable
class Warns(Protocol):
    """An uncertainty that knows when its models cannot work (optional)."""

    def warn_about(self, models: Sequence[Any]) -> None:
        """Log one warning that names the remedy, if there is something to warn about."""
        ...


def warn_about(uncertainty: Uncertainty[Any], models: Sequence[Any]) -> None:
    """Let an uncertainty that knows when its models cannot work say so."""
    if isinstance(uncertainty, Warns):
        uncertainty.warn_about(models)


@runtime_checkable
class DrawsDistances(Protocol):
    """An uncertainty that says its formula as a graph, so that it can run elsewhere (optional)."""

    def draw(self, X: Value, models: Sequence[Any]) -> Value:
        """What `distances` computes."""
        ...


Finder = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Of each row, the distance to the nearest of some classes, and which that is; the first of equals."""


@runtime_checkable
class FindsNearest(Protocol):
    """An uncertainty that finds the nearest of many classes without measuring all distances (optional)."""

    def nearest(self, models: Sequence[Any]) -> Finder | None:
        """What finds it among these classes; None if that would not be faster."""
        ...


def nearest_of(uncertainty: Uncertainty[Any], models: Sequence[Any]) -> Finder:
    """What finds the nearest of some classes, at least one.

    >>> from cual.uncertainty.knn import KNN
    >>> knn = KNN(k=1)
    >>> models = [knn.fit(torch.tensor([[0.0, 0.0]])), knn.fit(torch.tensor([[9.0, 0.0]]))]
    >>> nearest_of(knn, models)(torch.tensor([[6.0, 0.0]]))
    (tensor([3.]), tensor([1]))
    """
    finder = uncertainty.nearest(models) if isinstance(uncertainty, FindsNearest) else None

    def measured(X: Tensor) -> tuple[Tensor, Tensor]:
        least = uncertainty.distances(X, models).min(dim=1)
        return least.values, least.indices

    return measured if finder is None else finder


CPU_CHUNK, GPU_CHUNK = 2**22, 2**28  # bytes
uncertainties: Registry[Callable[..., Uncertainty[Any]]] = Registry("uncertainty")


def row_chunks(X: Tensor, width: int) -> Iterator[slice]:
    """Slices of the rows of `X` so small that `width` float32 numbers per row stay within a memory limit.

    The limit keeps scoring's peak memory near that of its inputs and, on a CPU, the chunk in its cache.

    >>> list(row_chunks(torch.zeros(5, 2), width=CPU_CHUNK // 8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    limit = CPU_CHUNK if X.device.type == "cpu" else GPU_CHUNK
    rows = max(1, limit // (4 * max(1, width)))
    for start in range(0, len(X), rows):
        yield slice(start, start + rows)


def columns(distances: Sequence[Tensor], X: Tensor) -> Tensor:
    """Distances to each class side by side; (n, 0) when there is no class.

    >>> columns([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])], torch.zeros(2, 5))
    tensor([[1., 3.],
            [2., 4.]])
    >>> columns([], torch.zeros(2, 5)).shape
    torch.Size([2, 0])
    """
    if not distances:
        return torch.zeros(len(X), 0, device=X.device)
    return torch.stack(list(distances), dim=1)
