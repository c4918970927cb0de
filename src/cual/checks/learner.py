"""The contract of a learner and of the A_s that it makes: scores, probabilities, lessons, state, detector."""

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cual.checks import options
from cual.checks.base import (
    Suite,
    close,
    expect,
    given,
    same_array,
    saved,
    shown,
    untouched_random_state,
)
from cual.checks.course import N_OLD, STEPS, Course, steps
from cual.checks.world import NOVEL, Stage, accepted_heads, accepted_of
from cual.learners import Detector, Learner, Scored, SeesTogether
from cual.types import AnyArray
from cual.uncertainty import Threshold

suite = options.add_to(Suite[Learner]("learner", needs=("unnamed", "check", "begin", "detector")))


def expect_threshold(threshold: Threshold) -> None:
    numbers = threshold.value, threshold.mean, threshold.std
    expect(all(map(math.isfinite, numbers)), f"has a threshold that is not finite: {threshold}")
    expect(threshold.std >= 0, f"has a threshold with a negative deviation: {threshold}")


def expect_scores(scored: Scored, n: int) -> None:
    expect(
        scored.scores.shape == (n,) and scored.scores.dtype.kind == "f",
        f"gives scores of the shape {scored.scores.shape} in {scored.scores.dtype} for {n} rows",
    )
    expect(bool(np.isfinite(scored.scores).all()), "gives scores that are not finite")
    expect(
        scored.classes.shape == (n,) and scored.classes.dtype == np.int64,
        f"gives classes of the shape {scored.classes.shape} in {scored.classes.dtype} for {n} rows",
    )
    expect(
        scored.validation.ndim == 1 and bool(scored.validation.isfinite().all()),
        "gives scores of the validation set that are no row of finite numbers",
    )
    if scored.threshold is not None:
        expect_threshold(scored.threshold)


def expect_same(first: dict[str, AnyArray], second: dict[str, AnyArray], otherwise: str) -> None:
    other = [name for name in first if not same_array(first[name], second[name])]
    expect(not other, f"{otherwise}: other {' and '.join(other)}")


@suite.check
def scores_are_finite_and_one_per_row(learner: Learner) -> None:
    for case, course, scored in steps(learner):
        with given(case):
            expect_scores(scored, len(course.rows))
            expect_scores(course.short.score(course.rows, last=True), len(course.rows))


@suite.check
def validation_is_scored_whole(learner: Learner) -> None:
    for case, course, scored in steps(learner):
        with given(case):
            n, expected = len(scored.validation), len(course.stage.agent.validation)
            expect(n == expected, f"scores {n} of {expected} validation samples")


@suite.check
def classes_are_known_by_number(learner: Learner) -> None:
    """−1 for none; old ones; novel ones that something accepted names, or the unnamed one."""
    for case, course, scored in steps(learner):
        with given(case):
            novel = {c for c in course.accepted.classes.tolist() if c >= N_OLD}
            allowed = {-1, *range(N_OLD), *(novel or ({N_OLD} if learner.unnamed else ()))}
            wrong = sorted(set(scored.classes.tolist()) - allowed)
            expect(not wrong, f"takes rows for the classes {wrong}, but there are {sorted(allowed)}")


@suite.check
def rows_may_come_in_any_order(learner: Learner) -> None:
    for case, course, scored in steps(learner):
        with given(case):
            order = np.random.default_rng(0).permutation(len(course.rows))
            rows = course.rows[order]
            permuted = course.short.score(rows)
            same = np.allclose(permuted.scores, scored.scores[order], rtol=1e-3, atol=1e-4)
            expect(same, "gives rows other scores if they come in another order")
            plain = course.short.probabilities(course.rows)[order]
            same = np.allclose(course.short.probabilities(rows), plain, rtol=1e-3, atol=1e-4)
            expect(same, "gives rows other probabilities if they come in another order")


@suite.check
def takes_no_rows(learner: Learner) -> None:
    none = np.empty(0, np.int64)
    for case, course, _ in steps(learner):
        with given(case):
            short = course.short
            expect_scores(short.score(none), 0)
            for name, array in (
                ("probabilities", short.probabilities(none)),
                ("features", short.features(none)),
            ):
                table = array.ndim == 2 and len(array) == 0
                expect(table, f"gives {name} of the shape {array.shape} for no rows, not a table without rows")
            nearest = short.nearest_old(none)
            expect(nearest.shape == (0,), f"gives old classes of the shape {nearest.shape} for no rows")


@suite.check
def probabilities_add_up(learner: Learner) -> None:
    for case, course, _ in steps(learner):
        with given(case):
            p = course.short.probabilities(course.rows)
            novel = len({c for c in course.accepted.classes.tolist() if c >= N_OLD})
            expect(
                p.ndim == 2 and len(p) == len(course.rows) and N_OLD <= p.shape[1] <= N_OLD + novel,
                f"gives probabilities of the shape {p.shape} for {len(course.rows)} rows, {N_OLD} old classes "
                f"and {novel} novel ones",
            )
            expect(bool(np.isfinite(p).all() and (p >= 0).all()), "gives probabilities below 0 or not finite")
            # Less than one is sound: the rest is held by classes that have no name yet.
            expect(bool((p.sum(1) < 1 + 1e-3).all()), "gives probabilities that add up to more than one")


@suite.check
def features_are_finite_and_one_per_row(learner: Learner) -> None:
    for case, course, _ in steps(learner):
        with given(case):
            X = course.short.features(course.rows)
            expect(X.ndim == 2 and len(X) == len(course.rows), f"gives features of the shape {X.shape}")
            expect(bool(np.isfinite(X).all()), "gives features that are not finite")


@suite.check
def nearest_old_classes_are_old(learner: Learner) -> None:
    for case, course, _ in steps(learner):
        with given(case):
            for name, numbers in (
                ("nearest_old", course.short.nearest_old(course.rows)),
                ("learning", course.short.learning()),
            ):
                expect(numbers.dtype == np.int64, f"gives {name} in {numbers.dtype} instead of int64")
                wrong = sorted(set(numbers.tolist()) - set(range(N_OLD)))
                expect(not wrong, f"names {wrong} in {name}, but old classes are {list(range(N_OLD))}")
            expect(
                len(course.short.nearest_old(course.rows)) == len(course.rows),
                "leaves rows without an old class",
            )


@suite.check
def leaves_agent_and_pool_alone(learner: Learner) -> None:
    stage = Stage.of(learner)
    before = stage.snapshot()
    for case, course, _ in steps(learner, stage):
        with given(case):
            learned = accepted_of(NOVEL)
            course.short.learn(learned, 9)
            for name in ("rows", "classes", "human"):
                kept = same_array(getattr(learned, name), getattr(accepted_of(NOVEL), name))
                expect(kept, f"changes the {name} of what is accepted")
            _ = course.sayings(), course.short.state()
            stage.expect_unchanged(before)
    _ = learner.detector(stage.agent, 2.0).novelty(stage.agent.validation.X)
    with given("a detector"):
        stage.expect_unchanged(before)


@suite.check
def says_the_same_twice(learner: Learner) -> None:
    for case, course, _ in steps(learner):
        with given(case):
            expect_same(course.sayings(), course.sayings(), "does not say the same when it is asked again")


@suite.check
def same_seed_same_course(learner: Learner) -> None:
    """Another one of the same learner, with the same agent and pool, comes to the same bits."""
    with untouched_random_state():
        for (case, one, _), (_, other, _) in zip(steps(learner), steps(learner), strict=True):
            with given(case):
                expect_same(one.sayings(), other.sayings(), "does not say the same with the same seed")


@suite.check
def restores_with_the_same_bits(learner: Learner) -> None:
    """At any step: a restored one says what the other does, and so it does after one more lesson."""
    for number, (case, _) in enumerate(STEPS):
        stage = Stage.of(learner)
        course, restored = Course(stage), Course(stage)
        for step in range(number + 1):
            course.go(step)
            _ = course.short.score(course.rows)
        with given(f"{case}, and a state that was saved then"):
            restored.accepted = course.accepted
            restored.short.restore(saved(course.short.state()))
            expect_same(course.sayings(), restored.sayings(), "forgets when it is restored")
            for each in (course, restored):
                each.accepted = accepted_of(NOVEL)
                each.short.learn(each.accepted, number)
            expect_same(course.sayings(), restored.sayings(), "learns on differently when it is restored")


@suite.check
def begins_beside_every_head_that_it_accepts(learner: Learner) -> None:
    for head in accepted_heads(learner):
        with given(f"the head {shown(head)}"):
            for case, course, scored in steps(learner, Stage.of(learner, head)):
                with given(case):
                    expect_scores(scored, len(course.rows))
                    _ = course.sayings()


# -- without a pool --------------------------------------------------------------------------------------------


def detected(learner: Learner) -> tuple[Detector, Tensor]:
    """A detector, and samples of all classes."""
    stage = Stage.of(learner)
    return learner.detector(stage.agent, 2.0), torch.from_numpy(np.asarray(stage.pool.data))


@suite.check
def detector_tells_samples_one_by_one(learner: Learner) -> None:
    """Novelty does not depend on what else is in the batch, nor on the order."""
    detector, X = detected(learner)
    whole = detector.novelty(X)
    expect(whole.shape == (len(X),), f"has a detector with novelty of the shape {tuple(whole.shape)}")
    expect(bool(whole.isfinite().all()), "has a detector whose novelty is not finite")
    for rows in (1, 7):
        parts = torch.cat([detector.novelty(part) for part in X.split(rows)])
        with given(f"{rows} samples at a time"):
            expect(close(parts, whole, 1e-3), "has a detector that says something else in other company")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(X)))
    expect(
        close(detector.novelty(X[order]), whole[order], 1e-3),
        "has a detector that says something else if samples come in another order",
    )


@suite.check
def detector_is_always_the_same(learner: Learner) -> None:
    with untouched_random_state():
        (first, X), (again, _) = (detected(learner) for _ in range(2))
        scores = first.novelty(X), again.novelty(X)
        expect(torch.equal(*scores), "has a detector that says something else the second time")
    expect(first.threshold == again.threshold, "has a detector with another threshold the second time")


@suite.check
def detector_has_a_finite_threshold(learner: Learner) -> None:
    for stds in (0.0, 2.0):
        with given(f"stds = {stds}"):
            expect_threshold(learner.detector(Stage.of(learner).agent, stds).threshold)


class SeesBatches(Learner, SeesTogether, Protocol):
    """A learner that looks at samples together."""


@suite.check_when(lambda learner: isinstance(learner, SeesTogether))
def sees_samples_together(learner: SeesBatches) -> None:
    stage = Stage.of(learner)
    before = stage.snapshot()
    with untouched_random_state():
        (scores, threshold), (again, _) = (learner.novelty_together(stage.agent, stage.pool) for _ in range(2))
    expect_threshold(threshold)
    expect(
        scores.shape == (len(stage.pool),) and bool(scores.isfinite().all()),
        f"sees samples together, but with novelty of the shape {tuple(scores.shape)} or not finite",
    )
    expect(torch.equal(scores, again), "sees something else in the same samples the second time")
    stage.expect_unchanged(before)
