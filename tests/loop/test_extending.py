"""A budget that is raised while an adaptation is going on, after its questions have ended, and too late."""

import numpy as np
import pytest

from cual import Adaptation
from cual.errors import AlreadyFinished, BadBudget
from worlds import World, file_bytes

METHODS = ("cual", "cual-plus", "er-random")


def answer(world: World, task: Adaptation) -> int:
    """Answer everything that is asked; how many rounds that took."""
    rounds = 0
    while query := task.ask():
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
        rounds += 1
    return rounds


@pytest.mark.parametrize("method", METHODS)
def test_questions_that_have_ended_go_on(world: World, method: str):
    task = world.adapt(world.agent(method=method), budget=8)
    answer(world, task)
    assert task.ended is not None
    assert task.labels_used == 8
    before = dict(task.answers)
    task.raise_budget(14)
    assert (task.budget, task.ended) == (14, None)
    assert answer(world, task) >= 1
    assert task.labels_used == 14
    assert before.items() <= task.answers.items()
    assert task.ended is not None
    assert set(task.finish().classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}


@pytest.mark.parametrize("method", METHODS)
def test_a_journal_with_more_labels_is_computed_again_to_the_same_agent(world: World, method: str, tmp_path):
    task = world.adapt(world.agent(method=method), budget=8)
    answer(world, task)
    task.raise_budget(12)
    answer(world, task)
    task.save(tmp_path / "task")
    (tmp_path / "task" / "cache.safetensors").unlink()
    again = Adaptation.load(tmp_path / "task")
    assert again.history == task.history
    assert file_bytes(again.finish(), tmp_path) == file_bytes(task.finish(), tmp_path)


def test_a_cache_of_before_does_not_count(world: World, tmp_path):
    task = world.adapt(world.agent(method="cual-plus"), budget=8)
    answer(world, task)
    task.save(tmp_path / "task")
    task = Adaptation.load(tmp_path / "task")
    task.raise_budget(12)
    task.save(tmp_path / "task")
    task = Adaptation.load(tmp_path / "task")
    answer(world, task)
    assert task.labels_used == 12


def test_a_round_that_is_open_stays_as_it_is(world: World):
    task = world.adapt(budget=10)
    first = task.ask()
    task.raise_budget(20)
    assert task.ask() == first
    answer(world, task)
    assert task.labels_used == 20


def test_the_last_round_is_followed_by_others(world: World):
    task = world.adapt(world.agent(method="cual-plus"), budget=8)
    rounds = task.agent.method.rounds
    for _ in range(rounds - 1):
        query = task.ask()
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    assert task.ask().round == rounds - 1
    task.raise_budget(16)
    answer(world, task)
    assert task.labels_used == 16


def test_what_was_stopped_goes_on_with_the_questions_that_nobody_answered(world: World):
    task = world.adapt(budget=10)
    query = task.ask()
    told, left = query.ids[:1], query.ids[1:]
    task.tell(query.id, {i: world.truth[i] for i in told})
    task.stop()
    assert task.ask() is None
    task.raise_budget(12)
    assert task.ask().ids == left
    answer(world, task)
    assert task.labels_used == 12


def test_no_more_than_the_pool(world: World):
    task = world.adapt(budget=8)
    task.raise_budget(10_000)
    assert task.budget == len(world.pool)
    with pytest.raises(BadBudget, match="the pool has 70 samples"):
        task.raise_budget(1.0)


def test_where_nothing_looks_novel_labels_would_not_be_used(world: World):
    agent = world.agent()
    known = world.X[: len(world.X) // 2]
    task = agent.adapt(np.repeat(known[:4], 5, axis=0), budget=4)
    assert task.ask() is None
    assert task.ended == "nothing lies above T_inner"
    with pytest.raises(BadBudget, match="nothing in the pool looks novel"):
        task.raise_budget(12)


def test_a_finished_one_takes_no_more(world: World):
    task = world.adapt(budget=8)
    answer(world, task)
    task.finish()
    with pytest.raises(AlreadyFinished):
        task.raise_budget(12)
