"""Who lies around a sample, against naive loops."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from cual.learners.prototypes import neighbours
from cual.learners.prototypes.neighbours import Neighbours


def unit(n: int, seed: int, d: int = 6) -> torch.Tensor:
    return normalize(torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d))).float(), dim=1)


@pytest.mark.parametrize(("crowd", "voters"), [(10, 15), (3, 8), (25, 60)])
@pytest.mark.parametrize("block", [2048, 3])
def test_neighbours_are_the_nearest_of_both_kinds_but_not_oneself(
    crowd: int, voters: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", block)  # of memory, and so no option: the outcome is the same
    pool, known = unit(40, 0), unit(30, 1)
    y = torch.arange(30) % 3
    anchors = np.arange(0, 40, 2)
    around = Neighbours(anchors, pool[anchors], known, y, crowd, voters)
    rows = np.array([3, 4, 38, 39])
    nearest = around.of(pool[rows], rows)
    shares = torch.softmax(unit(20, 2, d=5), dim=1)
    votes = around.votes(nearest, shares)
    for i, row in enumerate(rows):
        own = [-1.0 if a == row else float(pool[row] @ pool[a]) for a in anchors]
        of_known = [float(pool[row] @ k) for k in known]
        others = sorted(own, reverse=True)[: min(crowd, 19)]  # one of the 20 anchors may be the sample itself
        crowding = np.mean(others) - np.mean(sorted(of_known)[-crowd:])
        np.testing.assert_allclose(float(nearest.crowding[i]), crowding, atol=1e-6)
        order = np.argsort([-c for c in own + of_known], kind="stable")[:voters]
        assert nearest.voters[i].tolist() == order.tolist()
        weights = np.maximum([(own + of_known)[j] for j in order], 1e-6)
        expected = sum(
            w * (shares[j].numpy() if j < 20 else np.eye(5)[int(y[j - 20])])
            for w, j in zip(weights / weights.sum(), order, strict=True)
        )
        np.testing.assert_allclose(votes[i].numpy(), expected, atol=1e-5)


def test_strangers_have_everybody_as_neighbours() -> None:
    pool = unit(3, 0)
    nearest = Neighbours(np.arange(3), pool, pool[:0], torch.empty(0, dtype=torch.int64)).of(pool)
    assert sorted(nearest.voters[0].tolist()) == [0, 1, 2]
    assert nearest.crowding.tolist() == [0, 0, 0]  # nobody is known: nothing to compare with


def test_a_pool_of_one_has_no_crowd() -> None:
    one, known = unit(1, 0), unit(4, 1)
    around = Neighbours(np.arange(1), one, known, torch.zeros(4, dtype=torch.int64))
    assert around.of(one, np.arange(1)).crowding.tolist() == [0]
