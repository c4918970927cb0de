"""Which known samples are most like a sample, against a loop over all of them."""

import numpy as np
import pytest
import torch

from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.loop.doubting import Known, most_alike, nearest_margins

NAMES = ClassNames(("cat", "dog", "owl", "fox"))


def scene(told: list[int], n: int = 9, replayed: int = 5) -> tuple[Known, Pool]:
    """Replayed samples of three classes, and answers about some rows of a pool."""
    rng = np.random.default_rng(len(told))
    pool = rng.normal(0.3, 1, (n, 4)).astype(np.float32)
    X = np.concatenate([rng.normal(0, 1, (replayed, 4)).astype(np.float32), pool[told]])
    y = np.arange(len(X)) % 3
    return Known(torch.from_numpy(X), torch.from_numpy(y), np.array([-1] * replayed + told)), Pool(pool)


def cosine(known: Known, pool: Pool, row: int, place: int) -> float:
    """Of a row and a known sample, from the middle of what is known; a row is not like itself."""
    if known.rows[place] == row:
        return -np.inf
    middle = known.X.double().mean(dim=0)
    a = pool.take(np.array([row]))[0].double() - middle
    b = known.X[place].double() - middle
    return float(a @ b / a.norm() / b.norm())


@pytest.mark.parametrize("told", [[], [0], [0, 3, 8], [2, 1]])
def test_of_each_class_the_most_alike_sample_is_found(told: list[int]) -> None:
    known, pool = scene(told)
    rows = np.array([0, 1, 3, 8])
    for n in (1, 2, 5):
        found = most_alike(known, pool, rows, NAMES, n)
        assert list(found) == rows.tolist()
        for row in rows.tolist():
            best: dict[int, tuple[float, int]] = {}
            for place, c in enumerate(known.y.tolist()):
                alike = cosine(known, pool, row, place)
                if np.isfinite(alike) and alike > best.get(c, (-np.inf, 0))[0]:
                    best[c] = alike, int(known.rows[place])
            expected = sorted(best.items(), key=lambda item: -item[1][0])[:n]
            assert [label for label, _, _ in found[row]] == [NAMES.names[c] for c, _ in expected]
            assert [alike for _, alike, _ in found[row]] == pytest.approx(
                [a for _, (a, _) in expected], abs=1e-4
            )
            assert all(alike == round(alike, 4) for _, alike, _ in found[row])
            assert [at for *_, at in found[row]] == [None if at < 0 else at for _, (_, at) in expected]
    assert most_alike(known, pool, rows[:0], NAMES, 2) == {}


def test_nothing_is_like_what_is_not_known() -> None:
    nothing = Known(torch.empty(0, 4), torch.empty(0, dtype=torch.int64), np.empty(0, np.int64))
    pool = Pool(np.ones((3, 4), np.float32))
    assert most_alike(nothing, pool, np.arange(3), NAMES, 2) == {}
    assert nearest_margins(nothing, pool, np.arange(3), np.zeros(3, np.int64)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("told", [[], [0], [0, 3, 8], [2, 1]])
def test_margins_compare_with_the_nearest_of_the_class_and_of_any_other(told: list[int]) -> None:
    """A class of which nothing else is known is as unlike as can be."""
    known, pool = scene(told)
    rows, classes = np.array([0, 1, 3, 8]), np.array([0, 1, 2, 3])
    for row, c, margin in zip(rows, classes, nearest_margins(known, pool, rows, classes), strict=True):
        sides = {True: -1.0, False: -1.0}
        for place, y in enumerate(known.y.tolist()):
            sides[y == c] = max(sides[y == c], cosine(known, pool, int(row), place))
        assert margin == pytest.approx(sides[True] - sides[False], abs=1e-5)
