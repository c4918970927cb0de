"""How sure the competition may be: shares that mean what they say. Measured on labels that were paid for.

Every answer is judged without what it added to its class, and stands for the novel-looking samples of the pool
that it is the nearest answer to; known validation samples stand for the others.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from cual.data.pool import chunks
from cual.learners.base import Accepted
from cual.learners.prototypes.competition import ClassPrototypes, Competition, novel_classes
from cual.learners.prototypes.space import Space
from cual.types import BoolArray, IntArray

TEMPERATURES = [2.0 ** (i / 2) for i in range(13)]
SURPRISES = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6]
SPREAD = 2.0
"""What a margin as large as usual adds to the logit of being right …"""
FAR = 3.0
"""… up to so many times the usual one."""


@dataclass(frozen=True)
class Spread:
    """Who is won by a larger margin is surer to be right. What all are held by, on average, stays as it is.

    Attributes
    ----------
    usual
        The median margin, in logits, of what novel classes win in the pool.
    level
        Logit of being right, but for the margin.

    >>> logits = torch.tensor([[0.0, 1.0, -9.0], [0.0, 6.0, -9.0]])  # old, one novel class, none of these
    >>> shares = torch.full((2, 3), 0.1).index_fill(1, torch.tensor([1]), 0.8)
    >>> spread = Spread.of(logits, shares)
    >>> spread.over(logits, shares)[:, 1].round(decimals=2)  # the larger margin is surer; 0.8 on average
    tensor([0.6100, 0.9900])
    """

    usual: float
    level: float

    @classmethod
    def of(cls, logits: Tensor, shares: Tensor) -> "Spread | None":
        """From logits and shares of the outcomes; None if novel classes win nothing."""
        won, margins, named = winning(logits)
        if not bool(named.any()):
            return None
        usual = max(float(margins[named].median()), 1e-6)
        level_of = shares.gather(1, won[:, None])[named, 0].mean()
        low, high = -20.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            if float(cls(usual, middle)._sure(margins[named]).mean()) < float(level_of):
                low = middle
            else:
                high = middle
        return cls(usual, (low + high) / 2)

    def _sure(self, margins: Tensor) -> Tensor:
        return torch.sigmoid(self.level + SPREAD * (margins / self.usual).clamp(max=FAR))

    def over(self, logits: Tensor, shares: Tensor) -> Tensor:
        """Shares of the outcomes, those that a novel class wins by how sure that is."""
        won, margins, named = winning(logits)
        sure, held = self._sure(margins), shares.gather(1, won[:, None])[:, 0]
        rest = (1 - held).clamp(min=1e-6)
        spread = (shares * ((1 - sure) / rest)[:, None]).scatter(1, won[:, None], sure[:, None])
        return torch.where(named[:, None], spread, shares)


def winning(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The outcome that wins, its margin over all others together, and whether it is a novel class.

    >>> old_wins, novel_wins = [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]  # old, one novel class, none of these
    >>> won, margins, novel = winning(torch.tensor([old_wins, novel_wins]))
    >>> won.tolist(), novel.tolist()
    ([0, 1], [False, True])
    """
    best, won = logits.max(dim=1)
    others = logits.scatter(1, won[:, None], -torch.inf).logsumexp(dim=1)
    margins = (best - others).clamp(max=torch.finfo(torch.float32).max)
    return won, margins, (won > 0) & (won < logits.shape[1] - 1)


@dataclass(frozen=True)
class Sureness:
    """How shares are made of logits.

    Attributes
    ----------
    temperature
        By which the logits of the outcomes are divided. The outcomes are: old, each novel class, none of these.
    surprise
        Of what novel classes hold, the part that is given to all outcomes, as frequent as they are: some of
        what is held for certain is wrong all the same.
    frequencies
        Of the outcomes in the pool.
    spread
        How much surer a large margin is; None if that is not known.

    >>> sure = Sureness.unchecked()
    >>> sure.shares(torch.tensor([[0.0, 0.0, 0.0, 0.0]]), n_old=2)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    >>> doubting = Sureness(temperature=1.0, surprise=0.2, frequencies=torch.tensor([0.5, 0.25, 0.25]))
    >>> doubting.outcomes(torch.tensor([[-99.0, 99.0, -99.0]]))
    tensor([[0.1000, 0.8500, 0.0500]])
    """

    temperature: float
    surprise: float
    frequencies: Tensor
    spread: Spread | None = None

    @classmethod
    def unchecked(cls) -> "Sureness":
        """Logits are taken at their word."""
        return cls(1.0, 0.0, torch.zeros(1))

    def shares(self, logits: Tensor, n_old: int) -> Tensor:
        """Shares of all classes, the last of none of these.

        >>> sure = Sureness(temperature=2.0, surprise=0.5, frequencies=torch.tensor([0.6, 0.4]))
        >>> [round(share, 2) for share in sure.shares(torch.tensor([[0.0, 0.0, 4.0]]), n_old=2)[0].tolist()]
        [0.21, 0.21, 0.59]
        """
        outcome = self.outcomes(outcomes(logits, n_old))
        return torch.cat([outcome[:, :1] * torch.softmax(logits[:, :n_old], dim=1), outcome[:, 1:]], dim=1)

    def outcomes(self, logits: Tensor) -> Tensor:
        """Shares of the outcomes, from their logits."""
        plain = torch.softmax(logits / self.temperature, dim=1)
        given = self.surprise * plain[:, 1:].sum(dim=1, keepdim=True)
        less = torch.cat([plain[:, :1], (1 - self.surprise) * plain[:, 1:]], dim=1)
        shares = less + given * self.frequencies.to(plain)
        return shares if self.spread is None else self.spread.over(logits, shares)


def outcomes(logits: Tensor, n_old: int) -> Tensor:
    """Logits of: old, each novel class, and none of these.

    >>> outcomes(torch.tensor([[0.0, 0.0, 1.0, -1.0]]), n_old=2).round(decimals=2)
    tensor([[ 0.6900,  1.0000, -1.0000]])
    """
    return torch.cat([logits[:, :n_old].logsumexp(dim=1, keepdim=True), logits[:, n_old:]], dim=1)


def measured(
    space: Space,
    answers: Accepted,
    competition: Competition,
    prototypes: ClassPrototypes,
    looks_novel: BoolArray,
) -> Sureness:
    """The sureness under which answers and known samples are likeliest.

    Half an answer more is counted as right and half a one as a surprise, because few answers prove little.
    Answers whose class only they name are left out: nobody could have known it without them.

    Parameters
    ----------
    answers
        All that the competition was told.
    looks_novel
        Which rows of the pool looked novel at first: of these the answers are an example.
    """
    n_old, n_anchors = space.old.shape[0], len(space.anchors)
    every = outcomes(competition.logits(space.anchors_and_validation, prototypes), n_old)
    anchors, known = every[:n_anchors], every[n_anchors:]
    frequencies = torch.softmax(anchors, dim=1).mean(dim=0)
    cells = _cells(space, answers.rows, np.flatnonzero(looks_novel))
    one_more = float(cells.sum()) / (len(answers.rows) + 2) / 2
    classes, count = np.unique(answers.classes, return_counts=True)
    often = np.isin(answers.classes, classes[(count > 1) | (classes < n_old)])
    judged = answers.only(often)
    right = torch.from_numpy(_outcome_of(judged.classes, novel_classes(answers, n_old)))
    logits = torch.cat([outcomes(competition.untold(judged, prototypes), n_old), known])
    right = torch.cat([right, torch.zeros(len(known), dtype=torch.int64)]).to(logits.device)
    rest = float((~looks_novel).sum()) / max(1, len(known))
    weights = torch.cat([cells[torch.from_numpy(often)], torch.full((len(known),), rest)]).to(logits)

    def loss(sure: Sureness) -> float:
        own = sure.outcomes(logits).gather(1, right[:, None])[:, 0].clamp(min=1e-9)
        doubt = math.log(sure.surprise) + math.log(1 - sure.surprise)
        return -float((weights * own.log()).sum()) - one_more * doubt

    candidates = [Sureness(t, e, frequencies) for t in TEMPERATURES for e in SURPRISES]
    even = min(candidates, key=loss)
    return replace(even, spread=Spread.of(anchors, even.outcomes(anchors)))


def _outcome_of(classes: IntArray, novel: list[int]) -> IntArray:
    """0 for an old class, 1 … for those in `novel`.

    >>> _outcome_of(np.array([0, 9, 7, 1]), [7, 9]).tolist()
    [0, 2, 1, 0]
    """
    place = {c: 1 + i for i, c in enumerate(novel)}
    return np.array([place.get(c, 0) for c in classes.tolist()], np.int64)


def _cells(space: Space, answered: IntArray, rows: IntArray) -> Tensor:
    """How many of some rows each answer is the nearest one to, at least one."""
    counts = torch.zeros(len(answered))
    answers = torch.cat([U for _, U in space.chunks(answered)])
    for _, nearest in space.map(partial(_nearest_counts, answers), rows):
        counts += nearest
    return counts.clamp(min=1)


def _nearest_counts(answers: Tensor, U: Tensor) -> Tensor:
    """How many of some samples each answer is the nearest one to; both as directions."""
    counts = torch.zeros(len(answers), dtype=torch.int64)
    for part in chunks(len(U), len(answers)):
        counts += torch.bincount((U[part] @ answers.T).argmax(dim=1), minlength=len(answers)).cpu()
    return counts
