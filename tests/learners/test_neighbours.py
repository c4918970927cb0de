"""Who lies around a sample, against naive loops; where a walk among them ends, against a linear system."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from cual.learners.prototypes import neighbours
from cual.learners.prototypes.neighbours import Nearest, Neighbours, PoolNearest


def unit(n: int, seed: int, d: int = 6) -> torch.Tensor:
    return normalize(torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d))).float(), dim=1)


@pytest.mark.parametrize("voters", [15, 8, 60])
@pytest.mark.parametrize("block", [2048, 3])
def test_neighbours_are_the_nearest_of_both_kinds_but_not_oneself(
    voters: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", block)  # of memory, and so no option: the outcome is the same
    pool, known = unit(40, 0), unit(30, 1)
    y = torch.arange(30) % 3
    anchors = np.arange(0, 40, 2)
    around = Neighbours(anchors, pool[anchors], known, y, voters)
    rows = np.array([3, 4, 38, 39])
    nearest = around.of(pool[rows], rows)
    shares = torch.softmax(unit(20, 2, d=5), dim=1)
    votes = around.votes(nearest, shares)
    for i, row in enumerate(rows):
        own = [-1.0 if a == row else float(pool[row] @ pool[a]) for a in anchors]
        of_known = [float(pool[row] @ k) for k in known]
        # With 60 voters everybody is one: all 50, but for one of the 20 anchors that may be the sample itself.
        order = np.argsort([-c for c in own + of_known], kind="stable")[: min(voters, 49)]
        assert nearest.voters[i].tolist() == order.tolist()
        weights = np.maximum([(own + of_known)[j] for j in order], 1e-6)
        np.testing.assert_allclose(nearest.weights[i].numpy(), weights / weights.sum(), atol=1e-6)
        expected = sum(
            w * (shares[j].numpy() if j < 20 else np.eye(5)[int(y[j - 20])])
            for w, j in zip(weights / weights.sum(), order, strict=True)
        )
        np.testing.assert_allclose(votes[i].numpy(), expected, atol=1e-5)


def test_strangers_have_everybody_as_neighbours() -> None:
    pool = unit(3, 0)
    around = Neighbours(np.arange(3), pool, pool[:0], torch.empty(0, dtype=torch.int64))
    assert sorted(around.of(pool).voters[0].tolist()) == [0, 1, 2]
    others = around.of(pool, np.arange(3))
    assert [sorted(row) for row in others.voters.tolist()] == [[1, 2], [0, 2], [0, 1]]
    assert around.walk(others, 0.9).tolist() == pytest.approx([1, 1, 1])  # nobody is known, so nobody is met


def test_a_pool_of_one_has_known_neighbours_only() -> None:
    one, known = unit(1, 0), unit(4, 1)
    around = Neighbours(np.arange(1), one, known, torch.zeros(4, dtype=torch.int64))
    nearest = around.of(one, np.arange(1))
    assert sorted(nearest.voters[0].tolist()) == [1, 2, 3, 4]
    assert around.walk(nearest, 0.9).tolist() == pytest.approx([0.1])


# -- the walk --------------------------------------------------------------------------------------------------


def solved(nearest: Nearest, n: int, chance: float) -> np.ndarray:
    """The chance that a walk ends before it meets a known sample: the unknowns of a linear system.

    From i, the walk takes the edge to its neighbour j by the weight of j, half of it where j is of the pool;
    the other half is the edge from j to i. A known sample keeps whoever comes: its chance is 0.
    """
    edges, to_known = np.zeros((n, n)), np.zeros(n)
    for i in range(n):
        for j, weight in zip(nearest.voters[i].tolist(), nearest.weights[i].tolist(), strict=True):
            if j >= n:
                to_known[i] += weight
            else:
                edges[i, j] += weight / 2
                edges[j, i] += weight / 2
    out = edges.sum(axis=1) + to_known
    steps = edges / out[:, None]
    return np.linalg.solve(np.eye(n) - chance * steps, np.full(n, 1 - chance))


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("voters", [1, 4, 15])
@pytest.mark.parametrize("n_known", [1, 25])
def test_a_walk_ends_as_the_linear_system_says(chance: float, voters: int, n_known: int) -> None:
    pool, known = unit(50, 3), unit(n_known, 4)
    around = Neighbours(np.arange(50), pool, known, torch.zeros(n_known, dtype=torch.int64), voters)
    nearest = around.of(pool, np.arange(50))
    assert (nearest.voters < 50).any()
    walk = around.walk(nearest, chance)
    np.testing.assert_allclose(walk.numpy(), solved(nearest, 50, chance), atol=3e-3)
    assert ((walk >= 1 - chance - 1e-6) & (walk <= 1 + 1e-6)).all()


def test_a_walk_of_some_anchors_sees_only_these() -> None:
    pool, known, anchors = unit(40, 5), unit(20, 6), np.arange(0, 40, 3)
    around = Neighbours(anchors, pool[anchors], known, torch.zeros(20, dtype=torch.int64), voters=5)
    nearest = around.of(pool[anchors], anchors)
    np.testing.assert_allclose(around.walk(nearest, 0.9).numpy(), solved(nearest, len(anchors), 0.9), atol=3e-3)


def test_others_take_their_first_step_to_an_anchor_or_to_a_known_sample() -> None:
    pool, known, fresh = unit(30, 7), unit(12, 8), unit(9, 9)
    around = Neighbours(np.arange(30), pool, known, torch.zeros(12, dtype=torch.int64), voters=6)
    walk = torch.rand(30, generator=torch.Generator().manual_seed(0))
    nearest = around.of(fresh)
    walked = around.walked(nearest, walk, 0.7)
    for i in range(9):
        pairs = zip(nearest.voters[i].tolist(), nearest.weights[i].tolist(), strict=True)
        expected = 0.3 + 0.7 * sum(weight * float(walk[j]) for j, weight in pairs if j < 30)
        assert float(walked[i]) == pytest.approx(expected, abs=1e-6)


def test_who_has_only_novel_company_is_stranger_than_who_has_known_company() -> None:
    """Two tight groups, with known samples in the first only; the last sample lies between."""
    rng = np.random.default_rng(0)
    one, other = np.eye(6)[:2]
    X = np.concatenate([np.repeat([one, other], 20, axis=0), [one + other]]) + rng.normal(0, 0.05, (41, 6))
    pool = normalize(torch.from_numpy(X).float(), dim=1)
    known = normalize(torch.from_numpy(one + rng.normal(0, 0.05, (20, 6))).float(), dim=1)
    around = Neighbours(np.arange(41), pool, known, torch.zeros(20, dtype=torch.int64), voters=8)
    nearest = around.of(pool, np.arange(41))
    walk = around.walk(nearest, 0.9)
    np.testing.assert_allclose(walk.numpy(), solved(nearest, 41, 0.9), atol=3e-3)
    assert float(walk[:20].max()) < 0.5 < 0.9 < float(walk[20:40].min())


@pytest.mark.parametrize(("keep_bytes", "away"), [(8 * 50 * 3, False), (8 * 50 * 3 - 1, True), (0, True)])
def test_neighbours_of_a_pool_stay_in_memory_up_to_a_size_and_are_the_same_on_disk(
    keep_bytes: int, away: bool
) -> None:
    """Eight bytes for each of three neighbours of fifty rows."""
    voters, weights = torch.arange(150).reshape(50, 3), torch.rand(50, 3)
    store = PoolNearest(50, keep_bytes)
    for part in (slice(0, 20), slice(20, 50)):
        store.append(Nearest(voters[part], weights[part]))
    assert (store._away is not None) == away
    for rows in (slice(10, 30), np.array([49, 3, 20])):
        found = store.take(rows)
        assert torch.equal(found.voters, voters[rows])
        assert torch.equal(found.weights, weights[rows])
