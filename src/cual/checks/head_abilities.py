"""The contract of what only some heads can do, found by protocol: whoever says that it can must be able to."""

import math
from typing import Protocol

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from cual.checks.base import close, copied, expect, given, same_state
from cual.checks.head import features, learned, suite
from cual.checks.lessons import labelled, lesson_of, only
from cual.heads import (
    Calibrates,
    Head,
    JoinsClasses,
    LearnsOnce,
    Lesson,
    Samples,
    TakesBack,
    TakesUnlabelled,
    Whitens,
)


class Unlabelled(Head, TakesUnlabelled, Protocol):
    """Each ability together with what every head can do."""


class Once(Head, LearnsOnce, Protocol): ...


class Back(Head, TakesBack, Protocol): ...


class Joining(Head, JoinsClasses, Protocol): ...


class Calibrated(Head, Calibrates, Protocol): ...


class White(Head, Whitens, Protocol): ...


@suite.check_when(lambda head: isinstance(head, TakesUnlabelled))
def learns_from_unlabelled_samples(head: Unlabelled) -> None:
    expect(bool(head.takes_unlabelled), "has takes_unlabelled, but not as True: leave it out")
    lesson = lesson_of(3)
    rest = features(25)
    with_rest = Lesson(3, lesson.queried, lesson.pseudo, lesson.replay, unlabelled=rest)
    after, without = learned(head, with_rest), learned(head, lesson)
    expect(torch.equal(rest, features(25)), "changes the unlabelled samples of a lesson")
    expect(not same_state(after.state(), without.state()), "learns nothing from unlabelled samples")


@suite.check_when(lambda head: isinstance(head, LearnsOnce))
def learns_each_sample_once(head: Once) -> None:
    """What is replayed to it was learned before, so that it must not count again."""
    expect(bool(head.learns_once), "has learns_once, but not as True: leave it out")
    first = learned(head, only(lesson_of(3), "queried"))
    lesson = lesson_of(3, seed=1)
    none = Samples(lesson.replay.X[:0], lesson.replay.y[:0])
    replayed, plain = (
        learned(first, Lesson(3, lesson.queried, lesson.pseudo, replay)) for replay in (lesson.replay, none)
    )
    expect(same_state(replayed.state(), plain.state()), "learns replayed samples a second time")


@suite.check_when(lambda head: isinstance(head, TakesBack))
def takes_samples_back(head: Back) -> None:
    before, X = learned(head), features(40)
    lesson = only(lesson_of(3, seed=1), "queried")
    taught = learned(before, lesson)
    state = copied(taught.state())
    back = taught.without(lesson.queried)
    expect(same_state(taught.state(), state), "changes itself by taking samples back")
    expect(not close(taught.logits(X), before.logits(X)), "learns nothing that it could take back")
    expect(
        close(back.logits(X), before.logits(X), 1e-3),
        "does not give the logits of before when it takes samples back",
    )


@suite.check_when(lambda head: isinstance(head, JoinsClasses))
def joins_classes_as_if_learned_so(head: Joining) -> None:
    lesson, X = only(lesson_of(3), "queried"), features(40)
    three = learned(head, lesson)
    state = copied(three.state())
    joined = three.joined([0, 1, 0])
    expect(same_state(three.state(), state), "changes itself when classes are joined")
    merged = Samples(lesson.queried.X, lesson.queried.y % 2)
    none = Samples(merged.X[:0], merged.y[:0])
    expect(
        close(joined.logits(X), learned(head, Lesson(2, merged, none, none)).logits(X), 1e-3),
        "does not give the logits of a head that learned the joined classes as one",
    )
    second = lesson.queried.y == 1
    rest = Samples(lesson.queried.X[~second], lesson.queried.y[~second] // 2)
    gone = three.without(Samples(lesson.queried.X[second], lesson.queried.y[second])).joined([0, -1, 1])
    expect(
        close(gone.logits(X), learned(head, Lesson(2, rest, none, none)).logits(X), 1e-3),
        "does not give the logits of a head that never learned a class which is left out",
    )
    about = three.without_class(1).joined([0, -1, 1])
    expect(about.n_classes == 2, f"knows {about.n_classes} of 3 classes when one is taken out")


@suite.check_when(lambda head: isinstance(head, Calibrates))
def sureness_makes_labels_likelier(head: Calibrated) -> None:
    known = learned(head)
    held_out = labelled(lesson_of(3, seed=4))
    for case, samples in (("held-out samples", held_out), ("none", Samples(held_out.X[:0], held_out.y[:0]))):
        with given(case):
            sureness = known.sureness(samples)
            expect(
                isinstance(sureness, float) and math.isfinite(sureness) and sureness > 0,
                f"has a sureness of {sureness!r}, which is no factor above 0",
            )
    logits, factor = known.logits(held_out.X), known.sureness(held_out)
    scaled, plain = (float(cross_entropy(f * logits, held_out.y)) for f in (factor, 1.0))
    expect(scaled <= plain + 1e-4, f"makes held-out labels less likely by its sureness of {factor}")


@suite.check_when(lambda head: isinstance(head, Whitens))
def counts_what_it_learned(head: White) -> None:
    lesson = only(lesson_of(3), "queried")
    after = learned(head, lesson)
    expected = torch.bincount(lesson.queried.y, minlength=3)
    expect(
        close(after.counts.double(), expected.double()),
        f"counts {after.counts.tolist()} samples of its classes after a lesson of {expected.tolist()}",
    )


@suite.check_when(lambda head: isinstance(head, Whitens))
def whitens_samples_and_means_alike(head: White) -> None:
    lesson = only(lesson_of(3), "queried")
    after = learned(head, lesson)
    means, X = after.whitened_means(), features(30)
    width = means.shape[1]
    expect(len(means) == 3, f"has {len(means)} whitened means of 3 classes")
    for n in (0, 1, 30):
        with given(f"{n} samples"):
            white = after.whiten(X[:n])
            expect(white.dtype == torch.float32, f"whitens to {white.dtype} instead of float32")
            expect(
                tuple(white.shape) == (n, width),
                f"whitens to the shape {tuple(white.shape)}, but its means are {width} wide",
            )
            expect(close(white, after.whiten(X)[:n], 1e-3), "whitens samples differently in other company")
    for c in range(3):
        mine = lesson.queried.X[lesson.queried.y == c]
        same = torch.allclose(after.whiten(mine).mean(0), means[c], rtol=1e-2, atol=1e-2)
        expect(same, f"has another whitened mean of class {c} than the mean of its whitened samples")


@suite.check_when(lambda head: isinstance(head, Whitens))
def shrinks_to_a_new_head(head: White) -> None:
    after = learned(head)
    state, X = copied(after.state()), features(20)
    weak, strong = after.shrunk(0.1), after.shrunk(10.0)
    expect(same_state(after.state(), state), "changes itself when it is shrunk")
    expect(not close(weak.whiten(X), strong.whiten(X)), "whitens alike under a weak and a strong ridge")
    expect(torch.equal(weak.counts, after.counts), "forgets samples when it is shrunk")
    again = weak.learn(lesson_of(4), np.random.default_rng(0))
    expect(again.whitened_means().shape[0] == 4, "cannot learn on when it is shrunk")
