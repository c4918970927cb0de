"""incDFM: the rounds against a naive loop; no questions; one made-up class per task."""

import math

import numpy as np
import pytest
import torch

from cual import Adaptation, Agent
from cual.errors import BadOption, UnknownQuery
from cual.methods import methods
from worlds import SMALL, World, file_bytes, make_world

WORLD = make_world(novel=("owl",), old=25)


def adapted(world: World = WORLD, **options) -> tuple[Agent, Adaptation, Agent]:
    before = world.agent(method="incdfm", **options)
    task = world.adapt(before, budget=5)
    assert task.ask() is None
    return before, task, task.finish()


def test_nobody_is_asked_and_the_budget_stays():
    _, task, _ = adapted()
    assert task.ledger == []
    assert {row["event"] for row in task.journal} == {"begun", "asked", "believed", "finished"}
    assert (task.labels_used, task.outcome["unspent"], task.outcome["skipped"]) == (0, 5, 0)
    task = WORLD.adapt(WORLD.agent(method="incdfm"), budget=5)
    with pytest.raises(UnknownQuery):
        task.tell("q0", {WORLD.ids[0]: "owl"})


def test_the_rounds_are_those_of_a_naive_loop():
    """S⁰, then S⁰/FRE of what is believed so far; each time the share α of what lies above T_inner."""
    before, task, _ = adapted()
    pool, validation = torch.from_numpy(WORLD.pool), before.validation.X
    fre = before.method.learner.uncertainty

    def s0(X):
        return fre.distances(X, before.models).min(dim=1).values.double().numpy()

    left, believed = list(range(len(pool))), []
    for r in task.rounds:
        scores, of_validation = s0(pool[left]), s0(validation)
        if believed:
            novel = fre.fit(pool[believed])
            floor = 1e-3 * of_validation.mean()
            scores, of_validation = (
                s / np.maximum(fre.distances(X, [novel])[:, 0].double().numpy(), floor)
                for s, X in ((scores, pool[left]), (of_validation, validation))
            )
        threshold = of_validation.mean() + 2 * of_validation.std()
        assert r.rows.tolist() == left
        np.testing.assert_allclose(r.scores, scores, rtol=1e-3)
        assert r.threshold.value == pytest.approx(threshold, rel=1e-3)
        most = math.ceil(0.2 * sum(scores > threshold))
        chosen = [left[i] for i in np.argsort(-scores)[:most]]
        assert set(r.pseudo_rows.tolist()) == set(chosen)
        believed += chosen
        left = [row for row in left if row not in chosen]
    assert len(task.rounds) > 2
    assert {WORLD.ids[row] for row in believed} == task.pseudo_labels.keys()


def test_what_is_novel_becomes_one_unnamed_class_that_is_old_from_then_on():
    before, task, after = adapted()
    assert set(task.pseudo_labels.values()) == {"unnamed 1"}
    assert task.outcome["new_classes"] == ["unnamed 1"]
    assert after.classes_.tolist() == ["cat", "dog", "unnamed 1"]
    assert np.mean([WORLD.truth[str(sample)] == "owl" for sample in task.pseudo_labels]) > 0.9
    owls = WORLD.pool[[WORLD.truth[i] == "owl" for i in WORLD.ids]]
    assert np.mean(before.novelty(owls) > before.threshold.value) > 0.9
    assert np.median(after.novelty(owls)) < np.median(before.novelty(owls)) / 2
    fox = make_world(novel=("fox",), seed=5)
    second = after.adapt(fox.pool, 5)
    assert second.finish().classes_.tolist() == ["cat", "dog", "unnamed 1", "unnamed 2"]


def test_numbers_get_numbers_that_no_data_has():
    y = [3 if name == "cat" else 8 for name in WORLD.y]
    agent = Agent.fit(WORLD.X, y, **{**SMALL, "method": "incdfm"})
    assert agent.adapt(WORLD.pool, 5).finish().classes_.tolist() == [3, 8, -1]


def test_where_nothing_is_novel_there_is_no_class():
    before, task, after = adapted(stds=1e6)
    assert (task.ended, task.outcome["new_classes"]) == ("nothing lies above T_inner", [])
    assert after.classes_.tolist() == ["cat", "dog"]
    assert after.version == before.version + 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_it_resumes_with_the_same_bits(when, tmp_path):
    before, _, after = adapted()
    task = WORLD.adapt(before, budget=5)
    if when == "after":
        task.ask()
    task.save(tmp_path / "task")
    again = Adaptation.load(tmp_path / "task")
    assert again.ask() is None
    assert file_bytes(again.finish(), tmp_path) == file_bytes(after, tmp_path)


def test_an_unnamed_class_needs_novelty_and_belief():
    with pytest.raises(BadOption, match="unnamed"):
        methods["incdfm"].but(believe=None)
    with pytest.raises(BadOption, match="'hesitation' has no unnamed"):
        methods["er-entropy"].but(learner={"unnamed": True})
