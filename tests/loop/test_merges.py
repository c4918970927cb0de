"""Classes that are probably one: second names and lone mistakes are found, different classes are left alone."""

import numpy as np
import pytest

from cual import SKIP, Adaptation, Agent
from cual.data.labels import Answer
from cual.data.pool import Pool
from cual.learners import Accepted
from cual.loop import merges
from cual.loop.merges import (
    NEIGHBOURS,
    OF_KNOWN,
    SAMPLES,
    SIZES,
    Merge,
    _Calibration,
    _Crowd,
    _looked_at,
    _size,
    _View,
)

OLD = ("ant", "bee", "cat", "dog")
NEW = ("owl", "fox")


class Meadow:
    """Four known classes and two new ones, as clusters; answers come by a rule of the test."""

    def __init__(self, method: str = "cual-plus") -> None:
        rng = np.random.default_rng(0)
        self.centres = {name: rng.normal(0, 1.5, 16) for name in (*OLD, *NEW)}
        y = [name for name in OLD for _ in range(60)]
        self.agent = Agent.fit(self._draw(rng, y), y, method)
        names = [name for name in (*OLD, *NEW) for _ in range(40)]
        self.truth = [names[i] for i in rng.permutation(len(names))]
        self.pool = self._draw(rng, self.truth)

    def _draw(self, rng: np.random.Generator, names: list[str]) -> np.ndarray:
        return np.stack([self.centres[name] + rng.normal(0, 1, 16) for name in names]).astype(np.float32)

    def adapted(self, called: dict[str, tuple[Answer, ...]], budget: int = 24) -> Adaptation:
        """Every class is called by its names in turn."""
        task = self.agent.adapt(self.pool, budget)
        asked = dict.fromkeys(self.truth, 0)
        while query := task.ask():
            answers: dict[int, Answer] = {}
            for i in map(int, query.ids):
                names = called.get(self.truth[i], (self.truth[i],))
                answers[i] = names[asked[self.truth[i]] % len(names)]
                asked[self.truth[i]] += 1
            task.tell(query.id, answers)
        return task


@pytest.fixture(scope="module")
def meadow() -> Meadow:
    return Meadow()


def names(merges: list[Merge]) -> list[set[object]]:
    return [{merge.a, merge.b} for merge in merges]


@pytest.mark.parametrize("method", ["cual-plus", "cual", "er-entropy"])
def test_two_names_of_one_new_class_are_found_and_different_classes_are_not(method: str) -> None:
    task = Meadow(method).adapted({"owl": ("owl", "Eule")})
    assert {"owl", "Eule", "fox"} <= set(task.answers.values())
    assert names(task.merges()) == [{"owl", "Eule"}]


def test_every_new_class_is_compared_with_every_other_and_every_known_one(meadow: Meadow) -> None:
    merges = meadow.adapted({"owl": ("owl", "Eule")}).merges(least=-1)
    assert len(merges) == 3 + 3 * len(OLD)
    assert [m.probability for m in merges] == sorted((m.probability for m in merges), reverse=True)
    assert all(0 <= m.probability <= 1 and m.a not in OLD for m in merges)


def test_without_second_names_nothing_is_probable(meadow: Meadow) -> None:
    assert meadow.adapted({}).merges() == []


def test_a_second_name_of_a_known_class_is_found(meadow: Meadow) -> None:
    task = meadow.adapted({name: (f"{name}s",) for name in OLD}, budget=40)
    found = task.merges()
    assert found
    assert all(merge.a == f"{merge.b}s" for merge in found)


def test_a_lone_answer_inside_another_class_may_be_a_mistake(meadow: Meadow) -> None:
    task = meadow.adapted({"owl": ("owl", "unicorn", *["owl"] * 50)})
    (merge,) = task.merges()
    assert (merge.a, merge.b, merge.answers_a) == ("unicorn", "owl", 1)
    assert 'One answer says "unicorn" among samples that are called "owl"' in str(merge)
    assert "a mistake, or two names for one class?" in str(merge)


def test_telling_the_samples_again_with_one_name_merges(meadow: Meadow) -> None:
    task = meadow.adapted({"owl": ("owl", "Eule")})
    assert task.merges()
    for row in task.ledger:
        if row["answer"] == "Eule":
            task.tell(row["query"], {row["sample"]: "owl"})
    assert task.merges() == []
    assert task.finish().classes_.tolist() == [*OLD, *sorted(NEW, key=task.state.new_classes.index)]


def test_nothing_is_said_where_nothing_new_was_named(meadow: Meadow) -> None:
    assert meadow.agent.adapt(meadow.pool, 8).merges(least=-1) == []
    only_skips = dict.fromkeys((*OLD, *NEW), (SKIP,))
    assert meadow.adapted(only_skips, budget=4).merges(least=-1) == []


def test_skips_are_no_answers(meadow: Meadow) -> None:
    task = meadow.adapted({"owl": ("owl", SKIP, "Eule"), "fox": (SKIP, "fox")})
    assert SKIP in task.answers.values()
    counts = {m.a: m.answers_a for m in task.merges(least=-1)}
    assert counts == {a: list(task.answers.values()).count(a) for a in counts}


def test_one_known_class_says_nothing() -> None:
    rng = np.random.default_rng(0)
    agent = Agent.fit(rng.normal(0, 1, (40, 8)), ["cat"] * 40)
    task = agent.adapt(rng.normal(3, 1, (30, 8)), budget=4)
    while query := task.ask():
        task.tell(query.id, {i: "owl" if int(i) % 2 else "Eule" for i in query.ids})
    assert task.merges(least=-1) == []


def test_a_class_of_which_one_sample_is_remembered_is_not_compared() -> None:
    """How alike samples of it are cannot be said of one."""
    rng = np.random.default_rng(0)
    y = ["ant"] * 30 + ["bee"] * 30 + ["elk"]
    X = rng.normal(0, 1, (61, 8)) + 6 * np.eye(8)[[0] * 30 + [1] * 30 + [2]]
    task = Agent.fit(X, y).adapt(rng.normal(0, 1, (30, 8)) + 6 * np.eye(8)[3], budget=4)
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, "owl"))
    merges = task.merges(least=-1)
    assert sorted(merge.b for merge in merges) == ["ant", "bee"]
    assert all(0 <= merge.probability <= 1 for merge in merges)


def test_the_same_again_and_nothing_changes(meadow: Meadow) -> None:
    task = meadow.adapted({"owl": ("owl", "Eule")})
    journal = task.journal
    once = task.merges(least=-1)
    assert task.merges(least=-1) == once
    assert task.journal == journal
    assert meadow.adapted({"owl": ("owl", "Eule")}).merges(least=-1) == once


def test_likeness_is_the_cosine_between_over_that_within() -> None:
    rng = np.random.default_rng(0)
    U = rng.normal(0.5, 1, (12, 6)).astype(np.float32)
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    a, b = np.arange(5), np.arange(5, 12)
    view = _View.of(U, 1, {0: a, 1: b})

    def within(rows: np.ndarray) -> float:
        return float(np.mean([U[i] @ U[j] for i in rows for j in rows if i != j]))

    usual = (within(a) + within(b)) / 2
    assert view.within == pytest.approx(usual, rel=1e-4)
    shrunk = [((len(r) - 1) * within(r) + 2 * usual) / (len(r) + 1) for r in (a, b)]
    between = np.mean([U[i] @ U[j] for i in a for j in b])
    assert view.alike(a, b) == pytest.approx(between / np.sqrt(shrunk[0] * shrunk[1]), rel=1e-4)
    assert view.alike(a[:1], b[:1]) == pytest.approx(U[0] @ U[5] / usual, rel=1e-4)


def test_surroundings_are_alike_as_their_samples_are() -> None:
    """Groups by the sums of their directions: as if all of their samples were named one by one."""
    rng = np.random.default_rng(0)
    U = rng.normal(0.5, 1, (24, 6)).astype(np.float32)
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    single = _View.of(U, 1, {0: np.arange(12), 1: np.arange(12, 24)})
    groups = _View.of(U.reshape(8, 3, 6).sum(axis=1), 3, {0: np.arange(4), 1: np.arange(4, 8)})
    assert groups.within == pytest.approx(single.within, rel=1e-4)
    for a, b in (((0, 4), (4, 8)), ((0, 1), (5, 7))):
        alike = groups.alike(np.arange(*a), np.arange(*b))
        assert alike == pytest.approx(
            single.alike(np.arange(a[0] * 3, a[1] * 3), np.arange(b[0] * 3, b[1] * 3)), rel=1e-4
        )


def test_likeness_is_calibrated_with_so_many_answers_as_there_are_or_fewer() -> None:
    for n in range(1, 3 * max(SIZES)):
        assert _size(n) in SIZES
        assert _size(n) <= n
        assert not [size for size in SIZES if _size(n) < size <= n]


def test_the_calibration_takes_as_many_for_one_class_as_are() -> None:
    """However many of each kind there are: its constant is not held back."""
    rng = np.random.default_rng(0)
    same, different = rng.normal(1, 1, (30, 2)), rng.normal(0, 2, (6, 2))
    calibration = _Calibration.of(same.astype(np.float32), different.astype(np.float32))
    odds = [calibration.evidence(row) for row in np.concatenate([same, different]).astype(np.float32)]
    assert sum(1 / (1 + np.exp(-x)) for x in odds) == pytest.approx(30, rel=1e-3)


def test_the_calibration_is_right_about_what_it_was_made_of() -> None:
    rng = np.random.default_rng(0)
    same, different = rng.normal(1, 1, (4000, 1)), rng.normal(0, 1, (4000, 1))
    calibration = _Calibration.of(same.astype(np.float32), different.astype(np.float32))
    for x in (-1.0, 0.5, 2.0):  # two normal densities: the logarithm of their ratio is x − ½
        assert calibration.evidence(np.array([x], np.float32)) == pytest.approx(x - 0.5, abs=0.15)


@pytest.fixture(scope="module")
def crowd(meadow: Meadow) -> _Crowd:
    """Twelve answers among what is remembered and the rest of the pool."""
    return _Crowd(meadow.agent, Pool(meadow.pool), np.arange(3, 15))


def test_a_crowd_is_remembered_samples_answers_and_others_seen_from_the_middle_of_the_pool(
    meadow: Meadow, crowd: _Crowd
) -> None:
    memory = meadow.agent.replay.samples()
    assert sorted(crowd.known) == list(range(len(OLD)))
    assert [len(places) for places in crowd.known.values()] == np.bincount(memory.y.numpy()).tolist()
    remembered = sorted(place for places in crowd.known.values() for place in places.tolist())
    assert remembered == list(range(len(memory.y)))
    assert crowd.answers.tolist() == [len(remembered) + i for i in range(12)]
    assert len(crowd._directions) == len(remembered) + len(meadow.pool)
    assert np.linalg.norm(crowd._directions, axis=1) == pytest.approx(np.ones(len(crowd._directions)), rel=1e-4)


def test_neighbours_are_the_nearest_of_all_and_surroundings_their_sums(crowd: _Crowd) -> None:
    U = crowd._directions.astype(np.float64)
    assert len(crowd._neighbours) == crowd.answers[-1] + 1
    for place in (0, 5, int(crowd.answers[0]), int(crowd.answers[-1])):
        cosines = U @ U[place]
        assert set(crowd._neighbours[place].tolist()) == set(np.argsort(-cosines)[: NEIGHBOURS + 1].tolist())
    alone, around = crowd._views
    assert (alone.size, around.size) == (1, NEIGHBOURS + 1)
    assert alone.sums[7] == pytest.approx(crowd._directions[7])
    assert around.sums[7] == pytest.approx(crowd._directions[crowd._neighbours[7]].sum(axis=0), abs=1e-4)


def test_the_less_typical_half_of_a_class_is_farthest_from_its_mean(crowd: _Crowd) -> None:
    for c, places in crowd.known.items():
        alike = crowd._directions[places] @ crowd._directions[places].mean(axis=0)
        half = places[np.argsort(alike)[: len(places) // 2]]
        assert set(crowd._atypical[c].tolist()) == set(half.tolist())


def test_what_surroundings_share_is_counted(crowd: _Crowd) -> None:
    a, b = crowd.answers[:2], crowd.answers[2:7]
    around = [set(crowd._neighbours[places].ravel().tolist()) for places in (a, b)]
    alone, together, shared = crowd._alike(a, b)
    assert alone == pytest.approx(crowd._views[0].alike(a, b), rel=1e-5)
    assert together == pytest.approx(crowd._views[1].alike(a, b), rel=1e-5)
    assert shared == pytest.approx(len(around[0] & around[1]) / min(map(len, around)))


@pytest.mark.parametrize("known", [False, True])
def test_a_likeness_is_calibrated_by_as_many_samples_of_known_classes(
    crowd: _Crowd, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one class and of two; answers are atypical, what stands for a known class is not."""
    seen: list[tuple[list[int], list[int]]] = []
    plain = _Crowd._alike

    def alike(self: _Crowd, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        seen.append((a.tolist(), b.tolist()))
        return plain(self, a, b)

    monkeypatch.setattr(_Crowd, "_alike", alike)
    monkeypatch.setattr(crowd, "_calibrated", {})
    a, b = crowd.answers[:5], next(iter(crowd.known.values())) if known else crowd.answers[5:8]
    first = crowd.evidence(a, b, known)
    assert list(crowd._calibrated) == [(4, OF_KNOWN if known else 2)]
    assert seen.pop() == (a.tolist(), b.tolist())
    assert crowd.evidence(a, b, known) == first
    seen.pop()
    class_of = {place: c for c, places in crowd.known.items() for place in places.tolist()}
    atypical = {place for places in crowd._atypical.values() for place in places.tolist()}
    assert len(seen) == 2 * merges.DRAWS
    for i, (some, others) in enumerate(seen):
        (mine,), (theirs,) = ({class_of[place] for place in places} for places in (some, others))
        assert (mine == theirs) is (i % 2 == 0)
        assert not {*some} & {*others}
        assert {*some} <= atypical
        assert len(some) == 4
        assert len(others) == (min(OF_KNOWN, len(crowd.known[theirs]) - 4 * (i % 2 == 0)) if known else 2)
        assert known or {*others} <= atypical
    assert not known or not {place for _, others in seen for place in others} <= atypical


def test_of_each_class_the_first_answers_are_looked_at() -> None:
    classes = np.array([0, 1] * (SAMPLES + 2))
    human = np.ones(len(classes), np.int64)
    human[2] = 0
    looked = _looked_at(Accepted(np.arange(len(classes)), classes, human))
    assert looked.tolist() == [i for i in range(len(classes)) if i != 2][: 2 * SAMPLES]


def test_a_merge_is_told_in_percent() -> None:
    assert "are probably one class (87 %)" in str(Merge("Woods", "Forest", 0.87, 3, 5))
    assert "are probably not one class (50 %)" in str(Merge("Woods", "Forest", 0.5, 3, 0))
