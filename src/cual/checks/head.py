"""The contract of a head: logits, lessons and state. What only some heads can do is in `head_abilities`."""

from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from cual.checks import options
from cual.checks.base import (
    Suite,
    close,
    copied,
    expect,
    given,
    objects,
    same_state,
    same_tensor,
    saved,
    untouched_random_state,
)
from cual.checks.lessons import WIDTH, changed, expect_unchanged, labelled, lesson_of, only
from cual.heads import Head, Lesson, Samples
from cual.registry import options_of

H = TypeVar("H", bound=Head)
suite = options.add_to(Suite[Head]("head", needs=("n_classes", "logits", "learn", "state", "from_state")))


def learned(head: H, lesson: Lesson | None = None, seed: int = 0) -> H:
    """A head after a lesson of three classes, or another."""
    return head.learn(lesson or lesson_of(3), np.random.default_rng(seed))


def features(n: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(n).standard_normal((n, WIDTH))).float()


@suite.check
def knows_nothing_at_first(head: Head) -> None:
    expect(head.n_classes == 0, f"knows {head.n_classes} classes before its first lesson")
    logits = head.logits(torch.zeros(5, WIDTH))
    expect(logits.shape == (5, 0), f"gives logits of the shape {tuple(logits.shape)} before its first lesson")


@suite.check
def learns_easy_classes(head: Head) -> None:
    lesson = lesson_of(3)
    known = labelled(lesson)
    for seed in range(10):
        head = learned(head, lesson, seed)
    right = float((head.logits(known.X).argmax(1) == known.y).float().mean())
    expect(right > 0.9, f"tells only {right:.0%} of three well separated classes after ten lessons")


@suite.check
def learning_gives_a_new_head(head: Head) -> None:
    for case, before in (("a first lesson", head), ("a second lesson", learned(head))):
        with given(case):
            state, known = copied(before.state()), before.n_classes
            after = learned(before, lesson_of(5), seed=1)
            expect(after is not before, "gives itself back instead of a new head")
            expect(before.n_classes == known, f"knows {before.n_classes} classes instead of {known} afterwards")
            expect(same_state(before.state(), state), "changes itself by learning")


@suite.check
def learning_leaves_the_lesson_alone(head: Head) -> None:
    lesson = lesson_of(4)
    before = changed(lesson)
    _ = learned(learned(head), lesson)
    expect_unchanged(lesson, before)


@suite.check
def grows_to_the_classes_of_a_lesson(head: Head) -> None:
    """Also to those of which it is shown nothing."""
    seen = lesson_of(3)
    grown = learned(learned(head), Lesson(5, seen.queried, seen.pseudo, seen.replay))
    expect(grown.n_classes == 5, f"knows {grown.n_classes} classes after a lesson of 5")
    expect_logits(grown, 5)


@suite.check
def classes_never_shrink(head: Head) -> None:
    before = learned(head, lesson_of(4))
    try:
        after = learned(before, lesson_of(2))
    except Exception:
        return
    expect(after.n_classes >= 4, f"shrinks from 4 classes to {after.n_classes} in a lesson of 2")


@suite.check
def same_seed_same_head(head: Head) -> None:
    with untouched_random_state():
        first, again = (learned(learned(head), lesson_of(4), seed=3).state() for _ in range(2))
    expect(same_state(first, again), "learns something else from the same lesson and seed")


@suite.check
def logits_are_float32_and_finite(head: Head) -> None:
    expect_logits(learned(head), 3)


def expect_logits(head: Head, classes: int) -> None:
    for n in (0, 1, 50):
        with given(f"{n} samples"):
            X = features(n)
            before = X.clone()
            logits = head.logits(X)
            expect(
                tuple(logits.shape) == (n, classes),
                f"gives logits of the shape {tuple(logits.shape)} for {n} samples and {classes} classes",
            )
            expect(logits.dtype == torch.float32, f"gives logits in {logits.dtype} instead of float32")
            expect(bool(logits.isfinite().all()), "gives logits that are not finite")
            expect(not logits.requires_grad, "gives logits that hold on to their gradients")
            expect(same_tensor(X, before), "changes the features that it is asked about")


@suite.check
def samples_do_not_depend_on_each_other(head: Head) -> None:
    """In chunks of any size, in any order."""
    head, X = learned(head), features(2500)
    whole = head.logits(X)
    for rows in (1, 100, 1024):
        some = X[-200:] if rows == 1 else X
        with given(f"chunks of {rows} samples"):
            parts = torch.cat([head.logits(part) for part in some.split(rows)])
            expect(close(parts, whole[-len(some) :]), "gives other logits than for all samples at once")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(X)))
    expect(close(head.logits(X[order]), whole[order]), "gives other logits if samples come in another order")


@suite.check
def takes_any_floating_type(head: Head) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        with given(f"features in {dtype}"):
            lesson = changed(lesson_of(3), dtype)
            expected = learned(head, changed(lesson, torch.float32))
            X = features(30).to(dtype)
            logits = learned(head, lesson).logits(X)
            expect(logits.dtype == torch.float32, f"gives logits in {logits.dtype} instead of float32")
            same = close(logits, expected.logits(X.float()), 1e-2)
            expect(same, "gives other logits than for the same numbers in float32")


@suite.check
def takes_soft_targets(head: Head) -> None:
    lesson = lesson_of(3)
    soft = 0.7 * torch.nn.functional.one_hot(lesson.pseudo.y, 3).float() + 0.1
    believed = Samples(lesson.pseudo.X, soft)
    with given("pseudo-labels that are shares of classes"):
        after = learned(learned(head), Lesson(3, lesson.queried, believed, lesson.replay))
        expect_logits(after, 3)


@suite.check
def takes_lessons_with_empty_sources(head: Head) -> None:
    """First answers alone, then any one source alone, and answers of old classes."""
    first = learned(head, only(lesson_of(3), "queried"))
    for source in ("queried", "pseudo", "replay"):
        with given(f"a second lesson of {source} samples only"):
            expect_logits(learned(first, only(lesson_of(4), source)), 4)
    with given("a second lesson of old answers"):
        lesson = only(lesson_of(4), "replay")
        old = Lesson(4, lesson.queried, lesson.pseudo, lesson.replay, old=lesson_of(3).queried)
        expect_logits(learned(first, old), 4)


@suite.check
def first_lesson_says_the_width(head: Head) -> None:
    for width in (WIDTH, WIDTH - 3):
        with given(f"a first lesson with features of width {width}"):
            after = learned(head, lesson_of(3, width=width))
            expect(after.logits(torch.zeros(2, width)).shape == (2, 3), "gives no logits for that width")
    try:
        _ = learned(learned(head), lesson_of(3, width=WIDTH + 1))
    except Exception:
        return
    raise AssertionError(f"takes features of width {WIDTH + 1} after a first lesson of width {WIDTH}")


@suite.check
def reports_progress(head: Head) -> None:
    """If at all, up to the end."""
    reports: list[tuple[int, int]] = []
    _ = head.learn(lesson_of(3), np.random.default_rng(0), lambda done, total: reports.append((done, total)))
    done, totals = [d for d, _ in reports], {t for _, t in reports}
    in_order = done == sorted(done) and len(totals) <= 1 and (not reports or reports[-1][0] == reports[-1][1])
    expect(in_order, f"reports its progress as {reports[-3:]}")


@suite.check
def state_survives_a_file(head: Head) -> None:
    """Empty or learned: it says the same afterwards, and learns on with the same bits."""
    for case, before in (("an empty head", head), ("a head of three classes", learned(head))):
        with given(case):
            state = before.state()
            for again in (
                type(before).from_state(saved(state)),
                type(before).from_state(saved(state), **options_of(before)),
            ):
                expect(same_state(again.state(), state), "comes back from its state with another one")
                logits = (h.logits(features(40)) for h in (before, again))
                expect(same_tensor(*logits), "gives other logits when it comes back from its state")
                learning = (learned(h, lesson_of(4), seed=2).state() for h in (before, again))
                expect(same_state(*learning), "learns something else when it comes back from its state")


@suite.check
def options_survive_learning_and_files(head: Head) -> None:
    after = learned(head)
    states = head.state(), after.state()
    kept = {
        "learning": after,
        "a file of the empty head": type(head).from_state(saved(states[0])),
        "a file with options given": type(head).from_state(saved(states[1]), **options_of(head)),
    }
    for case, again in kept.items():
        expect(
            options_of(again) == options_of(head),
            f"has the options {options_of(again)} instead of {options_of(head)} after {case}",
        )


@suite.check
def options_replace_saved_ones(head: Head) -> None:
    """Each of them, as far as the defaults or `unit_test_params` give another value."""
    for name, value in options_of(head).items():
        for other in _others(head, name, value):
            with given(f"{name}={other!r}"):
                again: Any = type(head).from_state(saved(head.state()), **{name: other})
                expect(getattr(again, name) == other, f"keeps the saved option {name}={value!r}")


def _others(head: Head, option: str, value: Any) -> list[Any]:
    examples = [part for part, _ in objects(type(head))]
    with suppress(TypeError):  # an option without a default
        examples.append(type(head)())
    values = [getattr(part, option) for part in examples]
    return [other for other in values if other != value]
