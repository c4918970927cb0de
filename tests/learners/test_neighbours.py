"""Who lies around a sample, against naive loops."""

import numpy as np
import torch
from torch.nn.functional import normalize

from cual import neighbours
from cual.neighbours import Neighbours


def unit(n: int, seed: int, d: int = 6) -> torch.Tensor:
    return normalize(torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d))).float(), dim=1)


def test_neighbours_are_the_nearest_of_both_kinds_but_not_oneself(monkeypatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 7)
    pool, known = unit(40, 0), unit(30, 1)
    y = torch.arange(30) % 3
    anchors = np.arange(0, 40, 2)
    around = Neighbours(anchors, pool[anchors], known, y)
    rows = np.array([3, 4, 38, 39])
    found = around.of(pool[rows], rows)
    shares = torch.softmax(unit(20, 2, d=5), dim=1)
    votes = around.votes(found, shares)
    for i, row in enumerate(rows):
        own = [-1.0 if a == row else float(pool[row] @ pool[a]) for a in anchors]
        others = [float(pool[row] @ k) for k in known]
        near = np.mean(sorted(own)[-neighbours.CROWD :]) - np.mean(sorted(others)[-neighbours.CROWD :])
        np.testing.assert_allclose(float(found.crowding[i]), near, atol=1e-6)
        order = np.argsort([-c for c in own + others], kind="stable")[: neighbours.VOTERS]
        assert found.voters[i].tolist() == order.tolist()
        weights = np.maximum([(own + others)[j] for j in order], 1e-6)
        expected = sum(
            w * (shares[j].numpy() if j < 20 else np.eye(5)[int(y[j - 20])])
            for w, j in zip(weights / weights.sum(), order, strict=True)
        )
        np.testing.assert_allclose(votes[i].numpy(), expected, atol=1e-5)


def test_strangers_have_everybody_as_neighbours() -> None:
    pool = unit(3, 0)
    found = Neighbours(np.arange(3), pool, pool[:0], torch.empty(0, dtype=torch.int64)).of(pool)
    assert sorted(found.voters[0].tolist()) == [0, 1, 2]
    assert found.crowding.tolist() == [0, 0, 0]  # nobody is known: nothing to compare with


def test_a_pool_of_one_has_no_crowd() -> None:
    one, known = unit(1, 0), unit(4, 1)
    found = Neighbours(np.arange(1), one, known, torch.zeros(4, dtype=torch.int64)).of(one, np.arange(1))
    assert found.crowding.tolist() == [0]
