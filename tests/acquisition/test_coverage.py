"""Questions that settle most: the plan against plain loops, what was answered, what is like nothing else."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cual.acquisition import PoolView, coverage, planning
from cual.acquisition.coverage import Coverage
from cual.acquisition.planning import Wanted
from pools_to_ask import Rows, clusters, doubtful, unit, view_of


def choose(view: PoolView, n: int, seed: int = 0, **options: Any) -> list[int]:
    return Coverage(**options).choose(view, n, np.random.default_rng(seed)).tolist()


# -- the formula -----------------------------------------------------------------------------------------------


def settled_most(
    X: Rows, weight: list[float], asked: Rows, n: int, planned: int, rng: np.random.Generator
) -> list[int]:
    """The whole plan, sample by sample: nothing is put off."""
    D = [unit(x) for x in X]
    odds = np.cumsum(weight)
    drawn = [
        [int(np.flatnonzero(odds > place * odds[-1])[0]) for place in places]
        for places in rng.random((2, coverage.PAIRS))
    ]
    cosines = [D[i] @ D[j] for i, j in zip(*drawn, strict=True) if i != j]
    middle, deviation = np.quantile(cosines, 1 - 1 / (2 * (len(asked) + planned))), np.std(cosines, ddof=1)

    def same(a: Rows, b: Rows) -> float:
        return float(1 / (1 + np.exp(-2 * (a @ b - middle) / deviation)))

    settled = [max([same(u, unit(a)) for a in asked] + [0.0]) for u in D]
    chosen: list[int] = []
    for _ in range(n):
        gain = {
            j: sum(w * max(0, same(D[j], u) - s) for w, u, s in zip(weight, D, settled, strict=True))
            for j in range(len(D))
            if j not in chosen
        }
        chosen.append(max(gain, key=lambda j: gain[j]))
        settled = [max(s, same(D[chosen[-1]], u)) for s, u in zip(settled, D, strict=True)]
    return chosen


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("answered", [0, 3])
def test_a_plan_is_what_the_loops_say(seed: int, answered: int) -> None:
    X, _ = clusters([14, 9, 6, 4, 2], noise=0.2, seed=seed)
    rng = np.random.default_rng(seed + 100)
    novelty, doubt = rng.uniform(0.3, 1, (2, len(X))).astype(np.float32)
    met, asked = (rng.random(len(X)) < 0.3).astype(np.float32), X[:answered] + 0.01
    view = view_of(X, novelty, asked, left=6, met_before=lambda at: met[at], **doubtful(doubt))
    weight = [q**4 * max(d, 0.3) * (1 + m) for q, d, m in zip(novelty, doubt, met, strict=True)]
    expected = settled_most(X, weight, asked, 6, 6, np.random.default_rng(seed))
    assert choose(view, 6, seed) == expected
    assert choose(view, 2, seed) == expected[:2]  # all that are left are planned, the most needed asked


@pytest.mark.parametrize("lazy", [1, 2, 1000])
def test_gains_that_are_put_off_change_nothing(lazy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = clusters([30, 20, 20, 9, 5, 3, 1], noise=0.3)
    expected = choose(view_of(X, left=40), 12)
    monkeypatch.setattr(coverage, "LAZY", lazy)
    assert choose(view_of(X, left=40), 12) == expected


# -- what is asked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_every_group_that_looks_novel_is_asked_about_and_nothing_else(seed: int) -> None:
    X, y = clusters([40, 20, 10, 8, 60, 60], seed=seed)
    novelty = np.where(y < 4, 1.0, 0.2)
    chosen = choose(view_of(X, novelty), 4, seed)
    assert sorted(y[chosen].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_samples_that_are_like_no_other_come_after_every_group(seed: int) -> None:
    """A k-means spends centres on them: they are far from everything."""
    X, y = clusters([40, 20, 10, 4] + [1] * 30, width=64, seed=seed)
    chosen = choose(view_of(X), 4, seed)
    assert sorted(y[chosen].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_what_an_answer_explains_is_not_asked_about_again(seed: int) -> None:
    X, y = clusters([40, 20, 10, 8], seed=seed)
    asked = np.stack([X[np.flatnonzero(y == c)[0]] for c in (0, 1)])
    chosen = choose(view_of(X, asked=asked), 2, seed)
    assert sorted(y[chosen].tolist()) == [2, 3]


def test_asking_goes_on_where_it_was_planned() -> None:
    """One by one, knowing each answer, the same groups are asked about as all at once."""
    X, y = clusters([40, 20, 10, 8, 5])
    at_once = choose(view_of(X, left=5), 5)
    asked: list[int] = []
    for left in range(5, 0, -1):
        rest = np.setdiff1d(np.arange(len(X)), asked)
        asked.append(int(rest[choose(view_of(X[rest], asked=X[asked], left=left), 1, seed=left)[0]]))
    assert len(set(asked)) == 5
    assert sorted(y[asked].tolist()) == sorted(y[at_once].tolist()) == [0, 1, 2, 3, 4]


def test_of_two_groups_the_more_doubtful_comes_first() -> None:
    X, y = clusters([15, 15, 15])
    chosen = choose(view_of(X, **doubtful(np.array([0.5, 0.9, 0.1])[y])), 3)
    assert y[chosen].tolist() == [1, 0, 2]


def test_what_was_met_before_comes_first() -> None:
    X, y = clusters([15, 15, 15])
    for again in range(3):
        view = view_of(X, met_before=lambda at, again=again: (y[at] == again).astype(np.float32))
        chosen = choose(view, 3)
        assert y[chosen[0]] == again
        assert sorted(y[chosen].tolist()) == [0, 1, 2]


def test_only_the_most_wanted_are_looked_at() -> None:
    X, _ = clusters([50, 50])
    novelty = np.linspace(0.1, 1, 100)
    looked_at: list[int] = []
    view = replace(view_of(X, novelty), features=lambda at: looked_at.extend(at) or X[at].astype(np.float32))
    choose(view, 2, candidates=30)
    assert looked_at == list(range(70, 100))


# -- long plans ------------------------------------------------------------------------------------------------


def test_a_plan_of_hundreds_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = clusters([int(s) for s in np.geomspace(8, 400, 40)], width=24)
    parts: list[int] = []
    plan = coverage.settling

    def noted(wanted: Wanted, asked: torch.Tensor, n: int, *more: Any) -> torch.Tensor:
        parts.append(n)
        return plan(wanted, asked, n, *more)

    monkeypatch.setattr(coverage, "settling", noted)
    view = view_of(X, asked=X[:20], left=900)
    chosen = choose(view, 900)
    assert len(parts) > 5
    assert sum(parts) == 900
    assert max(parts) <= planning.AT_ONCE
    assert len(chosen) == len(set(chosen)) == 900
    assert set(y[chosen].tolist()) | set(y[:20].tolist()) == set(range(40))
    assert choose(view, 7) == chosen[:7]
    assert len(set(y[chosen[:40]].tolist())) > 12  # the first questions come from all parts


@pytest.mark.parametrize("n", [3, 300])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_samples_that_are_all_alike_are_asked_about_once_each(value: float, n: int) -> None:
    chosen = choose(view_of(np.full((400, 3), value)), n)
    assert len(set(chosen)) == n


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_pool_no_larger_than_the_questions_is_asked_about_whole(n: int) -> None:
    X, _ = clusters([n])
    assert sorted(choose(view_of(X), 7)) == list(range(n))


def test_where_everything_is_certain_there_is_a_plan_too() -> None:
    X, _ = clusters([300, 300])
    assert len(set(choose(view_of(X, **doubtful(np.zeros(600))), 300, least_doubt=0.0))) == 300
