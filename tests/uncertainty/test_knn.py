import pytest
import torch

from cual.uncertainty import KNN


@pytest.mark.parametrize(("n", "k"), [(40, 1), (40, 5), (3, 5), (1, 5)])
def test_distance_to_the_kth_nearest_sample(features, n, k):
    samples, X = features(n), features(20, draw=1)
    distances = KNN(k=k).distances(X, [KNN().fit(samples)])[:, 0]
    for u, distance in zip(X.double(), distances, strict=True):
        nearest = sorted(float((u - sample).norm()) for sample in samples.double())
        assert float(distance) == pytest.approx(nearest[min(k, n) - 1], rel=1e-5)


def test_memory_is_capped_and_keeps_early_and_late_samples(features):
    X = features(500)
    model = KNN(cap=100).fit(X)
    assert model.n == 500
    assert model.samples.shape == (100, 96)
    assert torch.equal(model.samples, X[model.arrival])
    assert [int(((model.arrival // 100) == part).sum()) for part in range(5)] == pytest.approx([20] * 5, abs=2)
