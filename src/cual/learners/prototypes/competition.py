"""The competition of cual-plus: old and novel classes, as directions, compete for every sample of a pool.

Old classes are known. Novel ones, and old ones of which too little is known, start from the answers and are
refined by what they win in the pool. Where samples lie is measured in `space`; whom to ask is not decided here.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from cual.learners.base import Accepted
from cual.learners.prototypes.neighbours import BLOCK, Neighbours
from cual.learners.prototypes.options import PrototypeOptions
from cual.learners.prototypes.space import Seen, Space
from cual.types import IntArray

GROUPS = 5
"""Parts of the answers, each of which is judged by what the others say."""


@dataclass(frozen=True)
class ClassPrototypes:
    """The classes that are still being learned, as sums of the directions of what they hold.

    Attributes
    ----------
    columns
        Which columns of the shares they are, ascending.
    sums, mass
        Of each class, the sum of the directions and the weight that it rests on.
    odds
        How much more frequent a novel class is than an old one in this pool, as a logarithm.
    shares
        Of the anchors, by which the prototypes came about (anchors, old and novel classes).
    voting
        Whether neighbours count yet.
    """

    columns: Tensor
    sums: Tensor
    mass: Tensor
    odds: float
    shares: Tensor
    voting: bool


@dataclass(frozen=True)
class Rules:
    """By which classes compete for samples: what is known of the space and of the classes, without the pool.

    Attributes
    ----------
    sharpness, stranger, likeness, neighbours
        As `Space` has them.
    n_old
        How many classes are known.
    novel
        Those that are not, by number.
    unseen
        Odds of a class that nobody has named, as a logarithm.
    none_of_these
        Whether such a class competes. Not in a drifted pool: how near it is was measured in another look.
    """

    part: PrototypeOptions
    neighbours: Neighbours
    sharpness: float
    stranger: float
    likeness: float
    n_old: int
    novel: list[int]
    unseen: float
    none_of_these: bool

    def logits(self, seen: Seen, prototypes: ClassPrototypes) -> Tensor:
        """Cosines, strangeness, neighbours and the odds, added up.

        A class that nobody has named yet is everywhere equally near.

        A prototype of few samples is noisy, which is made up for: with ρ the cosine expected of two samples of
        one class, the cosine to the mean of n samples is expected to be √(ρ / (ρ + (1 − ρ) / n)) of that to the
        true mean.
        """
        part = self.part
        strange = part.strange_weight * (seen.strange - part.strange_edge)
        cosines = seen.directions @ (normalize(prototypes.sums, dim=1) * self.fair(prototypes.mass)[:, None]).T
        logits = self.sharpness * pad(seen.to_old, (0, len(self.novel) + 1), value=self.stranger)
        logits[:, prototypes.columns] = self.sharpness * cosines + strange[:, None]
        logits[:, -1] += strange + self.unseen if self.none_of_these else -torch.inf
        logits[:, self.n_old :] += prototypes.odds
        if prototypes.voting:
            logits += part.neighbour_weight * self.neighbours.votes(seen.nearest, prototypes.shares)
        return logits

    def winners(self, logits: Tensor) -> IntArray:
        """The class that wins each sample, −1 for one without a name; old ones count together."""
        numbers = torch.tensor([*range(self.n_old), *self.novel, -1], device=logits.device)
        outcome = outcomes(logits, self.n_old).argmax(dim=1)
        old = logits[:, : self.n_old].argmax(dim=1)
        return torch.where(outcome == 0, numbers[old], numbers[outcome + self.n_old - 1]).cpu().numpy()

    def fair(self, mass: Tensor) -> Tensor:
        rho = self.likeness
        return ((rho + (1 - rho) / mass.clamp(min=1)) / rho).sqrt()


class Competition:
    """Shares out samples of one space among the classes, given what was answered.

    Parameters
    ----------
    accepted
        Answers and pseudo-labels so far; only answers count here.
    learning
        Old classes that go on being learned.
    counts
        Samples that are known of each old class.
    """

    def __init__(
        self, part: PrototypeOptions, space: Space, accepted: Accepted, learning: IntArray, counts: Tensor
    ) -> None:
        self._part = part
        self._space = space
        self._accepted = accepted
        self._learning = learning
        self._counts = counts
        self._n_old = len(counts)
        self._novel = novel_classes(accepted, self._n_old)
        self.rules = Rules(
            part,
            space.neighbours,
            space.sharpness,
            space.stranger,
            space.likeness,
            self._n_old,
            self._novel,
            unseen(accepted.of(True, self._n_old)[1]),
            part.none_of_these and not space.drifted,
        )

    @property
    def learning(self) -> Tensor:
        """Old classes that go on being learned."""
        return torch.from_numpy(self._learning).to(self._space.old.device)

    @property
    def numbers(self) -> IntArray:
        """The class of each column of the shares."""
        return np.concatenate([np.arange(self._n_old), self._novel]).astype(np.int64)

    def refined(self) -> ClassPrototypes:
        """Prototypes of the classes that are still being learned, after a few turns of winning anchors."""
        space, part, device = self._space, self._part, self._space.old.device
        classes = np.concatenate([self._learning, self._novel]).astype(np.int64)
        answered = (self._accepted.human == 1) & np.isin(self._accepted.classes, classes)
        column = torch.from_numpy(np.searchsorted(classes, self._accepted.classes[answered])).to(device)
        labels = torch.eye(len(classes), device=device)[column]
        if self._accepted.weights is not None:
            labels *= torch.from_numpy(self._accepted.weights[answered]).to(device)[:, None]
        answers = torch.zeros(len(classes), space.old.shape[1], device=device)
        for rows, U in space.chunks(self._accepted.rows[answered]):
            answers += labels[rows].T @ U
        known, weight = self._known(len(classes))
        counts, n = labels.sum(dim=0), len(space.anchors)
        anchors = space.anchors_and_validation.directions[:n]
        n_validation = len(space.anchors_and_validation.directions) - n
        columns = torch.from_numpy(np.searchsorted(self.numbers, classes)).to(device)
        prototypes = ClassPrototypes(
            columns, known + answers, weight + counts, odds=0.0, shares=anchors[:, :0], voting=False
        )
        for turn in range(part.refinements):
            shares = self.shares(space.anchors_and_validation, prototypes)
            shares, of_known = shares.split((n, n_validation))
            shares = self._certain(shares)
            won = shares[:, columns]
            won = won * (won > part.least_share)
            prototypes = ClassPrototypes(
                columns,
                sums=known + won.T @ anchors + (part.answer_weight - 1) * answers,
                mass=weight + won.sum(dim=0) + (part.answer_weight - 1) * counts,
                odds=self._odds(shares[:, self._n_old :], of_known[:, self._n_old :]),
                shares=shares,
                voting=turn > 0,
            )
        return prototypes

    def _known(self, n: int) -> tuple[Tensor, Tensor]:
        """What was known before of `n` classes, the first of which are `learning`: sums of directions, weights.

        The sum of k directions that are alike by ρ is expected to be √(k + k (k − 1) ρ) long.
        """
        learning = torch.from_numpy(self._learning)
        k = self._counts[learning].float().clamp(1.0, self._part.known_weight)
        length = (k + k * (k - 1) * self._space.likeness).sqrt()
        sums = torch.zeros(n, self._space.old.shape[1], device=k.device)
        sums[: len(k)] = length[:, None] * self._space.old[learning]
        return sums, pad(k, (0, n - len(k)))

    def _odds(self, novel: Tensor, of_known: Tensor) -> float:
        """How frequent novel classes are: what they hold of the pool beyond what they hold of known samples."""
        n, n_novel = len(novel), len(self._novel) + self.rules.none_of_these
        if not n_novel or not self._part.estimate_frequency:
            return 0.0
        mistaken = min(0.95, float(of_known.sum(dim=1).mean()))
        frequent = (float(novel.sum()) - n * mistaken) / (1 - mistaken)
        frequent = min(max(frequent, len(self._accepted.of(True, self._n_old)[0]), 1), 0.9 * n)
        return math.log(frequent / n_novel) - math.log((n - frequent) / self._n_old)

    def _certain(self, shares: Tensor) -> Tensor:
        """Shares of the anchors, where an answered one is its class's alone, as far as the answer is sure."""
        anchors = self._space.anchors
        places = np.searchsorted(anchors, self._accepted.rows).clip(max=len(anchors) - 1)
        answered = (self._accepted.human == 1) & (anchors[places] == self._accepted.rows)
        column = np.searchsorted(self.numbers, self._accepted.classes[answered])
        certain = torch.eye(shares.shape[1]).to(shares)[torch.from_numpy(column)]
        at = torch.from_numpy(places[answered])
        if self._accepted.weights is not None:
            sure = torch.from_numpy(self._accepted.weights[answered]).to(shares)[:, None]
            certain = sure * certain + (1 - sure) * shares[at]
        shares[at] = certain
        return shares

    def shares(self, seen: Seen, prototypes: ClassPrototypes) -> Tensor:
        """What each class holds of each sample; the last column is held by a class that has no name yet."""
        return torch.softmax(self.logits(seen, prototypes), dim=1)

    def logits(self, seen: Seen, prototypes: ClassPrototypes) -> Tensor:
        return self.rules.logits(seen, prototypes)

    def judged(self) -> tuple[int, int]:
        """Of the answers that classes which are being learned would win had they not been given: how many
        rightly, and how many there are.
        """
        won, right = self._untold()
        learned = np.isin(won, np.concatenate([self._learning, self._novel]))
        return int((won == right)[learned].sum()), int(learned.sum())

    def _untold(self) -> tuple[IntArray, IntArray]:
        """The class that would win each answered sample, −1 for one without a name, and the one that it is of.

        It is won in a competition without a fifth of the answers, its own among them.
        """
        answers = self._accepted.only(self._accepted.human == 1)
        group, won = (np.empty(len(answers.rows), np.int64) for _ in range(2))
        group[np.lexsort((answers.rows, answers.classes))] = np.arange(len(group)) % GROUPS
        for number in np.unique(group).tolist():
            told, places = answers.only(group != number), np.flatnonzero(group == number)
            others = Competition(self._part, self._space, told, self._learning, self._counts)
            prototypes = others.refined()
            for start in range(0, len(places), BLOCK):
                some = places[start : start + BLOCK]
                logits = others.logits(self._space.look(answers.rows[some]), prototypes)
                won[some] = others.rules.winners(logits)
        return won, answers.classes


def outcomes(logits: Tensor, n_old: int) -> Tensor:
    """Logits of: old, each novel class, and none of these.

    >>> outcomes(torch.tensor([[0.0, 0.0, 1.0, -1.0]]), n_old=2).round(decimals=2)
    tensor([[ 0.6900,  1.0000, -1.0000]])
    """
    return torch.cat([logits[:, :n_old].logsumexp(dim=1, keepdim=True), logits[:, n_old:]], dim=1)


def novel_classes(accepted: Accepted, n_old: int) -> list[int]:
    """Classes that answers name and that are not old.

    >>> answers = Accepted(np.arange(4), np.array([0, 5, 5, 3]), human=np.array([1, 1, 1, 0]))
    >>> novel_classes(answers, n_old=2)
    [5]
    """
    return np.unique(accepted.of(True, n_old)[1]).tolist()


def unseen(classes: IntArray) -> float:
    """Odds, as a logarithm, that a novel sample is of a class that no answer has named (Good and Turing, 1953).

    Of n answers about novel samples, those were a surprise whose class no other answer names; so will be the
    next one, in proportion. At most even odds: what was asked about was not drawn by lot.

    >>> round(unseen(np.array([7, 7, 7, 8])), 2), unseen(np.array([7, 8])), unseen(np.array([], dtype=np.int64))
    (-0.85, 0.0, 0.0)
    """
    once = int((np.unique(classes, return_counts=True)[1] == 1).sum())
    chance = min(0.5, (once + 0.5) / (len(classes) + 1))
    return math.log(chance / (1 - chance))
