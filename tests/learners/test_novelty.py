"""The paper's learner with several novel classes: eq. 2 against a loop. (test_incdfm.py has it with one.)"""

import numpy as np
import pytest
import torch

from cual.data.pool import Pool
from cual.learners import Accepted, Novelty
from cual.learners.novelty import NoveltyLearner
from cual.uncertainty import FRE, KNN
from worlds import World

OWL, FOX = 2, 3


def rows_of(world: World, name: str, n: int) -> np.ndarray:
    return np.flatnonzero([label == name for label in world.truth.values()])[:n]


@pytest.mark.parametrize("uncertainty", [FRE(0.9), KNN(k=2)])
@pytest.mark.parametrize("floor", [1e-3, 1.0])
def test_scores_divide_by_the_distance_to_the_novel_class_that_the_head_routes_to(
    world: World, uncertainty: FRE | KNN, floor: float
) -> None:
    agent = world.agent(learner={"uncertainty": uncertainty})
    short = NoveltyLearner(Novelty(uncertainty, floor=floor), agent, Pool(world.pool))
    rows = np.arange(len(world.pool))
    X = torch.from_numpy(world.pool)
    s0 = [min(float(uncertainty.distances(u[None], [m])) for m in agent.models) for u in X]
    np.testing.assert_allclose(short.score(rows).scores, s0, rtol=1e-4)
    assert short.score(rows).classes.tolist() == [-1] * len(rows)

    owls = rows_of(world, "owl", 5)
    foxes = rows_of(world, "Füchsin mit Schal", 4)
    classes = np.repeat([OWL, FOX], [5, 4])
    accepted = Accepted(np.concatenate([owls, foxes]), classes, np.ones(9, np.int64))
    short.learn(accepted, 0)
    scored = short.score(rows)
    assert set(scored.classes.tolist()) == {OWL, FOX}
    models = {OWL: uncertainty.fit(X[owls]), FOX: uncertainty.fit(X[foxes])}
    known = agent.validation.X
    least = floor * np.mean(
        [min(float(uncertainty.distances(u[None], [m])) for m in agent.models) for u in known]
    )
    floored = 0
    for i, (u, c) in enumerate(zip(X, scored.classes.tolist(), strict=True)):
        distance = float(uncertainty.distances(u[None], [models[c]]))
        floored += distance < least
        assert scored.scores[i] == pytest.approx(s0[i] / max(distance, least), rel=1e-3)
    assert floored or floor < 0.1

    only_owls = Accepted(owls, np.full(5, OWL), np.ones(5, np.int64))
    short.learn(only_owls, 1)  # the answers that named the other class were corrected
    assert set(short.score(rows).classes.tolist()) == {OWL}
