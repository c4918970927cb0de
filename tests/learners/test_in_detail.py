"""Neighbours, drift and the paper's learner in exact numbers: formulas again as plain loops, at their edges."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.errors import BadOption, NotExportable
from cual.heads import Lesson, Linear, Samples
from cual.learners import Accepted, Novelty
from cual.learners.novelty import NoveltyLearner, ToNovel
from cual.learners.prototypes import drift, neighbours
from cual.learners.prototypes.drift import Moved, drift_size, moved_together, shared_shift
from cual.learners.prototypes.neighbours import Nearest, Neighbours, PoolNearest
from cual.seeds import generator
from cual.uncertainty import FRE, KNN
from worlds import World, make_world

# -- neighbours ------------------------------------------------------------------------------------------------


def around_five() -> tuple[Neighbours, Nearest, torch.Tensor]:
    """Three anchors and two known samples, the neighbours of four samples, and classes of the anchors."""
    y = torch.tensor([2, 0])
    around = Neighbours(np.arange(3), torch.eye(4)[:3], torch.eye(4)[2:], y, voters=2)
    voters = torch.tensor([[0, 3], [4, 3], [2, 1], [4, 2]])
    weights = torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875], [1.0, 0.0]])
    shares = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])
    return around, Nearest(voters, weights), shares


@pytest.mark.parametrize("few", [2**26, 6, 5, 0])
def test_votes_are_those_of_a_loop_whether_known_samples_have_a_matrix_or_not(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "FEW_VOTES", few)  # two known samples of three classes: six votes
    around, nearest, shares = around_five()
    votes = around.votes(nearest, shares)
    expected = np.zeros((4, 3))
    for i in range(4):
        for j, weight in zip(nearest.voters[i].tolist(), nearest.weights[i].tolist(), strict=True):
            expected[i] += weight * (shares[j].numpy() if j < 3 else np.eye(3)[(2, 0)[j - 3]])
    assert votes.tolist() == expected.tolist()
    assert votes.tolist()[1] == [0.5, 0, 0.5]


def test_a_pool_of_one_is_voted_for_by_known_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "FEW_VOTES", 0)
    around = Neighbours(np.arange(1), torch.eye(2)[:1], torch.eye(2), torch.tensor([1, 0]))
    nearest = Nearest(torch.tensor([[1, 2]]), torch.tensor([[0.75, 0.25]]))
    assert around.votes(nearest, torch.tensor([[0.5, 0.5]])).tolist() == [[0.25, 0.75]]


def test_few_votes_are_taken_from_one_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    whole = neighbours.one_hot
    monkeypatch.setattr(neighbours, "one_hot", lambda y, n: (made.append(n), whole(y, n))[1])
    around, nearest, shares = around_five()
    for few, matrices in ((6, 1), (5, 1), (7, 2)):
        monkeypatch.setattr(neighbours, "FEW_VOTES", few)
        around.votes(nearest, shares)
        assert len(made) == matrices


def test_many_votes_count_to_what_a_loop_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "FEW_VOTES", 0)
    rng = np.random.default_rng(0)
    pool, known = (normalize(torch.from_numpy(rng.normal(0, 1, (n, 5))).float(), dim=1) for n in (20, 15))
    y = torch.arange(15) % 4
    around = Neighbours(np.arange(20), pool, known, y, voters=9)
    nearest = around.of(pool, np.arange(20))
    shares = torch.softmax(torch.from_numpy(rng.normal(0, 1, (20, 4))).float(), dim=1)
    votes = around.votes(nearest, shares)
    for i in range(20):
        expected = np.zeros(4)
        for j, weight in zip(nearest.voters[i].tolist(), nearest.weights[i].tolist(), strict=True):
            expected += weight * (shares[j].numpy() if j < 20 else np.eye(4)[int(y[j - 20])])
        np.testing.assert_allclose(votes[i].numpy(), expected, atol=1e-6)
    assert torch.equal(around.known, known)


def test_neighbours_that_point_elsewhere_count_next_to_nothing() -> None:
    pool = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [-0.6, 0.8]])
    around = Neighbours(np.arange(3), pool, pool[:0], torch.empty(0, dtype=torch.int64), voters=2)
    weights = around.of(pool, np.arange(3)).weights
    assert weights[0].tolist() == [0.5, 0.5], "both point away: none is the nearer"
    assert weights[1].tolist() == pytest.approx([0.6 / (0.6 + 1e-6), 1e-6 / (0.6 + 1e-6)], rel=1e-4)


def test_rows_that_are_no_anchors_leave_nobody_out() -> None:
    pool = normalize(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.8, 0.3], [0.0, 1.0]]), dim=1)
    anchors = np.array([1, 2])
    around = Neighbours(anchors, pool[anchors], pool[3:], torch.tensor([0]), voters=15)
    assert Neighbours(anchors, pool[anchors], pool[3:], torch.tensor([0]))._voters == 15
    assert around.of(pool, np.arange(4)).voters.tolist() == [[0, 1], [1, 2], [0, 2], [2, 1]]
    assert around.of(pool[:1]).voters.tolist() == [[0, 1, 2]]


def test_lacking_neighbours_are_padded_by_what_counts_nothing() -> None:
    few = Nearest(torch.tensor([[4]]), torch.tensor([[1.0]]))
    more = Nearest(torch.tensor([[1, 2, 3]]), torch.tensor([[0.5, 0.25, 0.25]]))
    both = Nearest.joined([more, few])
    assert both.voters.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert both.weights.tolist() == [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]


def test_blocks_are_taken_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = normalize(torch.from_numpy(np.random.default_rng(1).normal(0, 1, (11, 4))).float(), dim=1)
    around = Neighbours(np.arange(11), pool, pool[:0], torch.empty(0, dtype=torch.int64), voters=3)
    whole = around.of(pool, np.arange(11))
    monkeypatch.setattr(neighbours, "BLOCK", 4)
    parts = around.of(pool, np.arange(11))
    assert torch.equal(parts.voters, whole.voters)
    assert torch.allclose(parts.weights, whole.weights)


@pytest.mark.parametrize("chance", [0.9, 0.99])
def test_a_walk_takes_sixty_steps(chance: float) -> None:
    rng = np.random.default_rng(2)
    n, voters = 8, torch.from_numpy(np.stack([rng.permutation(10)[:3] for _ in range(8)]))
    weights = normalize(torch.from_numpy(rng.random((8, 3))).float(), p=1, dim=1)
    voters[7], weights[7] = torch.tensor([0, 1, 2]), torch.tensor([0.5, 0.5, 0.0])
    edges, ends = np.zeros((n, n)), np.zeros(n)
    for i in range(n):
        for j, weight in zip(voters[i].tolist(), weights[i].tolist(), strict=True):
            if j >= n:
                ends[i] += weight
            else:
                edges[i, j] += weight / 2
                edges[j, i] += weight / 2
    out, strange = edges.sum(1) + ends, np.ones(n)
    for _ in range(60):
        strange = 1 - chance + chance * edges @ strange / out
    around = Neighbours(np.arange(n), torch.eye(n), torch.eye(n)[:2], torch.tensor([0, 0]))
    walk = around.walk(Nearest(voters, weights), chance)
    np.testing.assert_allclose(walk.numpy(), strange, atol=2e-6)


def test_who_has_no_neighbour_that_counts_stays_where_it_is() -> None:
    around = Neighbours(np.arange(2), torch.eye(2), torch.eye(2)[:1], torch.tensor([0]))
    alone = Nearest(torch.tensor([[1], [2]]), torch.tensor([[0.0], [1.0]]))
    assert around.walk(alone, 0.75).tolist() == [0.25, 0.25]
    faint = Nearest(torch.tensor([[1], [0]]), torch.tensor([[1e-7], [1e-7]]))
    assert around.walk(faint, 0.75).tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize("keep_bytes", [0, 10**6])
def test_neighbours_of_a_pool_come_in_parts_and_are_whole_numbers_again(keep_bytes: int) -> None:
    kept = PoolNearest(rows=3, keep_bytes=keep_bytes)
    kept.append(Nearest(torch.tensor([[5, 6], [7, 8]]), torch.tensor([[0.5, 0.5], [0.25, 0.75]])))
    kept.append(Nearest(torch.tensor([[9, 4]]), torch.tensor([[1.0, 0.0]])))
    assert kept.take(slice(1, 3)).voters.tolist() == [[7, 8], [9, 4]]
    assert kept.take(np.array([2, 0])).weights.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert kept.take(np.array([0])).voters.dtype == torch.int64


# -- drift -----------------------------------------------------------------------------------------------------


class Doubles:
    """A head whose space is twice the features; it knows a class more than the agent."""

    def whiten(self, X: torch.Tensor) -> torch.Tensor:
        return 2 * X

    def whitened_means(self) -> torch.Tensor:
        return torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [-50.0, -50.0, -50.0]])


def known_of(n: int = 40, seed: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 0.3, (n, 3)) + np.array([[2, 0, 0], [0, 2, 0]])[np.arange(n) % 2]
    return SimpleNamespace(
        seed=7,
        version=2,
        names=ClassNames(("cat", "dog")),
        device=torch.device("cpu"),
        validation=Samples(torch.from_numpy(X), torch.arange(n) % 2),
    )


def shifted(n: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    centres = np.array([[2, 0, 0], [0, 2, 0]])[rng.permutation(n) % 2]
    return (rng.normal(0, 0.3, (n, 3)) + centres + 0.5).astype(np.float32)


def naive_size(pool: np.ndarray, known: np.ndarray, rng: np.random.Generator) -> float:
    sizes, half = [], len(pool) // 2
    for _ in range(3):
        order = rng.permutation(len(pool))
        for drawn, other in ((order[:half], order[half:]), (order[half:], order[:half])):
            line = pool[drawn].mean(0) / np.linalg.norm(pool[drawn].mean(0))
            here, there = pool[other] @ line, known @ line
            near = there[there > (here.mean() + there.mean()) / 2]
            reference = near if here.mean() > there.mean() and len(near) >= 8 else there
            sizes.append((np.quantile(here, 0.1) - np.quantile(reference, 0.1)) / there.std(ddof=1))
    return float(np.mean(sizes))


def naive_off(W: np.ndarray) -> np.ndarray:
    means = Doubles().whitened_means()[:2].numpy()
    cosines = W @ means.T / np.linalg.norm(means, axis=1) / np.linalg.norm(W, axis=1)[:, None]
    return W - means[cosines.argmax(1)]


@pytest.mark.parametrize("n", [61, 5000])
def test_the_size_of_a_drift_is_measured_off_the_classes_that_samples_are_most_like(n: int) -> None:
    agent, X = known_of(), shifted(n)
    rows = np.arange(n)
    if n > 4096:
        rows = np.sort(generator(7, 3, 0, "rows of drift").choice(n, 4096, replace=False))
    off = naive_off(2 * X[rows].astype(np.float64)), naive_off(2 * agent.validation.X.numpy())
    expected = naive_size(*off, generator(7, 3, 0, "drift"))
    assert drift_size(Doubles(), agent, Pool(X)) == pytest.approx(expected, rel=1e-4)  # type: ignore[arg-type]
    centre = Doubles().whitened_means()[:2].mean(0).numpy()
    shift = shared_shift(Doubles(), agent, Pool(X))  # type: ignore[arg-type]
    np.testing.assert_allclose(shift.numpy(), 2 * X[rows].mean(0) - centre, atol=1e-4)


def test_samples_are_most_like_a_class_by_the_cosine_whatever_the_length() -> None:
    means = torch.tensor([[10.0, 0.0], [1.0, 1.0]])
    off = drift._off(torch.tensor([[2.0, 1.5], [0.5, 100.0]]), means)
    assert off.tolist() == [[1.0, 0.5], [-0.5, 99.0]]


def test_a_space_that_moved_is_seen_without_its_shift() -> None:
    moved = Moved(Doubles(), torch.tensor([1.0, 2.0, 3.0]))  # type: ignore[arg-type]
    assert moved.whiten(torch.tensor([[1.0, 1.0, 1.0]])).tolist() == [[1.0, 0.0, -1.0]]


@pytest.mark.parametrize("n", [1, 4095, 4096])
def test_of_a_small_pool_all_rows_are_measured(n: int) -> None:
    assert drift._some(n, np.random.default_rng(0)).tolist() == list(range(n))


@pytest.mark.parametrize("n", [4097, 5000])
def test_of_a_large_pool_so_many_rows_are_measured_each_once_and_in_order(n: int) -> None:
    rows = drift._some(n, np.random.default_rng(0))
    assert len(rows) == 4096
    assert (np.diff(rows) > 0).all()
    assert rows[-1] < n


@pytest.mark.parametrize(("pool", "known", "enough"), [(16, 8, True), (15, 8, False), (16, 7, False)])
def test_eight_samples_of_each_half_and_of_what_is_known_are_enough(
    pool: int, known: int, enough: bool
) -> None:
    rng = np.random.default_rng(0)
    here, there = rng.normal(5, 1, (pool, 3)), rng.normal(0, 1, (known, 3))
    size = moved_together(torch.from_numpy(here), torch.from_numpy(there), np.random.default_rng(1))
    expected = naive_size(here, there, np.random.default_rng(1)) if enough else 0.0
    assert size == pytest.approx(expected)
    assert (size != 0) == enough


@pytest.mark.parametrize("gone", [7, 8, 9])
def test_a_look_is_known_from_eight_samples_on_that_have_gone_half_of_the_way(gone: int) -> None:
    there = np.concatenate([np.linspace(-1, 1, 40), np.linspace(9, 11, gone)])
    here = np.linspace(9.5, 12, 30)
    reference = there[there > (here.mean() + there.mean()) / 2] if gone >= 8 else there
    assert len(reference) in (gone, len(there))
    expected = (np.quantile(here, 0.1) - np.quantile(reference, 0.1)) / there.std(ddof=1)
    assert drift._along(torch.from_numpy(here), torch.from_numpy(there)) == pytest.approx(expected)


def test_a_pool_that_has_gone_nowhere_is_compared_with_all_that_is_known() -> None:
    there = np.linspace(-1, 1, 41)
    for here in (there - 0.5, there.copy()):
        expected = (np.quantile(here, 0.1) - np.quantile(there, 0.1)) / there.std(ddof=1)
        assert drift._along(torch.from_numpy(here), torch.from_numpy(there)) == pytest.approx(expected)
    half = torch.tensor([0.0] * 8 + [2.0] * 8)  # half of the way is 2: nobody has gone farther
    assert drift._along(torch.full((20,), 3.0), half) == pytest.approx(3 / float(half.std()))


def test_what_does_not_vary_is_divided_by_a_millionth() -> None:
    here, there = torch.full((20,), 3.0), torch.full((20,), 1.0)
    assert drift._along(here, there) == pytest.approx(2e6)


# -- the paper's learner ---------------------------------------------------------------------------------------

WORLD = make_world()
OWL, FOX = 2, 3


@pytest.fixture(scope="module")
def agent() -> Any:
    return WORLD.agent(learner={"uncertainty": FRE(0.9)})


def rows_of(world: World, name: str, n: int) -> np.ndarray:
    return np.flatnonzero([label == name for label in world.truth.values()])[:n]


def accepted() -> Accepted:
    """Answers about both novel classes and a known one, and pseudo-labels of one."""
    owls, foxes = rows_of(WORLD, "owl", 8), rows_of(WORLD, "Füchsin mit Schal", 4)
    rows = np.concatenate([owls, foxes, rows_of(WORLD, "cat", 2)])
    return Accepted(rows, np.repeat([OWL, FOX, 0], [8, 4, 2]), np.repeat([1, 0, 1], [5, 3, 6]))


def test_what_the_learner_is_made_of() -> None:
    part = Novelty()
    assert isinstance(part.uncertainty, FRE)
    assert (part.epochs, part.batch, part.floor, part.unnamed) == (5, 16, 1e-3, False)
    assert [Novelty(floor=floor).floor for floor in (0, 1)] == [0, 1]
    for floor in (-0.01, 1.01):
        with pytest.raises(BadOption, match="floor lies between 0 and 1"):
            Novelty(floor=floor)


def test_the_detector_is_the_distance_to_the_nearest_known_class(agent: Any) -> None:
    detector = Novelty(FRE(0.9)).detector(agent, 1.5)
    X = torch.from_numpy(WORLD.pool)
    expected = FRE(0.9).distances(X, agent.models).min(dim=1).values
    assert torch.allclose(detector.novelty(X), expected, rtol=1e-4)
    held_out = FRE(0.9).distances(agent.validation.X, agent.models).min(dim=1).values.numpy()
    assert detector.threshold.value == pytest.approx(held_out.mean() + 1.5 * held_out.std(), rel=1e-4)


def test_a_distance_without_a_graph_cannot_be_drawn() -> None:
    class Plain:
        fit, distances, load = FRE(0.9).fit, FRE(0.9).distances, FRE(0.9).load

    known = WORLD.agent(learner={"uncertainty": KNN(k=2)})
    part = Novelty(KNN(k=2))
    part.uncertainty = Plain()  # type: ignore[assignment]
    detector = part.detector(SimpleNamespace(models=known.models, validation=known.validation), 2.0)
    with pytest.raises(NotExportable):
        detector.draw(None)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("unnamed", "classes"), [(False, -1), (True, 2)])
def test_before_a_class_is_known_all_are_of_none_or_of_the_unnamed(
    agent: Any, unnamed: bool, classes: int
) -> None:
    short = NoveltyLearner(Novelty(FRE(0.9), unnamed=unnamed), agent, Pool(WORLD.pool))
    rows = np.array([3, 40, 7])
    scored = short.score(rows)
    distances = FRE(0.9).distances(torch.from_numpy(WORLD.pool), agent.models)
    np.testing.assert_allclose(scored.scores, distances.min(dim=1).values.numpy()[rows], rtol=1e-4)
    assert scored.classes.tolist() == [classes] * 3
    held_out = FRE(0.9).distances(agent.validation.X, agent.models).min(dim=1).values
    assert torch.allclose(scored.validation, held_out, rtol=1e-4)
    assert scored.threshold is None
    assert short.nearest_old(rows).tolist() == distances.argmin(dim=1).numpy()[rows].tolist()
    assert short.learning().tolist() == []
    assert short.features(rows).tolist() == WORLD.pool[rows].tolist()
    expected = torch.softmax(agent.head.logits(torch.from_numpy(WORLD.pool[rows])), dim=1)
    np.testing.assert_allclose(short.probabilities(rows), expected.numpy(), atol=1e-6)


def test_the_nearest_old_class_is_known_though_nothing_was_scored(agent: Any) -> None:
    short = NoveltyLearner(Novelty(FRE(0.9)), agent, Pool(WORLD.pool))
    distances = FRE(0.9).distances(torch.from_numpy(WORLD.pool), agent.models)
    assert short.nearest_old(np.arange(9)).tolist() == distances.argmin(dim=1)[:9].tolist()


def test_of_a_learner_that_has_scored_nothing_nothing_is_kept(agent: Any) -> None:
    state = NoveltyLearner(Novelty(FRE(0.9)), agent, Pool(WORLD.pool)).state()
    assert {name: len(kept) for name, kept in state.items()} == {"s0": 0, "nearest": 0, "validation_s0": 0}


def test_the_head_learns_novel_answers_and_novel_beliefs_apart(agent: Any) -> None:
    short = NoveltyLearner(Novelty(FRE(0.9), epochs=3, batch=4), agent, Pool(WORLD.pool))
    given = accepted()
    short.learn(given, 4)
    X = torch.from_numpy(WORLD.pool)
    people, believed = given.of(True, 2), given.of(False, 2)
    lesson = Lesson(
        2,
        *(Samples(X[rows], torch.from_numpy(classes - 2)) for rows, classes in (people, believed)),
        Samples(X[:0], torch.empty(0, dtype=torch.int64)),
    )
    rng = generator(agent.seed, agent.version + 1, 4, "short-term head")
    head = Linear(epochs=3, batch=4).learn(lesson, rng)
    assert torch.equal(short._head.logits(X), head.logits(X))
    assert sorted(short._models) == [OWL, FOX]
    routed, distances = ToNovel(FRE(0.9), head, short._models, 2)(X)
    assert set(routed.tolist()) == {OWL, FOX}
    for i, c in enumerate(head.logits(X).argmax(dim=1).tolist()):
        assert int(routed[i]) == c + 2
        assert float(distances[i]) == pytest.approx(
            float(FRE(0.9).distances(X[i : i + 1], [short._models[c + 2]])), rel=1e-3
        )


def test_classes_that_are_dead_are_not_routed_to_and_the_head_keeps_their_places(agent: Any) -> None:
    short = NoveltyLearner(Novelty(FRE(0.9)), agent, Pool(WORLD.pool))
    given = accepted()
    foxes = given.only(given.classes == FOX)
    short.learn(foxes, 0)
    assert (short._head.n_classes, list(short._models)) == (2, [FOX])
    assert set(short.score(np.arange(9)).classes.tolist()) == {FOX}
    owls = given.only(given.classes == OWL)
    short.learn(owls, 1)
    assert (short._head.n_classes, list(short._models)) == (2, [OWL])
    short.learn(given.only(given.classes == 0), 2)
    assert (short._head.n_classes, short._models) == (2, {})
    assert set(short.score(np.arange(9)).classes.tolist()) == {-1}


def test_each_class_is_modelled_by_its_own_samples(agent: Any) -> None:
    short = NoveltyLearner(Novelty(FRE(0.9)), agent, Pool(WORLD.pool))
    given, X = accepted(), torch.from_numpy(WORLD.pool)
    short.learn(given, 0)
    for c in (OWL, FOX):
        own = FRE(0.9).fit(X[given.rows[given.classes == c]])
        expected = FRE(0.9).distances(X, [own])
        assert torch.allclose(FRE(0.9).distances(X, [short._models[c]]), expected, rtol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_a_distance_to_a_novel_class_counts_as_a_share_of_those_to_known_ones_at_least(scale: float) -> None:
    world, fre = make_world(), FRE(0.99)
    world.X, world.pool = world.X * scale, world.pool * scale
    known = world.agent(learner={"uncertainty": fre})
    short = NoveltyLearner(Novelty(fre, floor=0.75), known, Pool(world.pool))
    short.learn(accepted(), 0)
    X = torch.from_numpy(world.pool)
    _, novel = ToNovel(fre, short._head, short._models, 2)(X)
    floor = 0.75 * float(fre.distances(known.validation.X, known.models).min(dim=1).values.mean())
    assert (novel < floor).any()
    s0 = fre.distances(X, known.models).min(dim=1).values.numpy()
    scored = short.score(np.arange(len(world.pool)))
    np.testing.assert_allclose(scored.scores, s0 / np.maximum(novel.numpy(), floor), rtol=1e-3)


def test_held_out_samples_are_scored_as_the_pool_is(agent: Any) -> None:
    short = NoveltyLearner(Novelty(FRE(0.9), floor=0.5), agent, Pool(WORLD.pool))
    short.learn(accepted(), 0)
    scored = short.score(np.arange(len(WORLD.pool)))
    V = agent.validation.X
    s0 = FRE(0.9).distances(V, agent.models).min(dim=1).values.numpy()
    _, novel = ToNovel(FRE(0.9), short._head, short._models, 2)(V)
    expected = s0 / np.maximum(novel.numpy(), 0.5 * s0.mean())
    np.testing.assert_allclose(scored.validation.numpy(), expected, rtol=1e-3)


@pytest.mark.parametrize("learned", [False, True])
def test_what_was_learned_is_gone_on_with_from_tensors(agent: Any, learned: bool) -> None:
    part = Novelty(FRE(0.9), epochs=2)
    short, again = (NoveltyLearner(part, agent, Pool(WORLD.pool)) for _ in range(2))
    rows = np.arange(len(WORLD.pool))
    if learned:
        short.learn(accepted(), 0)
    before = short.score(rows)
    state = short.state()
    assert any(name.startswith("head.") for name in state) == learned
    assert {name.split(".")[1] for name in state if name.startswith("model.")} == (
        {"2", "3"} if learned else set()
    )
    again.restore(state)
    assert again._head.epochs == 2
    after = again.score(rows)
    assert np.array_equal(after.scores, before.scores)
    assert np.array_equal(after.classes, before.classes)
    assert torch.equal(after.validation, before.validation)
    assert again.nearest_old(rows).tolist() == short.nearest_old(rows).tolist()
