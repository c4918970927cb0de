"""What several people's answers come to: Dawid and Skene (1979), made for a handful of answers. Formulas only.

A person is described by how often each true class is called what. That is estimated together with the true
classes, by expectation maximisation from the shares of votes. Few answers say little, so every row of such a
table begins as the rule of one coin: right as often as the person is on the whole, else any other class.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cual.types import AnyArray, Label

T = TypeVar("T", bound=Hashable)
RIGHT = 20.0
WRONG = 5.0
"""So many answers, right and wrong, everybody is taken to have given before: right four times of five."""
ONE_COIN = 10.0
"""So many answers about a class the rule of one coin counts for."""
TURNS = 100
CLOSE = 1e-9
"""Where no probability moves further than this, it is over."""


@dataclass(frozen=True)
class Opinions:
    """What people said of one sample; `settled` where a reviewer has decided.

    >>> agree, overruled = Opinions({"Ada": "owl", "Bob": "owl"}), Opinions({"Ada": "fox"}, settled="owl")
    >>> [agreed.label for agreed in consensus([agree, overruled], 2)]
    ['owl', 'owl']
    """

    by: Mapping[Hashable, Label]
    settled: Label | None = None


@dataclass(frozen=True)
class Agreed:
    """The likeliest label of a sample, and its probability."""

    label: Label
    weight: float


def consensus(samples: Sequence[Opinions], n_classes: int) -> list[Agreed]:
    """What the opinions about each sample come to.

    Parameters
    ----------
    samples
        Each with at least one opinion, or settled.
    n_classes
        Classes that an answer could have named: among many, two mistakes are rarely the same.

    >>> two = [Opinions({"ada": "fox", "bob": "fox"})] * 6
    >>> torn = Opinions({"ada": "owl", "bob": "cat"})
    >>> agreed = consensus([*two, torn, Opinions({"ada": "fox", "bob": "owl"}, settled="fox")], n_classes=3)
    >>> [(a.label, round(a.weight, 2)) for a in agreed[5:]]
    [('fox', 1.0), ('owl', 0.62), ('fox', 1.0)]
    """
    if not samples:
        return []
    classes = _index(label for s in samples for label in (*s.by.values(), *_settled(s)))
    people = _index(person for s in samples for person in s.by)
    votes = np.zeros((len(people), len(samples), len(classes)))
    for i, sample in enumerate(samples):
        for person, label in sample.by.items():
            votes[people[person], i, classes[label]] = 1.0
    known = np.array([classes[s.settled] if s.settled is not None else -1 for s in samples])
    truth = _certain(_shares(votes.sum(axis=0)), known)
    for _ in range(TURNS):
        before = truth
        truth = _certain(_truth(votes, truth, max(n_classes, len(classes), 2)), known)
        if np.abs(truth - before).max() < CLOSE:
            break
    names = list(classes)
    best = truth.argmax(axis=1)  # of equals, the one that was named first
    return [Agreed(names[c], float(truth[i, c])) for i, c in enumerate(best.tolist())]


def _truth(votes: AnyArray, truth: AnyArray, n_classes: int) -> AnyArray:
    """The probability of each class of each sample, from what people are like by the probabilities before."""
    frequent = truth.sum(axis=0) + 1.0
    logs = np.tile(np.log(frequent / frequent.sum()), (len(truth), 1))
    for said in votes:
        logs += said @ np.log(_table(said, truth, n_classes)).T
    logs -= logs.max(axis=1, keepdims=True)
    return _shares(np.where(votes.any(axis=0), np.exp(logs), 0.0))


def _table(said: AnyArray, truth: AnyArray, n_classes: int) -> AnyArray:
    """What a person calls (column) samples of a class (row), as of one coin where little is known."""
    right = (RIGHT + (said * truth).sum()) / (RIGHT + WRONG + said.sum())
    coin = np.full((truth.shape[1], truth.shape[1]), (1 - right) / (n_classes - 1))
    np.fill_diagonal(coin, right)
    answered = truth * said.any(axis=1, keepdims=True)
    return (ONE_COIN * coin + answered.T @ said) / (ONE_COIN + answered.sum(axis=0)[:, None])


def _certain(truth: AnyArray, known: AnyArray) -> AnyArray:
    """The same, where what is settled is certain."""
    fixed = np.flatnonzero(known >= 0)
    truth = truth.copy()
    truth[fixed] = np.eye(truth.shape[1])[known[fixed]]
    return truth


def _shares(numbers: AnyArray) -> AnyArray:
    total = numbers.sum(axis=1, keepdims=True)
    return numbers / np.where(total > 0, total, 1.0)


def _settled(sample: Opinions) -> tuple[Label, ...]:
    return () if sample.settled is None else (sample.settled,)


def _index(things: Iterable[T]) -> dict[T, int]:
    return {thing: i for i, thing in enumerate(dict.fromkeys(things))}
