"""Distances to class subspaces as a graph, all classes at once. As tensors, each has a file of its own."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cual.graph import Value
from cual.uncertainty.subspace import ClassSubspace


def weighted_distances(
    X: Value, models: Sequence[ClassSubspace], outside: Sequence[float], inside: Sequence[Tensor]
) -> Value:
    """√(outsideₘ (‖v‖² − ‖Wv‖²) + Σᵢ insideₘᵢ (Wv)ᵢ²) of each row u and class m, with v = u − mean.

    In float64, with components that are orthonormal to its last digits: then the difference loses nothing that
    counts, and one matrix product does for all classes.
    """
    means = torch.stack([model.mean for model in models]).double().cpu()
    centre, weights = means.mean(dim=0), torch.tensor(outside, dtype=torch.float64)
    squares = X.squared_distances(means) * weights
    W = torch.cat([_orthonormal(model.components) for model in models])
    if len(W):
        owners = torch.arange(len(models)).repeat_interleave(torch.tensor([model.k for model in models]))
        along = (X.to(np.float64) - centre) @ W.T - (W * (means - centre)[owners]).sum(dim=1)
        less = torch.cat(list(inside)).double().cpu() - weights[owners]
        belongs = torch.zeros(len(W), len(models), dtype=torch.float64)
        belongs[torch.arange(len(W)), owners] = less
        squares = squares + (along * along) @ belongs
    return squares.at_least(0.0).sqrt().to(np.float32)


def _orthonormal(components: Tensor) -> Tensor:
    """Components (k, d), orthonormal in float32, made so in float64; directions and order stay."""
    rows = components.double().cpu()
    return torch.linalg.qr(rows.T).Q.T if len(rows) else rows
