"""Distance to the k-th nearest sample of a class. Keeps samples, so its memory is capped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from cual import options
from cual.graph import Value, joined
from cual.uncertainty.base import columns, row_chunks, uncertainties

GOLDEN = 0.6180339887498949  # its multiples modulo 1 fall evenly, wherever one stops


@dataclass(frozen=True, eq=False)
class ClassSamples:
    """Samples of one class, thinned evenly over the order of arrival to at most `cap`.

    Attributes
    ----------
    n : int
        Samples seen.
    samples : Tensor
        Those kept, (min(n, cap), d), float32.
    arrival : Tensor
        Of each kept sample, how many were seen before it.
    cap : int
        How many are kept at most.

    >>> samples = ClassSamples.fit(torch.arange(10.0)[:, None], cap=4)
    >>> samples.n, samples.samples.flatten().tolist(), samples.kth_nearest(torch.tensor([[10.0]]), k=1)
    (10, [0.0, 2.0, 5.0, 7.0], tensor([3.]))
    >>> ClassSamples.from_state(samples.state()).arrival.tolist()
    [0, 2, 5, 7]
    """

    n: int
    samples: Tensor
    arrival: Tensor
    cap: int

    @classmethod
    def fit(cls, X: Tensor, cap: int) -> Self:
        """The samples of the class that are the rows of `X`; where there are too many, evenly thinned."""
        samples = X.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        arrival = torch.arange(len(X), device=X.device)
        if len(X) > cap:
            kept = (arrival.double() * GOLDEN).frac().argsort(stable=True)[:cap].sort().values
            samples = samples[kept]
            arrival = arrival[kept]
        return cls(len(X), samples, arrival, cap)

    def kth_nearest(self, X: Tensor, k: int) -> Tensor:
        """Distance of each row of `X` to its k-th nearest kept sample (or the farthest of fewer), (n,)."""
        k = min(k, len(self.samples))
        centre = self.samples.mean(0)
        centred = self.samples - centre
        norms = torch.linalg.vector_norm(centred, dim=1).square()
        distances = torch.empty(len(X), device=X.device)
        for rows in row_chunks(X, 2 * X.shape[1] + len(centred)):
            v = (X[rows] - centre).float()
            order = torch.addmm(norms, v, centred.T, alpha=-2)  # ‖v - s‖² less ‖v‖², which orders nothing
            nearest = order.kthvalue(k, dim=1).indices
            distances[rows] = torch.linalg.vector_norm(v - centred[nearest], dim=1)
        return distances

    def draw_kth_nearest(self, X: Value, k: int) -> Value:
        """The same as a graph, (n, 1)."""
        k = min(k, len(self.samples))
        nearest, _ = X.squared_distances(self.samples).top(k, largest=False)
        return nearest.max(1, keep=True).sqrt().to(np.float32)

    def state(self) -> dict[str, Tensor]:
        """All of the model as tensors, for `from_state`."""
        return {
            "n": torch.tensor(self.n),
            "samples": self.samples,
            "arrival": self.arrival,
            "cap": torch.tensor(self.cap),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """The model whose `state` was given."""
        return cls(int(state["n"]), state["samples"], state["arrival"], int(state["cap"]))


@uncertainties.add("knn")
class KNN:
    """Distance to the k-th nearest sample of a class.

    Parameters
    ----------
    k : int
        Which neighbour; the farthest one where a class has fewer samples.
    cap : int
        Samples kept per class at most.

    >>> knn = KNN(k=2)
    >>> cats = knn.fit(torch.tensor([[0.0], [1.0], [5.0]]))
    >>> knn.distances(torch.tensor([[0.0], [4.0]]), [cats])
    tensor([[1.],
            [3.]])
    """

    def __init__(self, k: int = 5, cap: int = 2000) -> None:
        self.k = options.whole("k", k)
        self.cap = options.whole("cap", cap)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"k": 1, "cap": 20}]

    def fit(self, X: Tensor) -> ClassSamples:
        """The samples of the class that are the rows of `X`, thinned to the cap."""
        return ClassSamples.fit(X, self.cap)

    def distances(self, X: Tensor, models: Sequence[ClassSamples]) -> Tensor:
        """Distance of each row of `X` to its k-th nearest sample of each class, (n, len(models))."""
        return columns([model.kth_nearest(X, self.k) for model in models], X)

    def draw(self, X: Value, models: Sequence[ClassSamples]) -> Value:
        """The distances as a graph."""
        return joined([model.draw_kth_nearest(X, self.k) for model in models])

    def load(self, state: Mapping[str, Tensor]) -> ClassSamples:
        """The model whose `state` was given."""
        return ClassSamples.from_state(state)
