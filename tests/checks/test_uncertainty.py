"""Every check of uncertainties can fail: each one catches an uncertainty that is broken in its way."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from contracts import Breaks, expect_caught
from cual.uncertainty import FRE, KNN, ClassSamples

breaks = Breaks()


@breaks(
    "models_say_how_much_they_have_seen", "makes a model that has seen 59 samples, given a class of 60 samples"
)
class DropsOne(FRE):
    def fit(self, X):
        return super().fit(X[1:] if len(X) > 1 else X)


@breaks("distances_are_float32_finite_and_not_negative", "gives a negative distance")
class Likelihood(FRE):
    def distances(self, X, models):
        return -super().distances(X, models)


@breaks("distances_are_float32_finite_and_not_negative", "gives distances that are not finite")
class DividesByTheSpread(FRE):
    def distances(self, X, models):
        return super().distances(X, models) / torch.tensor([model.total for model in models]).sqrt()


@breaks("distances_are_float32_finite_and_not_negative", "gives distances in torch.float64 instead of float32")
class GivesDoubles(FRE):
    def distances(self, X, models):
        return super().distances(X, models).double()


@breaks("distances_are_float32_finite_and_not_negative", "of the shape (4, 100) for 100 samples and 4 classes")
class Transposes(FRE):
    def distances(self, X, models):
        return super().distances(X, models).T


@breaks("takes_no_samples_and_no_classes", "given 5 samples and 0 classes")
class StacksNothing(FRE):
    def distances(self, X, models):
        return torch.stack([model.fre(X) for model in models], dim=1)


@breaks("own_class_is_nearest", "of the samples of well separated classes nearest to their own")
class TurnsAround(FRE):
    def distances(self, X, models):
        return 1 / (1 + super().distances(X, models))


@breaks("one_sample_is_at_no_distance_from_itself", "puts a class of one sample at a distance of 1.0")
class AddsOne(FRE):
    def distances(self, X, models):
        return super().distances(X, models) + 1


@breaks("takes_any_floating_type", "raises RuntimeError")
class WantsFloats(KNN):
    def distances(self, X, models):
        return torch.stack([torch.cdist(X, model.samples).min(dim=1).values for model in models], dim=1)


@breaks("takes_any_floating_type", "gives distances in torch.float16 instead of float32, given features in")
class KeepsTheType(FRE):
    def distances(self, X, models):
        return super().distances(X, models).to(X.dtype)


@breaks("leaves_features_and_models_alone", "changes the samples whose distances it is asked for")
class CentresInPlace(FRE):
    def distances(self, X, models):
        X -= X.mean()
        return super().distances(X, models)


@breaks("leaves_features_and_models_alone", "changes the samples that it fits a class to")
class ScalesInPlace(FRE):
    def fit(self, X):
        X /= X.norm(dim=1, keepdim=True)
        return super().fit(X)


@breaks("leaves_features_and_models_alone", "changes a model by measuring distances to it")
class MovesTheMean(FRE):
    def distances(self, X, models):
        for model in models:
            model.mean.add_(0.1)
        return super().distances(X, models)


@breaks("models_do_not_follow_their_samples", "overwriting them changes the distances")
class KeepsHold(KNN):
    def fit(self, X):
        return ClassSamples(len(X), X, torch.arange(len(X)), self.cap)


@breaks("same_samples_same_distances", "gives other distances the second time")
class Noisy(FRE):
    def distances(self, X, models):
        noise = np.random.default_rng().random((len(X), len(models)), dtype=np.float32)
        return super().distances(X, models) + torch.from_numpy(noise)


@breaks("same_samples_same_distances", "draws from a global random generator")
class DrawsFromTorch(FRE):
    def distances(self, X, models):
        return super().distances(X, models)[:, torch.randperm(len(models))]


@breaks("classes_do_not_depend_on_each_other", "gives other distances to a class alone")
class SharesOut(FRE):
    def distances(self, X, models):
        distances = super().distances(X, models)
        return distances / distances.sum(dim=1, keepdim=True).clamp(min=1e-9)


@breaks("classes_do_not_depend_on_each_other", "if the classes come in another order")
class PrefersTheFirst(FRE):
    def distances(self, X, models):
        return super().distances(X, models) * (1 + torch.arange(len(models)))


@breaks(
    "samples_do_not_depend_on_each_other", "gives other distances than for all samples at once, given chunks"
)
class ScalesByTheBatch(FRE):
    def distances(self, X, models):
        distances = super().distances(X, models)
        return distances / distances.max().clamp(min=1e-9) if distances.numel() else distances


@breaks("models_survive_a_file", "comes back from its state with other tensors, given the model of 60 samples")
class LoadsHalf(KNN):
    def load(self, state):
        return super().load({**state, "samples": state["samples"].half().float()})


@breaks("models_survive_a_file", "forgets how many samples it has seen: 0")
class ForgetsHowMany(FRE):
    def load(self, state):
        return replace(super().load(state), n=0)


@breaks("warnings_take_any_models", "raises IndexError('list index out of range'), given 0 models")
class WarnsOfTheFirst(FRE):
    def warn_about(self, models):
        super().warn_about([models[0]])


@pytest.mark.parametrize(("part", "check", "said"), breaks.parts)
def test_a_broken_uncertainty_is_caught(part: type, check: str, said: str) -> None:
    expect_caught(part(), check, said)


def test_every_check_can_fail() -> None:
    assert breaks.missing([FRE()]) == set()
