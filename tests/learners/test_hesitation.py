"""The ER baselines' learner: the score is the working head's own hesitation over the classes that are alive."""

import math

import numpy as np
import pytest

from cual.data.pool import Pool
from cual.errors import BadOption
from cual.learners import Accepted, Hesitation
from cual.learners.hesitation import HesitationLearner
from cual.methods import methods
from worlds import World

NEVER = 2  # a class that an answer named until it was corrected
OWL = 3


def measure(p: list[float], name: str) -> float:
    if name == "entropy":
        return -sum(q * math.log(q) for q in p if q > 0)
    first, second, *_ = sorted(p, reverse=True)
    return 1 - (first - second)


@pytest.mark.parametrize("name", ["entropy", "margin"])
def test_scores_are_the_measure_of_the_classes_that_are_alive(world: World, name: str) -> None:
    agent = world.agent(method="er-entropy")
    short = HesitationLearner(Hesitation(name, epochs=60), agent, Pool(world.pool))
    rows = np.arange(len(world.pool))
    owls = np.flatnonzero([label == "owl" for label in world.truth.values()])
    for accepted, alive in (
        (None, [0, 1]),
        (Accepted(owls[:6], np.repeat([NEVER, OWL], 3), np.ones(6, np.int64)), [0, 1, NEVER, OWL]),
        (Accepted(owls[:6], np.full(6, OWL), np.ones(6, np.int64)), [0, 1, OWL]),
    ):
        if accepted is not None:
            short.learn(accepted, 0)
        p = short.probabilities(rows)
        assert p.shape == (len(rows), len(alive))
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
        scored = short.score(rows)
        expected = [measure(row, name) for row in p.astype(np.float64).tolist()]
        np.testing.assert_allclose(scored.scores, expected, rtol=1e-4, atol=1e-6)
        assert scored.classes.tolist() == [alive[c] for c in p.argmax(axis=1)]
        assert (OWL in scored.classes) is (OWL in alive)
        assert len(scored.validation) == len(agent.validation)
        assert set(short.nearest_old(rows).tolist()) <= {0, 1}


def test_the_working_copy_learns_and_the_agent_does_not(world: World) -> None:
    agent = world.agent(method="er-entropy")
    before = {name: tensor.clone() for name, tensor in agent.head.state().items()}
    quick, slow = (HesitationLearner(Hesitation(epochs=e), agent, Pool(world.pool)) for e in (1, 9))
    owls = np.flatnonzero([label == "owl" for label in world.truth.values()])
    accepted = Accepted(owls[:6], np.full(6, 2), np.ones(6, np.int64))
    for short in (quick, slow):
        short.learn(accepted, 0)
    assert (quick.probabilities(owls) != slow.probabilities(owls)).any()
    assert all((agent.head.state()[name] == tensor).all() for name, tensor in before.items())


def test_it_needs_a_head_that_is_trained_and_a_measure_that_it_has() -> None:
    with pytest.raises(BadOption, match="trained in epochs, not Ridge"):
        methods["er-entropy"].but(head="ridge")
    with pytest.raises(BadOption, match="entropy, margin, not 'doubt'"):
        Hesitation("doubt")
