"""The principal subspace of one class: its fit, and FRE (eq. 3). Scores live elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from cual.uncertainty.base import row_chunks

CANCELLED = 2e-3  # FRE²/‖v‖² below which a float32 difference no longer gives FRE to 1e-3
NEGLIGIBLE = 1e-6  # scatter below this share of the largest is rounding, not structure
SPARE = 0.02  # of the variance that the components leave out, the share that not even spare directions hold


@dataclass(frozen=True, eq=False)
class ClassSubspace:
    """PCA of one class, with as many components as retain a share of its variance: 𝒯ₘ in the paper.

    Behind the components the basis has some spare directions. Nothing reads them, but files hold them since
    release 0.1.0, and an agent keeps its bytes.

    Attributes
    ----------
    n : int
        Samples seen.
    mean : Tensor
        Their mean, (d,).
    total : float
        Their variance over all directions, retained or not.
    variance : float
        Share of `total` that the components retain at least.
    k : int
        Number of components; 0 for one sample or constant features.
    basis : Tensor
        Orthonormal rows, (r, d): the components, then the spare directions.
    scatters : Tensor
        Sum of squares of the centred samples along each row of the basis, (r,), descending, float64.

    Examples
    --------
    >>> line = ClassSubspace.fit(torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]))
    >>> line.fre(torch.tensor([[7.0, 3.0]])).round(decimals=4)
    tensor([3.])
    >>> line.components.abs().round(decimals=4).tolist(), line.variances.round(decimals=4).tolist()
    ([[1.0, 0.0]], [4.0])
    """

    n: int
    mean: Tensor
    total: float
    variance: float
    k: int
    basis: Tensor
    scatters: Tensor

    @property
    def components(self) -> Tensor:
        """Principal directions W, orthonormal rows, (k, d)."""
        return self.basis[: self.k]

    @property
    def variances(self) -> Tensor:
        """Variance of the samples along each component, (k,), descending."""
        return (self.scatters[: self.k] / max(1, self.n - 1)).float()

    @classmethod
    def fit(cls, X: Tensor, variance: float = 0.995) -> Self:
        """The subspace of the class whose samples are the rows of `X`, (n, d) with n >= 1.

        Solved in the smaller of sample and feature space. A Gram matrix squares the condition number, so it
        and its eigenvectors are float64, else the components would not stay orthogonal.
        """
        n, d = X.shape
        mean = X.mean(0, dtype=torch.float64).float()
        rows = (X - mean).float()
        gram = _gram(rows if n < d else rows.T)
        scatters, vectors = _eigh(gram)
        scatter = float(gram.trace())
        k, r = _enough(scatters, scatter, variance)
        basis = vectors[:, :r].T
        if n < d:
            basis = (basis / scatters[:r, None].sqrt()).float() @ rows
        basis = basis.float().contiguous()
        return cls(n, mean, scatter / max(1, n - 1), variance, k, basis, scatters[:r])

    def fre(self, X: Tensor) -> Tensor:
        """FRE of each row of `X`: the ℓ2 norm of what the subspace cannot reconstruct (eq. 3), (n,) float32.

        With v = u - mean and orthonormal W, FRE² = ‖v‖² - ‖Wv‖². Where that difference is too small for
        float32, the residual v - WᵀWv itself is taken, in float64.
        """
        squares = torch.empty(len(X), device=X.device)
        for rows, norm, p in self.projections(X):
            square = norm - torch.linalg.vector_norm(p, dim=1).square()
            squares[rows] = torch.where(square < CANCELLED * norm, -1.0, square)
        cancelled = (squares < 0).nonzero().squeeze(1)
        for rows in cancelled.split(256):
            squares[rows] = self.residual_square(X[rows])
        return squares.sqrt_()

    def projections(self, X: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Chunks of `X`: which rows, and ‖v‖² and Wv of each with v = u - mean, overwritten by the next."""
        v, p = X.new_empty(0, dtype=torch.float32), X.new_empty(0, dtype=torch.float32)
        for rows in row_chunks(X, X.shape[1] + self.k):
            u = X[rows]
            torch.sub(u, self.mean, out=v.resize_(u.shape))
            torch.mm(v, self.components.T, out=p.resize_(len(u), self.k))
            yield rows, torch.linalg.vector_norm(v, dim=1).square(), p

    def residual_square(self, X: Tensor) -> Tensor:
        """FRE² of each row of `X` by the residual itself, in float64, (n,) float32."""
        v = X.double() - self.mean
        W = self.components.double()
        v.addmm_(v @ W.T, W, alpha=-1)
        return torch.linalg.vector_norm(v, dim=1).square().float()

    def state(self) -> dict[str, Tensor]:
        """All of the subspace as tensors, for `from_state`."""
        return {
            "n": torch.tensor(self.n),
            "mean": self.mean,
            "total": torch.tensor(self.total, dtype=torch.float64),
            "variance": torch.tensor(self.variance, dtype=torch.float64),
            "k": torch.tensor(self.k),
            "basis": self.basis,
            "scatters": self.scatters,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """The subspace whose `state` was given."""
        return cls(
            n=int(state["n"]),
            mean=state["mean"],
            total=float(state["total"]),
            variance=float(state["variance"]),
            k=int(state["k"]),
            basis=state["basis"],
            scatters=state["scatters"],
        )


def _gram(rows: Tensor) -> Tensor:
    """The upper blocks of ``rows @ rows.T`` in float64, with a part of the columns at a time in memory."""
    n = len(rows)
    gram = torch.zeros(n, n, dtype=torch.float64, device=rows.device)
    half = (n + 1) // 2
    for columns in row_chunks(rows.T, n):
        part = rows[:, columns].double()
        gram[:half].addmm_(part[:half], part.T)
        gram[half:, half:].addmm_(part[half:], part[half:].T)
    return gram


def _eigh(upper: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending and not negative, and eigenvectors in columns."""
    values, vectors = torch.linalg.eigh(upper, UPLO="U")
    return values.flip(0).clamp(min=0), vectors.flip(1)


def _enough(scatters: Tensor, scatter: float, variance: float) -> tuple[int, int]:
    """How many of the leading directions retain the share `variance`; how many with the spare ones."""
    sums = scatters.cumsum(0)
    real = int((scatters > NEGLIGIBLE * scatters[:1]).sum())

    def count(share: float) -> int:
        return min(real, int((sums < share * scatter).sum()) + 1)

    return count(variance), count(1 - SPARE * (1 - variance))
