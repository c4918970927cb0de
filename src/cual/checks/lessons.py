"""Lessons that heads are checked with: classes that are easy to tell apart, from a seed."""

from dataclasses import replace

import numpy as np
import torch

from cual.checks.base import expect, same_tensor
from cual.heads import Lesson, Samples

WIDTH = 10


def lesson_of(classes: int, width: int = WIDTH, seed: int = 0, n: int = 60) -> Lesson:
    """A lesson with samples in all three sources.

    >>> lesson = lesson_of(3)
    >>> lesson.n_classes, len(lesson.queried) > 0, len(lesson.replay) > 0
    (3, True, True)
    """
    rng = np.random.default_rng([classes, width, seed])
    y = torch.from_numpy(rng.integers(classes, size=n))
    noise = torch.from_numpy(rng.standard_normal((n, width))).float()
    X = 2 * torch.nn.functional.one_hot(y, width).float() + 0.1 * noise
    return Lesson(classes, Samples(X[:20], y[:20]), Samples(X[20:30], y[20:30]), Samples(X[30:], y[30:]))


def only(lesson: Lesson, source: str) -> Lesson:
    """A lesson whose other sources are empty."""
    none = Samples(lesson.replay.X[:0], lesson.replay.y[:0])
    sources = dict.fromkeys(("queried", "pseudo", "replay"), none) | {source: getattr(lesson, source)}
    return replace(lesson, **sources)


def labelled(lesson: Lesson) -> Samples:
    """Queried and pseudo-labelled samples of a lesson: what it has to tell that is new."""
    queried, pseudo = lesson.queried, lesson.pseudo
    return Samples(torch.cat([queried.X, pseudo.X]), torch.cat([queried.y, pseudo.y]))


def changed(lesson: Lesson, dtype: torch.dtype | None = None) -> Lesson:
    """The same lesson in memory of its own, with features in another type."""

    def copy(samples: Samples) -> Samples:
        return Samples(samples.X.to(dtype or samples.X.dtype, copy=True), samples.y.clone())

    return replace(lesson, queried=copy(lesson.queried), pseudo=copy(lesson.pseudo), replay=copy(lesson.replay))


def expect_unchanged(lesson: Lesson, before: Lesson) -> None:
    for name in ("queried", "pseudo", "replay"):
        now, then = getattr(lesson, name), getattr(before, name)
        kept = same_tensor(now.X, then.X) and same_tensor(now.y, then.y)
        expect(kept, f"changes the {name} samples of the lesson that it learns from")
