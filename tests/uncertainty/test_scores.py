import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cual.errors import TooFewSamples
from cual.uncertainty import Threshold, Zone, s0, si, t_inner, zones

distances = st.floats(0, 1e6, width=32)


@given(st.lists(st.tuples(distances, distances, distances), min_size=1, max_size=8))
def test_s0_is_the_least_distance_to_an_old_class(rows):
    assert s0(torch.tensor(rows)).tolist() == [min(row) for row in rows]


@given(st.lists(st.tuples(distances, distances, distances), min_size=1, max_size=8), st.floats(1e-6, 1))
def test_si_is_the_least_ratio_of_old_to_novel(rows, floor):
    old, novel = torch.tensor([row[:2] for row in rows]), torch.tensor([row[2] for row in rows])
    for score, (a, b, m) in zip(si(s0(old), novel, floor).tolist(), rows, strict=True):
        assert score == pytest.approx(min(a / max(m, floor), b / max(m, floor)), rel=1e-5)


@given(distances, distances, st.sampled_from([0.0, 1e-30, 1e-3]))
def test_si_is_finite_even_without_a_floor(old, novel, floor):
    assert math.isfinite(float(si(torch.tensor([old]), torch.tensor([novel]), floor)))


def test_si_is_finite_for_the_largest_distance():
    assert math.isfinite(float(si(torch.tensor([3e38]), torch.tensor([0.0]), 1e-6)))


@given(st.lists(distances, min_size=1, max_size=20), st.floats(0, 4))
def test_t_inner_is_the_mean_and_some_standard_deviations(scores, stds):
    threshold = t_inner(torch.tensor(scores), stds)
    mean = sum(scores) / len(scores)
    std = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    assert threshold.mean == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert threshold.std == pytest.approx(std, rel=1e-6, abs=1e-6)
    assert threshold.value == pytest.approx(mean + stds * std, rel=1e-6, abs=1e-6)


def test_t_inner_of_one_sample_is_that_sample():
    assert t_inner(torch.tensor([3.0])) == Threshold(value=3.0, mean=3.0, std=0.0)


def test_t_inner_of_no_sample_is_an_error():
    with pytest.raises(TooFewSamples, match="at least one validation sample"):
        t_inner(torch.empty(0))


def test_zones_lie_around_t_inner():
    threshold = Threshold(value=4.0, mean=2.0, std=1.0)
    scores = [0.0, 2.9, 3.0, 4.0, 5.0, 5.1, 99.0]
    found = zones(torch.tensor(scores), threshold)
    assert found.dtype == torch.int8
    for score, zone in zip(scores, found.tolist(), strict=True):
        if abs(score - 4) <= 1:
            assert Zone(zone) is Zone.AMBIGUOUS
        else:
            assert Zone(zone) is (Zone.NOVEL if score > 4 else Zone.OLD)


@pytest.mark.parametrize("other", [3.0, 4.0, 5.0])
def test_a_threshold_compares_as_its_value_does(other):
    threshold = Threshold(value=4.0, mean=2.0, std=1.0)
    for right in (other, Threshold(other, 0.0, 0.0)):
        assert (threshold < right) == (other > 4.0)
        assert (threshold <= right) == (other >= 4.0)
        assert (threshold > right) == (other < 4.0)
        assert (threshold >= right) == (other <= 4.0)
