"""Merges, opinions, reviews and doubts, recomputed with plain loops, and exactly where a rule begins to act."""

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cual.data.labels import SKIP, ClassNames
from cual.data.pool import Pool
from cual.errors import AlreadyFinished, BudgetExceeded, Conflict, UnknownSample
from cual.learners import Accepted
from cual.loop import events
from cual.loop.consensus import Opinions, consensus
from cual.loop.doubting import Known, _first_of_each, most_alike, nearest_margins
from cual.loop.merges import Merge, _Calibration, _counted, _Crowd, _inside, _looked_at, _size, _View, compared
from cual.loop.opinions import Given, Question, Verdict, agreed_on, with_consensus
from cual.loop.reviewing import judging, naming, recording, unasked_answers, withdrawing
from cual.loop.state import State
from cual.seeds import generator

# -- merges: what is said --------------------------------------------------------------------------------------

AGAIN = "If so, tell the samples of one again with the other's name, before finish."
LONE = "a mistake, or two names for one class? If so, tell it again as the other, before finish."


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (1, 2, f'One answer says "x" among samples that are called "y" (70 %): {LONE}'),
        (1, 0, f'One answer says "x" among samples that are called "y" (70 %): {LONE}'),
        (1, 1, f'"x" (1 answer) and "y" (1 answer) are probably one class (70 %). {AGAIN}'),
        (2, 1, f'"x" (2 answers) and "y" (1 answer) are probably one class (70 %). {AGAIN}'),
        (2, 2, f'"x" (2 answers) and "y" (2 answers) are probably one class (70 %). {AGAIN}'),
        (3, 0, f'"x" (3 answers) and "y" (known before) are probably one class (70 %). {AGAIN}'),
        (0, 2, f'"x" (known before) and "y" (2 answers) are probably one class (70 %). {AGAIN}'),
    ],
)
def test_a_merge_says_how_many_answers_there_are_and_one_answer_may_be_a_mistake(
    a: int, b: int, said: str
) -> None:
    assert str(Merge("x", "y", 0.7, a, b)) == said


def test_a_merge_is_probable_above_one_half() -> None:
    assert [Merge("x", "y", p, 2, 2).probable for p in (0.0, 0.49, 0.5, 0.51, 1.0)] == [False] * 3 + [True] * 2
    said = f'"x" (2 answers) and "y" (2 answers) are probably not one class (50 %). {AGAIN}'
    assert str(Merge("x", "y", 0.5, 2, 2)) == said
    assert "(100 %)" in str(Merge("x", "y", 1.0, 2, 2))


def test_answers_are_counted_in_words() -> None:
    assert [_counted(n) for n in range(4)] == ["known before", "1 answer", "2 answers", "3 answers"]


# -- merges: what is looked at ---------------------------------------------------------------------------------


def test_two_hundred_answers_of_a_class_are_looked_at_and_no_pseudo_labels() -> None:
    rng = np.random.default_rng(0)
    classes, human = rng.choice(3, 700, p=[0.4, 0.4, 0.2]), rng.choice(2, 700, p=[0.1, 0.9])
    expected, seen = [], [0, 0, 0]
    for place, (c, by_person) in enumerate(zip(classes.tolist(), human.tolist(), strict=True)):
        if by_person:
            seen[c] += 1
            expected += [place] * (seen[c] <= 200)
    assert min(seen[:2]) > 200
    assert _looked_at(Accepted(np.arange(700), classes, human)).tolist() == expected


def test_answers_are_calibrated_in_powers_of_two() -> None:
    sizes = [_size(n) for n in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 200)]
    assert sizes == [1, 2, 2, 4, 4, 4, 8, 8, 8, 16, 16, 16]


def agent_of(X: np.ndarray, y: list[int], n_names: int | None = None) -> Any:
    """An agent that remembers these samples, and whose features are those of the pool."""
    samples = SimpleNamespace(X=torch.from_numpy(X.astype(np.float32)), y=torch.tensor(y))
    features = lambda agent, pool: SimpleNamespace(features=lambda rows: pool.take(rows).numpy())  # noqa: E731
    return SimpleNamespace(
        seed=5,
        version=2,
        names=ClassNames(tuple(f"known {c}" for c in range(n_names or max(y) + 1))),
        replay=SimpleNamespace(samples=lambda: samples),
        method=SimpleNamespace(learner=SimpleNamespace(begin=features)),
    )


def test_a_crowd_has_two_hundred_samples_of_a_class_and_five_thousand_of_the_pool_besides_the_answers() -> None:
    rng = np.random.default_rng(0)
    y = [0] * 203 + [1] * 200 + [2] * 3 + [3] * 2 + [4]
    X = rng.normal(0, 1, (len(y), 3))
    crowd = _Crowd(agent_of(X, y, n_names=6), Pool(rng.normal(0, 1, (5005, 3))), np.array([7, 4, 9]))
    assert {c: len(places) for c, places in crowd.known.items()} == {0: 200, 1: 200, 2: 3, 3: 2}
    assert crowd.answers.tolist() == [405, 406, 407]
    assert len(crowd._directions) == 405 + 3 + 5000


def test_what_lies_in_the_middle_has_no_direction_and_what_is_near_it_has_one() -> None:
    X = np.array([[0, 0], [0.01, 0], [5, 0], [0, -0.3]])
    crowd = _Crowd(agent_of(X, [0, 0, 1, 1]), Pool(np.array([[1.0, 2], [-1, -2]])), np.array([0]))
    directions = {tuple(np.round(u, 4).tolist()) for u in crowd._directions[:4]}
    assert directions == {(0.0, 0.0), (1.0, 0.0), (0.0, -1.0)}
    assert crowd._neighbours.shape == (5, 6), "all there are, where there are fewer than 21"


def test_of_a_small_class_two_samples_are_the_less_typical_half() -> None:
    rng = np.random.default_rng(1)
    y = [0] * 2 + [1] * 3 + [2] * 5 + [3] * 6 + [4] * 9
    crowd = _Crowd(agent_of(rng.normal(0, 1, (25, 4)), y), Pool(rng.normal(0, 1, (30, 4))), np.arange(3))
    assert {c: len(places) for c, places in crowd._atypical.items()} == {0: 2, 1: 2, 2: 2, 3: 3, 4: 4}
    for c, places in crowd._atypical.items():
        mine = crowd._directions[crowd.known[c]]
        alike = {p: float(crowd._directions[p] @ mine.mean(axis=0)) for p in crowd.known[c].tolist()}
        assert sorted(alike, key=alike.__getitem__)[: len(places)] == places.tolist()


# -- merges: how alike classes are -----------------------------------------------------------------------------


def of_length_one(rng: np.random.Generator, n: int, d: int, middle: float = 0.5) -> np.ndarray:
    U = rng.normal(middle, 1, (n, d))
    return U / np.linalg.norm(U, axis=1, keepdims=True)


def test_the_cosine_inside_is_that_of_all_pairs() -> None:
    U = of_length_one(np.random.default_rng(0), 5, 3)
    for n in (2, 3, 5):
        pairs = [float(U[i] @ U[j]) for i in range(n) for j in range(n) if i != j]
        assert _inside(U[:n], n) == pytest.approx(sum(pairs) / len(pairs))


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_the_cosine_within_few_answers_leans_on_what_is_usual_as_on_two_answers(n: int) -> None:
    U = of_length_one(np.random.default_rng(n), n, 3)
    pairs = [float(U[i] @ U[j]) for i in range(n) for j in range(n) if i != j]
    inside = sum(pairs) / len(pairs) if pairs else 0.0
    assert _View(U, 1, 0.9)._within(np.arange(n)) == pytest.approx(((n - 1) * inside + 2 * 0.9) / (n + 1))


def test_the_cosine_within_is_at_least_a_tenth_of_what_is_usual_and_a_thousandth() -> None:
    opposite = np.array([[1.0, 0], [-1, 0]])
    for usual, within in ((0.4, 0.04), (0.5, 0.05), (0.006, 0.001), (0.011, 0.0011), (-0.4, 0.001)):
        assert _View(opposite, 1, usual)._within(np.arange(2)) == pytest.approx(within)
    assert _View(opposite, 1, 0.8)._within(np.arange(2)) == pytest.approx((-1 + 1.6) / 3)


def test_groups_are_as_alike_as_all_of_their_samples() -> None:
    U = of_length_one(np.random.default_rng(3), 15, 4, middle=1.5)
    members = [U[3 * g : 3 * g + 3] for g in range(5)]
    view = _View.of(
        np.stack([m.sum(axis=0) for m in members]), 3, {0: np.array([0, 1]), 1: np.array([2, 3, 4])}
    )

    def inside(groups: list[int]) -> float:
        mine = np.concatenate([members[g] for g in groups])
        return float(np.mean([mine[i] @ mine[j] for i in range(len(mine)) for j in range(len(mine)) if i != j]))

    usual = (inside([0, 1]) + inside([2, 3, 4])) / 2
    assert view.within == pytest.approx(usual)
    a, b = [0], [2, 4]
    within = [((3 * len(g) - 1) * inside(g) + 2 * usual) / (3 * len(g) + 1) for g in (a, b)]
    between = np.mean([x @ z for g in a for h in b for x in members[g] for z in members[h]])
    assert min(within) > 0.05
    assert view.alike(np.array(a), np.array(b)) == pytest.approx(between / math.sqrt(within[0] * within[1]))


# -- merges: what a likeness means -----------------------------------------------------------------------------


def newton(same: np.ndarray, different: np.ndarray, ridge: float, steps: int) -> list[Any]:
    """Means, deviations and weights of a logistic regression."""
    alike, y = np.concatenate([same, different]), np.array([1.0] * len(same) + [0.0] * len(different))
    mean = sum(alike) / len(alike)
    std = np.sqrt(sum((row - mean) ** 2 for row in alike) / len(alike)) + 1e-6
    X = np.array([[*((row - mean) / std), 1.0] for row in alike])
    d = X.shape[1]
    w, penalty = np.zeros(d), np.array([ridge] * (d - 1) + [1e-6])
    for _ in range(steps):
        p = np.array([1 / (1 + math.exp(-(row @ w))) for row in X])
        slope = [(p - y) @ X[:, j] + penalty[j] * w[j] for j in range(d)]
        curve = [
            [(p * (1 - p) * X[:, j]) @ X[:, k] + penalty[j] * (j == k) for k in range(d)] for j in range(d)
        ]
        w = w - np.linalg.solve(curve, slope)
    return [mean.tolist(), std.tolist(), w.tolist()]


@pytest.mark.parametrize("steps", [0, 1, 2, 4, None])
def test_a_calibration_is_a_logistic_regression_by_newton_s_method(steps: int | None) -> None:
    rng = np.random.default_rng(2)
    same, different = rng.normal(1, 0.01, (7, 3)), rng.normal([1.01, 0.98, 1], 0.02, (5, 3))
    given = {} if steps is None else {"ridge": 0.5, "steps": steps}
    found = _Calibration.of(same, different, **given)
    mean, std, w = newton(same, different, 1.0 if steps is None else 0.5, 25 if steps is None else steps)
    assert found.mean.tolist() == pytest.approx(mean, rel=1e-9)
    assert found.std.tolist() == pytest.approx(std, rel=1e-9)
    assert found.weights.tolist() == pytest.approx(w, rel=1e-7, abs=1e-10)
    row = np.array([0.99, 1.02, 0.97])
    odds = sum((x - m) / s * v for x, m, s, v in zip(row.tolist(), mean, std, w, strict=False)) + w[-1]
    assert found.evidence(row) == pytest.approx(odds, rel=1e-7, abs=1e-10)


class Plain:
    """What is said of two names, worked out again: directions, neighbours, likenesses and their meaning."""

    def __init__(self, X: np.ndarray, y: list[int], n_names: int, pool: np.ndarray, rows: list[int]) -> None:
        self.rng = lambda iteration: generator(5, 3, iteration, "merges")
        rng = self.rng(0)
        drawn = [rng.permutation([i for i in range(len(y)) if y[i] == c])[:200] for c in range(n_names)]
        kept = [int(i) for mine in drawn if len(mine) > 1 for i in mine]
        others = rng.permutation([row for row in range(len(pool)) if row not in rows])[:5000]
        features = np.concatenate([X[kept], pool[rows], pool[others]]).astype(np.float64)
        features -= np.mean(features[len(kept) :], axis=0)
        self.U = np.array([x / math.sqrt(sum(v * v for v in x)) for x in features])
        self.G = self.U @ self.U.T
        self.known = {c: [p for p, i in enumerate(kept) if y[i] == c] for c in range(n_names)}
        self.known = {c: places for c, places in self.known.items() if places}
        self.answers = [len(kept) + i for i in range(len(rows))]
        self.near = [
            sorted(range(len(self.U)), key=lambda other, p=p: -self.G[p, other])[:21]
            for p in range(len(kept) + len(rows))
        ]
        self.usual = [np.mean([self.inside(self.members(v, r)) for r in self.known.values()]) for v in (0, 1)]
        self.meant: dict[tuple[int, int], list[Any]] = {}
        self.hard: dict[int, list[int]] = {}
        for c, r in self.known.items():
            order = sorted(r, key=lambda p, r=r: float(np.mean([self.G[p, q] for q in r])))
            self.hard[c] = order[: max(2, len(r) // 2)]

    def members(self, view: int, places: Any) -> list[int]:
        return [q for p in places for q in self.near[p]] if view else [int(p) for p in places]

    def inside(self, m: list[int]) -> float:
        total = self.U[m].sum(axis=0)
        return (total @ total - len(m)) / (len(m) * (len(m) - 1))

    def alike(self, a: Any, b: Any) -> list[float]:
        found = []
        for view in (0, 1):
            within = []
            for m in (self.members(view, a), self.members(view, b)):
                mine, usual = self.inside(m) if len(m) > 1 else 0.0, self.usual[view]
                within.append(max(((len(m) - 1) * mine + 2 * usual) / (len(m) + 1), usual / 10, 0.001))
            between = self.U[self.members(view, a)].mean(axis=0) @ self.U[self.members(view, b)].mean(axis=0)
            found.append(between / math.sqrt(within[0] * within[1]))
        around = [set(self.members(1, places)) for places in (a, b)]
        return [*found, len(around[0] & around[1]) / min(map(len, around))]

    def evidence(self, a: Any, b: Any, known: bool) -> float:
        n_a, n_b = (max(s for s in (1, 2, 4, 8, 16) if s <= len(places)) for places in (a, b))
        mean, std, w = self.meaning(n_a, 50 if known else n_b)
        scaled = [(x - m) / s for x, m, s in zip(self.alike(a, b), mean, std, strict=True)]
        return sum(x * v for x, v in zip(scaled, w, strict=False)) + w[-1]

    def meaning(self, n_a: int, n_b: int) -> list[Any]:
        if (n_a, n_b) not in self.meant:
            self.meant[n_a, n_b] = self.worked_out(n_a, n_b)
        return self.meant[n_a, n_b]

    def worked_out(self, n_a: int, n_b: int) -> list[Any]:
        rng = self.rng(1000 * n_a + n_b)
        same, different = [], []
        for _ in range(150):
            one, two = rng.choice(list(self.known), 2, replace=False).tolist()
            others = self.known if n_b == 50 else self.hard
            some = rng.permutation(self.hard[one])
            some = some[: min(n_a, len(some) // 2)].tolist()
            mine, theirs = rng.permutation(others[one]).tolist(), rng.permutation(others[two]).tolist()
            same.append(self.alike(some, [p for p in mine if p not in some][:n_b]))
            different.append(self.alike(some, theirs[:n_b]))
        return newton(np.array(same), np.array(different), 1.0, 12)


def clusters(sizes: dict[int, int], seed: int, noise: float = 0.7) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(0, 1, (8, 5))
    y = [c for c, n in sizes.items() for _ in range(n)]
    return (centres[y] + rng.normal(0, noise, (len(y), 5))).astype(np.float32), y


def test_two_names_are_compared_as_plain_loops_compare_them() -> None:
    X, y = clusters({0: 60, 1: 9, 2: 5, 3: 1}, seed=0)
    pool, truth = clusters({0: 6, 4: 12, 5: 12}, seed=1)
    names = ClassNames(("known 0", "known 1", "known 2", "known 3", "owl", "Eule", "fox", "lynx"))
    rows = [2, 6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 5]
    classes = [0, 4, 4, 4, 5, 5, 5, 6, 6, 6, 6, 6, 7]
    human = [1] * len(rows)
    accepted = Accepted(np.array([*rows, 3, 29]), np.array([*classes, 0, 6]), np.array([*human, 0, 0]))
    found = compared(agent_of(X, y), Pool(pool), accepted, names)
    plain = Plain(X, y, 4, pool, rows)
    answers = {c: [plain.answers[i] for i, d in enumerate(classes) if d == c] for c in (4, 5, 6, 7)}
    expected: dict[tuple[str, str], tuple[float, int, int]] = {}
    new = [7, 5, 4, 6]  # the fewest answers first; of as many, the later name
    for place, a in enumerate(new):
        for b in [*new[place + 1 :], 0, 1, 2]:
            theirs = plain.known[b][:50] if b < 3 else answers[b]
            odds = plain.evidence(answers[a], theirs, b < 3) - math.log(3 + 3)
            pair = str(names.names[a]), str(names.names[b])
            expected[pair] = 1 / (1 + math.exp(-odds)), classes.count(a), classes.count(b)
    assert {(m.a, m.b): (m.answers_a, m.answers_b) for m in found} == {k: v[1:] for k, v in expected.items()}
    for merge in found:
        assert merge.probability == pytest.approx(expected[str(merge.a), str(merge.b)][0], rel=1e-4), merge
    assert all(one.probability >= other.probability for one, other in pairwise(found))
    assert truth[rows[1]] == truth[rows[4]], "owl and Eule are one"


def test_with_two_remembered_classes_something_is_said_and_with_one_nothing() -> None:
    pool, _ = clusters({4: 8, 5: 8}, seed=1)
    names = ClassNames(("known 0", "known 1", "owl", "fox"))
    told = Accepted(np.array([0, 1, 8]), np.array([2, 2, 2]), np.ones(3, np.int64))
    for sizes, expected in (({0: 6, 1: 6}, ["known 0", "known 1"]), ({0: 6, 1: 1}, []), ({0: 1, 1: 1}, [])):
        X, y = clusters(sizes, seed=0)
        found = compared(agent_of(X, y), Pool(pool), told, names)
        assert sorted(str(merge.b) for merge in found) == expected
        assert all((merge.a, merge.answers_a, merge.answers_b) == ("owl", 3, 0) for merge in found)


def test_nothing_is_compared_where_no_answer_names_a_new_class() -> None:
    X, y = clusters({0: 6, 1: 6}, seed=0)
    names = ClassNames(("known 0", "known 1", "owl"))
    told = Accepted(np.array([0, 1, 2]), np.array([0, 1, 2]), np.array([1, 1, 0]))
    assert compared(agent_of(X, y), Pool(X), told, names) == []
    assert compared(agent_of(X, y), Pool(X), Accepted.nothing(), names) == []


# -- one question ----------------------------------------------------------------------------------------------


def said(*answers: tuple[Any, ...], overlap: int = 1, **asked: Any) -> Question:
    """A question with answers (person, answer, whether it settles)."""
    given = [Given(who, answer, f"day {i}", i, *settles) for i, (who, answer, *settles) in enumerate(answers)]
    return Question("q0", 0, asked, "day", tuple(given), overlap)


def test_an_answer_settles_nothing_and_a_question_is_put_to_one_person_unless_it_is_said() -> None:
    assert not Given("Ada", "owl", "day", 0).settles
    assert Question("q0", 0, {}, "day").overlap == 1
    assert Question("q0", 0, {}, "day").missing == 1


def test_what_nobody_answered_has_nothing() -> None:
    question = said(score=2.5)
    assert (question.counting, question.settled, question.said, question.latest("Ada")) == (None,) * 4
    assert (question.opinions, question.cost, question.missing) == ({}, 0, 1)
    assert not question.disagreement
    assert not question.concerns("Ada")
    assert question.saying("owl") is None
    assert question.saying(None) is None
    assert question.row == {
        "score": 2.5,
        "query": "q0",
        "asked_at": "day",
        "answer": None,
        "skipped": False,
        "charged": 0,
        "told_at": None,
        "corrected": None,
        "person": None,
        "answers": 0,
        "disagreement": False,
    }


def test_what_was_asked_says_whether_anybody_was() -> None:
    assert (said().unasked, said().recorded) == (False, False)
    assert (said(unasked=True).unasked, said(recorded=True).recorded) == (True, True)
    assert (said(recorded=True).unasked, said(unasked=True).recorded) == (False, False)


def test_the_latest_answer_of_who_answered_first_counts() -> None:
    question = said(("Ada", "owl"), ("Bob", "fox"), ("Ada", "elk"), ("Cid", "bat"), overlap=3)
    assert question.counting == question.given[2]
    assert [question.latest(who) for who in ("Ada", "Bob", "Cid", "Dan")] == [
        question.given[2],
        question.given[1],
        question.given[3],
        None,
    ]
    assert list(question.opinions.items()) == [("Ada", "elk"), ("Bob", "fox"), ("Cid", "bat")]


def test_the_latest_answer_of_who_settled_it_last_counts_more() -> None:
    one = said(("Ada", "owl"), ("Bob", "fox", True))
    assert one.counting == one.settled == one.given[1]
    three = said(
        ("Ada", "owl"), ("Bob", "fox", True), ("Cid", "elk", True), ("Dan", "bat", True), ("Dan", "cat")
    )
    assert three.counting == three.settled == three.given[4], "of who settled it, whatever he said since"
    back = said(("Ada", "owl", True), ("Bob", "fox", True), ("Ada", "elk", True))
    assert back.settled == back.given[2]


def test_two_answers_that_differ_are_a_disagreement_until_somebody_settles_it() -> None:
    assert not said(("Ada", "owl")).disagreement
    assert not said(("Ada", "owl"), ("Bob", "owl")).disagreement
    assert not said(("Ada", "owl"), ("Ada", "fox")).disagreement, "a person may change their mind"
    assert said(("Ada", "owl"), ("Bob", "fox")).disagreement
    assert said(("Ada", "owl"), ("Bob", SKIP)).disagreement
    assert said(("Ada", 1), ("Bob", "1")).disagreement, "a number is not its digits"
    assert not said(("Ada", "owl"), ("Bob", "fox"), ("Cid", "elk", True)).disagreement


def test_who_said_it_first_and_who_settled_it_before_all() -> None:
    question = said(("Ada", "owl"), ("Bob", "fox"), ("Cid", "fox"), ("Ada", "elk"))
    assert question.saying("fox") == question.given[1]
    assert question.saying("elk") == question.given[3]
    assert question.saying("owl") is None, "that was taken back"
    settled = said(("Ada", "owl"), ("Bob", "fox"), ("Cid", "fox", True))
    assert settled.saying("fox") == settled.given[2]
    assert settled.saying("owl") == settled.given[0]


def test_so_many_people_are_missing_as_have_not_answered() -> None:
    people = [("Ada", "owl"), ("Bob", SKIP), ("Ada", "fox"), ("Cid", "owl"), ("Dan", "owl")]
    assert [said(*people[:n], overlap=3).missing for n in range(6)] == [3, 2, 1, 1, 0, 0]
    assert said(("Ada", "owl", True), overlap=3).missing == 0


def test_a_question_concerns_who_answered_it_with_others_not_who_settled_it() -> None:
    assert not said(("Ada", "owl")).concerns("Ada")
    assert not said(("Ada", "owl")).concerns("Bob")
    two = said(("Ada", "owl"), ("Bob", "fox"))
    assert [two.concerns(who) for who in ("Ada", "Bob", "Cid")] == [True, True, False]
    settled = said(("Ada", "owl"), ("Cid", "elk", True))
    assert [settled.concerns(who) for who in ("Ada", "Cid")] == [True, False]
    only = said(("Ada", "owl", True), ("Bob", "fox", True))
    assert [only.concerns(who) for who in ("Ada", "Bob", "Cid")] == [False, False, False]


@pytest.mark.parametrize(
    ("answers", "costs"),
    [
        ([("Ada", "owl")], [1, 1, 1]),
        ([("Ada", SKIP)], [0, 0, 0]),
        ([("Ada", "owl"), ("Ada", "fox")], [1, 1, 1]),
        ([("Ada", "owl"), ("Bob", "fox")], [1, 2, 2]),
        ([("Ada", SKIP), ("Bob", "fox")], [0, 1, 1]),
        ([("Ada", "owl"), ("Bob", "fox"), ("Cid", "elk")], [1, 2, 3]),
        ([("Ada", SKIP), ("Bob", "fox"), ("Cid", "elk", True)], [1, 1, 2]),
        ([("Ada", "owl"), ("Bob", SKIP), ("Cid", SKIP, True)], [0, 1, 1]),
        ([("Ada", SKIP), ("Bob", "fox"), ("Bob", "elk", True)], [1, 1, 1]),
    ],
)
def test_opinions_that_name_a_class_are_charged_up_to_the_overlap_who_settles_first(
    answers: list[tuple[Any, ...]], costs: list[int]
) -> None:
    assert [said(*answers, overlap=n).cost for n in (1, 2, 3)] == costs
    assert said(*answers, overlap=3, recorded=True).cost == 0, "it was there before"


def test_opinions_are_those_of_who_could_tell() -> None:
    assert said(("Ada", "owl"), ("Bob", SKIP)).said == Opinions({"Ada": "owl"}, None)
    assert said(("Ada", SKIP)).said is None
    assert said(("Ada", SKIP), ("Bob", SKIP, True)).said is None
    assert said(("Ada", "owl"), ("Bob", SKIP, True)).said is None
    assert said(("Ada", SKIP), ("Bob", "fox", True)).said == Opinions({"Bob": "fox"}, "fox")
    assert said(("Ada", "owl"), ("Bob", "fox", True)).said == Opinions({"Ada": "owl", "Bob": "fox"}, "fox")


def row_of(question: Question, *keys: str) -> list[Any]:
    return [question.row[key] for key in keys]


def test_the_ledger_says_what_counts_and_what_was_said_before() -> None:
    keys = ("answer", "skipped", "charged", "told_at", "corrected", "person", "answers", "disagreement")
    told = said(("Ada", "owl"), score=1.5)
    assert row_of(told, "score", *keys) == [1.5, "owl", False, 1, "day 0", None, "Ada", 1, False]
    skipped = said(("Ada", SKIP))
    assert row_of(skipped, *keys) == [None, True, 0, "day 0", None, "Ada", 1, False]
    twice = said(("Ada", "owl"), ("Bob", "bat"), ("Ada", "fox"), overlap=2)
    assert row_of(twice, *keys) == ["fox", False, 2, "day 2", "owl", "Ada", 3, True]
    thrice = said(("Ada", "owl"), ("Ada", "fox"), ("Ada", "elk"), ("Bob", "elk"))
    assert row_of(thrice, *keys) == ["elk", False, 1, "day 2", "fox", "Ada", 4, False]
    unsure = said(("Ada", SKIP), ("Ada", "elk"))
    assert row_of(unsure, *keys) == ["elk", False, 1, "day 1", None, "Ada", 2, False]
    settled = said(("Ada", "owl"), ("Bob", "fox"), ("Bob", "elk", True))
    assert row_of(settled, *keys) == ["elk", False, 1, "day 2", "fox", "Bob", 3, False]
    gave_up = said(("Ada", "owl"), ("Ada", SKIP))
    assert row_of(gave_up, *keys) == [None, True, 0, "day 1", "owl", "Ada", 2, False]


def test_a_verdict_is_of_the_label_that_was_written_down() -> None:
    confirmed = {"event": "confirmed", "samples": [1, 2], "labels": ["owl", "fox"]}
    assert Verdict.of_event(confirmed) == {1: Verdict(True, "owl", None), 2: Verdict(True, "fox", None)}
    bare = {"event": "rejected", "samples": [1, 2]}
    assert Verdict.of_event(bare) == {1: Verdict(False, None, None), 2: Verdict(False, None, None)}
    assert Verdict.of_event({**bare, "samples": [3], "instead": "elk"}) == {3: Verdict(False, None, "elk")}


def test_a_consensus_counts_the_classes_that_could_have_been_named_and_leaves_out_who_could_not_tell() -> None:
    questions = {
        7: said(("Ada", "owl"), ("Bob", "fox"), overlap=2),
        8: said(("Ada", SKIP), ("Bob", SKIP), overlap=2),
        9: said(("Ada", "owl"), ("Bob", "owl"), overlap=2),
        5: said(("Ada", "cat"), ("Bob", "owl"), overlap=2),
    }
    opinions = [questions[i].said for i in (7, 9, 5)]
    agreed = agreed_on(questions, known=["cat", "dog", "elk"])
    assert list(agreed) == [7, 9, 5]
    assert list(agreed.values()) == consensus([o for o in opinions if o], 5)
    assert list(agreed.values()) != consensus([o for o in opinions if o], 6)
    assert agreed_on({8: questions[8]}, known=["cat"]) == {}


def test_rows_of_the_ledger_take_the_consensus() -> None:
    rows = [{"sample": i, "answer": "old", "score": 1} for i in (1, 2, 3)]
    assert with_consensus(rows, {1: "owl", 2: SKIP}, {1: 0.5}) == [
        {"sample": 1, "answer": "owl", "score": 1, "skipped": False, "weight": 0.5},
        {"sample": 2, "answer": None, "score": 1, "skipped": True, "weight": None},
        {"sample": 3, "answer": None, "score": 1, "skipped": False, "weight": None},
    ]


# -- reviews ---------------------------------------------------------------------------------------------------

BELIEVED = {"a": "owl", "b": "owl", "c": "fox", "d": "fox"}


def begun(budget: int = 2, asked: str = "", overlap: int = 1) -> State:
    rows = [{"sample": sample, "score": 1.0} for sample in asked]
    return State.of([events.begun(budget, ["cat"], None, overlap), events.asked(0, "q0", rows)])


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without when they were."""
    return [{key: value for key, value in row.items() if key != "at"} for row in rows]


def test_verdicts_are_written_down_once_for_each_sample_with_the_label() -> None:
    state = begun()
    rows = judging(state, ["a", "c", "a"], True, BELIEVED, "Ada")
    judged = {"event": "confirmed", "samples": ["a", "c"], "labels": ["owl", "fox"], "person": "Ada"}
    assert plain(rows) == [judged]
    state = state.after(rows)
    assert judging(state, ["a", "c"], True, BELIEVED, "Bob") == []
    (row,) = judging(state, ["a", "b"], True, BELIEVED, None)
    assert (row["samples"], row["labels"]) == (["b"], ["owl"])
    (row,) = judging(state, ["a"], False, BELIEVED, None)
    assert (row["event"], row["samples"], row["labels"]) == ("rejected", ["a"], ["owl"])
    (row,) = judging(state, ["a", "c"], True, {**BELIEVED, "a": "elk"}, None)
    assert (row["samples"], row["labels"]) == (["a"], ["elk"]), "another label is another matter"


def test_a_verdict_of_what_is_no_longer_believed_may_be_changed_and_stands() -> None:
    state = begun()
    state = state.after(judging(state, ["a"], False, BELIEVED, "Ada"))
    assert judging(state, ["a"], False, {}, "Ada") == []
    (row,) = judging(state, ["a"], True, {}, "Ada")
    assert (row["event"], row["samples"], row["labels"]) == ("confirmed", ["a"], [None])
    with pytest.raises(UnknownSample, match=r"^sample 'b' has no pseudo-label$"):
        judging(state, ["b"], True, {}, "Ada")


def test_a_rejection_without_a_class_takes_the_place_of_one_with() -> None:
    state = begun()
    state.apply(events.judged(["a"], False, "Ada", ["owl"], "elk"))
    (row,) = judging(state, ["a"], False, BELIEVED, "Ada")
    assert "instead" not in row
    assert state.after([row]).verdicts["a"] == Verdict(False, "owl", None)
    assert judging(state.after([row]), ["a"], False, BELIEVED, "Ada") == []


def test_verdicts_are_taken_back_where_there_are_any() -> None:
    state = begun()
    assert judging(state, ["a"], None, BELIEVED, "Ada") == []
    state = state.after(judging(state, ["a"], True, BELIEVED, "Ada"))
    rows = judging(state, ["a", "b"], None, BELIEVED, "Ada")
    assert plain(rows) == [{"event": "unjudged", "samples": ["a"], "person": "Ada"}]
    assert state.after(rows).verdicts == {}


def about(sample: Any) -> dict[str, Any]:
    return {"score": 3.5, "of": sample}


def test_classes_that_people_name_are_charged_as_far_as_there_is_room() -> None:
    told = {"a": "elk", "c": "fox", "b": "elk", "d": "elk"}
    for budget, charged, noted in ((0, 0, 3), (1, 1, 2), (2, 2, 1), (3, 3, 0), (4, 3, 0)):
        named = naming(begun(budget), told, BELIEVED, about, "Ada")
        assert named[1:] == (charged, noted, 1)
        kinds = [["rejected", "volunteered"][i < charged] for i in range(3)]
        assert [row["event"] for row in named.events] == [kinds[0], "confirmed", *kinds[1:]]
        assert begun(budget).after(named.events).charged == charged


def test_what_is_charged_and_promised_leaves_so_much_less_room() -> None:
    state = begun(5, asked="xyz")
    state.apply(events.answered("told", "q0", "x", "cat"))
    assert (state.charged, state.promised) == (1, 2)
    assert naming(state, dict.fromkeys("abcd", "elk"), BELIEVED, about, None)[1:] == (2, 2, 0)
    state.apply(events.answered("skipped", "q0", "y", SKIP))
    assert naming(state, dict.fromkeys("abcd", "elk"), BELIEVED, about, None)[1:] == (3, 1, 0)


def test_naming_what_was_there_already_charges_nothing() -> None:
    state = begun(5)
    state = state.after(recording(state, {"a": "cat"}, about, "Ada"))
    named = naming(state, {"a": "elk", "b": "elk"}, BELIEVED, about, "Ada")
    assert named[1:] == (1, 0, 0)
    after = state.after(named.events)
    assert (after.answers["a"], after.answers["b"], after.charged) == ("elk", "elk", named.charged)


def test_what_naming_writes_down() -> None:
    named = naming(begun(1), {"a": "elk", "b": "fox", "c": "fox"}, BELIEVED, about, "Ada")
    known = {"score": 3.5, "of": "a", "sample": "a", "suggestion": "owl", "unasked": True}
    assert plain(named.events) == [
        {"event": "volunteered", "sample": "a", "answer": "elk", "about": known, "person": "Ada"},
        {"event": "rejected", "samples": ["b"], "labels": ["owl"], "instead": "fox", "person": "Ada"},
        {"event": "confirmed", "samples": ["c"], "labels": ["fox"], "person": "Ada"},
    ]
    assert naming(begun(1), {}, BELIEVED, about, "Ada") == ([], 0, 0, 0)


def test_naming_again_puts_another_class_in_its_place() -> None:
    state = begun(1)
    state = state.after(naming(state, {"a": "elk"}, BELIEVED, about, "Ada").events)
    same = naming(state, {"a": "elk"}, BELIEVED, about, "Ada")
    assert same == ([], 1, 0, 0)
    again = naming(state, {"a": "bat", "b": "bat"}, {"b": "owl"}, about, "Bob")
    assert again[1:] == (1, 1, 0)
    settled = {"event": "settled", "query": "q0", "sample": "a", "answer": "bat", "person": "Bob"}
    assert plain(again.events)[0] == settled
    assert state.after(again.events).answers == {"a": "bat"}
    assert state.after(again.events).charged == 1


def test_what_was_asked_about_is_answered_and_what_is_not_believed_is_not_named() -> None:
    state = begun(5, asked="x")
    asked = r"^sample 'x' was asked about: answer the question, or correct the answer$"
    with pytest.raises(Conflict, match=asked):
        naming(state, {"x": "elk"}, {"x": "owl"}, about, "Ada")
    with pytest.raises(UnknownSample, match=r"^sample 'z' has no pseudo-label$"):
        naming(state, {"a": "elk", "z": "elk"}, BELIEVED, about, "Ada")


def test_labels_that_are_there_are_recorded_for_free() -> None:
    rows = recording(begun(0), {"a": "elk", "b": "bat"}, about, "Ada")
    known = {"score": 3.5, "of": "a", "sample": "a", "suggestion": None, "unasked": True, "recorded": True}
    first = {"event": "volunteered", "sample": "a", "answer": "elk", "about": known, "person": "Ada"}
    assert plain(rows)[0] == first
    after = begun(0).after(rows)
    assert (after.charged, after.answers) == (0, {"a": "elk", "b": "bat"})
    again = recording(after, {"a": "fox"}, about, "Bob")
    assert [(row["event"], row["answer"], row["person"]) for row in again] == [("settled", "fox", "Bob")]
    assert after.after(again).charged == 0
    assert recording(after, {"a": "elk"}, about, "Ada") == []


def test_a_recorded_label_that_somebody_was_asked_for_is_their_answer() -> None:
    state = begun(2, asked="xy")
    rows = recording(state, {"x": "elk"}, about, "Ada")
    told = {"event": "told", "query": "q0", "sample": "x", "answer": "elk", "person": "Ada"}
    assert plain(rows) == [told]
    assert state.after(rows).charged == 1


def test_recorded_labels_must_fit_into_the_budget_where_they_were_asked_for() -> None:
    state = begun(1, asked="x")
    state.apply(events.answered("skipped", "q0", "x", SKIP))
    state = state.after([events.asked(1, "q1", [{"sample": "y"}])])
    with pytest.raises(BudgetExceeded, match=r"^the budget of 1 labels has no room"):
        recording(state, {"x": "elk"}, about, None)
    assert len(recording(state, {"y": "elk"}, about, None)) == 1


def test_what_nobody_asked_for_is_taken_back_by_who_said_it() -> None:
    state = begun(3, asked="x")
    state.apply(events.answered("told", "q0", "x", "cat", "Ada"))
    state = state.after(naming(state, {"a": "elk", "b": "elk"}, BELIEVED, about, "Ada").events)
    rows = withdrawing(state, ["a", "b"], "Ada")
    assert plain(rows) == [{"event": "undone", "sample": s, "person": "Ada"} for s in "ab"]
    assert list(state.after(rows).questions) == ["x"]
    for sample, person in (("x", "Ada"), ("a", "Bob"), ("z", "Ada")):
        wrong = f"^nothing was said of sample '{sample}' that could be taken back$"
        with pytest.raises(UnknownSample, match=wrong):
            withdrawing(state, [sample], person)
    state.apply(events.believed(0, [], []))
    with pytest.raises(Conflict, match=r"^the learner has used that label since; correct it instead$"):
        withdrawing(state, ["a"], "Ada")


def test_unasked_answers_are_those_that_nobody_asked_for_and_name_a_class() -> None:
    state = begun(5, asked="xy")
    state.apply(events.answered("told", "q0", "x", "cat"))
    state = state.after(recording(state, {"a": "elk", "b": "bat"}, about, None))
    assert unasked_answers(state) == {"a": "elk", "b": "bat"}
    state.apply(events.answered("settled", "q0", "b", SKIP))
    assert unasked_answers(state) == {"a": "elk"}


def test_after_the_end_nothing_is_reviewed() -> None:
    state = begun().after([events.finished()])
    late = "^this adaptation is finished; start another one with the new agent$"
    for review in (
        lambda: judging(state, [], True, {}, None),
        lambda: naming(state, {}, {}, about, None),
        lambda: recording(state, {}, about, None),
        lambda: withdrawing(state, [], None),
    ):
        with pytest.raises(AlreadyFinished, match=late):
            review()


# -- doubts ----------------------------------------------------------------------------------------------------

NAMES = ClassNames(("cat", "dog", "owl"))


def test_what_is_known_is_what_is_replayed_and_then_the_answers() -> None:
    pool = Pool(np.arange(12, dtype=np.float32).reshape(6, 2))
    agent = agent_of(np.array([[9.0, 9], [7, 7]]), [1, 0])
    known = Known.of(agent, pool, Accepted(np.array([4, 0]), np.array([2, 1]), np.ones(2, np.int64)))
    assert known.X.tolist() == [[9, 9], [7, 7], [8, 9], [0, 1]]
    assert known.y.tolist() == [1, 0, 2, 1]
    assert known.rows.tolist() == [-1, -1, 4, 0]


def cosine(known: Known, pool: np.ndarray, row: int, place: int) -> float:
    if known.rows[place] == row:
        return -math.inf
    middle = known.X.double().mean(dim=0).numpy()
    a, b = pool[row].astype(np.float64) - middle, known.X[place].double().numpy() - middle
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


@pytest.mark.parametrize("told", [[0, 3, 5], [4, 0, 2], [5, 1, 0]])
def test_where_nothing_is_replayed_answers_are_compared_with_the_others(told: list[int]) -> None:
    pool = np.random.default_rng(sum(told)).normal(0.4, 1, (6, 3)).astype(np.float32)
    known = Known(torch.from_numpy(pool[told]), torch.tensor([0, 1, 0]), np.array(told))
    rows, classes = np.array([5, 0, 2, 1, 3]), np.array([0, 1, 0, 1, 2])
    ((part, alike),) = known.cosines(Pool(pool), rows)
    assert part == slice(0, 5)
    for i, row in enumerate(rows.tolist()):
        plainly = [cosine(known, pool, row, place) for place in range(3)]
        assert alike[i].tolist() == pytest.approx(plainly, abs=1e-5)
        own, other = (
            max([-1.0, *(plainly[p] for p in range(3) if (known.y[p] == classes[i]) == mine)])
            for mine in (True, False)
        )
        margin = nearest_margins(known, Pool(pool), rows, classes)[i]
        assert margin == pytest.approx(own - other, abs=1e-5)
        best = sorted((p for p in range(3) if plainly[p] > -2), key=lambda p: -plainly[p])
        first = {int(known.y[p]): p for p in reversed(best)}
        expected = sorted(first.values(), key=lambda p: -plainly[p])
        likest = most_alike(known, Pool(pool), rows, NAMES, 3)[row]
        assert [(label, at) for label, _, at in likest] == [
            (NAMES.names[int(known.y[p])], told[p]) for p in expected
        ]
        assert [c for _, c, _ in likest] == pytest.approx([plainly[p] for p in expected], abs=6e-5)
        assert [c for _, c, _ in likest] == [round(c, 4) for _, c, _ in likest]


def test_where_a_class_or_every_other_is_unknown_its_cosine_is_minus_one() -> None:
    known = Known(torch.tensor([[1.0, 0], [-1, 0]]), torch.tensor([1, 1]), np.array([-1, -1]))
    pool = Pool(np.array([[2.0, 0], [0.6, 0.8]]))
    assert nearest_margins(known, pool, np.arange(2), np.array([1, 1])).tolist() == pytest.approx([2, 1.6])
    assert nearest_margins(known, pool, np.arange(2), np.array([0, 2])).tolist() == pytest.approx([-2, -1.6])


def test_what_is_known_lies_on_the_other_side() -> None:
    """Cosines below 0 are not cut off."""
    known = Known(
        torch.tensor([[-3.0, 4], [3, -4], [5, 0], [-5, 0]]), torch.tensor([0, 1, 2, 2]), np.full(4, -1)
    )
    pool = Pool(np.array([[0.0, 2], [0, -2]]))
    margins = nearest_margins(known, pool, np.arange(2), np.array([1, 0]))
    assert margins.tolist() == pytest.approx([-0.8 - 0.8] * 2)
    both = Known(torch.tensor([[-3.0, 4], [3, -4]]), torch.tensor([0, 1]), np.full(2, -1))
    assert nearest_margins(both, pool, np.array([1]), np.array([1])).tolist() == pytest.approx([1.6])
    likest = most_alike(both, pool, np.array([1]), NAMES, 2)
    assert likest == {1: [("dog", 0.8, None), ("cat", -0.8, None)]}


def test_of_equally_alike_samples_the_first_is_named() -> None:
    n = 600
    X = torch.tensor([[1.0, 0]]).repeat(n, 1)
    X[0], X[-1] = torch.tensor([-1.0, 0]), torch.tensor([0.0, -1])
    known = Known(X, torch.tensor([2] + [0, 1] * (n // 2 - 1) + [2]), np.arange(n))
    pool = Pool(np.concatenate([X.numpy(), [[3.0, 0.1]]]))
    found = most_alike(known, pool, np.array([n]), NAMES, 2)[n]
    assert [(label, at) for label, _, at in found] == [("cat", 1), ("dog", 2)]


def test_the_first_place_of_each_class_is_found_in_order() -> None:
    classes, places = np.array([2, 0, 1, 0, 2]), np.array([3, 4, 1, 0, 2])
    assert [_first_of_each(classes, places, n) for n in range(5)] == [[], [3], [3, 4], [3, 4, 2], [3, 4, 2]]


def test_margins_of_nothing_are_none_and_of_what_nobody_knows_nought() -> None:
    nothing = Known(torch.empty(0, 2), torch.empty(0, dtype=torch.int64), np.empty(0, np.int64))
    pool = Pool(np.ones((3, 2), np.float32))
    assert nearest_margins(nothing, pool, np.arange(3), np.zeros(3, np.int64)).tolist() == [0, 0, 0]
    assert most_alike(nothing, pool, np.arange(3), NAMES, 2) == {}
    known = Known(torch.eye(2), torch.tensor([0, 1]), np.full(2, -1))
    assert nearest_margins(known, pool, np.empty(0, np.int64), np.empty(0, np.int64)).tolist() == []
    assert most_alike(known, pool, np.empty(0, np.int64), NAMES, 2) == {}
