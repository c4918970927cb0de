"""What a head is and what it learns from. No head lives here, and no training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from cual.graph import Value
from cual.registry import Registry

Steps = Callable[[int, int], None]
"""A report of training: called with (steps done, steps in all)."""


@dataclass(frozen=True)
class Samples:
    """Features and what they should be mapped to; either may be on any device, both on the same.

    Attributes
    ----------
    X
        Features (n, d), of any floating type.
    y
        Class numbers (n,) int64, or soft targets (n, classes); what a row sums to is what the sample counts.

    >>> import torch
    >>> half_sure = Samples(torch.zeros(1, 2), torch.tensor([[0.0, 0.5]]))  # of class 1, and counts half
    >>> len(half_sure)
    1
    """

    X: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Lesson:
    """What a head learns from in one update: the three sources of the paper's eq. 4, any of them empty.

    Attributes
    ----------
    n_classes
        Classes that the head shall know afterwards, all earlier ones included.
    queried, pseudo, replay
        Samples labelled by a person, by the agent itself, and remembered.
    old
        Answers that turned out to be of known classes: new to the head, part of the replay source in eq. 4.
    unlabelled
        The rest of the pool, for a head that `TakesUnlabelled`.
    weights
        β, γ, θ: what the mean loss of each source counts.

    >>> import torch
    >>> some, none = (Samples(torch.zeros(n, 4), torch.zeros(n, dtype=torch.int64)) for n in (2, 0))
    >>> lesson = Lesson(1, queried=some, pseudo=none, replay=some)
    >>> lesson.width, [(len(samples), round(weight, 2)) for samples, weight in lesson.sources()]
    (4, [(2, 0.33), (2, 0.67)])
    """

    n_classes: int
    queried: Samples
    pseudo: Samples
    replay: Samples
    weights: tuple[float, float, float] = (0.25, 0.25, 0.5)
    old: Samples | None = None
    unlabelled: Tensor | None = None

    @property
    def width(self) -> int:
        """Of the features."""
        return int(self.queried.X.shape[1])

    def counting(self, factors: Tensor) -> "Lesson":
        """The same, where each sample that is new counts as much as `factors` says of its class.

        >>> import torch
        >>> none, two = (Samples(torch.zeros(n, 3), torch.arange(n)) for n in (0, 2))
        >>> Lesson(2, two, none, none).counting(torch.tensor([1.0, 5.0])).queried.y.tolist()
        [[1.0, 0.0], [0.0, 5.0]]
        """

        def heavier(samples: Samples) -> Samples:
            return Samples(samples.X, _soft(samples.y, self.n_classes) * factors.to(samples.X.device))

        old = None if self.old is None else heavier(self.old)
        return replace(self, queried=heavier(self.queried), pseudo=heavier(self.pseudo), old=old)

    def sources(self) -> list[tuple[Samples, float]]:
        """The sources that have samples and count, with β, γ, θ renormalised to a sum of one.

        >>> import torch
        >>> none, two = (Samples(torch.zeros(n, 3), torch.zeros(n, dtype=torch.int64)) for n in (0, 2))
        >>> [weight for _, weight in Lesson(1, two, none, two, (1.0, 1.0, 3.0)).sources()]
        [0.25, 0.75]
        """
        replay = self.replay
        if self.old is not None and len(self.old):
            targets = [replay.y, self.old.y]
            if any(y.is_floating_point() for y in targets):
                targets = [_soft(y, self.n_classes) for y in targets]
            replay = Samples(torch.cat([replay.X, self.old.X]), torch.cat(targets))
        all_three = zip((self.queried, self.pseudo, replay), self.weights, strict=True)
        present = [(samples, weight) for samples, weight in all_three if len(samples) and weight > 0]
        total = sum(weight for _, weight in present)
        return [(samples, weight / total) for samples, weight in present]


def _soft(y: Tensor, n_classes: int) -> Tensor:
    """Targets (n, n_classes), whatever they were."""
    return pad(y, (0, n_classes - y.shape[1])) if y.is_floating_point() else one_hot(y, n_classes).float()


class Head(Protocol):
    """Maps features to one logit per class. Made empty: the first lesson says how wide features are.

    A head never changes: learning gives a new one. The protocols below say what else a head may be able to do.
    """

    @property
    def n_classes(self) -> int:
        """Classes known so far; 0 at first."""
        ...

    def logits(self, X: Tensor) -> Tensor:
        """Logits (n, n_classes) in float32, computed in chunks, on the head's device."""
        ...

    def learn(self, lesson: Lesson, rng: np.random.Generator, progress: Steps | None = None) -> Self:
        """A new head that has learned `lesson`, grown to its classes; trained where the samples are."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All there is to save, as tensors; scalars are 0-d."""
        ...

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], **options: int | float) -> Self:
        """The head that `state` was taken from, on its tensors' device; `options` replace saved ones."""
        ...


@runtime_checkable
class TakesUnlabelled(Protocol):
    """A head that learns from the unlabelled rest of a pool too: lessons carry it."""

    takes_unlabelled: bool


TOGETHER = 1024
"""Rows that a head which learns once may take in together: lessons are cut at multiples of it only."""


@runtime_checkable
class LearnsOnce(Protocol):
    """A head that keeps what it learned: it must be given each sample once, and nothing is replayed to it.

    A long lesson comes to it in several, which should be the same to it.
    """

    learns_once: bool


@runtime_checkable
class TakesBack(Protocol):
    """A head that can forget samples that it learned, exactly."""

    def without(self, samples: Samples) -> Self:
        """A new head that never learned `samples`, whose features and labels are those that it was given."""
        ...


@runtime_checkable
class JoinsClasses(TakesBack, Protocol):
    """A head whose classes can be joined and left out, as if it had learned them so."""

    @property
    def counts(self) -> Tensor:
        """Samples learned of each class; soft labels count in part."""
        ...

    def joined(self, numbers: Sequence[int]) -> Self:
        """A new head that learned class c as ``numbers[c]``; −1 leaves a class out that has no samples left."""
        ...

    def without_class(self, number: int) -> Self:
        """A new head without the samples of a class, which are not given: as nearly as can be told."""
        ...


@runtime_checkable
class Calibrates(Protocol):
    """A head whose logits are not on the scale of probabilities, and which knows how to find that scale."""

    def sureness(self, held_out: Samples) -> float:
        """The factor on logits under which the labels of samples that it never learned are likeliest."""
        ...


@runtime_checkable
class Whitens(Protocol):
    """A head with a space in which every class has the same round spread."""

    @property
    def counts(self) -> Tensor:
        """Samples learned of each class; soft labels count in part."""
        ...

    def whiten(self, X: Tensor) -> Tensor:
        """Features in that space, in float32."""
        ...

    def whitened_means(self) -> Tensor:
        """Class means (n_classes, width) in that space."""
        ...

    def shrunk(self, by: float) -> Self:
        """The same head with another ridge on the covariance."""
        ...

    def learn(self, lesson: Lesson, rng: np.random.Generator, progress: Steps | None = None) -> Self: ...


@runtime_checkable
class DrawsLogits(Protocol):
    """A head that says its formula as a graph, so that it can run elsewhere."""

    def draw(self, X: Value) -> Value:
        """What `logits` computes."""
        ...


@runtime_checkable
class DrawsWhitening(Protocol):
    """A head that whitens, and says that as a graph, too."""

    def draw_whitened(self, X: Value) -> Value:
        """What `whiten` computes."""
        ...


heads: Registry[Any] = Registry("head")
