"""Every check of heads can fail: each one catches a head that is broken in its way."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from contracts import Breaks, expect_caught
from cual.heads import CCIC, Linear, Ridge

breaks = Breaks()


@breaks("knows_nothing_at_first", "gives logits of the shape (5, 2) before its first lesson")
class Presumes(Linear):
    def logits(self, X):
        return super().logits(X) if self.n_classes else torch.zeros(len(X), 2)


@breaks("learns_easy_classes", "of three well separated classes after ten lessons")
class TurnsAround(Linear):
    def logits(self, X):
        return -super().logits(X)


@breaks("learning_gives_a_new_head", "gives itself back instead of a new head, given a first lesson")
class ChangesItself(Linear):
    def learn(self, lesson, rng, progress=None):
        vars(self).update(vars(super().learn(lesson, rng, progress)))
        return self


@breaks("learning_gives_a_new_head", "changes itself by learning, given a second lesson")
class SharesItsMemory(Ridge):
    def learn(self, lesson, rng, progress=None):
        head = super().learn(lesson, rng, progress)
        if self.n_classes:
            self._moment.copy_(head._moment)
        return head


@breaks("learning_leaves_the_lesson_alone", "changes the queried samples of the lesson")
class CentresInPlace(Linear):
    def learn(self, lesson, rng, progress=None):
        lesson.queried.X.sub_(lesson.queried.X.mean())
        return super().learn(lesson, rng, progress)


@breaks("grows_to_the_classes_of_a_lesson", "knows 3 classes after a lesson of 5")
class GrowsToWhatItSees(Linear):
    def learn(self, lesson, rng, progress=None):
        return super().learn(replace(lesson, n_classes=int(lesson.queried.y.max()) + 1), rng, progress)


@breaks("classes_never_shrink", "shrinks from 4 classes to 2 in a lesson of 2")
class StartsAnew(Linear):
    def learn(self, lesson, rng, progress=None):
        return Linear.learn(type(self)(), lesson, rng, progress)


@breaks("same_seed_same_head", "learns something else from the same lesson and seed")
class DrawsASeed(Linear):
    def learn(self, lesson, rng, progress=None):
        return super().learn(lesson, np.random.default_rng(), progress)


@breaks("same_seed_same_head", "draws from a global random generator")
class DropsOut(Linear):
    def learn(self, lesson, rng, progress=None):
        kept = torch.rand(len(lesson.queried)) > 0.1
        queried = replace(lesson.queried, X=lesson.queried.X[kept], y=lesson.queried.y[kept])
        return super().learn(replace(lesson, queried=queried), rng, progress)


@breaks("logits_are_float32_and_finite", "gives logits in torch.float64 instead of float32")
class GivesDoubles(Linear):
    def logits(self, X):
        return super().logits(X).double()


@breaks("logits_are_float32_and_finite", "gives logits that are not finite")
class TakesLogarithms(Linear):
    def logits(self, X):
        return super().logits(X).log()


@breaks("logits_are_float32_and_finite", "changes the features that it is asked about")
class ScalesInPlace(Linear):
    def logits(self, X):
        return super().logits(X.mul_(2))


@breaks("logits_are_float32_and_finite", "gives logits that hold on to their gradients")
class KeepsGradients(Linear):
    def logits(self, X):
        return super().logits(X).requires_grad_()


@breaks("samples_do_not_depend_on_each_other", "than for all samples at once, given chunks of 1 samples")
class NormalisesTheBatch(Linear):
    def logits(self, X):
        return super().logits(X) - super().logits(X).mean(dim=0)


@breaks("takes_any_floating_type", "given features in torch.float16")
class MixesTypes(Linear):
    def logits(self, X):
        return X.new_zeros(len(X), self.n_classes) if self.n_classes else super().logits(X)


@breaks("takes_soft_targets", "given pseudo-labels that are shares of classes")
class CountsLabels(Linear):
    def learn(self, lesson, rng, progress=None):
        torch.bincount(lesson.pseudo.y)
        return super().learn(lesson, rng, progress)


@breaks("takes_lessons_with_empty_sources", "given a second lesson of pseudo samples only")
class WantsAnswers(Linear):
    def learn(self, lesson, rng, progress=None):
        lesson.queried.X.amax(dim=0)
        return super().learn(lesson, rng, progress)


@breaks("first_lesson_says_the_width", "takes features of width 11 after a first lesson of width 10")
class CutsOff(Linear):
    def learn(self, lesson, rng, progress=None):
        width = self.width or lesson.width
        cut = {name: replace(getattr(lesson, name), X=getattr(lesson, name).X[:, :width]) for name in SOURCES}
        return super().learn(replace(lesson, **cut), rng, progress)


SOURCES = ("queried", "pseudo", "replay")


@breaks("first_lesson_says_the_width", "given a first lesson with features of width 7")
class KnowsTheWidth(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.width = 10


@breaks("reports_progress", "reports its progress as [(1, 2)]")
class StopsReporting(Linear):
    def learn(self, lesson, rng, progress=None):
        if progress is not None:
            progress(1, 2)
        return super().learn(lesson, rng)


@breaks("state_survives_a_file", "comes back from its state with another one, given a head of three classes")
class ForgetsBiases(Linear):
    @classmethod
    def from_state(cls, state, **options):
        zero = {name: 0 * tensor for name, tensor in state.items() if name.startswith("bias")}
        return super().from_state({**state, **zero}, **options)


@breaks("state_survives_a_file", "gives other logits when it comes back from its state")
class KeepsSomethingBack(Linear):
    factor = 1.0

    def learn(self, lesson, rng, progress=None):
        head = super().learn(lesson, rng, progress)
        head.factor = 2.0
        return head

    def logits(self, X):
        return self.factor * super().logits(X)


@breaks("state_survives_a_file", "has a state that holds something else than tensors")
class SavesNumbers(Linear):
    def state(self):
        return {**super().state(), "n": self.n_classes}


@breaks("options_survive_learning_and_files", "after learning")
class TiresOut(Linear):
    def learn(self, lesson, rng, progress=None):
        head = super().learn(lesson, rng, progress)
        head.epochs = 1
        return head


@breaks("options_replace_saved_ones", "keeps the saved option epochs=5, given epochs=2")
class Insists(Linear):
    @classmethod
    def from_state(cls, state, **options):
        del options
        return super().from_state(state)


@breaks("learns_from_unlabelled_samples", "learns nothing from unlabelled samples")
class IgnoresTheRest(Linear):
    takes_unlabelled = True


@breaks("learns_from_unlabelled_samples", "has takes_unlabelled, but not as True: leave it out")
class DoesNotTakeThem(Linear):
    takes_unlabelled = False


@breaks("learns_each_sample_once", "learns replayed samples a second time")
class LearnsAgain(Linear):
    learns_once = True


@breaks("takes_samples_back", "does not give the logits of before when it takes samples back")
class TakesNothingBack(Ridge):
    def without(self, samples):
        return self


@breaks("joins_classes_as_if_learned_so", "logits of a head that learned the joined classes as one")
class DropsWhatItJoins(Ridge):
    def joined(self, numbers):
        head = super().joined(numbers)
        head._sums = 0 * head._sums
        return head


@breaks("joins_classes_as_if_learned_so", "changes itself when classes are joined")
class JoinsItself(Ridge):
    def joined(self, numbers):
        head = super().joined(numbers)
        self._counts.zero_()
        return head


@breaks("sureness_makes_labels_likelier", "has a sureness of 0.0, which is no factor above 0")
class IsNeverSure(Ridge):
    def sureness(self, held_out):
        return 0.0


@breaks("sureness_makes_labels_likelier", "makes held-out labels less likely by its sureness of")
class IsFarTooModest(Ridge):
    def sureness(self, held_out):
        return 1e-6


@breaks("sureness_makes_labels_likelier", "given none")
class WantsHeldOut(Ridge):
    def sureness(self, held_out):
        return super().sureness(held_out) if len(held_out) else float("nan")


@breaks("counts_what_it_learned", "samples of its classes after a lesson of")
class CountsTwice(Ridge):
    @property
    def counts(self):
        return 2 * super().counts


@breaks("whitens_samples_and_means_alike", "has another whitened mean of class 0")
class MovesMeans(Ridge):
    def whitened_means(self):
        return super().whitened_means() + 1


@breaks("whitens_samples_and_means_alike", "whitens to the shape (0, 9), but its means are 10 wide")
class DropsAColumn(Ridge):
    def whiten(self, X):
        return super().whiten(X)[:, 1:]


@breaks("shrinks_to_a_new_head", "whitens alike under a weak and a strong ridge")
class DoesNotShrink(Ridge):
    def shrunk(self, by):
        return self


@breaks("shrinks_to_a_new_head", "changes itself when it is shrunk")
class ShrinksItself(Ridge):
    def shrunk(self, by):
        self._forget()
        self.shrink = by
        return self


@pytest.mark.parametrize(("part", "check", "said"), breaks.parts)
def test_a_broken_head_is_caught(part: type, check: str, said: str) -> None:
    expect_caught(part(), check, said)


def test_every_check_can_fail() -> None:
    assert breaks.missing([Ridge(), CCIC(hidden=8)]) == set()
