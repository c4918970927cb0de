"""Novelty without a pool: each method's own, at a stated rate of false alarms; better in a batch."""

import numpy as np
import pytest
import torch

from cual import Agent
from cual.errors import TooFewSamples
from cual.heads import Whitens
from cual.uncertainty import at_rate
from worlds import World, make_world


def known_and_novel(world: World) -> tuple[np.ndarray, np.ndarray]:
    truth = np.array(list(world.truth.values()))
    old = np.isin(truth, ("cat", "dog"))
    return world.pool[old], world.pool[~old]


def test_novelty_of_cual_plus_is_three_distances_in_deviations_of_known_samples(world: World) -> None:
    agent = world.agent(method="cual-plus")
    assert isinstance(agent.head, Whitens)
    head = agent.head.shrunk(0.3)
    means = head.whitened_means().double().numpy()
    known = head.whiten(agent.replay.X.float()).double().numpy()

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    def views(u: np.ndarray) -> list[float]:
        near = sorted((cosine(u, v) for v in known), reverse=True)[:15]
        angle = 1 - max(cosine(u, m) for m in means)
        return [angle, min(float(np.linalg.norm(u - m)) for m in means), 1 - float(np.mean(near))]

    validation = np.array([views(u) for u in head.whiten(agent.validation.X).double().numpy()])
    scores = agent.novelty(world.pool[:5])
    for i, u in enumerate(head.whiten(torch.from_numpy(world.pool[:5])).double().numpy()):
        expected = ((np.array(views(u)) - validation.mean(axis=0)) / validation.std(axis=0)).sum()
        assert scores[i] == pytest.approx(expected, rel=1e-3, abs=1e-2)


@pytest.mark.parametrize("method", ["cual-plus", "cual", "er-entropy", "er-margin"])
def test_a_sample_s_novelty_does_not_depend_on_its_company(world: World, method: str) -> None:
    agent = world.agent(method=method)
    whole = agent.novelty(world.pool)
    for i in (0, 7, 20):
        np.testing.assert_allclose(agent.novelty(world.pool[i : i + 1])[0], whole[i], rtol=1e-4, atol=1e-4)


def test_the_rate_of_false_alarms_is_kept() -> None:
    world = make_world(novel=("owl",), old=400, seed=3)
    old, novel = known_and_novel(world)
    rows = np.random.default_rng(0).permutation(len(old))
    names = np.array([name for name in world.truth.values() if name != "owl"])
    first, fresh = rows[:400], rows[400:]
    for rate in (0.05, 0.2):
        options = {"method": "cual-plus", "learner": {"false_alarms": rate}, "validation_share": 0.4}
        agent = Agent.fit(old[first], names[first], **options)
        alarms = (agent.novelty(old[fresh]) > agent.threshold.value).mean()
        assert abs(alarms - rate) < 0.06
        assert (agent.novelty(novel) > agent.threshold.value).mean() > 0.9


@pytest.mark.parametrize("n", [1, 3, 19, 20, 100])
def test_no_more_than_the_rate_of_known_samples_lies_above(n: int) -> None:
    scores = torch.randn(n, generator=torch.Generator().manual_seed(n))
    assert (scores > at_rate(scores, 0.05).value).float().mean() <= 0.05
    with pytest.raises(TooFewSamples):
        at_rate(scores[:0], 0.05)


def test_together_novel_samples_are_told_by_their_surroundings(world: World) -> None:
    agent = world.agent(method="cual-plus")
    old, novel = known_and_novel(world)
    scores, threshold = agent.novelty_together(np.concatenate([old, novel]))
    unknown = np.arange(len(scores)) >= len(old)
    assert (scores[unknown] > threshold.value).mean() > 0.9
    assert (scores[~unknown] > threshold.value).mean() < 0.3
    single, same = agent.novelty_together(world.pool[:1])
    np.testing.assert_array_equal(single, agent.novelty(world.pool[:1]))
    assert same == agent.threshold


def test_other_methods_say_the_same_together(world: World) -> None:
    agent = world.agent()
    scores, threshold = agent.novelty_together(world.pool)
    np.testing.assert_array_equal(scores, agent.novelty(world.pool))
    assert threshold == agent.threshold


def test_together_the_rate_of_false_alarms_is_kept_too() -> None:
    """Validation samples are seen in the company of the pool, so known ones of the pool are like them."""
    world = make_world(novel=("owl",), old=400, seed=3)
    old, novel = known_and_novel(world)
    rows = np.random.default_rng(0).permutation(len(old))
    names = np.array([name for name in world.truth.values() if name != "owl"])
    first, fresh = rows[:400], rows[400:]
    for rate in (0.05, 0.2):
        options = {"method": "cual-plus", "learner": {"false_alarms": rate}, "validation_share": 0.4}
        agent = Agent.fit(old[first], names[first], **options)
        scores, threshold = agent.novelty_together(np.concatenate([old[fresh], novel]))
        assert abs((scores[: len(fresh)] > threshold.value).mean() - rate) < 0.06
        assert (scores[len(fresh) :] > threshold.value).mean() > 0.9


def test_a_pool_that_is_too_large_to_copy_is_compared_from_outside(world: World) -> None:
    small, large = (world.agent(method="cual-plus", learner={"keep_bytes": n}) for n in (2**28, 2**10))
    (here, _), (outside, threshold) = (agent.novelty_together(world.pool) for agent in (small, large))
    assert len(here) == len(outside) == len(world.pool)
    assert np.corrcoef(here, outside)[0, 1] > 0.8
    assert np.isfinite(threshold.value)
