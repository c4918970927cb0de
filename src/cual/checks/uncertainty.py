"""The contract of an elemental uncertainty: distances to models of classes. No formula is checked."""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cual.checks import options
from cual.checks.base import (
    Suite,
    close,
    copied,
    expect,
    first,
    given,
    same_state,
    same_tensor,
    saved,
    untouched_random_state,
)
from cual.uncertainty import Uncertainty, Warns

suite = options.add_to(Suite[Uncertainty[Any]]("uncertainty", needs=("fit", "distances", "load")))
SIZES = (60, 150, 3, 1)
WIDTH = 96


def features(n: int, of_class: int = 0, draw: int = 0) -> Tensor:
    """Samples as an encoder gives them: decaying spectrum, large common mean, no negative entries."""
    rng = np.random.default_rng([of_class, 0])
    directions = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    mean = 3 + rng.exponential(0.4, WIDTH)
    spread = (np.arange(WIDTH) + 3.0) ** -0.9
    latent = np.random.default_rng([of_class, 1, draw]).standard_normal((n, WIDTH))
    return torch.tensor(np.maximum(mean + (latent * spread) @ directions, 0), dtype=torch.float32)


def models_of(uncertainty: Uncertainty[Any]) -> list[Any]:
    """Models of classes of many samples, of few, and of one."""
    return [uncertainty.fit(features(n, of_class=c)) for c, n in enumerate(SIZES)]


def samples() -> Tensor:
    """Of known classes and of none: some that models were fitted to, and some that they were not."""
    return torch.cat([features(60), features(20, draw=1), features(20, of_class=9)])


def expect_distances(distances: Tensor, n: int, classes: int) -> None:
    expect(
        tuple(distances.shape) == (n, classes),
        f"gives distances of the shape {tuple(distances.shape)} for {n} samples and {classes} classes",
    )
    expect(distances.dtype == torch.float32, f"gives distances in {distances.dtype} instead of float32")
    expect(bool(distances.isfinite().all()), "gives distances that are not finite")
    negative = distances[distances < 0].tolist()
    expect(not negative, f"gives a negative distance, {first(negative)}")


@suite.check
def models_say_how_much_they_have_seen(uncertainty: Uncertainty[Any]) -> None:
    for n, model in zip(SIZES, models_of(uncertainty), strict=True):
        with given(f"a class of {n} samples"):
            expect(model.n == n, f"makes a model that has seen {model.n} samples")


@suite.check
def distances_are_float32_finite_and_not_negative(uncertainty: Uncertainty[Any]) -> None:
    models = models_of(uncertainty)
    with given(f"classes of {SIZES} samples"):
        expect_distances(uncertainty.distances(samples(), models), 100, len(SIZES))
    for n in (1, 2, 5, 200):
        for value in (0.0, 0.3):
            X = torch.full((n, WIDTH), value)
            with given(f"a class of {n} times the same features"):
                distances = uncertainty.distances(torch.cat([X, X + 1, 0 * X]), [uncertainty.fit(X)])
                expect_distances(distances, 3 * n, 1)


@suite.check
def takes_no_samples_and_no_classes(uncertainty: Uncertainty[Any]) -> None:
    models, X = models_of(uncertainty), samples()
    for n, some in ((0, models), (5, []), (0, [])):
        with given(f"{n} samples and {len(some)} classes"):
            expect_distances(uncertainty.distances(X[:n], some), n, len(some))


@suite.check
def own_class_is_nearest(uncertainty: Uncertainty[Any]) -> None:
    models = models_of(uncertainty)[:3]  # one sample alone has no spread, so no scale to compare by
    own = torch.arange(3).repeat_interleave(30)
    X = torch.cat([features(30, of_class=c, draw=1) for c in range(3)])
    right = float((uncertainty.distances(X, models).argmin(1) == own).float().mean())
    expect(right > 0.9, f"puts only {right:.0%} of the samples of well separated classes nearest to their own")


@suite.check
def one_sample_is_at_no_distance_from_itself(uncertainty: Uncertainty[Any]) -> None:
    X = features(1)
    model = uncertainty.fit(X)
    here, there = (float(uncertainty.distances(at, [model])) for at in (X, X + 1))
    expect(here < 1e-4 * there, f"puts a class of one sample at a distance of {here} from that sample")


@suite.check
def takes_any_floating_type(uncertainty: Uncertainty[Any]) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        known, X = features(50).to(dtype), features(30, draw=1).to(dtype)
        with given(f"features in {dtype}"):
            distances = uncertainty.distances(X, [uncertainty.fit(known)])
            expect_distances(distances, 30, 1)
            plain = uncertainty.distances(X.float(), [uncertainty.fit(known.float())])
            expect(close(distances, plain, 1e-3), "gives other distances than for the same numbers in float32")


@suite.check
def leaves_features_and_models_alone(uncertainty: Uncertainty[Any]) -> None:
    known, X = features(50), features(50, draw=1)
    model = uncertainty.fit(known)
    before = copied(model.state())
    _ = uncertainty.distances(X, [model])
    expect(same_tensor(known, features(50)), "changes the samples that it fits a class to")
    expect(same_tensor(X, features(50, draw=1)), "changes the samples whose distances it is asked for")
    expect(same_state(model.state(), before), "changes a model by measuring distances to it")


@suite.check
def models_do_not_follow_their_samples(uncertainty: Uncertainty[Any]) -> None:
    known, X = features(50), features(20, draw=1)
    model = uncertainty.fit(known)
    before = uncertainty.distances(X, [model])
    known.zero_()
    after = uncertainty.distances(X, [model])
    expect(same_tensor(before, after), "keeps hold of the samples: overwriting them changes the distances")


@suite.check
def same_samples_same_distances(uncertainty: Uncertainty[Any]) -> None:
    X = features(30, draw=2)
    with untouched_random_state():
        before, after = (uncertainty.distances(X, models_of(uncertainty)) for _ in range(2))
    expect(same_tensor(before, after), "gives other distances the second time")


@suite.check
def classes_do_not_depend_on_each_other(uncertainty: Uncertainty[Any]) -> None:
    models, X, order = models_of(uncertainty), features(30, draw=1), [2, 0, 3, 1]
    permuted = uncertainty.distances(X, [models[c] for c in order])
    expect(
        close(permuted, uncertainty.distances(X, models)[:, order]),
        "gives other distances to a class if the classes come in another order",
    )
    for c in range(len(models)):
        alone = uncertainty.distances(X, models[c : c + 1])
        expect(close(alone[:, 0], permuted[:, order.index(c)]), "gives other distances to a class alone")


@suite.check
def samples_do_not_depend_on_each_other(uncertainty: Uncertainty[Any]) -> None:
    """In chunks of any size, in any order."""
    models, X = models_of(uncertainty), samples()
    whole = uncertainty.distances(X, models)
    for rows in (1, 7, 64):
        with given(f"chunks of {rows} samples"):
            parts = torch.cat([uncertainty.distances(part, models) for part in X.split(rows)])
            expect(close(parts, whole, 2e-3), "gives other distances than for all samples at once")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(X)))
    permuted = uncertainty.distances(X[order], models)
    expect(close(permuted, whole[order], 2e-3), "gives other distances if samples come in another order")


@suite.check
def models_survive_a_file(uncertainty: Uncertainty[Any]) -> None:
    X = features(30, draw=1)
    for n, model in zip(SIZES, models_of(uncertainty), strict=True):
        with given(f"the model of {n} samples"):
            again = uncertainty.load(saved(model.state()))
            expect(again.n == model.n, f"forgets how many samples it has seen: {again.n}")
            expect(same_state(again.state(), model.state()), "comes back from its state with other tensors")
            distances = (uncertainty.distances(X, [m]) for m in (model, again))
            expect(same_tensor(*distances), "gives other distances to a model that was saved")


class Warning_(Uncertainty[Any], Warns, Protocol):
    """An uncertainty that knows when its models cannot work."""


@suite.check_when(lambda uncertainty: isinstance(uncertainty, Warns))
def warnings_take_any_models(uncertainty: Warning_) -> None:
    models = models_of(uncertainty)
    for some in ([], models[3:], models):
        with given(f"{len(some)} models"):
            uncertainty.warn_about(some)
