"""What every method keeps to (`cual.checks`), and what some of them promise besides."""

import math
from typing import Any

import numpy as np
import pytest

from cual import Agent
from cual.checks import checks
from cual.checks.base import Check
from cual.errors import BadOption, UnknownName
from cual.methods import Method, methods
from cual.registry import options_of
from worlds import make_world

WORLD = make_world()


def small(method: Method) -> Method:
    """A method with a hidden layer that is quick to train."""
    return method.but(head={"hidden": 64}) if "hidden" in options_of(method.head) else method


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{name}: {named}")
        for name in methods
        for named, check in checks(small(methods[name]))
    ],
)
def test_a_method_keeps_its_contract(check: Check) -> None:
    check()


@pytest.mark.parametrize("name", methods.names())
def test_a_method_says_what_it_is(name: str) -> None:
    assert methods[name].summary
    assert methods[name].name == name


def test_oracle_asks_about_everything() -> None:
    task = WORLD.answer_all(WORLD.adapt(WORLD.agent(method="oracle"), budget=6))
    assert task.labels_used == len(WORLD.pool)
    assert math.isinf(methods["oracle"].budget_factor)


@pytest.mark.parametrize("uncertainty", ["fre", "mahalanobis", "knn"])
def test_cual_is_agnostic_to_the_elemental_uncertainty(uncertainty: str) -> None:
    agent = WORLD.agent(uncertainty=uncertainty, head_options={"hidden": 128, "epochs": 40})
    after = WORLD.answer_all(WORLD.adapt(agent, budget=20)).finish()
    truth = np.array(list(WORLD.truth.values()))
    assert np.mean(after.predict(WORLD.pool) == truth) > 0.85


def test_options_are_checked() -> None:
    wrong: list[dict[str, Any]] = [
        {"alpha": 2},
        {"iterations": 0},
        {"score": "vibes"},
        {"buffer": 0},
        {"no_such": 1},
    ]
    for bad in wrong:
        with pytest.raises(BadOption):
            methods["cual"].but(**bad)
    for bad in ({"uncertainty": "nope"}, {"then": "nope"}, {"pseudo": "nope"}, {"head": "nope"}):
        with pytest.raises(UnknownName, match="known:"):
            methods["cual"].but(**bad)
    with pytest.raises(UnknownName, match="cual"):
        Agent.fit(WORLD.X, WORLD.y, method="nope")
