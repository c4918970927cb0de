"""The nearest of many classes by bounds, against measuring every distance."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from cual.uncertainty import FRE, ClassSubspace, Mahalanobis, nearest_of
from cual.uncertainty.nearest import MANY, QUICK, SHARED, NearestSubspace


def classes(
    n_classes: int, rank: int, width: int, apart: float, seed: int = 0
) -> tuple[list[ClassSubspace], Tensor]:
    """Classes with a mean and a few directions of their own, and fresh samples of each."""
    rng = torch.Generator().manual_seed(seed)
    means = apart * torch.randn(n_classes, width, generator=rng)
    directions = torch.randn(n_classes, rank, width, generator=rng) / rank**0.5

    def draw(c: int, n: int) -> Tensor:
        noise = 0.3 * torch.randn(n, width, generator=rng)
        return means[c] + torch.randn(n, rank, generator=rng) @ directions[c] + noise

    models = [ClassSubspace.fit(draw(c, 20), variance=0.9) for c in range(n_classes)]
    return models, torch.cat([draw(c, 3) for c in range(n_classes)])


@pytest.mark.parametrize(
    ("n_classes", "rank", "apart"), [(100, 4, 1.0), (100, 4, 0.1), (70, 10, 0.3), (2, 3, 0.5)]
)
def test_bounds_never_change_which_class_is_the_nearest_and_how_far_it_is(
    n_classes: int, rank: int, apart: float
) -> None:
    models, X = classes(n_classes, rank, 96, apart)
    X = torch.cat([X, torch.zeros(1, 96), 100 * X[:5], models[0].mean[None]])
    find = NearestSubspace(models)
    distances, nearest = find(X)
    every = FRE().distances(X, models)
    torch.testing.assert_close(distances, every.min(dim=1).values, rtol=1e-5, atol=1e-4)
    two = every.topk(2, dim=1, largest=False).values
    clear = two[:, 1] - two[:, 0] > 1e-3 * two[:, 1]
    assert clear.float().mean() > 0.9
    assert (nearest == every.argmin(dim=1))[clear].all()
    assert find.bounded == len(X) * n_classes
    assert find.measured <= find.bounded


def test_bounds_are_bounds() -> None:
    """On samples of the classes, far from all, and in their midst."""
    models, X = classes(80, 5, 64, 0.4)
    X = torch.cat([X, 30 * torch.randn(50, 64), 1e-3 * torch.randn(50, 64), 1e4 * torch.randn(5, 64)])
    find = NearestSubspace(models)
    every = FRE().distances(X, models)
    Z = (X - find._centre) @ find._shared.T
    first = find._first_bounds(Z)
    second = torch.stack([find._second_bounds(j, Z) for j in range(len(models))], dim=1)
    assert (first <= every).all()
    assert (second <= every).all()
    assert (first > 0.3 * every).float().mean() > 0.5, "and they bound something"


def test_classes_that_lie_apart_are_ruled_out() -> None:
    models, X = classes(200, 4, 96, 2.0)
    find = NearestSubspace(models)
    find(X)
    assert find.measured < 0.05 * find.bounded


def test_odd_classes_are_measured_all_the_same() -> None:
    """A single sample, samples that are all alike, and a class that fills nearly all of space."""
    rng = torch.Generator().manual_seed(0)
    one, alike, full = (torch.randn(n, 24, generator=rng) for n in (1, 1, 200))
    models = [ClassSubspace.fit(X) for X in (one, alike.repeat(5, 1), full, full[:6] + 3)]
    assert [model.k for model in models][:2] == [0, 0]
    assert models[2].k > 20
    X = torch.cat([one, alike, full[:20], torch.randn(30, 24, generator=rng)])
    distances, nearest = NearestSubspace(models)(X)
    every = FRE().distances(X, models)
    torch.testing.assert_close(distances, every.min(dim=1).values, rtol=1e-5, atol=1e-4)
    assert nearest[:2].tolist() == [0, 1]


def test_of_equal_classes_the_first_is_the_nearest() -> None:
    models, X = classes(30, 3, 48, 0.5)
    twice = [*models, *models]
    assert (NearestSubspace(twice)(X)[1] < 30).all()


def test_few_classes_or_classes_that_fill_space_are_measured() -> None:
    many, X = classes(MANY, 3, 96, 0.5)
    assert isinstance(nearest_of(FRE(), many), NearestSubspace)
    assert FRE().nearest(many[:-1]) is None
    crowded = [ClassSubspace.fit(torch.randn(60, 96), variance=0.9) for _ in range(MANY)]
    assert FRE().nearest(crowded) is None
    for uncertainty in (FRE(), Mahalanobis()):
        distances, nearest = nearest_of(uncertainty, many[:5])(X)
        every = uncertainty.distances(X, many[:5])
        assert torch.equal(distances, every.min(dim=1).values)
        assert torch.equal(nearest, every.argmin(dim=1))
    empty = nearest_of(FRE(), many)(X[:0])
    assert [len(part) for part in empty] == [0, 0]


@pytest.mark.parametrize(("width", "free"), [(96, 96 // 2), (4 * SHARED, SHARED)])
def test_bounds_pay_where_three_of_four_classes_leave_directions_free(width: int, free: int) -> None:
    """As many as the first bound takes, of half of the features or of the shared directions."""

    def model(k: int) -> ClassSubspace:
        return SimpleNamespace(k=k, mean=torch.zeros(width))

    narrow, wide = model(free - QUICK), model(free - QUICK + 1)
    assert NearestSubspace.pays([narrow] * MANY)
    assert not NearestSubspace.pays([wide] * MANY)
    quarter = MANY // 4
    assert NearestSubspace.pays([wide] * (quarter - 1) + [narrow] * (MANY - quarter + 1))
    assert not NearestSubspace.pays([narrow] * (MANY - quarter) + [wide] * quarter)


def test_rounding_is_taken_off_by_the_lengths_that_it_comes_from() -> None:
    """Also of samples and classes that are far smaller or larger than 1."""
    for scale in (1e-4, 1e4):
        models, X = classes(80, 5, 64, 0.4)
        small = [ClassSubspace.fit(scale * (model.mean + model.components), variance=0.9) for model in models]
        find = NearestSubspace(small)
        Z = (scale * X - find._centre) @ find._shared.T
        seen = torch.linalg.vector_norm(torch.einsum("cpm,nm->ncp", find._quick, Z) - find._offsets, dim=2)
        lengths = Z.norm(dim=1)[:, None] + find._means.norm(dim=1)
        torch.testing.assert_close(find._first_bounds(Z), seen - 1e-4 * lengths, rtol=1e-3, atol=1e-6 * scale)
