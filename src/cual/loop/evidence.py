"""How good an agent is, by labels that people gave: an estimate with its interval, without pseudo-labels.

First labels that were held out say it of the first classes. Of classes that answers named there are only the
answers, from which the learner has learned: so each is predicted by a learner that was not told it. Answers are
not drawn by lot, so each counts as many samples as it is the nearest answer to.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.heads import Samples
from cual.learners import Accepted, ShortTerm
from cual.loop.machine import Composed
from cual.seeds import generator
from cual.types import AnyArray, FloatArray, IntArray, Label

SURE = 1.96
"""Standard errors to either side: 95 %."""
ALIKE = 3.0
"""Samples of a class are right and wrong together, as one model of it decides: so many count as one."""


class Predicts(Protocol):
    """An agent, as far as it is measured."""

    @property
    def names(self) -> ClassNames: ...

    def predict(self, X: Tensor, /) -> AnyArray: ...


@dataclass(frozen=True)
class Estimate:
    """Accuracy, the mean over classes, between `low` and `high` with 95 % confidence.

    Attributes
    ----------
    samples
        Labels of people that it rests on.
    classes
        Classes that they name.

    >>> print(Estimate(0.931, low=0.88, high=0.97, samples=40, classes=7))
    93 % (88 to 97), by 40 labels of 7 classes
    """

    value: float
    low: float
    high: float
    samples: int
    classes: int

    def __str__(self) -> str:
        return (
            f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f}), "
            f"by {self.samples} labels of {self.classes} classes"
        )


@dataclass(frozen=True)
class Evidence:
    """Labels of people, and what is predicted without knowing them.

    Attributes
    ----------
    X, labels
        Samples and what people say they are.
    weights
        Of each, relative to others of its class.
    predicted
        What a learner that was not told the label makes of each; None where the agent itself never learned it.

    >>> class Cats:
    ...     def predict(self, X):
    ...         return np.array(["cat"] * len(X))
    >>> labels, told_the_others = ("cat", "cat", "dog", "dog"), (None, None, "dog", "cat")
    >>> said = Evidence(torch.eye(4), labels, np.ones(4, np.float32), told_the_others)
    >>> said.before(Cats()).value, said.after(Cats()).value
    (0.5, 0.75)
    """

    X: Tensor
    labels: tuple[Label, ...]
    weights: FloatArray
    predicted: tuple[Label | None, ...]

    def before(self, agent: Predicts) -> Estimate | None:
        """The accuracy of an agent that has learned none of it."""
        return estimate(self.labels, agent.predict(self.X).tolist(), self.weights) if self.labels else None

    def after(self, agent: Predicts) -> Estimate | None:
        """The accuracy of the agent that has learned the answers, each predicted without itself."""
        if not self.labels:
            return None
        own = agent.predict(self.X).tolist()
        merged = [mine if other is None else other for mine, other in zip(own, self.predicted, strict=True)]
        return estimate(self.labels, merged, self.weights)


def known(verified: Samples, names: ClassNames) -> Evidence:
    """What says how good an agent is that has not been adapted: labels that were held out.

    >>> held_out = Samples(torch.eye(2), torch.tensor([1, 0]))
    >>> known(held_out, ClassNames(("cat", "dog"))).labels
    ('dog', 'cat')
    """
    labels = tuple(names.names[c] for c in verified.y.tolist())
    nobody = tuple(None for _ in labels)
    return Evidence(verified.X.cpu().float(), labels, np.ones(len(labels), np.float32), nobody)


def estimate(
    labels: Sequence[Label], predicted: Sequence[Label], weights: FloatArray, alike: float = ALIKE
) -> Estimate:
    """The mean over classes of the weighted share that is right, with its interval.

    Of a class with n samples (effectively, (Σw)² / Σw² / `alike`) of which k are right, the share is taken for
    a draw from the Beta distribution of k + ½ and n − k + ½: few samples make it uncertain, none ever certain.

    >>> str(estimate(["a"] * 50 + ["b"] * 2, ["a"] * 50 + ["b", "a"], np.ones(52, np.float32)))
    '75 % (45 to 100), by 52 labels of 2 classes'
    """
    right = np.array([a == b for a, b in zip(labels, predicted, strict=True)])
    names = list(dict.fromkeys(labels))
    shares: list[float] = []
    variance = 0.0
    for name in names:
        mine = np.array([label == name for label in labels])
        w = weights[mine].astype(np.float64)
        share = float(np.average(right[mine], weights=w))
        n = float(w.sum() ** 2 / (w**2).sum()) / alike
        a, b = share * n + 0.5, (1 - share) * n + 0.5
        shares.append(share)
        variance += a * b / ((a + b) ** 2 * (a + b + 1))
    value, error = float(np.mean(shares)), SURE * math.sqrt(variance) / len(names)
    return Estimate(value, max(0.0, value - error), min(1.0, value + error), len(labels), len(names))


def gathered(
    agent: Composed, verified: Samples, pool: Pool, accepted: Accepted, names: ClassNames, folds: int = 5
) -> Evidence:
    """The evidence of an adaptation.

    Parameters
    ----------
    agent
        The one that it started from.
    verified
        Held-out samples whose labels people gave, never trained on.
    accepted, names
        What was accepted in the end, and the classes by number. Of classes that `verified` names, answers are
        left out: they were asked for because they are hard, and those held out were drawn by lot.
    folds
        Answers are left out by so many groups.
    """
    human = accepted.human == 1
    answers = accepted.only(human)
    rows, classes = answers.rows, answers.classes
    predicted = without_themselves(agent, pool, answers, folds)
    cells = _cells(agent, pool, rows)
    known = set(verified.y.tolist())
    asked = np.array([c not in known for c in classes.tolist()], dtype=np.bool_)
    held_out = verified.y.tolist()
    return Evidence(
        X=torch.cat([verified.X.cpu().float(), pool.take(rows[asked])]),
        labels=tuple(names.names[c] for c in [*held_out, *classes[asked].tolist()]),
        weights=np.concatenate([np.ones(len(held_out), np.float32), cells[asked]]),
        predicted=(*(None for _ in held_out), *(names.names[c] for c in predicted[asked].tolist())),
    )


def without_themselves(agent: Composed, pool: Pool, answers: Accepted, folds: int) -> IntArray:
    """What a learner that was told the other answers makes of each."""
    rows = answers.rows
    predicted = np.zeros(len(rows), dtype=np.int64)
    if not len(rows):
        return predicted
    rng = generator(agent.seed, agent.version + 1, 0, "evidence")
    group = rng.permutation(np.arange(len(rows)) % folds)
    short = agent.method.learner.begin(agent, pool)
    for fold in np.unique(group).tolist():
        told, left = group != fold, group == fold
        short.learn(answers.only(told), 0)
        predicted[left] = _predicted(short, rows[left])
    return predicted


def _predicted(short: ShortTerm, rows: IntArray) -> IntArray:
    """The novel class of samples, or the nearest old one where none is known."""
    scored = short.score(rows, last=True)
    return np.where(scored.classes >= 0, scored.classes, short.nearest_old(rows))


def _cells(agent: Composed, pool: Pool, rows: IntArray) -> FloatArray:
    """How many samples of the pool each answer is the nearest one to."""
    counts = torch.zeros(len(rows))
    if not len(rows):
        return counts.numpy()
    answers = normalize(pool.take(rows), dim=1)
    for _, X in pool.chunks(np.arange(len(pool))):
        nearest = (normalize(X, dim=1) @ answers.T).argmax(dim=1)
        counts += torch.bincount(nearest, minlength=len(rows))
    return counts.clamp(min=1).numpy().astype(np.float32)
