"""Every check of methods can fail: each one catches a method with a part that is broken in its way."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from contracts import Breaks, expect_caught
from cual import registry
from cual.acquisition import acquisitions
from cual.acquisition.chance import Random
from cual.heads import Linear, heads
from cual.learners import Novelty, learners
from cual.learners.novelty import NoveltyLearner
from cual.methods import methods

breaks = Breaks()
SMALL = methods["cual"].but(name="small", head="linear")


class Strategy(Random):
    """A method is made of registered parts: each test registers the broken one, and takes it back."""

    axis = acquisitions, ("first", "then")


@breaks("survives_json", "comes back from JSON as")
class KeepsSomethingElse(Strategy):
    def __init__(self, share: float = 0.5) -> None:
        self.share = 2 * share


@breaks("budget_is_never_exceeded", "the method 'small' raises BudgetExceeded")
class AsksAboutAll(Strategy):
    def choose(self, view, n, rng):
        return np.arange(len(view.scores))


@breaks("same_seed_same_agent", "ends in another agent with the same seed and answers")
class DrawsASeed(Strategy):
    def choose(self, view, n, rng):
        return super().choose(view, n, np.random.default_rng())


@breaks("same_seed_same_agent", "draws from a global random generator")
class DrawsFromNumpy(Strategy):
    def choose(self, view, n, rng):
        return np.random.permutation(len(view.scores))[:n]  # noqa: NPY002


@breaks("unpaid_labels_are_never_seen", "asks about other samples if labels that nobody paid for are others")
class LooksOverTheShoulder(Strategy):
    """Finds the annotator's labels, and asks about whatever has the last name of all."""

    def choose(self, view, n, rng):
        frame: Any = sys._getframe()
        while "truth" not in frame.f_locals:
            frame = frame.f_back
        labels = np.array(list(frame.f_locals["truth"].values()))
        rows = [row for row in np.argsort(labels)[::-1].tolist() if row < len(view.scores)]
        return np.array(rows[:n], dtype=np.int64)


class Learner(Novelty):
    axis = learners, ("learner",)
    short_term: type = NoveltyLearner

    def begin(self, agent, pool):
        return self.short_term(self, agent, pool)


@breaks("resumes_exactly", "ends in another agent if it is resumed on the way")
class CountsLessons(Learner):
    """What it scores by is not in its state."""

    class short_term(NoveltyLearner):
        lessons = 0

        def learn(self, accepted, round):
            self.lessons += 1
            super().learn(accepted, round)

        def score(self, rows, last=False):
            scored = super().score(rows, last)
            return replace(scored, scores=np.roll(scored.scores, self.lessons))


@breaks("leaves_the_old_agent_alone", "changes the agent that it starts from")
class MovesTheValidation(Learner):
    class short_term(NoveltyLearner):
        def learn(self, accepted, round):
            self._agent.validation.X.add_(1e-3)
            super().learn(accepted, round)


class Head(Linear):
    axis = heads, ("head",)


@breaks("agents_survive_files", "makes agents that predict something else when they are loaded")
class ForgetsBiases(Head):
    @classmethod
    def from_state(cls, state, **options):
        zero = {name: 0 * tensor for name, tensor in state.items() if name.startswith("bias")}
        return super().from_state({**state, **zero}, **options)


@breaks("old_classes_are_still_predicted", "leaves an agent that knows only 0% of the old class 'cat'")
class ForgetsOldClasses(Head):
    def logits(self, X):
        logits = super().logits(X)
        return logits - 1e6 * (torch.arange(self.n_classes) < 2) if self.n_classes > 2 else logits


@pytest.fixture
def free_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_axes", dict(registry._axes))
    for axis in (acquisitions, learners, heads):
        monkeypatch.setattr(axis, "_members", dict(axis._members))


@pytest.mark.usefixtures("free_registries")
@pytest.mark.parametrize(("part", "check", "said"), breaks.parts)
def test_a_broken_method_is_caught(part: type, check: str, said: str) -> None:
    axis, options = part.axis
    axis.add("broken")(part)
    expect_caught(SMALL.but(**{option: part() for option in options}), check, said)


def test_every_check_can_fail() -> None:
    assert breaks.missing([SMALL]) == set()


def test_the_method_would_pass_with_sound_parts() -> None:
    from cual.checks import check_method

    check_method(SMALL)
