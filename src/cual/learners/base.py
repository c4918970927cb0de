"""A_s, the short-term learner of one adaptation: what it is asked, what it may know, what it gives back.

The learners are beside this file. Whom to ask and what to believe is decided elsewhere, from their scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from cual.acquisition.base import Holdings
from cual.data.labels import ClassNames
from cual.data.pool import CHUNK_BYTES, Pool
from cual.graph import Value, cannot
from cual.heads import TOGETHER, Head, LearnsOnce, Lesson, Samples, TakesUnlabelled
from cual.registry import Registry
from cual.replay import Replay
from cual.types import BoolArray, FloatArray, IntArray
from cual.uncertainty import ClassModel, Threshold, Uncertainty, t_inner


class Knowledge(Protocol):
    """What a learner may read of an agent."""

    @property
    def names(self) -> ClassNames: ...
    @property
    def seed(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def head(self) -> Head: ...
    @property
    def replay(self) -> Replay: ...
    @property
    def validation(self) -> Samples: ...
    @property
    def models(self) -> Sequence[ClassModel]: ...
    @property
    def unexplained(self) -> Tensor: ...
    @property
    def width(self) -> int: ...
    @property
    def device(self) -> torch.device: ...


@dataclass(frozen=True)
class Scored:
    """One round's scores of some pool rows and of the validation set, and the novel class of each row."""

    scores: FloatArray
    classes: IntArray
    validation: Tensor
    threshold: Threshold | None = None
    """Where a score has a natural threshold; else T_inner is set from `validation`."""


@dataclass(frozen=True)
class Accepted:
    """What the adaptation accepts so far: rows of the pool and their classes, by where the label came from.

    >>> accepted = Accepted(np.array([3, 8, 5]), classes=np.array([0, 2, 2]), human=np.array([1, 1, 0]))
    >>> novel, believed = accepted.of(True, novel_from=1), accepted.believed()
    >>> novel[0].tolist(), believed[0].tolist(), accepted.old(novel_from=1)[0].tolist()
    ([8], [5], [3])
    >>> accepted.only(accepted.human == 1).rows.tolist(), accepted.take(np.array([2, 0])).rows.tolist()
    ([3, 8], [5, 3])
    """

    rows: IntArray
    classes: IntArray
    human: IntArray
    """1 where a person said so, 0 where it is a pseudo-label."""
    weights: FloatArray | None = None
    """How sure each label is, 0 … 1, where several people were asked; else all count in full."""

    @classmethod
    def nothing(cls) -> "Accepted":
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))

    def only(self, chosen: BoolArray) -> "Accepted":
        """Some of it."""
        return self.take(np.flatnonzero(chosen))

    def take(self, places: IntArray) -> "Accepted":
        """Some of it, in this order."""
        weights = None if self.weights is None else self.weights[places]
        return Accepted(self.rows[places], self.classes[places], self.human[places], weights)

    def of(self, human: bool, novel_from: int) -> tuple[IntArray, IntArray]:
        """Rows and classes of the novel samples from people, or of the novel pseudo-labels."""
        chosen = (self.human == human) & (self.classes >= novel_from)
        return self.rows[chosen], self.classes[chosen]

    def believed(self) -> tuple[IntArray, IntArray]:
        """Rows and classes of all pseudo-labels."""
        return self.rows[self.human == 0], self.classes[self.human == 0]

    def old(self, novel_from: int) -> tuple[IntArray, IntArray]:
        """Queried samples that turned out to be of old classes."""
        chosen = (self.human == 1) & (self.classes < novel_from)
        return self.rows[chosen], self.classes[chosen]


def samples_of(pool: Pool, accepted: Accepted, device: torch.device, n_classes: int, first: int = 0) -> Samples:
    """What a head learns from: class numbers from `first` on; of answers that weigh less, targets that do.

    >>> by_people, sure = np.array([1]), np.array([0.75], np.float32)
    >>> accepted = Accepted(np.array([1]), np.array([2]), by_people, weights=sure)
    >>> samples_of(Pool(np.eye(3)), accepted, torch.device("cpu"), n_classes=3).y
    tensor([[0.0000, 0.0000, 0.7500]])
    """
    classes = torch.from_numpy(accepted.classes - first).to(device)
    X = pool.take(accepted.rows, device)
    if accepted.weights is None or not accepted.human.any():
        return Samples(X, classes)
    weights = torch.from_numpy(accepted.weights).to(device)
    return Samples(X, one_hot(classes, n_classes) * weights[:, None])


class ShortTerm(Protocol):
    """A_s: scores a pool for one adaptation and learns as it goes."""

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        """Scores of pool rows; `last` says that nobody will be asked any more."""
        ...

    def learn(self, accepted: Accepted, round: int) -> None:
        """Take over all that is accepted so far; `round` keys what is random."""
        ...

    def probabilities(self, rows: IntArray) -> FloatArray:
        """Class probabilities (n, C) of pool rows."""
        ...

    def features(self, rows: IntArray) -> FloatArray:
        """Pool rows as strategies should see them (n, d)."""
        ...

    def nearest_old(self, rows: IntArray) -> IntArray:
        """The old class that each pool row is most like."""
        ...

    def learning(self) -> IntArray:
        """Old classes that may be pseudo-labelled as well, because too little is known of them."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Everything learned so far, as tensors."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave, with the same bits."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A_s that tells what nothing explains, and what has been met before without an explanation."""

    def unexplained(self, rows: IntArray) -> IntArray:
        """Those of some pool rows that look novel, and that no class explains which has a name."""
        ...

    def met_before(self, rows: IntArray) -> FloatArray:
        """1 for pool rows that are more like something unexplained of earlier than like anything known."""
        ...


@runtime_checkable
class TellsInShort(Protocol):
    """A_s that tells what classes hold of pool rows without a table of all classes."""

    def holdings(self, rows: IntArray) -> Holdings:
        """What old classes hold together, and what the likeliest old and novel classes hold.

        Of rows that are taken for an old class, that is the likeliest one.
        """
        ...


@runtime_checkable
class TellsMargins(Protocol):
    """A_s that tells by how much the class which pool rows are taken for beats all others."""

    def margins(self, rows: IntArray) -> FloatArray:
        """The higher, the surer."""
        ...


@runtime_checkable
class LooksFirst(Protocol):
    """A_s that remembers how novel the pool looked before any answer."""

    def first_novelty(self, rows: IntArray) -> FloatArray:
        """Of pool rows, the share of known validation samples that look less novel."""
        ...


@runtime_checkable
class SeesDrift(Protocol):
    """A_s that tells whether all of a pool has changed, which is not novel."""

    def drift(self) -> float | None:
        """How far nine tenths of the pool have moved together, in deviations of known samples.

        None if that is not far.
        """
        ...


class Detector(Protocol):
    """Tells novel samples one by one, by what an agent knows."""

    @property
    def threshold(self) -> Threshold:
        """Above which `novelty` speaks for a class that is not known."""
        ...

    @property
    def novelty(self) -> Callable[[Tensor], Tensor]:
        """How novel samples (n, d) look (n,): the higher, the more novel."""
        ...


@dataclass(frozen=True)
class ByScore:
    """A detector whose threshold is T_inner: `stds` deviations above the mean score of the validation set.

    >>> detector = ByScore(lambda X: X[:, 0], validation=torch.tensor([[0.0], [2.0]]), stds=2.0)
    >>> detector.novelty(torch.tensor([[5.0]])) > float(detector.threshold)
    tensor([True])
    """

    novelty: Callable[[Tensor], Tensor]
    validation: Tensor
    stds: float
    formula: Callable[[Value], Value] | None = None
    """What `novelty` computes, as a graph."""

    @property
    def threshold(self) -> Threshold:
        return t_inner(self.novelty(self.validation), self.stds)

    def draw(self, X: Value) -> Value:
        if self.formula is None:
            raise cannot(self.novelty, "does not say its formula as a graph")
        return self.formula(X)


@runtime_checkable
class DrawsNovelty(Protocol):
    """A detector that says its formula as a graph, so that it can run elsewhere."""

    def draw(self, X: Value) -> Value:
        """What `novelty` computes; raises `NotExportable` where a part of it cannot be said."""
        ...


class Learner(Protocol):
    """The part of a method that makes A_s; its constructor's parameters are its options."""

    @property
    def unnamed(self) -> bool:
        """Whether it asks nothing: what is believed novel is one class with a made-up name."""
        ...

    def check(self, head: Head) -> None:
        """Raise `BadOption` where it cannot work with an agent's head."""
        ...

    def begin(self, agent: Knowledge, pool: Pool) -> ShortTerm:
        """A_s for one pool."""
        ...

    def detector(self, agent: Knowledge, stds: float) -> "Detector":
        """What tells novel samples without a pool; `stds` is the method's, for T_inner."""
        ...


@runtime_checkable
class ModelsClasses(Protocol):
    """A learner that measures distances to classes: the agent keeps a model of each class for it."""

    @property
    def uncertainty(self) -> Uncertainty[Any]: ...


@runtime_checkable
class SeesTogether(Protocol):
    """A learner that tells novel samples better where it sees many of them together."""

    def novelty_together(self, agent: Knowledge, pool: Pool) -> tuple[Tensor, Threshold]:
        """How novel the samples of a pool look, and above which score they probably are."""
        ...


learners: Registry[type[Learner]] = Registry("learner")


def long_term_lesson(agent: Knowledge, pool: Pool, accepted: Accepted, n_classes: int) -> Lesson:
    """What the long-term head learns from (eq. 4): novel answers, pseudo-labels, replay and old answers."""
    n_old = len(agent.names)

    def samples(chosen: BoolArray) -> Samples:
        return samples_of(pool, accepted.only(chosen), agent.device, n_classes)

    unlabelled = None
    if isinstance(agent.head, TakesUnlabelled):
        unlabelled = pool.take(np.setdiff1d(np.arange(len(pool)), accepted.rows), agent.device)
    return Lesson(
        n_classes,
        queried=samples((accepted.human == 1) & (accepted.classes >= n_old)),
        pseudo=samples(accepted.human == 0),
        replay=agent.replay.samples(),
        old=samples((accepted.human == 1) & (accepted.classes < n_old)),
        unlabelled=unlabelled,
    )


def in_lessons(accepted: Accepted, head: Head, width: int, n_old: int) -> list[Accepted]:
    """What is accepted, in parts of bounded memory, for a head that keeps what it learned; else in one.

    Novel answers come with the first part and old ones with the last: a head that takes in one sample after the
    other meets them as in one lesson.

    Parameters
    ----------
    width
        Of the features.
    """
    step = max(TOGETHER, CHUNK_BYTES // (4 * width) // TOGETHER * TOGETHER)
    believed = np.flatnonzero(accepted.human == 0)
    if len(believed) <= step or not isinstance(head, LearnsOnce) or isinstance(head, TakesUnlabelled):
        return [accepted]
    parts = [believed[start : start + step] for start in range(0, len(believed), step)]
    answered, novel = accepted.human == 1, accepted.classes >= n_old
    parts[0] = np.concatenate([np.flatnonzero(answered & novel), parts[0]])
    parts[-1] = np.concatenate([parts[-1], np.flatnonzero(answered & ~novel)])
    return [accepted.take(part) for part in parts]


def head_probabilities(
    head: Head, pool: Pool, rows: IntArray, device: torch.device, alive: list[int] | None = None
) -> FloatArray:
    """What a head makes of pool rows, of all classes or of those `alive`."""
    parts = [logits for _, logits in pool.map(head.logits, rows, device)]
    logits = torch.cat(parts) if parts else torch.empty(0, head.n_classes)
    return softmax(logits if alive is None else logits[:, alive])


def softmax(logits: Tensor) -> FloatArray:
    """Probabilities of logits, each row by itself.

    >>> softmax(torch.tensor([[0.0, 0.0], [0.0, 99.0]])).round(2).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    return torch.softmax(logits, dim=1).cpu().numpy()
