"""Labelling the whole pool at once: shares, sharpness, and pools too large to keep."""

import numpy as np
import pytest
import torch

from cual import transduction
from cual.errors import BadOption
from cual.methods import methods
from cual.short_term import Accepted
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


def test_novelty_is_one_minus_the_cosine_to_the_nearest_old_class(world: World):
    short = learner(world)
    agent = world.agent(method="cual-plus")
    scored = short.score(np.arange(5))
    U = agent.head.whiten(torch.from_numpy(world.pool[:5])).double().numpy()
    P = agent.head.whitened_means().double().numpy()
    for u, score in zip(U, scored.scores, strict=True):
        cosines = [u @ p / np.linalg.norm(u) / np.linalg.norm(p) for p in P]
        assert score == pytest.approx(1 - max(cosines), abs=1e-5)


def test_whitening_gives_classes_a_round_spread(world: World):
    head = world.agent(method="cual-plus").head
    rows = torch.tensor([name == "cat" for name in world.y])
    U = head.whiten(torch.from_numpy(world.X)[rows])
    raw = torch.nn.functional.normalize(torch.from_numpy(world.X)[rows])
    unevenness = [float(torch.linalg.cond(torch.cov(X.T) + 1e-9 * torch.eye(16))) for X in (U, raw)]
    assert unevenness[0] < unevenness[1]


def test_shares_are_the_softmax_of_fair_cosines(world: World):
    short = learner(world)
    old, novel, mass = torch.rand(4, 2), torch.rand(4, 3), torch.tensor([1.0, 3.0, 50.0])
    rho, kappa = short._likeness, short._sharpness
    for i, share in enumerate(short._compete(old, novel, mass)):
        logits = [kappa * float(c) for c in old[i]]
        logits += [
            kappa * float(c) * np.sqrt((rho + (1 - rho) / n) / rho)
            for c, n in zip(novel[i], [1, 3, 50], strict=True)
        ]
        expected = np.exp(np.array(logits) - max(logits))
        np.testing.assert_allclose(share.numpy(), expected / expected.sum(), rtol=1e-4, atol=1e-7)


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


def test_a_pool_too_large_to_keep_gives_the_same(world: World, monkeypatch: pytest.MonkeyPatch):
    kept = learner(world)
    kept.learn(answers(world), 0)
    expected = kept.score(np.arange(60))
    monkeypatch.setattr(transduction, "KEEP_BYTES", 0)
    monkeypatch.setattr("cual.pool.CHUNK_BYTES", 7 * 16 * 4)
    again = learner(world)
    again.learn(answers(world), 0)
    assert again._kept is None
    found = again.score(np.arange(60))
    assert again._kept is None
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found.classes, expected.classes)


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
    assert (after.predict_proba(world.X) != agent.predict_proba(world.X)).any()


def test_prototypes_need_the_ridge_head():
    with pytest.raises(BadOption, match="ridge"):
        methods["cual-plus"].but(head="mlp")
    with pytest.raises(BadOption, match="epochs"):
        methods["er-entropy"].but(head="ridge")
