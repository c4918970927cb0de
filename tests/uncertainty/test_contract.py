"""What every registered uncertainty must do. A new member is found through the registry."""

import pytest
import torch

from cual.errors import UnknownName
from cual.uncertainty import uncertainties


@pytest.fixture(params=uncertainties.names())
def uncertainty(request):
    return uncertainties[request.param]()


@pytest.fixture
def models(uncertainty, features):
    return [uncertainty.fit(features(n, seed=seed)) for seed, n in enumerate([60, 150, 3, 1])]


def test_distances_are_float32_finite_and_not_negative(uncertainty, models, features):
    X = torch.cat([features(60), features(20, draw=1), features(20, seed=9)])
    distances = uncertainty.distances(X, models)
    assert distances.shape == (100, 4)
    assert distances.dtype == torch.float32
    assert bool(distances.isfinite().all())
    assert bool((distances >= 0).all())


def test_own_class_is_nearest(uncertainty, models, features):
    several = models[:3]  # one sample alone has no spread, so no scale to compare by
    X = torch.cat([features(30, seed=seed, draw=1) for seed in range(3)])
    nearest = uncertainty.distances(X, several).argmin(1)
    assert float((nearest == torch.arange(3).repeat_interleave(30)).float().mean()) > 0.9


def test_no_rows_and_no_models(uncertainty, models, features):
    assert uncertainty.distances(features(5)[:0], models).shape == (0, 4)
    assert uncertainty.distances(features(5), []).shape == (5, 0)


@pytest.mark.parametrize("n", [1, 2, 5, 200])
def test_constant_features(uncertainty, n):
    X = torch.full((n, 40), 0.3)
    for model in (uncertainty.fit(X), uncertainty.fit(0 * X)):
        distances = uncertainty.distances(torch.cat([X, X + 1, 0 * X]), [model])
        assert bool(distances.isfinite().all())
        assert bool((distances >= 0).all())


def test_one_sample_is_at_no_distance_from_itself(uncertainty, features):
    X = features(1)
    assert float(uncertainty.distances(X, [uncertainty.fit(X)])) == 0
    assert float(uncertainty.distances(X + 1, [uncertainty.fit(X)])) > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_taken_as_they_are(uncertainty, features, dtype):
    samples, X = (features(n, draw=draw).to(dtype) for draw, n in enumerate([50, 30]))
    given = uncertainty.fit(samples)
    expected = uncertainty.fit(samples.float())
    distances = uncertainty.distances(X, [given])
    assert distances.dtype == torch.float32
    assert torch.allclose(distances, uncertainty.distances(X.float(), [expected]), rtol=1e-4)


def test_a_model_does_not_follow_its_samples(uncertainty, features):
    samples, X = features(50), features(20, draw=1)
    model = uncertainty.fit(samples)
    before = uncertainty.distances(X, [model])
    samples.zero_()
    assert torch.equal(uncertainty.distances(X, [model]), before)


def test_inputs_are_left_alone(uncertainty, features):
    samples, X = features(50), features(50, draw=1)
    uncertainty.distances(X, [uncertainty.fit(samples)])
    assert torch.equal(samples, features(50))
    assert torch.equal(X, features(50, draw=1))


def test_state_round_trip_is_exact(uncertainty, models, features):
    X = features(30, draw=1)
    for model in models:
        loaded = uncertainty.load(model.state())
        assert loaded.n == model.n
        assert torch.equal(uncertainty.distances(X, [loaded]), uncertainty.distances(X, [model]))


def test_same_input_same_bits(uncertainty, features):
    samples, X = features(60), features(30, draw=2)
    first, second = (uncertainty.distances(X, [uncertainty.fit(samples)]) for _ in range(2))
    assert torch.equal(first, second)


def test_a_class_does_not_depend_on_the_others(uncertainty, models, features):
    X = features(30, draw=1)
    order = [2, 0, 3, 1]
    permuted = uncertainty.distances(X, [models[j] for j in order])
    assert torch.equal(permuted, uncertainty.distances(X, models)[:, order])


def test_unknown_name_lists_the_known():
    with pytest.raises(UnknownName, match="fre, knn, mahalanobis"):
        uncertainties["fred"]
