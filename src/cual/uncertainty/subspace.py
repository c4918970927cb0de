"""The principal subspace of one class: fit, extend, and FRE (eq. 3). Scores live elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from cual.uncertainty.base import row_chunks

NEGLIGIBLE = 1e-6  # principal variances below this share of the largest are rounding, not structure
CANCELLED = 2e-3  # FRE²/‖v‖² below which a float32 difference no longer gives FRE to 1e-3


@dataclass(frozen=True, eq=False)
class ClassSubspace:
    """PCA of one class, with as many components as retain a share of its variance: 𝒯ₘ in the paper.

    Attributes
    ----------
    n : int
        Samples seen.
    mean : Tensor
        Their mean, (d,).
    components : Tensor
        Principal directions W, orthonormal rows, (k, d). None (k = 0) for one sample or constant features.
    variances : Tensor
        Variance along each component, (k,), descending.
    total : float
        Variance over all directions, retained or not.
    variance : float
        Share of `total` that the components retain at least.

    Examples
    --------
    >>> X = torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
    >>> line = ClassSubspace.fit(X, variance=0.995)
    >>> line.fre(torch.tensor([[7.0, 3.0]])).round(decimals=4)
    tensor([3.])
    """

    n: int
    mean: Tensor
    components: Tensor
    variances: Tensor
    total: float
    variance: float

    @classmethod
    def fit(cls, X: Tensor, variance: float = 0.995) -> Self:
        """The subspace of the class whose samples are the rows of `X`, (n, d) with n >= 1."""
        mean = X.mean(0, dtype=torch.float64).float()
        return cls._from_rows((X - mean).float(), len(X), mean, variance)

    def extend(self, X: Tensor) -> Self:
        """The subspace of the samples seen so far and the rows of `X`, without the samples seen so far.

        They are stood for by k rows with the same scatter in the subspace, √((n-1)·variance)·W.
        The scatter of two groups about their common mean is that of each about its own mean plus that of
        the means: one more row.
        """
        m = len(X)
        n = self.n + m
        new = X.mean(0, dtype=torch.float64)
        shift = new - self.mean
        rows = torch.cat(
            [
                self.components * ((self.n - 1) * self.variances).sqrt()[:, None],
                (X - new).float(),
                (shift * (self.n * m / n) ** 0.5).float()[None],
            ]
        )
        mean = (self.mean + shift * (m / n)).float()
        lost = (self.n - 1) * (self.total - float(self.variances.sum(dtype=torch.float64)))
        return self._from_rows(rows, n, mean, self.variance, lost=max(0.0, lost))

    @classmethod
    def _from_rows(cls, rows: Tensor, n: int, mean: Tensor, variance: float, lost: float = 0.0) -> Self:
        scatter = float(torch.linalg.vector_norm(rows, dtype=torch.float64)) ** 2 + lost
        components, scatters = _principal(rows, scatter * variance)
        dof = max(1, n - 1)
        return cls(n, mean, components, (scatters / dof).float(), scatter / dof, variance)

    def fre(self, X: Tensor) -> Tensor:
        """FRE of each row of `X`: the ℓ2 norm of what the subspace cannot reconstruct (eq. 3), float32.

        With v = u - mean and orthonormal W, FRE² = ‖v‖² - ‖Wv‖². Where that difference is too small for
        float32, the residual v - WᵀWv itself is taken, in float64.
        """
        squares = torch.empty(len(X), device=X.device)
        for rows in row_chunks(X, self.mean.numel() + len(self.components)):
            norm, p = self.project(X[rows])
            square = norm - torch.linalg.vector_norm(p, dim=1).square()
            squares[rows] = torch.where(square < CANCELLED * norm, -1.0, square)
        cancelled = (squares < 0).nonzero().squeeze(1)
        for rows in cancelled.split(256):
            squares[rows] = self._residual_square(X[rows])
        return squares.sqrt_()

    def project(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """‖v‖² and Wv of each row u of `X`, with v = u - mean: (n,) and (n, k)."""
        v = (X - self.mean).float()
        return torch.linalg.vector_norm(v, dim=1).square(), v @ self.components.T

    def _residual_square(self, X: Tensor) -> Tensor:
        v = X.double() - self.mean
        W = self.components.double()
        v.addmm_(v @ W.T, W, alpha=-1)
        return torch.linalg.vector_norm(v, dim=1).square().float()

    def state(self) -> dict[str, Tensor]:
        """All of the subspace as tensors, for `from_state`."""
        return {
            "n": torch.tensor(self.n),
            "mean": self.mean,
            "components": self.components,
            "variances": self.variances,
            "total": torch.tensor(self.total, dtype=torch.float64),
            "variance": torch.tensor(self.variance, dtype=torch.float64),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """The subspace whose `state` was given."""
        return cls(
            n=int(state["n"]),
            mean=state["mean"],
            components=state["components"],
            variances=state["variances"],
            total=float(state["total"]),
            variance=float(state["variance"]),
        )


def _principal(rows: Tensor, wanted: float) -> tuple[Tensor, Tensor]:
    """The leading principal directions of `rows` that hold the scatter `wanted`, and each one's scatter.

    Solved in the smaller of sample and feature space. A Gram matrix squares the condition number: its
    eigenvectors are float64, else the components would lose their orthogonality.
    """
    n, d = rows.shape
    in_sample_space = n < d
    scatters, vectors = torch.linalg.eigh(_gram(rows) if in_sample_space else _gram(rows.T))
    scatters, vectors = scatters.flip(0), vectors.flip(1)
    enough = int((scatters.cumsum(0) < wanted).sum()) + 1
    k = min(enough, int((scatters > NEGLIGIBLE * scatters[0]).sum()))
    scatters = scatters[:k]
    directions = vectors[:, :k].T
    if in_sample_space:
        directions = (directions / scatters.sqrt()[:, None]).float() @ rows
    return directions.float().contiguous(), scatters


def _gram(rows: Tensor) -> Tensor:
    """``rows @ rows.T`` in float64, a part of the columns at a time."""
    n = len(rows)
    gram = torch.zeros(n, n, dtype=torch.float64, device=rows.device)
    for columns in row_chunks(rows.T, 2 * n):
        part = rows[:, columns].double()
        gram.addmm_(part, part.T)
    return gram
