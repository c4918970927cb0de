"""Planned questions: the plan against plain loops, plans in parts, what was answered, what was met before."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cual.acquisition import PoolView, diverse, planning
from cual.acquisition.diverse import Diverse
from cual.acquisition.planning import Wanted, dealt, grouped, starts
from pools_to_ask import Rows, clusters, doubtful, unit, view_of


def choose(view: PoolView, n: int, seed: int = 0, **options: Any) -> list[int]:
    return Diverse(**options).choose(view, n, np.random.default_rng(seed)).tolist()


# -- the formulas ----------------------------------------------------------------------------------------------


def planned(
    X: Rows, novelty: Rows, doubt: Rows, met: Rows, asked: Rows, n: int, rng: np.random.Generator
) -> list[int]:
    """The whole plan, sample by sample and group by group."""
    D, pinned = [unit(x) for x in X], [unit(a) for a in asked]
    novel = [max(q**4, 1e-4) for q in novelty]
    weight = [q * max(d, 0.3) for q, d in zip(novel, doubt, strict=True)]
    centres, nowhere = list(pinned), [] if pinned else [0.0]  # at first, everything is as far as can be
    for _ in range(n):
        far = [max(1 - max([u @ c for c in centres] + nowhere), 1e-9) for u in D]
        odds = np.cumsum([w * f for w, f in zip(weight, far, strict=True)])
        centres.append(D[int(np.flatnonzero(odds > rng.random() * odds[-1])[0])])

    def groups() -> list[list[int]]:
        nearest = [int(np.argmax([u @ c for c in centres])) for u in D]
        return [[i for i, g in enumerate(nearest) if g == j] for j in range(len(centres))]

    for _ in range(15):
        for j, members in enumerate(groups()):
            if j >= len(pinned) and members:
                centres[j] = unit(sum(weight[i] * D[i] for i in members))
    members = groups()
    means = [unit(sum(novel[i] * D[i] for i in m)) if m else c for m, c in zip(members, centres, strict=True)]
    left, before, chosen = list(range(len(pinned), len(centres))), list(range(len(pinned))), list[int]()

    def wanted(j: int) -> float:
        mass = sum(novel[i] for i in members[j])
        need = sum(weight[i] for i in members[j]) / (1 + mass)
        again = sum(novel[i] * met[i] for i in members[j]) / max(mass, 1e-6)
        far = 1 - max([means[j] @ means[k] for k in before] + nowhere)
        return need * (1 + again) * max(far, 1e-3)

    while left:
        best = max(left, key=wanted)
        left.remove(best)
        before.append(best)
        others = [i for i in range(len(D)) if i not in chosen]
        chosen.append(max(others, key=lambda i: D[i] @ centres[best]))
    return chosen


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("answered", [0, 3])
def test_a_plan_is_what_the_loops_say(seed: int, answered: int) -> None:
    X, _ = clusters([14, 9, 6, 4, 2], noise=0.2, seed=seed)
    rng = np.random.default_rng(seed + 100)
    novelty, doubt = (
        rng.uniform(0.3, 1, len(X)).astype(np.float32),
        rng.uniform(0, 1, len(X)).astype(np.float32),
    )
    met, asked = (rng.random(len(X)) < 0.3).astype(np.float32), X[:answered] + 0.01
    view = view_of(X, novelty, asked, left=6, met_before=lambda at: met[at], **doubtful(doubt))
    expected = planned(X, novelty, doubt, met, asked, 6, np.random.default_rng(seed))
    assert choose(view, 6, seed) == expected
    assert choose(view, 2, seed) == expected[:2]  # all that are left are planned, the most needed asked


def test_what_does_not_look_novel_at_all_counts_a_little() -> None:
    X, y = clusters([14, 9, 6], noise=0.1)
    nothing, all_ = np.zeros(len(X), np.float32), np.ones(len(X))
    for seed in range(3):
        expected = planned(X, nothing, all_, nothing, X[:0], 3, np.random.default_rng(seed))
        assert choose(view_of(X, nothing, left=3), 3, seed) == expected
        assert sorted(y[expected].tolist()) == [0, 1, 2]


def test_novelty_is_the_share_of_known_samples_that_look_less_novel() -> None:
    rng = np.random.default_rng(0)
    scores, known = rng.integers(0, 9, 30).astype(np.float32), rng.integers(0, 9, 11).astype(np.float32)
    view = PoolView(scores=scores, threshold=5, validation=known)
    expected = [np.mean([k < s for k in known]) for s in scores]
    np.testing.assert_allclose(view.novelty(), expected, rtol=1e-6)
    assert replace(view, validation=known[:0]).novelty().tolist() == [0] * 30
    first = rng.random(30).astype(np.float32)
    np.testing.assert_array_equal(replace(view, first=lambda: first).novelty(), first)


def test_without_a_novel_class_nothing_is_told_by_doubt() -> None:
    """Even where old classes hold some samples for certain: what looks novel is as doubtful as can be."""
    X, _ = clusters([10, 10, 10])
    certain = np.eye(2, dtype=np.float32)[np.arange(30) % 2]
    view = view_of(X, classes=np.full(30, -1), n_old=2, probabilities=lambda: certain)
    assert choose(view, 5) == choose(replace(view, probabilities=lambda: certain * 0.1), 5)


# -- what is asked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_every_group_that_looks_novel_is_asked_about_and_nothing_else(seed: int) -> None:
    X, y = clusters([40, 20, 10, 8, 60, 60], seed=seed)
    novelty = np.where(y < 4, 1.0, 0.2)
    chosen = choose(view_of(X, novelty), 4, seed)
    assert sorted(y[chosen].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_what_an_answer_explains_is_not_asked_about_again(seed: int) -> None:
    X, y = clusters([40, 20, 10, 8], seed=seed)
    asked = np.stack([X[np.flatnonzero(y == c)[0]] for c in (0, 1)])
    chosen = choose(view_of(X, asked=asked), 2, seed)
    assert sorted(y[chosen].tolist()) == [2, 3]


def test_answered_samples_stay_centres_and_hold_their_group() -> None:
    X, y = clusters([30, 12, 7])
    D = torch.nn.functional.normalize(torch.from_numpy(X).float(), dim=1)
    ones = torch.ones(len(X))
    wanted = Wanted(D, ones, ones, torch.zeros(len(X)))
    asked = D[[int(np.flatnonzero(y == 0)[0])]]
    centres, nearest = grouped(wanted, asked, 2, 15, np.random.default_rng(0))
    assert torch.equal(centres[:1], asked)  # where it was, although its group has another mean
    assert {int(c) for c in y[(nearest == 0).numpy()]} == {0}
    assert (nearest[torch.from_numpy(y == 0)] == 0).all()
    assert len({int(g) for g in nearest.tolist()}) == 3
    first = starts(wanted, asked, 200, np.random.default_rng(0))
    assert (y[first[:2]] > 0).all()


def test_asking_goes_on_where_it_was_planned() -> None:
    """One by one, with each answer a centre, the same groups are asked about as all at once."""
    X, y = clusters([40, 20, 10, 8, 5])
    at_once = choose(view_of(X, left=5), 5)
    asked: list[int] = []
    for left in range(5, 0, -1):
        rest = np.setdiff1d(np.arange(len(X)), asked)
        view = view_of(X[rest], asked=X[asked], left=left)
        asked.append(int(rest[choose(view, 1, seed=left)[0]]))
    assert len(set(asked)) == 5
    assert sorted(y[asked].tolist()) == sorted(y[at_once].tolist()) == [0, 1, 2, 3, 4]


def test_of_two_doubtful_groups_the_more_doubtful_comes_first() -> None:
    X, y = clusters([15, 15, 15])
    doubt = np.array([0.5, 0.9, 0.1])[y]
    chosen = choose(view_of(X, **doubtful(doubt)), 3)
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
    assert set(choose(view_of(X, novelty), 2, candidates=1)) <= set(range(90, 100))  # five for each question
    looked_at: list[int] = []
    view = replace(view_of(X, novelty), features=lambda at: looked_at.extend(at) or X[at].astype(np.float32))
    choose(view, 2, candidates=30)
    assert looked_at == list(range(70, 100))


# -- long plans ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [257, 300, 900])
def test_a_plan_of_hundreds_is_made_in_parts(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = clusters([int(s) for s in np.geomspace(8, 400, 40)], width=24)
    parts: list[int] = []
    short = diverse._short_plan

    def noted(wanted: Wanted, asked: torch.Tensor, n: int, *more: Any) -> torch.Tensor:
        parts.append(n)
        return short(wanted, asked, n, *more)

    monkeypatch.setattr(diverse, "_short_plan", noted)
    asked = X[:20]
    chosen = choose(view_of(X, asked=asked, left=n), n)
    assert len(parts) > 5
    assert sum(parts) == n
    assert max(parts) <= planning.AT_ONCE
    assert len(chosen) == len(set(chosen)) == n
    assert set(y[chosen].tolist()) | set(y[:20].tolist()) == set(range(40))
    assert choose(view_of(X, asked=asked, left=n), n) == chosen
    assert choose(view_of(X, asked=asked, left=n), 7) == chosen[:7]
    # The first questions come from all parts, not from one: so they are of many clusters.
    assert len(set(y[chosen[:40]].tolist())) > 12


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_long_plan_of_samples_that_are_all_alike_ends(value: float) -> None:
    chosen = choose(view_of(np.full((400, 3), value)), 300)
    assert len(set(chosen)) == 300


def test_a_long_plan_of_certain_samples_ends() -> None:
    X, _ = clusters([300, 300])
    chosen = choose(view_of(X, **doubtful(np.zeros(600))), 300, least_doubt=0.0)
    assert len(set(chosen)) == 300


@settings(max_examples=200, deadline=None)
@given(
    groups=st.lists(st.tuples(st.integers(0, 60), st.floats(0, 50, width=32)), min_size=1, max_size=20),
    share=st.floats(0, 1),
)
def test_all_questions_are_dealt_out_and_no_group_gets_more_than_it_has(
    groups: list[tuple[int, float]], share: float
) -> None:
    sizes = [size for size, _ in groups]
    masses = np.array([mass if size else 0 for size, mass in groups], np.float32)
    n = int(share * sum(sizes))
    counts = dealt(n, masses, sizes)
    assert sum(counts) == n
    assert all(0 <= count <= size for count, size in zip(counts, sizes, strict=True))


def test_questions_are_dealt_out_by_mass() -> None:
    assert dealt(10, np.array([1, 3, 6], np.float32), [50, 50, 50]) == [1, 3, 6]
    assert dealt(10, np.array([1, 1, 8], np.float32), [50, 50, 4]) == [3, 3, 4]  # what one has not, others get
