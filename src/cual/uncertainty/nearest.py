"""The nearest class among many, exactly, without measuring the distance to each: bounds rule most of them out.

In fewer dimensions everything lies closer together. So the distance to a subspace, both projected onto some
shared directions, never exceeds the true one; a class whose bound exceeds a distance that was measured is out.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cual.uncertainty.base import row_chunks
from cual.uncertainty.subspace import ClassSubspace

MANY = 64
"""Fewer classes are not worth the bounds."""
SHARED = 512
"""Shared directions, at most; and at most half of the features."""
LEADING = 16
"""Components of a class that the shared directions are sought among, with its mean."""
SOUGHT_IN = 1024
"""Classes that the shared directions are sought among, at most."""
QUICK = 16
"""Directions of the first bound, for each class."""
ROUNDING = 1e-4
"""Of the lengths that a bound is made of: what rounding may have added to it, and more."""


class NearestSubspace:
    """Finds the class with the least FRE.

    Directions that lie outside a class's subspace see a part of FRE. The first bound takes a few of them, the
    second one all that the shared directions span; only then FRE itself is measured.

    Parameters
    ----------
    models
        The classes, two at least.

    Examples
    --------
    >>> lines = [ClassSubspace.fit(torch.tensor([[0.0, 0, c], [1, 0, c]])) for c in (0.0, 5.0, 9.0)]
    >>> nearest = NearestSubspace(lines)
    >>> [found.tolist() for found in nearest(torch.tensor([[7.0, 0, 8], [3, 0, 1]]))]
    [[1.0, 1.0], [2, 0]]
    """

    def __init__(self, models: Sequence[ClassSubspace]) -> None:
        self._models = models
        means = torch.stack([model.mean for model in models])
        self._centre = means.mean(dim=0)
        self._shared = _shared_directions(models, self._centre)
        self._means = (means - self._centre) @ self._shared.T
        self._inside = [_orthonormal(model.components @ self._shared.T) for model in models]
        outside = [_outside(inside, QUICK) for inside in self._inside]
        self._quick = torch.stack(outside)
        self._offsets = torch.einsum("cpm,cm->cp", self._quick, self._means)
        self.bounded, self.measured = 0, 0
        """Distances that were asked for so far, and those of them that had to be measured."""

    @staticmethod
    def pays(models: Sequence[ClassSubspace]) -> bool:
        """Whether bounds save more than they cost: many classes, whose subspaces leave directions free."""
        if len(models) < MANY:
            return False
        most = sorted(model.k for model in models)[len(models) * 3 // 4]
        return most + QUICK <= min(SHARED, models[0].mean.numel() // 2)

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Of each row of `X`, the distance to the nearest class, and which that is."""
        best = torch.full((len(X),), torch.inf, device=X.device)
        nearest = torch.zeros(len(X), dtype=torch.int64, device=X.device)
        if not len(X):
            return best, nearest
        Z = torch.cat([(X[rows] - self._centre) @ self._shared.T for rows in row_chunks(X, X.shape[1])])
        bounds = self._first_bounds(Z)
        self.bounded += bounds.numel()
        likeliest = torch.zeros_like(bounds, dtype=torch.bool)
        likeliest[torch.arange(len(X)), bounds.argmin(dim=1)] = True
        self._measure(likeliest, bounds, X, Z, best, nearest)
        self._measure((bounds <= best[:, None]) & ~likeliest, bounds, X, Z, best, nearest)
        return best, nearest

    def _measure(
        self, pairs: Tensor, bounds: Tensor, X: Tensor, Z: Tensor, best: Tensor, nearest: Tensor
    ) -> None:
        """Measure some pairs of rows and classes, and take the class for the nearest where it is, in place."""
        classes, every = pairs.T.nonzero(as_tuple=True)
        counts = torch.bincount(classes, minlength=len(self._models)).tolist()
        for j, rows in enumerate(every.split(counts)):
            if not len(rows):
                continue
            rows = rows[bounds[rows, j] <= best[rows]]  # others may have come nearer by now
            rows = rows[self._second_bounds(j, Z[rows]) <= best[rows]]
            self.measured += len(rows)
            distances = self._models[j].fre(X[rows])
            nearer = (distances < best[rows]) | ((distances == best[rows]) & (nearest[rows] > j))
            best[rows[nearer]] = distances[nearer]
            nearest[rows[nearer]] = j

    def _first_bounds(self, Z: Tensor) -> Tensor:
        """A lower bound of the distance of each row to each class, (n, classes)."""
        bounds = torch.empty(len(Z), len(self._models), device=Z.device)
        lengths, reach = torch.linalg.vector_norm(Z, dim=1), torch.linalg.vector_norm(self._means, dim=1)
        block = 64
        for start in range(0, len(self._models), block):
            classes = slice(start, start + block)
            directions, offsets = self._quick[classes], self._offsets[classes]
            for rows in row_chunks(Z, directions.shape[0] * directions.shape[1]):
                seen = Z[rows] @ directions.flatten(0, 1).T - offsets.flatten()
                found = torch.linalg.vector_norm(seen.unflatten(1, offsets.shape), dim=2)
                bounds[rows, classes] = found - ROUNDING * (lengths[rows, None] + reach[classes])
        return bounds

    def _second_bounds(self, j: int, Z: Tensor) -> Tensor:
        v = Z - self._means[j]
        square = torch.linalg.vector_norm(v, dim=1).square()
        left = square - torch.linalg.vector_norm(v @ self._inside[j].T, dim=1).square()
        slack = ROUNDING * (square.sqrt() + torch.linalg.vector_norm(self._means[j]))
        return (left - ROUNDING * square).clamp(min=0).sqrt() - slack


def _shared_directions(models: Sequence[ClassSubspace], centre: Tensor) -> Tensor:
    """Orthonormal rows (m, d) along which classes differ most: the leading ones of means and components."""
    some = models[:: -(-len(models) // SOUGHT_IN)]
    leading = [model.components[:LEADING] * model.variances[:LEADING, None].sqrt() for model in some]
    rows = torch.cat([torch.stack([model.mean for model in some]) - centre, *leading])
    n, d = rows.shape
    most = max(1, min(SHARED, d // 2))
    vectors = torch.linalg.eigh(rows @ rows.T if n < d else rows.T @ rows).eigenvectors.flip(1)[:, :most]
    directions = vectors.T @ rows if n < d else vectors.T
    return _orthonormal(normalize(directions, dim=1))


def _orthonormal(rows: Tensor) -> Tensor:
    """Orthonormal rows that span what the given ones span; as many, or as there are dimensions."""
    return torch.linalg.qr(rows.T).Q.T.contiguous()


def _outside(inside: Tensor, n: int) -> Tensor:
    """Orthonormal rows (n, m) outside the span of `inside`, by the first shared directions; zeros for none."""
    m = inside.shape[1]
    sought = torch.eye(m, device=inside.device)[: 2 * n]
    left = sought - (sought @ inside.T) @ inside
    _, sizes, found = torch.linalg.svd(left, full_matrices=False)
    found = found[:n] - (found[:n] @ inside.T) @ inside
    found = _orthonormal(found) * (sizes[: len(found), None] > 0.1)
    return torch.cat([found, found.new_zeros(n - len(found), m)])
