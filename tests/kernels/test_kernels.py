"""What the kernels for GPUs give is what plain PyTorch gives."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

pytest.importorskip("triton")

from cual import kernels
from cual.learners.prototypes import neighbours, search
from cual.learners.prototypes.neighbours import Nearest, Neighbours
from cual.uncertainty import FRE, ClassSubspace, stacked
from cual.uncertainty.stacked import StackedSubspaces

pytestmark = pytest.mark.more

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH = 72


def samples(n: int, seed: int, rank: int = 12) -> Tensor:
    """Of one class: a mean, a few directions, and a little noise."""
    rng = torch.Generator().manual_seed(seed)
    directions = torch.randn(rank, WIDTH, generator=rng)
    X = torch.randn(n, rank, generator=rng) @ directions + 3 * torch.randn(WIDTH, generator=rng)
    return (X + 0.05 * torch.randn(n, WIDTH, generator=rng)).to(DEVICE)


def true_distances(X: Tensor, models: list[ClassSubspace]) -> Tensor:
    return torch.stack([model.residual_square(X).double().sqrt() for model in models], dim=1)


@pytest.fixture(scope="module")
def classes() -> tuple[list[ClassSubspace], Tensor]:
    """Classes of many, few and no components, and the samples that they were fitted on, all in one."""
    every = [samples(n, seed) for seed, n in enumerate((60, 4, 1, 150, 30))]
    return [ClassSubspace.fit(X) for X in every], torch.cat(every)


def test_distances_to_all_classes_are_those_in_float64(classes: tuple[list[ClassSubspace], Tensor]) -> None:
    models, X = classes
    assert sorted(model.k for model in models)[0] == 0
    found, true = StackedSubspaces(models).distances(X), true_distances(X, models)
    far = true > 1e-3  # a single sample of its own class is at no distance
    assert ((found - true).abs()[far] / true[far]).max() < 1e-3
    assert found[~far].max() < 1e-2


def test_without_measuring_close_pairs_again_they_would_be_wrong(
    classes: tuple[list[ClassSubspace], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    models, X = classes
    true = true_distances(X, models)
    monkeypatch.setattr(stacked, "CLOSE", 0.0)
    error = (StackedSubspaces(models).distances(X) - true).abs() / true
    assert error[true > 1e-3].max() > 1e-3


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_samples_of_any_size_fit_into_half_precision(scale: float) -> None:
    some = [scale * samples(40, seed) for seed in (0, 1)]
    models, X = [ClassSubspace.fit(X) for X in some], torch.cat(some)
    found, true = StackedSubspaces(models).distances(X), true_distances(X, models)
    assert ((found - true).abs() / true).max() < 1e-3


def test_many_classes_go_in_parts_and_the_nearest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [samples(8, seed, rank=4) for seed in range(12)]
    models, X = [ClassSubspace.fit(part) for part in every], torch.cat(every)
    whole = StackedSubspaces(models).distances(X)
    monkeypatch.setattr(stacked, "PARTS", 2**16)
    split = StackedSubspaces(models)
    assert torch.equal(split.distances(X), whole)
    distances, nearest = split.nearest(X)
    assert torch.equal(distances, whole.min(dim=1).values)
    assert nearest.tolist() == [c for c in range(12) for _ in range(8)]


def test_fre_uses_them_where_it_pays(
    classes: tuple[list[ClassSubspace], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    models, X = classes
    plain = FRE().distances(X, models)
    monkeypatch.setattr(kernels, "usable", lambda X: True)
    monkeypatch.setattr(stacked, "WORTH_IT", 1)
    assert torch.equal(FRE().distances(X, models), StackedSubspaces(models).distances(X))
    torch.testing.assert_close(FRE().distances(X, models), plain, rtol=2e-3, atol=1e-2)
    find = FRE().nearest(models)
    assert find is not None
    assert torch.equal(find(X)[1], plain.min(dim=1).indices)
    assert FRE().nearest([ClassSubspace.fit(X[:1])]) is None  # nothing to multiply with


def unit_vectors(n: int, seed: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    centres = torch.randn(9, 64, generator=rng)
    return normalize(centres[torch.arange(n) % 9] + torch.randn(n, 64, generator=rng), dim=1).to(DEVICE)


@pytest.mark.parametrize("beside_itself", [False, True])
def test_the_most_alike_are_found_by_groups(beside_itself: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    others = unit_vectors(700, 0)
    U = torch.cat([others[:20], unit_vectors(20, 1)])
    itself = torch.arange(40).where(torch.arange(40) < 20, -1).to(DEVICE) if beside_itself else None
    likeness, places = search.most_alike(U, others, 5, itself)
    compared = list[int]()
    plain = search._by_blocks
    monkeypatch.setattr(search, "_by_blocks", lambda U, *rest: compared.append(len(U)) or plain(U, *rest))
    monkeypatch.setattr(search, "SPARE", 0)
    found = search._by_groups(U, others, 5, itself)
    torch.testing.assert_close(found[0], likeness)
    assert torch.equal(found[1], places)
    assert 0 < sum(compared) < len(U)  # some were unsure, and others were not


def test_the_most_alike_are_found_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    others, U = unit_vectors(300, 2), unit_vectors(30, 3)
    itself = torch.arange(30).to(DEVICE)
    likeness, places = search.most_alike(U, others, 7, itself)
    monkeypatch.setattr(search, "COLUMNS", 45)
    found = search.most_alike(U, others, 7, itself)
    torch.testing.assert_close(found[0], likeness)
    assert torch.equal(found[1], places)
    assert not (found[1] == itself[:, None]).any()


def test_votes_of_many_known_samples_need_no_matrix_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, known = unit_vectors(40, 4), unit_vectors(60, 5)
    y = torch.arange(60, device=DEVICE) % 3
    around = Neighbours(torch.arange(40).numpy(), pool, known, y, voters=6)
    nearest: Nearest = around.of(pool, torch.arange(40).numpy())
    shares = torch.softmax(torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), dim=1).to(DEVICE)
    votes = around.votes(nearest, shares)
    monkeypatch.setattr(neighbours, "FEW_VOTES", 0)
    torch.testing.assert_close(around.votes(nearest, shares), votes)
