"""The algebra of the ridge head's sums, against sums that are made of samples again."""

import pytest
import torch
from torch import Tensor

from cual.heads.sums import Sums, joined, recentred, without_class

D, CLASSES = 3, 4


def samples(*counts: int) -> tuple[Tensor, Tensor]:
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    rng = torch.Generator().manual_seed(sum(counts))
    return torch.randn(len(y), D, generator=rng, dtype=torch.float64) + y[:, None], y


def sums_of(Z: Tensor, y: Tensor, offset: Tensor, classes: int = CLASSES) -> Sums:
    """Sample by sample."""
    found = Sums(
        offset, torch.zeros(classes).double(), torch.zeros(classes, D).double(), torch.zeros(D, D).double()
    )
    for z, c in zip(Z - offset, y.tolist(), strict=True):
        found.counts[c] += 1
        found.sums[c] += z
        found.moment[:] += torch.outer(z, z)
    return found


def assert_same(a: Sums, b: Sums) -> None:
    for first, second in zip(a[:3], b[:3], strict=True):
        torch.testing.assert_close(first, second)
    torch.testing.assert_close(a.moment.tril(), b.moment.tril())


@pytest.mark.parametrize("counts", [(5, 2, 9, 1), (0, 1, 0, 3)])
def test_seen_from_their_mean_samples_have_the_sums_of_samples_less_it(counts: tuple[int, ...]) -> None:
    Z, y = samples(*counts)
    assert_same(recentred(sums_of(Z, y, torch.ones(D).double())), sums_of(Z, y, Z.mean(dim=0)))


def test_no_samples_leave_nothing() -> None:
    nothing = sums_of(*samples(0, 0, 0, 0), torch.ones(D).double())
    rounding = nothing._replace(sums=nothing.sums + 1e-12)
    assert all(not part.any() for part in recentred(rounding))


@pytest.mark.parametrize("numbers", [[0, 1, 2, 3], [1, 0, 1, 1], [0, -1, 1, 0], [2, 1, 0, 2]])
def test_joined_classes_have_the_sums_of_their_samples(numbers: list[int]) -> None:
    counts = [0 if number < 0 else 3 + c for c, number in enumerate(numbers)]
    Z, y = samples(*counts)
    renamed = torch.tensor(numbers)[y]
    offset = torch.ones(D).double()
    assert_same(joined(sums_of(Z, y, offset), numbers), sums_of(Z, renamed, offset, 1 + max(numbers)))


def within(sums: Sums) -> Tensor:
    """The covariance within classes."""
    scatter = sums.moment.clone()
    for count, total in zip(sums.counts, sums.sums, strict=True):
        if count > 0:
            scatter -= torch.outer(total, total) / count
    return scatter / sums.counts.sum()


@pytest.mark.parametrize("counts", [(5, 2, 9, 1), (0, 4, 1, 3), (6, 0, 7, 1)])
@pytest.mark.parametrize("c", range(CLASSES))
def test_a_class_goes_and_the_spread_within_classes_stays(counts: tuple[int, ...], c: int) -> None:
    before = sums_of(*samples(*counts), torch.ones(D).double())
    after = without_class(before, c)
    gone = torch.arange(CLASSES) == c
    assert torch.equal(after.counts, before.counts.masked_fill(gone, 0))
    assert torch.equal(after.sums, before.sums.masked_fill(gone[:, None], 0))
    torch.testing.assert_close(within(after), within(before))


def test_a_class_that_counts_less_than_one_goes_too() -> None:
    """Of targets that are shared, a class may hold a part of a sample."""
    whole = sums_of(*samples(5, 2, 9, 1), torch.ones(D).double())
    part = torch.tensor([1.0, 1.0, 1.0, 0.25]).double()
    own = torch.outer(whole.sums[3], whole.sums[3])  # of its one sample
    before = Sums(whole.offset, whole.counts * part, whole.sums * part[:, None], whole.moment - 0.75 * own)
    torch.testing.assert_close(within(without_class(before, 3)), within(before))
