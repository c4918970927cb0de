import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from cual.uncertainty import FRE, KNN, ClassSubspace, warn_about
from cual.uncertainty.subspace import _eigh

SHAPES = [(40, 96), (95, 96), (96, 96), (400, 96), (60, 300)]


def relative(a, b):
    return float(((a.double() - b.double()).abs() / b.double()).max())


def naive_fre(subspace, X):
    """FRE as eq. 3 has it: reconstruct in float64, take the norm of what is left."""
    mean, W = subspace.mean.double(), subspace.components.double()
    v = X.double() - mean
    return torch.linalg.vector_norm(v - (v @ W.T) @ W, dim=1)


def svd_fre(samples, X, variance):
    """The same from a float64 SVD that shares no code with ours."""
    A = samples.double().numpy()
    mean = A.mean(0)
    _, s, V = np.linalg.svd(A - mean, full_matrices=False)
    k = int(np.searchsorted(np.cumsum(s**2) / np.sum(s**2), variance)) + 1
    v = X.double().numpy() - mean
    return k, torch.tensor(np.linalg.norm(v - v @ V[:k].T @ V[:k], axis=1))


def test_fre_is_the_norm_of_the_reconstruction_residual(features):
    samples = features(50)
    subspace = ClassSubspace.fit(samples, variance=0.9)
    for u in samples[:5].double():
        v = u - subspace.mean
        residual = v - sum((v @ w) * w for w in subspace.components.double())
        assert float(subspace.fre(u[None])[0]) == pytest.approx(float(residual.norm()), rel=1e-3)


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_fre_agrees_with_float64(features, n, d):
    samples = features(n, d)
    subspace = ClassSubspace.fit(samples)
    for X in (samples, features(50, d, draw=1), features(50, d, seed=1)):
        k, expected = svd_fre(samples, X, 0.995)
        assert subspace.k == k
        assert relative(subspace.fre(X), naive_fre(subspace, X)) < 1e-3
        assert relative(subspace.fre(X), expected) < 1e-3


def test_fre_holds_under_a_mean_far_larger_than_the_spread(features):
    samples = features(60) + 100
    subspace = ClassSubspace.fit(samples)
    assert relative(subspace.fre(samples), naive_fre(subspace, samples)) < 1e-3


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("variance", [0.5, 0.9, 0.995])
def test_components_and_variances_are_those_of_scikit_learn(features, n, d, variance):
    samples = features(n, d)
    ours, theirs = (
        ClassSubspace.fit(samples, variance),
        PCA(variance, svd_solver="full").fit(samples.double().numpy()),
    )
    assert ours.k == theirs.n_components_
    assert np.allclose(ours.variances, theirs.explained_variance_, rtol=1e-4)
    assert ours.total == pytest.approx(
        theirs.explained_variance_.sum() + theirs.noise_variance_ * (min(n, d) - ours.k), rel=1e-3
    )
    overlap = np.abs(ours.components.double().numpy() @ theirs.components_.T)
    assert np.allclose(np.diag(overlap), 1, atol=1e-3)


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("variance", [0.9, 0.995, 1.0])
def test_components_are_orthonormal(features, n, d, variance):
    W = ClassSubspace.fit(features(n, d), variance).basis.double()
    assert torch.allclose(W @ W.T, torch.eye(len(W), dtype=torch.float64), atol=3e-6)


def test_components_retain_their_share_of_the_variance(features):
    samples = features(150, 300)
    subspace = ClassSubspace.fit(samples)
    projected = (samples.double() - subspace.mean) @ subspace.components.double().T
    shares = projected.square().sum(0) / (149 * subspace.total)
    assert float(shares.sum()) >= 0.995 - 1e-6
    assert float(shares[:-1].sum()) < 0.995
    assert torch.allclose(projected.square().sum(0) / 149, subspace.variances.double(), rtol=1e-4)


def test_files_keep_spare_directions(features):
    subspace = ClassSubspace.fit(features(150, 300))
    assert subspace.k < len(subspace.basis) == len(subspace.scatters)
    left_out = subspace.total * 149 - float(subspace.scatters.sum())
    assert left_out <= 0.02 * 0.005 * subspace.total * 149


def test_a_duplicate_adds_no_direction():
    X = torch.tensor([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0]])
    assert ClassSubspace.fit(torch.cat([X, X])).k == 1


@pytest.mark.parametrize("n", [1, 5])
def test_one_sample_or_constant_features_have_a_mean_only(n):
    X = torch.full((n, 7), 0.1)
    subspace = ClassSubspace.fit(X)
    assert subspace.k == 0
    assert subspace.fre(X).tolist() == [0.0] * n
    assert subspace.fre(X + 1).tolist() == pytest.approx([7**0.5] * n)


def test_fre_does_not_depend_on_how_rows_are_chunked(features, monkeypatch):
    X, subspaces = features(70), [ClassSubspace.fit(features(30, seed=seed)) for seed in range(3)]
    whole = FRE().distances(X, subspaces)
    monkeypatch.setattr("cual.uncertainty.base.CPU_CHUNK", 4 * 120 * 16)
    assert torch.allclose(FRE().distances(X, subspaces), whole, rtol=1e-4)


def test_distances_do_not_depend_on_where_a_model_lies_in_memory() -> None:
    """A model that was read from a file lies elsewhere than one that was fitted, and gives the same bits."""
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(300, 64, generator=rng)
    models = [ClassSubspace.fit(torch.randn(20, 64, generator=rng) + c) for c in range(3)]

    def moved(tensor, by):
        place = torch.empty(tensor.numel() + by, dtype=tensor.dtype)[by:].view(tensor.shape)
        return place.copy_(tensor)

    expected = FRE().distances(X, models)
    for by in (1, 2, 3):
        again = [ClassSubspace.from_state({k: moved(v, by) for k, v in m.state().items()}) for m in models]
        assert torch.equal(FRE().distances(X, again), expected)


def test_scatters_are_descending_and_never_negative():
    """Where samples do not fill their space, rounding leaves some a little below zero."""
    scatters, vectors = _eigh(torch.diag(torch.tensor([1.0, -1e-9, 2.0, 0.0], dtype=torch.float64)))
    assert scatters.tolist() == [2, 1, 0, 0]
    assert vectors.abs()[:, :2].argmax(dim=0).tolist() == [2, 0]


def test_a_subspace_that_is_all_of_space_is_warned_about(caplog):
    rng = torch.Generator().manual_seed(0)
    full = [ClassSubspace.fit(torch.randn(40, 3, generator=rng), variance=1.0) for _ in range(2)]
    flat = ClassSubspace.fit(torch.tensor([[0.0, 0, 0], [1, 0, 0]]))
    with caplog.at_level("WARNING"):
        warn_about(FRE(), [flat])
        warn_about(KNN(), [])
        assert not caplog.records
        warn_about(FRE(variance=1.0), [flat, *full])
    (record,) = caplog.records
    assert "keeps all 3 dimensions of 2 of 3 classes" in record.getMessage()
    assert "less than 1 of the variance" in record.getMessage()
    caplog.clear()
    with caplog.at_level("WARNING"):
        warn_about(FRE(), [full[0]])
    assert "keeps all 3 dimensions of 1 of 1 classes" in caplog.text
