"""What every method keeps to: the budget, only paid labels, determinism, and the old classes."""

import math
from typing import Any

import numpy as np
import pytest

from cual import Adaptation, Agent
from cual.errors import BadOption, UnknownName
from cual.heads import Ridge
from cual.loop.budget import count_labels
from cual.methods import Method, methods
from worlds import World, file_bytes, make_world

WORLD = make_world()


class Paid:
    """Answers from recorded labels, where every label that nobody paid for is poison."""

    def __init__(self, world: World) -> None:
        self.world, self.asked = world, []

    def answer(self, task: Adaptation) -> Adaptation:
        while query := task.ask():
            self.asked += query.ids
            task.tell(query.id, {i: self.world.truth[str(i)] for i in query.ids})
        return task


def adapted(
    method: str, world: World = WORLD, seed: int = 0, budget: int = 6
) -> tuple[Adaptation, Agent, Paid]:
    paid = Paid(world)
    task = paid.answer(world.adapt(world.agent(method=method, seed=seed), budget=budget))
    return task, task.finish(), paid


@pytest.mark.parametrize("method", methods.names())
def test_the_budget_is_never_exceeded(method: str):
    task, _, paid = adapted(method)
    allowed = count_labels(6, len(WORLD.pool), methods[method].budget_factor)
    assert len(paid.asked) == len(set(paid.asked)) == task.labels_used <= allowed
    assert task.outcome["unspent"] == allowed - task.labels_used


@pytest.mark.parametrize("method", methods.names())
def test_the_same_seed_gives_the_same_agent(method: str, tmp_path):
    first, second = (file_bytes(adapted(method)[1], tmp_path) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("method", methods.names())
def test_unpaid_labels_are_never_seen(method: str, tmp_path):
    """Poison the truth of everything that was not asked about: nothing may change."""
    _, after, paid = adapted(method)
    poisoned = {i: label if i in paid.asked else "poison" for i, label in WORLD.truth.items()}
    world = World(WORLD.X, WORLD.y, WORLD.pool, poisoned)
    _, again, _ = adapted(method, world)
    assert file_bytes(after, tmp_path) == file_bytes(again, tmp_path)


@pytest.mark.parametrize("method", methods.names())
def test_old_classes_are_still_predicted(method: str):
    trained = not isinstance(methods[method].head, Ridge)
    options: dict[str, Any] = {"head_options": {"hidden": 128, "epochs": 30}} if trained else {}
    agent = WORLD.agent(method=method, **options)
    after = Paid(WORLD).answer(WORLD.adapt(agent, budget=10)).finish()
    for name in ("cat", "dog"):
        rows = np.array([label == name for label in WORLD.y])
        assert np.mean(after.predict(WORLD.X[rows]) == name) > 0.6


def test_oracle_asks_about_everything():
    task, _, paid = adapted("oracle")
    assert len(paid.asked) == len(WORLD.pool) == task.labels_used
    assert math.isinf(methods["oracle"].budget_factor)


@pytest.mark.parametrize("uncertainty", ["fre", "mahalanobis", "knn"])
def test_cual_is_agnostic_to_the_elemental_uncertainty(uncertainty: str):
    agent = WORLD.agent(uncertainty=uncertainty, head_options={"hidden": 128, "epochs": 40})
    after = Paid(WORLD).answer(WORLD.adapt(agent, budget=20)).finish()
    truth = np.array(list(WORLD.truth.values()))
    assert np.mean(after.predict(WORLD.pool) == truth) > 0.85


@pytest.mark.parametrize("name", methods.names())
def test_a_method_survives_json(name: str):
    method = methods[name]
    assert Method.from_json(method.to_json()) == method
    assert method.summary


def test_options_are_checked():
    for bad in ({"alpha": 2}, {"iterations": 0}, {"score": "vibes"}, {"buffer": 0}, {"no_such": 1}):
        with pytest.raises(BadOption):
            methods["cual"].but(**bad)
    for bad in ({"uncertainty": "nope"}, {"then": "nope"}, {"pseudo": "nope"}, {"head": "nope"}):
        with pytest.raises(UnknownName, match="known:"):
            methods["cual"].but(**bad)
    with pytest.raises(UnknownName, match="cual"):
        Agent.fit(WORLD.X, WORLD.y, method="nope")
