"""Where the paper can be read in two ways, each reading has a method; and what A learns of known classes."""

import numpy as np
import pytest
import torch

from cual import Adaptation
from worlds import make_world

WORLD = make_world()


def test_one_shot_of_both_believes_in_one_round_what_is_above_t_inner() -> None:
    once = WORLD.answer_all(WORLD.adapt(WORLD.agent(method="al-oneshot-both"), budget=10))
    asked = [len(r.asked) for r in once.rounds]
    believed = [len(r.pseudo_rows) for r in once.rounds]
    assert asked == [10, 0]
    assert believed[0] == 0
    above = int((once.rounds[1].scores > once.rounds[1].threshold.value).sum())
    assert believed[1] == -(-above // 5) > 0  # α = 20 %

    rounds = WORLD.answer_all(WORLD.adapt(WORLD.agent(method="al-oneshot"), budget=10))
    assert [len(r.asked) for r in rounds.rounds][:2] == [10, 0]
    assert sum(len(r.pseudo_rows) > 0 for r in rounds.rounds) > 1


@pytest.mark.parametrize("measure", ["entropy", "margin"])
def test_pseudo_er_all_believes_known_classes_that_no_answer_named(measure: str, tmp_path) -> None:
    agent = WORLD.agent(method=f"pseudo-er-{measure}-all")
    task = WORLD.adapt(agent, budget=6)
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, "owl"))
    believed = set(task.pseudo_labels.values())
    assert {"cat", "dog"} & believed
    task.save(tmp_path / "task")
    assert Adaptation.load(tmp_path / "task").pseudo_labels == task.pseudo_labels
    assert task.finish().version == 1

    usual = WORLD.adapt(WORLD.agent(method=f"pseudo-er-{measure}"), budget=6)
    while query := usual.ask():
        usual.tell(query.id, dict.fromkeys(query.ids, "owl"))
    assert set(usual.pseudo_labels.values()) <= {"owl"}


@pytest.mark.parametrize("method", ["cual", "er-entropy", "er-random", "ccic", "cual-plus"])
def test_answers_about_known_classes_are_learned_where_no_new_class_was_found(method: str) -> None:
    world = make_world(novel=())
    agent = world.agent(method=method, stds=-1.0)  # somebody is asked, whatever the scores
    moved = world.pool * np.float32(0.3)  # so that what was known does not say it already
    task = agent.adapt(moved, 20, ids=world.ids)
    while query := task.ask():
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    after = task.finish()
    assert after.classes_.tolist() == agent.classes_.tolist()
    assert task.labels_used > 0
    before, now = agent.head.state(), after.head.state()
    assert any(not torch.equal(before[name], now[name]) for name in before if before[name].is_floating_point())
    told = [row for row, i in enumerate(world.ids) if i in {r["sample"] for r in task.ledger}]
    truth = np.array([world.truth[world.ids[row]] for row in told])
    assert (after.predict(moved[told]) == truth).mean() >= (agent.predict(moved[told]) == truth).mean()
