"""Each strategy's formula against a plain loop."""

import math

import numpy as np
import pytest

from cual.acquisition import PoolView, acquisitions
from cual.acquisition.base import Holdings, highest
from cual.acquisition.classifier import closeness, entropy
from cual.pseudo_labels import LikelierThanNot, MostCertain, MostCertainOfAll, MostNovel

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(5) * 0.3, 50).astype(np.float32)
SCORES = RNG.normal(5, 2, 50).astype(np.float32)
VIEW = PoolView(scores=SCORES, threshold=6.0, classes=np.full(50, 3), n_old=3, probabilities=lambda: P)


def choose(name: str, n: int) -> list[int]:
    return acquisitions[name]().choose(VIEW, n, np.random.default_rng(0)).tolist()


def test_entropy_and_margin_are_their_definitions():
    for row, h, c in zip(P, entropy(P), closeness(P), strict=True):
        assert h == pytest.approx(-sum(float(p) * math.log(p) for p in row if p > 0), rel=1e-4)
        first, second = sorted(row.tolist(), reverse=True)[:2]
        assert c == pytest.approx(1 - (first - second), rel=1e-5)


def test_margin_of_a_single_class_is_certain():
    assert closeness(np.ones((3, 1), np.float32)).tolist() == [0, 0, 0]


def test_ambiguous_orders_by_one_over_squared_distance():
    ambiguity = [1 / (float(s) - 6.0) ** 2 for s in SCORES]
    assert choose("ambiguous", 50) == sorted(range(50), key=lambda i: -ambiguity[i])


def test_top_entropy_and_margin_order():
    assert choose("top", 50) == sorted(range(50), key=lambda i: -SCORES[i])
    assert choose("entropy", 7) == sorted(range(50), key=lambda i: -entropy(P)[i])[:7]
    assert choose("margin", 7) == sorted(range(50), key=lambda i: -closeness(P)[i])[:7]


@pytest.mark.parametrize("distinct", [50, 100_000])
def test_the_highest_are_the_first_of_a_stable_sort(distinct):
    values = np.random.default_rng(1).integers(0, distinct, 3000).astype(np.float32)
    order = np.array(sorted(range(3000), key=lambda i: -values[i]))
    for n in range(3002):  # all, because what lies behind the n-th is in no order, but for most n by chance
        np.testing.assert_array_equal(highest(values, n), order[:n])


def test_what_no_class_holds_is_nothing():
    """Without old classes none holds anything, without novel ones neither."""
    shares = np.array([[0.25, 0.5], [0.125, 0.25]])
    none, all_ = Holdings.of(shares, n_old=0), Holdings.of(shares, n_old=2)
    assert none.old.tolist() == none.likeliest_old.tolist() == [0, 0]
    assert none.likeliest_novel.tolist() == all_.likeliest_old.tolist() == [0.5, 0.25]
    assert all_.likeliest_novel.tolist() == [0, 0]
    assert all_.old.tolist() == [0.75, 0.375]


def test_a_view_that_was_told_nothing_but_scores_knows_nothing_more():
    """No known samples look less novel, no class is known or learned, nothing was asked or met before."""
    view = PoolView(scores=SCORES, threshold=6.0)
    assert view.novelty().tolist() == [0] * 50
    assert len(view.validation) == len(view.classes) == len(view.learning) == len(view.asked()) == 0
    assert view.left == view.n_old == 0
    assert view.met_before(np.arange(3)).tolist() == [0, 0, 0]


def test_a_score_that_is_t_inner_is_not_above_it():
    view = PoolView(scores=np.array([6.0, 7.0, 6.0, 5.0]), threshold=6.0)
    for seed in range(5):
        assert acquisitions["novel"]().choose(view, 4, np.random.default_rng(seed)).tolist() == [1]


def test_random_and_novel_are_uniform():
    counts = {"random": np.zeros(50), "novel": np.zeros(50)}
    for name, count in counts.items():
        for seed in range(2000):
            count[acquisitions[name]().choose(VIEW, 5, np.random.default_rng(seed))] += 1
    above = SCORES > 6.0
    assert (counts["novel"][~above] == 0).all()
    for count in (counts["random"], counts["novel"][above]):
        expected = 2000 * 5 / len(count)
        assert (np.abs(count - expected) < 6 * np.sqrt(expected)).all()


def test_most_novel_takes_alpha_of_those_above_t_inner():
    above = sorted((i for i in range(50) if SCORES[i] > 6.0), key=lambda i: -SCORES[i])
    assert MostNovel(0.2).choose(VIEW).tolist() == above[: math.ceil(0.2 * len(above))]


def test_of_two_doubtful_samples_the_one_in_company_is_asked_about():
    p = np.tile([0.0, 1.0], (20, 1)).astype(np.float32)
    p[18], p[19] = [0.4, 0.6], [0.5, 0.5]
    X = np.tile([1.0, 0.0], (20, 1)).astype(np.float32)
    X[19] = [0.0, 1.0]  # a little more doubtful than 18, but nothing is near it
    view = PoolView(
        scores=p[:, 1],
        threshold=0.5,
        classes=np.ones(20, np.int64),
        n_old=1,
        validation=np.zeros(3, np.float32),
        probabilities=lambda: p,
        features=lambda at: X[at],
        left=2,
    )
    for seed in range(5):
        chosen = acquisitions["diverse"]().choose(view, 1, np.random.default_rng(seed))
        assert X[chosen[0]].tolist() == [1, 0]


def test_doubts_are_what_the_likeliest_class_does_not_hold():
    shares = np.array(
        [[0.1, 0.9, 0.0], [0.2, 0.1, 0.5], [0.3, 0.4, 0.2]], np.float32
    )  # of two, a part is nobody's
    view = PoolView(
        scores=shares[:, 1:].sum(1),
        threshold=0.5,
        classes=shares.argmax(1),
        n_old=1,
        probabilities=lambda: shares,
    )
    np.testing.assert_allclose(LikelierThanNot().doubts(view), [0.1, 0.5, 0.6], rtol=1e-5)


def test_what_a_novel_class_wins_is_believed_if_it_holds_enough():
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(6) * 0.6, 300).astype(
        np.float32
    )  # two old, three novel; the last is nobody's
    classes = np.where(shares.argmax(1) == 5, -1, shares.argmax(1))
    view = PoolView(shares[:, 2:].sum(1), 0.5, classes, n_old=2, probabilities=lambda: shares[:, :5])
    won = [i for i, row in enumerate(shares.tolist()) if 2 <= row.index(max(row)) <= 4]
    held = [max(row[:5]) for row in shares.tolist()]
    assert LikelierThanNot().choose(view).tolist() == won
    assert LikelierThanNot(share=0.7).choose(view).tolist() == [i for i in won if held[i] >= 0.7]


def test_an_old_class_that_is_still_being_learned_is_believed_of_what_it_wins():
    shares = np.array(
        [
            [0.125, 0.5, 0.125, 0.125],
            [0.375, 0.25, 0.125, 0.125],  # another holds more
            [0.3, 0.36, 0.3, 0.0],
            [0.9, 0.05, 0.0, 0.0],  # of a class that is known well
            [0.0, 0.75, 0.0, 0.125],
            [0.125, 0.125, 0.0, 0.625],
        ],
        np.float32,
    )
    view = PoolView(
        scores=shares[:, 3],
        threshold=0.5,
        classes=shares.argmax(1),
        n_old=3,
        learning=np.array([1]),
        probabilities=lambda: shares,
    )
    assert LikelierThanNot().choose(view).tolist() == [0, 2, 4, 5]
    assert LikelierThanNot(most_old=1).choose(view).tolist() == [4, 5]  # the surest
    assert LikelierThanNot(share=0.75).choose(view).tolist() == [4]


def test_what_is_most_certain_is_doubted_by_how_near_its_uncertainty_comes_to_t_inner():
    view = PoolView(scores=np.array([0.0, 1, 3, 4, 9]), threshold=4.0)
    assert MostCertain().doubts(view).tolist() == [0, 0.25, 0.75, 1, 1]
    nothing = PoolView(scores=np.array([0.0]), threshold=0.0)
    assert MostCertain().doubts(nothing).tolist() == [1]  # nobody can tell


def test_the_most_certain_of_all_are_the_least_uncertain_whatever_they_are_taken_for():
    rng = np.random.default_rng(5)
    scores, classes = rng.random(40).astype(np.float32), rng.integers(-1, 4, 40)
    view = PoolView(scores=scores, threshold=0.5, classes=classes, n_old=2)
    order = sorted((i for i in range(40) if classes[i] >= 0), key=lambda i: float(scores[i]))
    assert sorted(MostCertainOfAll(0.3).choose(view).tolist()) == sorted(order[: -(-len(order) * 3 // 10)])
    assert {0, 1} & set(classes[MostCertainOfAll(0.3).choose(view)].tolist())
    assert MostCertainOfAll(0.0).choose(view).tolist() == []
