import pytest
import torch

from cual.uncertainty import Mahalanobis


@pytest.mark.parametrize("n", [30, 200])
def test_distance_is_that_of_the_shrunk_covariance(features, n):
    uncertainty = Mahalanobis(variance=0.95)
    model = uncertainty.fit(features(n))
    d = model.mean.numel()
    W, variances = model.components.double(), model.variances.double()
    outside = (model.total - float(variances.sum())) / (d - model.k)
    covariance = outside * (torch.eye(d, dtype=torch.float64) - W.T @ W) + W.T @ variances.diag() @ W
    covariance = (1 - 1 / n) * covariance + model.total / d / n * torch.eye(d, dtype=torch.float64)
    precision = torch.linalg.inv(covariance)
    X = features(20, draw=1)
    for u, distance in zip(X.double(), uncertainty.distances(X, [model])[:, 0], strict=True):
        v = u - model.mean.double()
        assert float(distance) == pytest.approx(float(v @ precision @ v) ** 0.5, rel=1e-3)


def test_one_sample_takes_its_scale_from_its_features():
    uncertainty = Mahalanobis()
    X = torch.tensor([[3.0, 4.0]])
    model = uncertainty.fit(X)
    assert float(uncertainty.distances(X + 1, [model])) == pytest.approx((2 / 12.5) ** 0.5)
