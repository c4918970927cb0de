"""cual-plus's learner: space and competition against naive loops, every option, and pools too large to keep."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cual import Agent
from cual.data.pool import Pool
from cual.errors import BadOption
from cual.learners import Accepted, Prototypes
from cual.learners.prototypes.competition import ClassPrototypes, Competition, unseen
from cual.learners.prototypes.learner import PrototypeLearner
from cual.learners.prototypes.space import KnownSpace, Space, _stranger
from cual.methods import methods
from worlds import World

CODES = {"cat": 0, "dog": 1, "owl": 2, "Füchsin mit Schal": 3}


def agent(world: World) -> Agent:
    return world.agent(method="cual-plus")


def learner(world: World, **options: Any) -> PrototypeLearner:
    return PrototypeLearner(Prototypes(**options), agent(world), Pool(world.pool))


def space(world: World, known: Agent | None = None, **options: Any) -> Space:
    known = known or agent(world)
    return Space(known.head, known, Pool(world.pool), Prototypes(**options))


def truth(world: World) -> np.ndarray:
    return np.array([CODES[name] for name in world.truth.values()])


def answers(world: World, n: int = 2) -> Accepted:
    """The first `n` samples of each novel class, named by a person."""
    rows = [np.flatnonzero(truth(world) == c)[:n] for c in (2, 3)]
    return Accepted(np.concatenate(rows), np.repeat([2, 3], n), np.ones(2 * n, np.int64))


def blurred(seed: int = 0) -> tuple[Agent, np.ndarray, np.ndarray]:
    """Classes that overlap: an agent that knows two, the second badly; a pool of four, and its classes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 0.8, (4, 16))

    def draw(*counts: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(len(counts)), counts)
        return (centres[y] + rng.normal(0, 1, (len(y), 16))).astype(np.float32), y

    X, y = draw(90, 20)
    return Agent.fit(X, y, "cual-plus", validation_share=0.3), *draw(30, 30, 20, 15)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


# -- the space -------------------------------------------------------------------------------------------------


def logit(chance: np.ndarray | float) -> np.ndarray:
    chance = np.clip(chance, 1e-3, 1 - 1e-3)
    return np.log(chance / (1 - chance))


@pytest.mark.parametrize("options", [{}, {"neighbours": 4, "shrink": 1.0}, {"walk": 0.5}])
def test_novelty_is_how_a_walk_ends_in_deviations_of_known_samples(
    world: World, options: dict[str, Any]
) -> None:
    """The chance that a walk ends before it meets a known sample, by loops and a system of equations."""
    part = Prototypes(**options)
    known = agent(world)
    head = known.head.shrunk(part.shrink)
    pool, memory, held_out = (
        head.whiten(torch.as_tensor(X)).double().numpy()
        for X in (world.pool, known.replay.X.float(), known.validation.X)
    )
    n = len(pool)

    def neighbours(u: np.ndarray, itself: int = -1) -> list[tuple[int, float]]:
        """Numbers and weights of the nearest; numbers from n on are known samples."""
        cosines = [(cosine(u, v), j) for j, v in enumerate([*pool, *memory]) if j != itself]
        nearest = sorted(cosines, reverse=True)[: part.neighbours]
        total = sum(max(c, 1e-6) for c, _ in nearest)
        return [(j, max(c, 1e-6) / total) for c, j in nearest]

    edges, out = np.zeros((n, n)), np.zeros(n)
    for i in range(n):
        for j, weight in neighbours(pool[i], i):
            if j < n:
                edges[i, j] += weight / 2
                edges[j, i] += weight / 2
            else:
                out[i] += weight
    steps = edges / (out + edges.sum(axis=1))[:, None]
    walk = np.linalg.solve(np.eye(n) - part.walk * steps, np.full(n, 1 - part.walk))
    of_known = np.array(
        [
            1 - part.walk + part.walk * sum(weight * walk[j] for j, weight in neighbours(u) if j < n)
            for u in held_out
        ]
    )
    scored = learner(world, **options).score(np.arange(n))
    expected = (logit(walk) - logit(of_known).mean()) / logit(of_known).std()
    np.testing.assert_allclose(scored.scores, expected, rtol=2e-2, atol=2e-2)
    of_known = (logit(of_known) - logit(of_known).mean()) / logit(of_known).std()
    np.testing.assert_allclose(scored.validation.numpy(), of_known, rtol=2e-2, atol=2e-2)
    assert scored.classes.tolist() == [-1] * n
    assert scored.threshold is None
    novel = truth(world) >= 2
    assert scored.scores[novel].min() > scored.scores[~novel].max()


def test_whitening_gives_classes_a_round_spread(world: World) -> None:
    head = world.agent(method="cual-plus", head={"expand": 0}).head
    rows = torch.tensor([name == "cat" for name in world.y])
    U = head.whiten(torch.from_numpy(world.X)[rows])
    raw = torch.nn.functional.normalize(torch.from_numpy(world.X)[rows])
    unevenness = [float(torch.linalg.cond(torch.cov(X.T) + 1e-9 * torch.eye(16))) for X in (U, raw)]
    assert unevenness[0] < unevenness[1]


def test_likeness_and_sharpness_are_those_of_the_validation_samples() -> None:
    known, pool, _ = blurred()
    home = Space(known.head, known, Pool(pool), Prototypes(shrink=0.6))
    head = known.head.shrunk(0.6)
    P = head.whitened_means().double().numpy()
    y = known.validation.y.tolist()
    cosines = np.array([[cosine(u, p) for p in P] for u in head.whiten(known.validation.X).double().numpy()])
    own = np.mean([cosines[i, c] for i, c in enumerate(y)])
    assert home.likeness == pytest.approx(own**2, rel=1e-4)

    def loss(factor: float) -> float:
        logits = factor * cosines
        return float(np.mean([np.log(np.exp(row).sum()) - row[c] for row, c in zip(logits, y, strict=True)]))

    factors = 2 ** np.linspace(0, 8, 33)
    assert home.sharpness == pytest.approx(min(factors, key=loss))
    assert 1 < home.sharpness < 256


def test_the_stranger_is_where_known_samples_are_likeliest_with_and_without_their_class() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 60)
    logits = rng.normal(0, 1, (60, 4)) + 5 * np.eye(4)[y]

    def loss(t: float) -> float:
        """Own class among the named ones: it should win; own class not among them: the stranger should."""
        losses = []
        for row, c in zip(logits, y, strict=True):
            every, others = np.exp([*row, t]), np.exp([*np.delete(row, c), t])
            losses.append(-np.log(every[c] / every.sum()) - np.log(others[-1] / others.sum()))
        return float(np.mean(losses))

    highest = max(row[c] for row, c in zip(logits, y, strict=True))
    candidates = np.linspace(0, highest, 101)
    expected = min(candidates, key=loss)
    assert _stranger(torch.from_numpy(logits), torch.from_numpy(y)) == pytest.approx(expected, rel=1e-4)
    assert 0 < expected < highest


def test_the_stranger_of_a_space_is_calibrated_on_its_validation_samples() -> None:
    known, pool, _ = blurred()
    home = Space(known.head, known, Pool(pool), Prototypes())
    head = known.head.shrunk(Prototypes().shrink)
    P = head.whitened_means().double().numpy()
    cosines = np.array([[cosine(u, p) for p in P] for u in head.whiten(known.validation.X).double().numpy()])
    expected = _stranger(home.sharpness * torch.from_numpy(cosines), known.validation.y) / home.sharpness
    assert home.stranger == pytest.approx(expected, abs=1e-3)
    assert 0 <= home.stranger < 1


@pytest.mark.parametrize(
    ("classes", "once"), [([], 0), ([7], 1), ([7, 8], 2), ([7, 7, 7, 8], 1), ([7] * 9 + [8] * 5, 0)]
)
def test_the_next_class_is_as_likely_new_as_classes_were_that_came_once(classes: list[int], once: int) -> None:
    """Good and Turing, half a sample added so that the odds are never nothing, and at most even."""
    chance = min(0.5, (once + 0.5) / (len(classes) + 1))
    assert unseen(np.array(classes, dtype=np.int64)) == pytest.approx(np.log(chance) - np.log(1 - chance))


# -- the competition -------------------------------------------------------------------------------------------

OTHERS = {"strange_weight": 0.7, "strange_edge": 0.1, "neighbour_weight": 1.3, "neighbours": 6}


@pytest.mark.parametrize("options", [{}, OTHERS, {"none_of_these": False}])
def test_shares_are_the_softmax_of_fair_cosines_strangeness_odds_and_votes(options: dict[str, Any]) -> None:
    part = Prototypes(**options)
    known, pool, y = blurred()
    home = Space(known.head, known, Pool(pool), part)
    ((_, seen),) = home.map_seen(lambda seen: seen)
    U = seen.directions
    around = seen.nearest
    assert around.voters.shape[1] == part.neighbours
    mass = torch.tensor([5.0, 1.0, 50.0])
    sums = torch.stack([U[y == c].sum(dim=0) for c in (1, 2, 3)])
    anchors = torch.rand(len(pool), 5, generator=torch.Generator().manual_seed(1))
    moving = torch.tensor([1, 2, 3])  # class 1 is still being learned, as the two novel ones are
    prototypes = ClassPrototypes(moving, sums, mass, -0.7, anchors, voting=True)
    competition = Competition(part, home, named(y), np.array([1]), known.head.counts[:2])
    shares = competition.shares(seen, prototypes)
    rho, kappa = home.likeness, home.sharpness
    surprise = (0 + 0.5) / (5 + 1)  # three answers name class 2, two class 3: none came alone
    for i in range(0, len(pool), 7):
        logits = np.zeros(5)
        logits[0] = kappa * float(U[i] @ home.old[0])
        strange = part.strange_weight * (float(seen.strange[i]) - part.strange_edge)
        for c, n, odds in zip((1, 2, 3), mass.tolist(), (0, -0.7, -0.7), strict=True):
            fair = np.sqrt((rho + (1 - rho) / n) / rho)
            logits[c] = kappa * cosine(U[i].numpy(), sums[c - 1].numpy()) * fair
            logits[c] += strange + odds
        logits[4] = kappa * home.stranger + strange - 0.7 + np.log(surprise / (1 - surprise))
        for voter, weight in zip(around.voters[i].tolist(), around.weights[i].tolist(), strict=True):
            of_pool = voter < len(pool)
            vote = anchors[voter].numpy() if of_pool else np.eye(5)[int(known.replay.y[voter - len(pool)])]
            logits += part.neighbour_weight * weight * vote
        if not part.none_of_these:
            assert shares[i, 4] == 0
            logits = logits[:4]
        difference = np.log(shares[i, : len(logits)].numpy()) - logits
        np.testing.assert_allclose(difference, difference.mean(), atol=1e-2)
        assert float(shares[i].sum()) == pytest.approx(1)


def named(y: np.ndarray) -> Accepted:
    """Two answers for each novel class of a pool, and one for the first of them that is mistaken."""
    rows = [*np.flatnonzero(y == 2)[:2], *np.flatnonzero(y == 3)[:2], *np.flatnonzero(y == 0)[:1]]
    return Accepted(np.array(rows), np.array([2, 2, 3, 3, 2]), np.ones(5, np.int64))


@pytest.mark.parametrize("options", [{}, {"refinements": 3, "answer_weight": 5.0, "least_share": 0.6}])
def test_prototypes_are_refined_by_what_they_win(options: dict[str, Any]) -> None:
    """Turn by turn with loops; what a class holds of a sample is the test above."""
    part = Prototypes(**options)
    known, pool, y = blurred()
    home = Space(known.head, known, Pool(pool), part)
    accepted = named(y)
    competition = Competition(part, home, accepted, np.array([1]), known.head.counts[:2])
    ((_, seen),) = home.map_seen(lambda seen: seen)
    U = seen.directions.double().numpy()
    n = len(U)
    count = float(known.head.counts[1])
    start = np.stack([known_sum(home, count, part), np.zeros(U.shape[1]), np.zeros(U.shape[1])])
    start_mass = np.array([min(count, part.known_weight), 0.0, 0.0])
    answered = list(zip(accepted.rows.tolist(), accepted.classes.tolist(), strict=True))

    def plus_answers(sums: np.ndarray, mass: np.ndarray, weight: float) -> tuple[np.ndarray, np.ndarray]:
        for row, c in answered:
            sums[c - 1] += weight * U[row]
            mass[c - 1] += weight
        return sums, mass

    sums, mass = plus_answers(start.copy(), start_mass.copy(), 1.0)
    odds, shares, voting = 0.0, torch.zeros(n, 0), False
    for turn in range(part.refinements):
        now = ClassPrototypes(
            torch.tensor([1, 2, 3]),
            torch.from_numpy(sums).float(),
            torch.from_numpy(mass).float(),
            odds,
            shares,
            voting,
        )
        every = competition.shares(home.anchors_and_validation, now)
        shares = every[:n].clone()
        of_known = every[n:].double().numpy()
        for row, c in answered:
            shares[row] = torch.eye(5)[c]
        won = shares.double().numpy()
        sums, mass = plus_answers(start.copy(), start_mass.copy(), part.answer_weight - 1)
        for i in range(n):
            for c in (1, 2, 3):
                if won[i, c] > part.least_share:
                    sums[c - 1] += won[i, c] * U[i]
                    mass[c - 1] += won[i, c]
        mistaken = min(0.95, float(np.mean([row[2:].sum() for row in of_known])))
        assert mistaken > 0.01
        frequent = (won[:, 2:].sum() - n * mistaken) / (1 - mistaken)
        frequent = min(max(frequent, len(answered)), 0.9 * n)
        # Two novel classes and the one without a name, each as frequent as the other; two old ones.
        odds = float(np.log(frequent / 3) - np.log((n - frequent) / 2))
        voting = turn > 0
    refined = competition.refined()
    np.testing.assert_allclose(refined.sums.numpy(), sums, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(refined.mass.numpy(), mass, rtol=1e-3)
    assert refined.odds == pytest.approx(odds, abs=1e-3)
    assert refined.voting is True
    assert competition.numbers.tolist() == [0, 1, 2, 3]


def known_sum(home: Space, count: float, part: Prototypes) -> np.ndarray:
    k = min(count, part.known_weight)
    return np.sqrt(k + k * (k - 1) * home.likeness) * home.old[1].double().numpy()


@pytest.mark.parametrize("known_weight", [12.0, 3.0])
def test_what_was_known_of_a_class_starts_its_prototype(world: World, known_weight: float) -> None:
    known = few_dogs(world)
    part = Prototypes(known_weight=known_weight)
    home = space(world, known, known_weight=known_weight)
    competition = Competition(part, home, answers(world), np.array([1]), known.head.counts[:2])
    sums, mass = competition._known(3)
    assert 3 < float(known.head.counts[1]) < 12
    assert mass.tolist() == [min(float(known.head.counts[1]), known_weight), 0, 0]
    np.testing.assert_allclose(sums[0].numpy(), known_sum(home, float(known.head.counts[1]), part), rtol=1e-5)
    assert not sums[1:].any()


def test_odds_follow_how_many_novel_samples_the_pool_holds(world: World) -> None:
    known = agent(world)
    old = np.flatnonzero(truth(world) < 2)
    owls = np.flatnonzero(truth(world) == 2)

    def odds(rows: np.ndarray, **options: Any) -> float:
        part = Prototypes(**options)
        home = Space(known.head, known, Pool(world.pool[rows]), part)
        named = np.flatnonzero(truth(world)[rows] == 2)[:2]
        accepted = Accepted(named, np.full(2, 2), np.ones(2, np.int64))
        nobody = np.empty(0, np.int64)
        return Competition(part, home, accepted, nobody, known.head.counts[:2]).refined().odds

    # The class without a name counts as one of the two that share the novel samples.
    many, few = (odds(np.concatenate([old, owls[:n]])) for n in (len(owls), 5))
    assert many == pytest.approx(np.log(len(owls) / 2) - np.log(len(old) / 2), abs=0.3)
    assert few == pytest.approx(np.log(5 / 2) - np.log(len(old) / 2), abs=0.7)
    assert odds(np.concatenate([old, owls]), estimate_frequency=False) == 0


# -- the learner -----------------------------------------------------------------------------------------------


def test_the_whole_pool_is_labelled_from_two_answers_a_class(world: World) -> None:
    short = learner(world)
    short.learn(answers(world), 0)
    scored = short.score(np.arange(len(world.pool)))
    assert (scored.classes == truth(world)).mean() > 0.9
    assert scored.threshold is not None
    assert scored.threshold.value == 0.5
    p = short.probabilities(np.arange(len(world.pool)))
    assert (p.sum(axis=1) < 1 + 1e-5).all()  # the rest is held by a class that nobody has named
    assert (p[truth(world) < 2].sum(axis=1) > 0.95).all()
    assert (p.argmax(axis=1) == truth(world)).mean() > 0.9
    np.testing.assert_allclose(1 - p[:, :2].sum(axis=1), scored.scores, rtol=1e-5, atol=1e-6)


def test_shares_of_some_rows_are_those_of_the_last_score(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    short = learner(world)
    short.learn(answers(world), 0)
    rows = np.arange(5, 50)
    short.score(rows)
    whole = short.probabilities(rows)
    monkeypatch.setattr(short, "_compete", lambda: pytest.fail("computed again"))
    np.testing.assert_allclose(short.probabilities(rows[[3, 7]]), whole[[3, 7]], rtol=1e-4, atol=1e-6)


def test_a_pool_too_large_to_keep_gives_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = learner(world)
    kept.learn(answers(world), 0)
    expected = kept.score(np.arange(60))
    monkeypatch.setattr("cual.data.pool.CHUNK_BYTES", 7 * 16 * 4)
    again = learner(world, keep_bytes=0)
    again.learn(answers(world), 0)
    scored = again.score(np.arange(60))
    assert len(list(again._home.chunks(np.arange(60)))) > 5
    np.testing.assert_allclose(scored.scores, expected.scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(scored.classes, expected.classes)


def test_options_reach_the_learner_of_an_agent(world: World) -> None:
    whole, few = (
        world.answer_all(world.adapt(world.agent(method="cual-plus", learner=given), budget=12))
        for given in ({}, {"anchors": 25, "keep_bytes": 0})
    )
    assert few.agent.method.learner == Prototypes(anchors=25, keep_bytes=0)
    assert (few.rounds[0].scores != whole.rounds[0].scores).any()


def test_what_no_named_class_explains_is_held_by_nobody() -> None:
    """Ten known classes and two novel ones, of which one is named: the class without a name wins the other."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 1, (12, 64))

    def draw(classes: int, each: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(classes), each)
        return (centres[y] + rng.normal(0, 1, (len(y), 64))).astype(np.float32), y

    known, (pool, y) = Agent.fit(*draw(10, 60), "cual-plus"), draw(12, 20)
    rows = np.arange(len(pool))
    accepted = Accepted(np.flatnonzero(y == 10)[:2], np.full(2, 10), np.ones(2, np.int64))
    short, without = (
        PrototypeLearner(Prototypes(none_of_these=given), known, Pool(pool)) for given in (True, False)
    )
    for each in (short, without):
        each.learn(accepted, 0)
    scored = short.score(rows)
    p = short.probabilities(rows)
    assert (p[y == 11].sum(axis=1) < 0.1).all()
    assert (p[y == 10, 10] > 0.9).all()
    assert (p[y < 10].sum(axis=1) > 0.9).mean() > 0.98
    assert (scored.scores[y == 11] > 0.9).all()  # no class is known for it, but an old one is ruled out
    assert short.unexplained(rows).tolist() == np.flatnonzero(y == 11).tolist()
    np.testing.assert_allclose(without.probabilities(rows).sum(axis=1), 1, rtol=1e-5)
    assert without.unexplained(rows).tolist() == []


def test_before_any_answer_all_that_looks_novel_is_unexplained(world: World) -> None:
    short = learner(world)
    rows = np.arange(len(world.pool))
    scored = short.score(rows)
    known = scored.validation.numpy()
    share = np.array([(known < s).mean() for s in scored.scores])
    np.testing.assert_allclose(short.first_novelty(rows), share, atol=1e-6)
    np.testing.assert_array_equal(short.first_novelty(rows[[3, 8]]), short.first_novelty(rows)[[3, 8]])
    assert short.unexplained(rows).tolist() == np.flatnonzero(share >= 0.95).tolist()
    assert set(np.flatnonzero(truth(world) >= 2)) <= set(short.unexplained(rows).tolist())
    short.learn(answers(world), 0)  # how novel the pool looked at first stays the same
    np.testing.assert_allclose(short.first_novelty(rows), share, atol=1e-6)


def test_met_before_is_nearer_to_something_unexplained_than_to_anything_known(world: World) -> None:
    known = agent(world)
    vixens = np.flatnonzero(truth(world) == 3)
    unexplained = torch.from_numpy(world.pool[vixens[:3]]).half()
    remembers = replace(known, remembered=unexplained)
    rows = np.arange(len(world.pool))
    met = PrototypeLearner(Prototypes(), remembers, Pool(world.pool)).met_before(rows)
    head = known.head.shrunk(Prototypes().shrink)
    pool, memory, before = (
        head.whiten(torch.as_tensor(X)).double().numpy()
        for X in (world.pool, known.replay.X.float(), unexplained.float())
    )
    expected = [max(cosine(u, v) for v in before) > max(cosine(u, v) for v in memory) for u in pool]
    assert met.tolist() == [float(e) for e in expected]
    assert met[vixens].all()
    assert not met[truth(world) < 2].any()
    assert not PrototypeLearner(Prototypes(), known, Pool(world.pool)).met_before(rows).any()


def test_anchors_of_a_large_pool_hold_its_most_novel_rows() -> None:
    """A class of 20 among thousands: as anchors at random would be, too few of it were left to find."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 1.5, (4, 24))

    def draw(c: int, n: int) -> np.ndarray:
        return (centres[c] + rng.normal(0, 1, (n, 24))).astype(np.float32)

    X, y = np.concatenate([draw(c, 100) for c in range(3)]), np.repeat(np.arange(3), 100)
    known = Agent.fit(X, y, "cual-plus", learner={"anchors": 300})
    labels = rng.permutation(np.repeat(np.arange(4), [2000, 2000, 2000, 20]))
    pool = np.zeros((len(labels), 24), np.float32)
    for c in range(4):
        pool[labels == c] = draw(c, int((labels == c).sum()))
    part = known.method.learner
    home = Space(known.head, known, Pool(pool), part)
    assert len(home.anchors) == len(set(home.anchors.tolist())) == 300
    assert (np.diff(home.anchors) > 0).all()
    novelty = KnownSpace(known.head, known, part).novelty(torch.from_numpy(pool)).numpy()
    most = np.argsort(-novelty, kind="stable")[:150]
    assert set(most.tolist()) <= set(home.anchors.tolist())
    rare = np.flatnonzero(labels == 3)
    assert np.isin(rare, home.anchors).mean() > 0.9
    others = np.setdiff1d(home.anchors, most)
    assert np.isin(others, rare).mean() < 0.1
    again = Space(known.head, known, Pool(pool), part)
    np.testing.assert_array_equal(again.anchors, home.anchors)
    task = known.adapt(pool, budget=10)
    while query := task.ask():
        task.tell(query.id, {i: int(labels[i]) for i in query.ids})
    after = task.finish()
    assert after.classes_.tolist() == [0, 1, 2, 3]
    assert (after.predict(draw(3, 200)) == 3).mean() > 0.9


def test_a_large_pool_is_represented_by_its_anchors(world: World) -> None:
    short = learner(world, anchors=25)
    short.learn(answers(world), 0)
    scored = short.score(np.arange(len(world.pool)))
    assert (scored.classes == truth(world)).mean() > 0.9
    home = space(world, anchors=25)
    voters = torch.cat([voters for _, voters in home.map_seen(lambda seen: seen.nearest.voters)])
    assert len(home.anchors) == 25
    assert int(voters.max()) < 25 + len(agent(world).replay.y)


def test_the_last_scores_say_how_sure_they_are_and_change_nothing_else(world: World) -> None:
    short = learner(world)
    short.learn(answers(world), 0)
    rows = np.arange(len(world.pool))
    before = short.score(rows)
    last = short.score(rows, last=True)
    assert (before.scores != last.scores).any()
    again = learner(world)
    again.restore(short.state())
    np.testing.assert_array_equal(again.probabilities(rows), short.probabilities(rows))
    np.testing.assert_array_equal(short.score(rows, last=True).scores, last.scores)
    np.testing.assert_array_equal(last.classes, before.classes)
    np.testing.assert_array_equal(last.scores > 0.5, before.scores > 0.5)
    assert ((before.scores > 0.5) == (truth(world) >= 2)).mean() > 0.95


def test_believes_once_after_the_last_answer(world: World) -> None:
    task = world.answer_all(world.adapt(agent(world), budget=12))
    assert [len(r.pseudo_rows) > 0 for r in task.rounds] == [False] * (len(task.rounds) - 1) + [True]
    assert task.ended == "the pool is labelled"
    assert set(task.finish().classes_) == set(CODES)


def test_old_answers_reach_a_head_that_does_not_replay(world: World) -> None:
    before = agent(world)
    task = before.adapt(world.X[:20], budget=4)
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, "cat"))
    after = task.finish()
    assert after.classes_.tolist() == ["cat", "dog"]
    X = torch.from_numpy(world.X)
    assert (after.head.logits(X) != before.head.logits(X)).any()


def test_prototypes_need_a_head_that_whitens() -> None:
    with pytest.raises(BadOption, match=r"MLP.* use ridge"):
        methods["cual-plus"].but(head="mlp")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("anchors", 0),
        ("neighbours", 0),
        ("refinements", 0),
        ("least_share", 1.5),
        ("walk", 1.1),
        ("shrink", 0),
        ("few", -1),
    ],
)
def test_options_out_of_their_range_are_refused(option: str, value: float) -> None:
    with pytest.raises(BadOption, match=option):
        Prototypes(**{option: value})


# -- old classes that go on being learned ----------------------------------------------------------------------


def few_dogs(world: World, n: int = 6) -> Agent:
    """An agent that knows many cats and `n` dogs."""
    rows = [*range(30), *range(30, 30 + n)]
    return Agent.fit(world.X[rows], [world.y[r] for r in rows], method="cual-plus", buffer=60)


def test_an_old_class_of_few_samples_is_still_being_learned(world: World) -> None:
    def learning(known: Agent, named: int, **options: Any) -> list[int]:
        short = PrototypeLearner(Prototypes(**options), known, Pool(world.pool))
        strangeness = space(world, known).strangeness(np.arange(len(world.pool)))
        usual = torch.argsort(strangeness)[:1].numpy()
        short.learn(Accepted(usual, np.array([named]), np.ones(1, np.int64)), 0)
        return short.learning().tolist()

    assert learning(few_dogs(world), named=1) == [1]
    assert learning(few_dogs(world), named=0) == []  # nobody says that there are dogs in the pool
    assert learning(few_dogs(world), named=1, few=3) == []
    assert learning(few_dogs(world, n=20), named=1) == []
    assert learning(agent(world), named=1) == []


def test_answers_that_contradict_what_is_known_reopen_a_class(world: World) -> None:
    strangeness = space(world).strangeness(np.arange(len(world.pool)))
    strange = torch.argsort(strangeness, descending=True)[:3].numpy()
    usual = torch.argsort(strangeness)[:3].numpy()
    assert (strangeness[strange] > Prototypes().looks_novel).all()
    highest = float(strangeness.max())

    def learning(rows: np.ndarray, **options: Any) -> list[int]:
        short = learner(world, **options)
        short.learn(Accepted(rows, np.ones(len(rows), np.int64), np.ones(len(rows), np.int64)), 0)
        return short.learning().tolist()

    assert learning(strange[:1]) == []
    assert learning(strange[:1], contradicted=1) == [1]
    assert learning(strange[:2]) == [1]
    assert learning(strange[:2], contradicted=3) == []
    assert learning(strange[:2], looks_novel=highest + 1) == []
    assert learning(usual) == []


def test_an_old_class_known_badly_learns_from_the_pool(world: World) -> None:
    before = few_dogs(world)
    task = world.answer_all(world.adapt(before, budget=12))
    believed = [sample for sample, label in task.pseudo_labels.items() if label == "dog"]
    right = [world.truth[sample] == "dog" for sample in believed]
    assert len(believed) > 10
    assert np.mean(right) > 0.9
    after = task.finish()
    assert after.classes_.tolist()[:2] == ["cat", "dog"]
    assert float(after.head.counts[1]) > float(before.head.counts[1]) + 10
    assert int((after.validation.y == 1).sum()) > int((before.validation.y == 1).sum())
    assert before.models == after.models == ()  # the head's sums are all that this learner needs
    dogs = world.X[36:60]  # never seen
    assert (after.predict(dogs) == "dog").mean() >= (before.predict(dogs) == "dog").mean()
    novel = sum(name not in ("cat", "dog") for name in world.truth.values())
    assert task.outlook.novel == pytest.approx(novel, abs=6)  # dogs are not counted


def test_pseudo_labels_of_an_old_class_go_with_the_answers_that_name_it(world: World) -> None:
    task = world.answer_all(world.adapt(few_dogs(world), budget=12))
    assert "dog" in task.pseudo_labels.values()
    for row in task.ledger:
        if row["answer"] == "dog":
            task.tell(row["query"], {row["sample"]: "cat"})
    assert "dog" not in task.pseudo_labels.values()
    assert "owl" in task.pseudo_labels.values()


def test_an_old_class_known_badly_learns_where_nothing_is_novel(world: World) -> None:
    old = np.flatnonzero(truth(world) < 2)
    task = few_dogs(world).adapt(world.pool[old], budget=2, ids=[world.ids[r] for r in old])
    while query := task.ask():
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    believed = task.pseudo_labels
    assert set(believed.values()) == {"dog"}
    assert np.mean([world.truth[sample] == "dog" for sample in believed]) > 0.9


def test_where_nothing_is_novel_the_last_scores_can_be_restored(world: World) -> None:
    old = np.flatnonzero(truth(world) < 2)
    dogs = np.flatnonzero(truth(world)[old] == 1)[:2]
    rows = np.arange(len(old))
    first, again = (PrototypeLearner(Prototypes(), few_dogs(world), Pool(world.pool[old])) for _ in range(2))
    by_old_classes = first.probabilities(rows)
    first.learn(Accepted(dogs, np.ones(2, np.int64), np.ones(2, np.int64)), 0)
    scored = first.score(rows, last=True)
    assert first.learning().tolist() == [1]
    assert (first.probabilities(rows) != by_old_classes).any()
    assert (scored.classes == truth(world)[old]).mean() > 0.9
    again.restore(first.state())
    np.testing.assert_array_equal(again.probabilities(rows), first.probabilities(rows))
