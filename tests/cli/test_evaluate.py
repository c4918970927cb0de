"""`cual evaluate`, and what `fit` and `info` say of an agent; against numbers worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from commands import done, refused
from cual import Agent
from cual.bench.evaluation import evaluate
from cual.bench.measures import calibration_error
from cual.errors import BadLabels, TooFewSamples
from worlds import World, make_world


@pytest.fixture
def agent(world: World) -> Agent:
    return world.agent(method="cual-plus")


def test_an_evaluation_is_what_loops_count(world: World, agent: Agent) -> None:
    labels = list(world.truth.values())
    found = evaluate(agent, world.pool, labels)
    predicted, novelty = agent.predict(world.pool).tolist(), agent.novelty(world.pool)
    for each, counts in zip(found.classes, found.confusion, strict=True):
        rows = [i for i, label in enumerate(labels) if label == each.label]
        assert each.samples == len(rows)
        assert each.right == sum(predicted[i] == each.label for i in rows)
        assert each.novel == sum(novelty[i] > agent.threshold.value for i in rows)
        assert counts == [sum(predicted[i] == name for i in rows) for name in agent.names.names]
    assert [each.label for each in found.known] == ["cat", "dog"]
    assert [each.label for each in found.unknown] == ["Füchsin mit Schal", "owl"]
    known = [i for i, label in enumerate(labels) if label in ("cat", "dog")]
    confidence = agent.predict_proba(world.pool).max(axis=1)
    bins: dict[int, list[float]] = {}
    for i in known:
        gap = confidence[i] - (predicted[i] == labels[i])
        bins.setdefault(min(9, int(confidence[i] * 10)), []).append(gap)
    error = sum(abs(sum(gaps)) for gaps in bins.values())
    assert found.calibration == pytest.approx(error / len(known), abs=1e-6)
    assert found.accuracy == pytest.approx(np.mean([each.right / each.samples for each in found.known]))
    wins = [
        (novelty[i] > novelty[j]) + (novelty[i] == novelty[j]) / 2
        for i in range(len(labels))
        if i not in known
        for j in known
    ]
    assert found.novelty == pytest.approx(np.mean(wins))


def test_the_calibration_error_weighs_bins_by_their_samples() -> None:
    assert calibration_error(np.array([1.0, 1.0]), np.array([True, True])) == 0
    assert calibration_error(np.array([0.9, 0.9, 0.2]), np.array([True, False, False])) == pytest.approx(1 / 3)


def test_what_cannot_be_compared(world: World, agent: Agent) -> None:
    with pytest.raises(BadLabels, match="70 samples came with 1 labels"):
        evaluate(agent, world.pool, ["cat"])
    with pytest.raises(BadLabels, match="use one type for all"):
        evaluate(agent, world.pool, [1] * 70)
    with pytest.raises(TooFewSamples):
        evaluate(agent, world.pool[:0], [])
    only_new = evaluate(agent, world.pool[:5], ["owl"] * 5)
    assert (only_new.accuracy, only_new.calibration, only_new.novelty) == (None, None, None)
    assert only_new.found is not None


def test_evaluate_shows_and_writes_it(world: World, agent: Agent, tmp_path: Path) -> None:
    agent.save(tmp_path / "a.agent")
    np.savez(tmp_path / "test.npz", X=world.pool, y=np.array(list(world.truth.values())))
    command = ("evaluate", tmp_path / "a.agent", tmp_path / "test.npz", "-o", tmp_path / "q.json")
    shown = done(*command).stdout
    found = evaluate(agent, world.pool, list(world.truth.values()))
    written = json.loads((tmp_path / "q.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(found.to_json()))
    assert found.accuracy is not None
    assert f"{100 * found.accuracy:.1f} %, the mean over 2 classes" in shown
    assert "30 samples of 2 classes" in shown
    assert "true \\ predicted" in shown
    assert "exists" in refused(*command)


def test_many_classes_are_shown_by_their_confusions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 1, (14, 8))
    y = np.repeat([f"c{i:02}" for i in range(14)], 12)
    X = np.repeat(centres, 12, axis=0) + rng.normal(0, 0.7, (len(y), 8))
    Agent.fit(X, y).save(tmp_path / "a.agent")
    np.savez(tmp_path / "test.npz", X=X + rng.normal(0, 0.5, X.shape), y=y)
    assert "Most frequent confusions" in done("evaluate", tmp_path / "a.agent", tmp_path / "test.npz").stdout


def test_fit_and_info_say_how_good_it_is(world: World, tmp_path: Path) -> None:
    np.savez(tmp_path / "first.npz", X=world.X, y=np.array(world.y))
    said = done("fit", tmp_path / "first.npz", "-o", tmp_path / "a.agent").stdout
    agent = Agent.load(tmp_path / "a.agent")
    right = agent.predict(agent.validation.X.numpy()) == agent.names.decode(agent.validation.y.tolist())
    shown = f"{100 * right.mean():.0f} %"
    assert f"accuracy {shown}" in said
    assert f"by {len(right)} labels of 2 classes that were held out" in said
    assert (
        f"by {len(right)} labels of 2 classes that were held out" in done("info", tmp_path / "a.agent").stdout
    )
    few = make_world()
    Agent.fit(few.X[[0, 1, 40, 41]], ["cat", "cat", "dog", "dog"]).save(tmp_path / "few.agent")
    assert "not known: no labels were held out" in done("info", tmp_path / "few.agent").stdout
