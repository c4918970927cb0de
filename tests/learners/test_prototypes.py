"""Labelling the whole pool at once: shares, sharpness, and pools too large to keep."""

import numpy as np
import pytest
import torch

from cual import Agent, neighbours, transduction
from cual.errors import BadOption
from cual.methods import methods
from cual.pool import Pool
from cual.learners import Accepted
from cual.transduction import PrototypeLearner
from worlds import World


def learner(world: World) -> PrototypeLearner:
    task = world.adapt(world.agent(method="cual-plus"))
    return PrototypeLearner(task.agent, task.pool)


def answers(world: World, n: int = 2) -> Accepted:
    """The first `n` samples of each novel class, told by a person."""
    truth = np.array(list(world.truth.values()))
    rows = [np.flatnonzero(truth == name)[:n] for name in ("owl", "Füchsin mit Schal")]
    return Accepted(np.concatenate(rows), np.repeat([2, 3], n), np.ones(2 * n, np.int64))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_novelty_is_the_angle_to_old_classes_and_the_crowd_in_deviations(world: World):
    short = learner(world)
    agent = world.agent(method="cual-plus")
    head = agent.head.shrunk(transduction.SHRINK)
    P = head.whitened_means().double().numpy()
    pool, known, held = (
        head.whiten(torch.as_tensor(X)).double().numpy()
        for X in (world.pool, agent.replay.X.float(), agent.validation.X)
    )

    def views(u: np.ndarray, others: list[np.ndarray]) -> tuple[float, float]:
        near = sorted((cosine(u, v) for v in others), reverse=True)[: neighbours.CROWD]
        far = sorted((cosine(u, v) for v in known), reverse=True)[: neighbours.CROWD]
        return 1 - max(cosine(u, p) for p in P), float(np.mean(near) - np.mean(far))

    of_known = np.array([views(u, list(pool)) for u in held])
    scored = short.score(np.arange(5))
    for i in range(5):
        mine = np.array(views(pool[i], [pool[j] for j in range(len(pool)) if j != i]))
        expected = ((mine - of_known.mean(axis=0)) / of_known.std(axis=0)).sum()
        assert scored.scores[i] == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_whitening_gives_classes_a_round_spread(world: World):
    head = world.agent(method="cual-plus", head_options={"expand": 0}).head
    rows = torch.tensor([name == "cat" for name in world.y])
    U = head.whiten(torch.from_numpy(world.X)[rows])
    raw = torch.nn.functional.normalize(torch.from_numpy(world.X)[rows])
    unevenness = [float(torch.linalg.cond(torch.cov(X.T) + 1e-9 * torch.eye(16))) for X in (U, raw)]
    assert unevenness[0] < unevenness[1]


def test_shares_are_the_softmax_of_fair_cosines_crowd_odds_and_votes(world: World):
    short = learner(world)
    short.learn(answers(world), 0)
    space = short._home
    (seen,) = space.seen()
    U, around = seen.directions, seen.nearest
    mass = torch.tensor([5.0, 1.0, 50.0])
    sums = 20 * torch.rand(3, U.shape[1])
    anchors = torch.rand(len(world.pool), 4)
    moving = torch.tensor([1, 2, 3])  # "dog" is still being learned, as the two novel classes are
    prototypes = transduction.Prototypes(moving, sums, mass, -0.7, anchors, voting=True)
    found = short._share(space, seen, prototypes)
    rho, kappa, y = space.likeness, space.sharpness, world.agent(method="cual-plus").replay.y
    for i in range(4):
        logits = [kappa * float(U[i] @ space.old[0])]
        crowd = (float(around.crowding[i]) - space.crowd.mean) / space.crowd.std - transduction.CROWD_EDGE
        crowd *= transduction.CROWD_WEIGHT
        for c, n, odds in zip(range(3), mass.tolist(), (0, -0.7, -0.7), strict=True):
            fair = np.sqrt((rho + (1 - rho) / n) / rho)
            logits.append(kappa * cosine(U[i].numpy(), sums[c].numpy()) * fair + crowd + odds)
        for voter, weight in zip(around.voters[i].tolist(), around.weights[i].tolist(), strict=True):
            says = (
                anchors[voter].numpy()
                if voter < len(world.pool)
                else np.eye(4)[int(y[voter - len(world.pool)])]
            )
            logits = list(np.array(logits) + transduction.NEIGHBOUR_WEIGHT * weight * says)
        expected = np.exp(np.array(logits) - max(logits))
        np.testing.assert_allclose(found[i].numpy(), expected / expected.sum(), rtol=1e-3, atol=1e-5)


def test_odds_follow_how_many_novel_samples_the_pool_holds(world: World):
    def odds(rows: np.ndarray) -> float:
        agent = world.agent(method="cual-plus")
        short = PrototypeLearner(agent, Pool(world.pool[rows]))
        owls = np.flatnonzero([truth[r] == "owl" for r in rows])[:2]
        short.learn(Accepted(owls, np.full(2, 2), np.ones(2, np.int64)), 0)
        return short._refined(short._home).odds

    truth = list(world.truth.values())
    old = np.array([r for r, name in enumerate(truth) if name in ("cat", "dog")])
    owls = np.array([r for r, name in enumerate(truth) if name == "owl"])
    many, few = (odds(np.concatenate([old, owls[:n]])) for n in (len(owls), 5))
    assert many == pytest.approx(np.log(len(owls)) - np.log(len(old) / 2), abs=0.3)
    assert few == pytest.approx(np.log(5) - np.log(len(old) / 2), abs=0.7)


def test_the_whole_pool_is_labelled_from_two_answers_a_class(world: World):
    short = learner(world)
    short.learn(answers(world), 0)
    scored = short.score(np.arange(len(world.pool)))
    codes = {"cat": 0, "dog": 1, "owl": 2, "Füchsin mit Schal": 3}
    right = scored.classes == [codes[name] for name in world.truth.values()]
    assert right.mean() > 0.9
    assert scored.threshold == transduction.EVEN
    p = short.probabilities(np.arange(len(world.pool)))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(p[:, 2:].sum(axis=1), scored.scores, rtol=1e-5, atol=1e-6)


def test_shares_of_some_rows_are_those_of_the_last_score(world: World, monkeypatch: pytest.MonkeyPatch):
    short = learner(world)
    short.learn(answers(world), 0)
    rows = np.arange(5, 50)
    short.score(rows)
    whole = short.probabilities(rows)
    monkeypatch.setattr(short, "score", lambda *_: pytest.fail("scored again"))
    np.testing.assert_array_equal(short.probabilities(rows[[3, 7]]), whole[[3, 7]])


def test_a_pool_too_large_to_keep_gives_the_same(world: World, monkeypatch: pytest.MonkeyPatch):
    kept = learner(world)
    kept.learn(answers(world), 0)
    expected = kept.score(np.arange(60))
    monkeypatch.setattr(transduction, "KEEP_BYTES", 0)
    monkeypatch.setattr("cual.pool.CHUNK_BYTES", 7 * 16 * 4)
    again = learner(world)
    again.learn(answers(world), 0)
    found = again.score(np.arange(60))
    assert again._home._kept is None
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found.classes, expected.classes)


def test_a_large_pool_is_represented_by_its_anchors(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transduction, "ANCHORS", 25)
    short = learner(world)
    short.learn(answers(world), 0)
    scored = short.score(np.arange(len(world.pool)))
    codes = {"cat": 0, "dog": 1, "owl": 2, "Füchsin mit Schal": 3}
    assert (scored.classes == [codes[name] for name in world.truth.values()]).mean() > 0.9
    assert int(short._home._around(np.arange(60)).voters.max()) < 25 + len(short._agent.replay.y)


def test_the_last_scores_come_from_a_space_that_novel_classes_shaped(world: World):
    short = learner(world)
    short.learn(answers(world), 0)
    rows = np.arange(len(world.pool))
    before, last = short.score(rows), short.score(rows, last=True)
    assert (before.scores != last.scores).any()
    again = learner(world)
    again.restore(short.state())
    np.testing.assert_array_equal(again.probabilities(rows), short.probabilities(rows))
    np.testing.assert_array_equal(short.score(rows, last=True).scores, last.scores)


def test_believes_once_after_the_last_answer(world: World):
    task = world.answer_all(world.adapt(world.agent(method="cual-plus"), budget=12))
    assert [len(r.pseudo_rows) > 0 for r in task.rounds] == [False] * (len(task.rounds) - 1) + [True]
    assert task.ended == "the pool is labelled"
    assert set(task.finish().classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}


def test_old_answers_reach_a_head_that_does_not_replay(world: World):
    agent = world.agent(method="cual-plus")
    task = agent.adapt(world.X[:20], budget=4)
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, "cat"))
    after = task.finish()
    assert after.classes_.tolist() == ["cat", "dog"]
    X = torch.from_numpy(world.X)
    assert (after.head.logits(X) != agent.head.logits(X)).any()


def test_prototypes_need_the_ridge_head():
    with pytest.raises(BadOption, match="ridge"):
        methods["cual-plus"].but(head="mlp")
    with pytest.raises(BadOption, match="epochs"):
        methods["er-entropy"].but(head="ridge")


def few_dogs(world: World, n: int = 6):
    """An agent that knows many cats and `n` dogs."""
    rows = [*range(30), *range(30, 30 + n)]
    return Agent.fit(world.X[rows], [world.y[r] for r in rows], method="cual-plus", buffer=60)


def test_an_old_class_of_few_samples_is_still_being_learned(world: World):
    def learning(agent: Agent, named: int) -> list[int]:
        short = PrototypeLearner(agent, Pool(world.pool))
        usual = torch.argsort(short._home.crowdedness(np.arange(len(world.pool))))[:1].numpy()
        short.learn(Accepted(usual, np.array([named]), np.ones(1, np.int64)), 0)
        return short.learning().tolist()

    assert learning(few_dogs(world), named=1) == [1]
    assert learning(few_dogs(world), named=0) == []  # nobody says that there are dogs in the pool
    assert learning(few_dogs(world, n=20), named=1) == []
    assert learning(world.agent(method="cual-plus"), named=1) == []


def test_answers_that_contradict_what_is_known_reopen_a_class(world: World):
    short = learner(world)
    crowded = short._home.crowdedness(np.arange(len(world.pool)))
    strange = torch.argsort(crowded, descending=True)[:3].numpy()
    assert (crowded[strange] > transduction.LOOKS_NOVEL).all()
    usual = torch.argsort(crowded)[:3].numpy()

    def say_dog(rows: np.ndarray) -> list[int]:
        short.learn(Accepted(rows, np.ones(len(rows), np.int64), np.ones(len(rows), np.int64)), 0)
        return short.learning().tolist()

    assert say_dog(strange[:1]) == []
    assert say_dog(strange[:2]) == [1]
    assert say_dog(usual) == []


def test_what_was_known_of_a_class_starts_its_prototype(world: World):
    short = PrototypeLearner(few_dogs(world), Pool(world.pool))
    short.learn(answers(world), 0)
    space = short._home
    sums, mass = short._known(space, np.array([1]), 3)
    k = float(short._agent.head.counts[1])
    assert k < transduction.KNOWN_WEIGHT
    assert mass.tolist() == [k, 0, 0]
    expected = np.sqrt(k + k * (k - 1) * space.likeness)
    np.testing.assert_allclose(sums[0].numpy(), expected * space.old[1].numpy(), rtol=1e-5)
    assert not sums[1:].any()


def test_an_old_class_known_badly_learns_from_the_pool(world: World):
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
    assert after.models[1].n > before.models[1].n
    assert after.models[0] is before.models[0]
    dogs = world.X[36:60]  # never seen
    assert (after.predict(dogs) == "dog").mean() >= (before.predict(dogs) == "dog").mean()
    novel = sum(name not in ("cat", "dog") for name in world.truth.values())
    assert task.outlook.novel == pytest.approx(novel, abs=6)  # dogs are not counted


def test_pseudo_labels_of_an_old_class_go_with_the_answers_that_name_it(world: World):
    task = world.answer_all(world.adapt(few_dogs(world), budget=12))
    assert "dog" in task.pseudo_labels.values()
    for row in task.ledger:
        if row["answer"] == "dog":
            task.tell(row["query"], {row["sample"]: "cat"})
    assert "dog" not in task.pseudo_labels.values()
    assert "owl" in task.pseudo_labels.values()


def test_an_old_class_known_badly_learns_where_nothing_is_novel(world: World):
    old = np.array([r for r, name in enumerate(world.truth.values()) if name in ("cat", "dog")])
    task = few_dogs(world).adapt(world.pool[old], budget=2, ids=[world.ids[r] for r in old])
    while query := task.ask():
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    believed = task.pseudo_labels
    assert set(believed.values()) == {"dog"}
    assert np.mean([world.truth[sample] == "dog" for sample in believed]) > 0.9
    again = PrototypeLearner(task.agent, task.pool)
    again.restore(task._short.state())
    rows = np.arange(len(old))
    np.testing.assert_array_equal(again.probabilities(rows), task._short.probabilities(rows))
