"""Every check of learners can fail: each one catches a learner that is broken in its way."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from contracts import Breaks, expect_caught
from cual.errors import BadOption
from cual.heads import Ridge
from cual.learners import Novelty, Prototypes
from cual.learners.novelty import NoveltyLearner
from cual.uncertainty import Threshold

breaks = Breaks()


@dataclass(frozen=True)
class Told:
    """A detector that says what it is told."""

    novelty: Callable[[torch.Tensor], torch.Tensor]
    threshold: Threshold


def learner(short_term: type) -> type:
    """The paper's learner with another A_s."""

    class Broken(Novelty):
        def begin(self, agent, pool):
            return short_term(self, agent, pool)

    Broken.__name__ = short_term.__name__
    return Broken


@breaks("scores_are_finite_and_one_per_row", "gives scores that are not finite, given nothing learned yet")
@learner
class Infinite(NoveltyLearner):
    def score(self, rows, last=False):
        scored = super().score(rows, last)
        return replace(scored, scores=np.full(len(rows), np.inf))


@breaks("scores_are_finite_and_one_per_row", "for 70 rows")
@learner
class ScoresEveryOther(NoveltyLearner):
    def score(self, rows, last=False):
        return super().score(rows[::2], last)


@breaks("scores_are_finite_and_one_per_row", "gives classes of the shape (70,) in float64")
@learner
class ClassesAreFloats(NoveltyLearner):
    def score(self, rows, last=False):
        return replace(super().score(rows, last), classes=np.zeros(len(rows)))


@breaks("scores_are_finite_and_one_per_row", "has a threshold that is not finite")
@learner
class ThresholdIsNone(NoveltyLearner):
    def score(self, rows, last=False):
        return replace(super().score(rows, last), threshold=Threshold(np.nan, 0, 0))


@breaks("validation_is_scored_whole", "scores 6 of 12 validation samples")
@learner
class HalfTheValidation(NoveltyLearner):
    def score(self, rows, last=False):
        scored = super().score(rows, last)
        return replace(scored, validation=scored.validation[::2])


@breaks("classes_are_known_by_number", "takes rows for the classes [2], but there are [-1, 0, 1]")
@learner
class NamesWhatNobodyKnows(NoveltyLearner):
    def score(self, rows, last=False):
        return replace(super().score(rows, last), classes=np.full(len(rows), 2))


@breaks(
    "classes_are_known_by_number",
    "takes rows for the classes [2], but there are [-1, 0, 1, 3], given answers of",
)
@learner
class KeepsWhatWasCorrected(NoveltyLearner):
    def learn(self, accepted, round):
        before = self._models
        super().learn(accepted, round)
        self._models = {**before, **self._models}


@breaks("rows_may_come_in_any_order", "gives rows other scores if they come in another order")
@learner
class SortsRows(NoveltyLearner):
    def score(self, rows, last=False):
        return super().score(np.sort(rows), last)


@breaks("rows_may_come_in_any_order", "gives rows other probabilities if they come in another order")
@learner
class ProbabilitiesOfSortedRows(NoveltyLearner):
    def probabilities(self, rows):
        return super().probabilities(np.sort(rows))


@breaks("takes_no_rows", "given nothing learned yet")
@learner
class WantsRows(NoveltyLearner):
    def features(self, rows):
        return super().features(rows) / super().features(rows).max()


@breaks("probabilities_add_up", "gives probabilities that add up to more than one")
@learner
class GivesLogits(NoveltyLearner):
    def probabilities(self, rows):
        return 2 * super().probabilities(rows)


@breaks(
    "probabilities_add_up",
    "gives probabilities of the shape (70, 3) for 70 rows, 2 old classes and 0 novel ones",
)
@learner
class AddsAColumn(NoveltyLearner):
    def probabilities(self, rows):
        return np.pad(super().probabilities(rows), ((0, 0), (0, 1)))


@breaks("features_are_finite_and_one_per_row", "gives features that are not finite")
@learner
class Divides(NoveltyLearner):
    def features(self, rows):
        return super().features(rows) * np.nan


@breaks("nearest_old_classes_are_old", "names [5] in nearest_old, but old classes are [0, 1]")
@learner
class NearToNothing(NoveltyLearner):
    def nearest_old(self, rows):
        return np.full(len(rows), 5)


@breaks("nearest_old_classes_are_old", "names [2] in learning, but old classes are [0, 1]")
@learner
class LearnsNovelOnes(NoveltyLearner):
    def learning(self):
        return np.array([2])


@breaks("leaves_agent_and_pool_alone", "changes the agent or the pool (validation.X)")
@learner
class MovesTheValidation(NoveltyLearner):
    def learn(self, accepted, round):
        self._agent.validation.X.add_(1e-3)
        super().learn(accepted, round)


@breaks("leaves_agent_and_pool_alone", "changes the agent or the pool (pool)")
@learner
class ScalesThePool(NoveltyLearner):
    def learn(self, accepted, round):
        self._pool.data[:] *= 1.01
        super().learn(accepted, round)


@breaks("leaves_agent_and_pool_alone", "changes the classes of what is accepted")
@learner
class CountsFromZero(NoveltyLearner):
    def learn(self, accepted, round):
        super().learn(accepted, round)
        accepted.classes[:] -= 2


@breaks("says_the_same_twice", "does not say the same when it is asked again: other scores")
@learner
class GrowsTired(NoveltyLearner):
    tired = 0

    def score(self, rows, last=False):
        self.tired += 1
        scored = super().score(rows, last)
        return replace(scored, scores=scored.scores + self.tired)


@breaks("same_seed_same_course", "does not say the same with the same seed: other scores")
@learner
class EachIsDifferent(NoveltyLearner):
    turns = itertools.count()

    def __init__(self, part, agent, pool):
        super().__init__(part, agent, pool)
        self._turn = next(self.turns)

    def score(self, rows, last=False):
        scored = super().score(rows, last)
        return replace(scored, scores=scored.scores + self._turn)


@breaks("same_seed_same_course", "draws from a global random generator")
@learner
class DrawsFromTorch(NoveltyLearner):
    def learn(self, accepted, round):
        torch.rand(1)
        super().learn(accepted, round)


@breaks("restores_with_the_same_bits", "forgets when it is restored: other scores and classes")
@learner
class ForgetsWhatItLearned(NoveltyLearner):
    def restore(self, state):
        super().restore({name: tensor for name, tensor in state.items() if not name.startswith("model.")})


@breaks("restores_with_the_same_bits", "learns on differently when it is restored")
@learner
class ForgetsItsHead(NoveltyLearner):
    """Which shows only where it learns on: a single novel class needs no head."""

    def restore(self, state):
        kept = dict(state)
        if not any(name.startswith("model.3") for name in state):
            kept = {name: 0 * tensor if name == "head.weight_0" else tensor for name, tensor in state.items()}
        super().restore(kept)


@breaks("begins_beside_every_head_that_it_accepts", "given the head Ridge(")
class WantsEpochs(Novelty):
    def begin(self, agent, pool):
        assert agent.head.epochs
        return super().begin(agent, pool)


@breaks("scores_are_finite_and_one_per_row", "accepts none of the heads mlp, ccic, linear, ridge")
class AcceptsNothing(Novelty):
    def check(self, head):
        raise BadOption("no")


@breaks("scores_are_finite_and_one_per_row", "raises TypeError")
class RefusesByAccident(Novelty):
    def check(self, head):
        raise TypeError("no")


class OtherDetector(Novelty):
    def detector(self, agent, stds):
        plain = super().detector(agent, stds)
        return Told(lambda X: self.changed(plain.novelty(X)), self.moved(plain.threshold))

    def changed(self, novelty):
        return novelty

    def moved(self, threshold):
        return threshold


@breaks("detector_tells_samples_one_by_one", "says something else in other company, given 1 samples at a time")
class ComparesTheBatch(OtherDetector):
    def changed(self, novelty):
        return novelty - novelty.mean()


@breaks("detector_tells_samples_one_by_one", "novelty of the shape (1, 70)")
class AddsADimension(OtherDetector):
    def changed(self, novelty):
        return novelty[None]


@breaks("detector_is_always_the_same", "says something else the second time")
class Noisy(OtherDetector):
    def changed(self, novelty):
        return novelty + float(np.random.default_rng().random())


@breaks("detector_has_a_finite_threshold", "has a threshold that is not finite")
class NothingIsNovel(OtherDetector):
    def moved(self, threshold):
        return replace(threshold, value=float("inf"))


@breaks("sees_samples_together", "with novelty of the shape (69,) or not finite")
class OverlooksOne(Prototypes):
    def novelty_together(self, agent, pool):
        scores, threshold = super().novelty_together(agent, pool)
        return scores[1:], threshold


@pytest.mark.parametrize(("part", "check", "said"), breaks.parts)
def test_a_broken_learner_is_caught(part: type, check: str, said: str) -> None:
    expect_caught(part(), check, said)


def test_every_check_can_fail() -> None:
    assert Prototypes().check(Ridge()) is None
    assert breaks.missing([Novelty(), Prototypes()]) == set()
