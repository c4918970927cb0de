"""Features and names at the edge of what numbers and text hold: the right result, or an error that says why."""

from typing import Any

import numpy as np
import pytest
import torch

from cual import Adaptation, Agent, Pool
from cual.data.labels import read_label
from cual.data.pool import LARGEST, SMALLEST
from cual.errors import BadFeatures, BadLabels
from cual.loop.rounds import Round
from cual.uncertainty import Threshold
from worlds import SMALL, World


def test_five_rows_of_zeros_do_not_end_an_adaptation(world: World):
    task = world.agent(method="cual-plus").adapt(np.zeros((5, 16), np.float32), 3)
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, "cat"))
    assert all(sum(row["histogram"]["counts"]) == row["scored"] for row in task.history)
    assert task.finish().version == 1


@pytest.mark.parametrize("low", [0.0, 1.0, -2e6, 3e38, 1e-45])
def test_scores_next_to_each_other_have_a_histogram(low: float):
    next_to_it = np.nextafter(np.float32(low), np.float32(np.inf))
    scores = np.array([low, next_to_it, next_to_it], np.float32)
    summary = Round(0, np.arange(3), scores, np.zeros(3, np.int64), Threshold(0.0, 0.0, 0.0)).summary()
    counts, edges = summary["histogram"]["counts"], summary["histogram"]["edges"]
    assert (counts[0], counts[-1], sum(counts)) == (1, 2, 3)
    assert (edges[0], edges[-1]) == (float(scores[0]), float(scores[1]))


@pytest.mark.parametrize("score", [0.0, 2.5, -7.1e18, 3e38])
def test_one_score_lies_in_the_middle_of_its_histogram(score: float):
    scores = np.array([score], np.float32)
    histogram = Round(0, np.arange(1), scores, np.arange(1), Threshold(0.0, 0.0, 0.0)).summary()["histogram"]
    assert [place for place, count in enumerate(histogram["counts"]) if count] == [20]
    assert (np.diff(histogram["edges"]) > 0).all()


@pytest.mark.parametrize("method", ["cual", "cual-plus"])
@pytest.mark.parametrize("scale", [1e19, 1e25, 1e30])
def test_features_whose_squares_overflow_are_refused(world: World, method: str, scale: float):
    agent = world.agent(method=method)
    for door in (
        lambda X: Agent.fit(X, world.y, method=method),
        lambda X: agent.teach(X, world.y),
        agent.predict,
        agent.predict_proba,
        agent.novelty,
        agent.novelty_together,
        Pool,
    ):
        with pytest.raises(BadFeatures, match=r"row 0 holds .*too large.* 1e\+15"):
            door(world.X * np.float32(scale))


@pytest.mark.parametrize("method", ["cual", "cual-plus", "ccic", "incdfm", "er-entropy"])
@pytest.mark.parametrize("scale", [1e13, 1e-14])
def test_features_within_the_limits_have_a_threshold(world: World, method: str, scale: float):
    """The same world at another scale: what is known is told from what is novel as well."""
    X, pool = world.X * np.float32(scale), world.pool * np.float32(scale)
    assert SMALLEST < np.abs(X).max() < LARGEST
    agent = Agent.fit(X, world.y, method=method, buffer=60)
    assert np.isfinite([agent.threshold.value, agent.threshold.std]).all()
    assert np.isfinite(agent.novelty(pool)).all()
    assert np.isfinite(agent.predict_proba(pool)).all()


def test_the_threshold_grows_with_the_features(world: World):
    here, there = world.agent(), Agent.fit(world.X * np.float32(1e13), world.y, **SMALL)
    assert there.threshold.value == pytest.approx(1e13 * here.threshold.value, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-20, 1e-25, 1e-40])
def test_features_whose_squares_vanish_are_refused_when_learned(world: World, scale: float):
    """Every distance would be 0, so that nothing could ever look novel."""
    with pytest.raises(BadFeatures, match=r"X .*vanish"):
        Agent.fit(world.X.astype(np.float64) * scale, world.y, method="cual")


def test_zeros_and_small_values_among_others_are_not_too_small(world: World):
    X = world.X.copy()
    X[:, 3] = 1e-30
    X[7] = 0
    assert Agent.fit(X, world.y, method="cual").predict(X[:1] * np.float32(1e-30)).shape == (1,)
    assert Agent.fit(np.zeros((20, 4)), [0] * 10 + [1] * 10, method="cual").threshold.value == 0


@pytest.mark.parametrize("value", [LARGEST, -LARGEST])
def test_the_largest_value_is_taken(value: float):
    X: Any = torch.full((2, 3), value)
    assert len(Pool(X)) == 2
    with pytest.raises(BadFeatures, match="row 1 "):
        Pool(torch.cat([X[:1], X[:1] * 1.001]))


HALF = "half \ud800 of a character"


def test_labels_that_no_file_can_hold_are_refused_at_every_door(world: World):
    task = world.adapt()
    query = task.ask()
    assert query is not None
    first = query.ids[0]
    for door in (
        lambda: Agent.fit(world.X, [HALF if label == "cat" else label for label in world.y], **SMALL),
        lambda: Agent.fit(world.X, np.array([HALF, *world.y[1:]]), **SMALL),
        lambda: task.agent.teach(world.X, [HALF, *world.y[1:]]),
        lambda: task.agent.rename_class("cat", HALF),
        lambda: task.tell(query.id, {first: HALF}),
        lambda: task.settle(query.id, {first: HALF}),
        lambda: task.volunteer({first: HALF}),
        lambda: task.correct({first: HALF}),
        lambda: read_label(HALF, task.agent.names),
    ):
        with pytest.raises(BadLabels):
            door()
    with pytest.raises(BadLabels, match=r"UTF-8 can hold; 'half \\ud800 of a"):
        task.tell(query.id, {first: HALF})
    assert not task.answers


def test_ids_that_are_no_text_survive_a_file(world: World, tmp_path):
    """Names of files may be so; they are kept as they are."""
    ids: list[Any] = [f"\udcff{i}" for i in range(len(world.pool))]
    for given in (ids, [*ids[:-1], 7]):
        task = world.agent().adapt(world.pool, 8, ids=given)
        query = task.ask()
        assert query is not None
        task.tell(query.id, dict.fromkeys(query.ids, "cat"), person=HALF)
        task.save(tmp_path / str(type(given[-1])))
        again = Adaptation.load(tmp_path / str(type(given[-1])))
        assert again.answers == task.answers
        assert again.journal == task.journal
        assert again.ask() == task.ask()
