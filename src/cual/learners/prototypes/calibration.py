"""How sure the competition may be: shares that mean what they say. Measured on labels that were paid for.

Validation samples say how well known classes are told apart, and answers, each judged by a competition that was
not told it, whether novel ones are too. Who is won by a larger margin is surer. What wins is decided before.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from cual.learners.prototypes.competition import ClassPrototypes, Competition, outcomes
from cual.learners.prototypes.space import Space

SPREAD = 1.5
"""What a margin as large as usual adds to the logit of being right …"""
FAR = 3.0
"""… up to so many times the usual one."""
KNOWN = 10.0
"""Answers that the known classes count as: few answers prove little."""
HARDER = 1.5
"""How much more often a sample of a novel class is mistaken: known ones rest on more than a few answers."""


@dataclass(frozen=True)
class Spread:
    """How sure it is that what wins is right, by the margin.

    Attributes
    ----------
    usual
        The median margin, in logits, of what is won in the pool.
    level
        Logit of being right, but for the margin.

    >>> spread = Spread.of(torch.tensor([1.0, 6.0]), torch.ones(2), right=0.8)
    >>> spread.sure(torch.tensor([1.0, 6.0])).round(decimals=2)  # the larger margin is surer; 0.8 on average
    tensor([0.6300, 0.9700])
    """

    usual: float
    level: float

    @classmethod
    def of(cls, margins: Tensor, weights: Tensor, right: float) -> "Spread | None":
        """Such that the share `right` is right on average; None if nothing is won.

        Parameters
        ----------
        weights
            How many samples of the pool each margin stands for.
        """
        if not len(margins):
            return None
        order = margins.argsort()
        below = weights[order].cumsum(0)
        usual = max(float(margins[order][torch.searchsorted(below, below[-1] / 2)]), 1e-6)
        low, high = -20.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            if float((weights * cls(usual, middle).sure(margins)).sum() / below[-1]) < right:
                low = middle
            else:
                high = middle
        return cls(usual, (low + high) / 2)

    def sure(self, margins: Tensor) -> Tensor:
        return torch.sigmoid(self.level + SPREAD * (margins / self.usual).clamp(max=FAR))


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
    """How shares are made of logits. The outcomes are: old, each novel class, none of these.

    Attributes
    ----------
    novel, old
        How sure it is that what a novel class wins is of it, and that what old classes win is old; None if
        logits are taken at their word.
    frequencies
        Of the outcomes in the pool: what is not what it seems is, by half, any of the others.
    learning
        Old classes that are being learned …
    learned
        … and how sure it is that what they win among the old ones is of them. Of others that is not asked.

    >>> sure = Sureness.unchecked()
    >>> sure.shares(torch.tensor([[0.0, 0.0, 0.0, 0.0]]), n_old=2)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    >>> usually = Spread(usual=9.0, level=0.0)
    >>> doubting = Sureness(usually, usually, frequencies=torch.tensor([0.5, 0.25, 0.25]))
    >>> doubting.outcomes(torch.tensor([[-9.0, 9.0, -9.0], [0.0, 0.0, 9.0]])).round(decimals=2)
    tensor([[0.0400, 0.9500, 0.0200],
            [0.5000, 0.0000, 0.5000]])
    """

    novel: Spread | None
    old: Spread | None
    frequencies: Tensor
    learning: Tensor | None = None
    learned: Spread | None = None

    @classmethod
    def unchecked(cls) -> "Sureness":
        """Logits are taken at their word."""
        return cls(None, None, torch.zeros(1))

    def shares(self, logits: Tensor, n_old: int) -> Tensor:
        """Shares of all classes, the last of none of these.

        >>> sure = Sureness(Spread(4.0, 0.0), None, frequencies=torch.tensor([0.6, 0.4, 0.0]))
        >>> shares = sure.shares(torch.tensor([[0.0, 0.0, 4.0, -9.0]]), n_old=2)
        >>> [round(share, 2) for share in shares[0].tolist()]
        [0.11, 0.11, 0.78, 0.0]
        """
        outcome = self.outcomes(outcomes(logits, n_old))
        old = torch.softmax(logits[:, :n_old], dim=1)
        if self.learning is not None and self.learned is not None:
            won, margins, _ = winning(logits[:, :n_old])
            held = held_by(old.scatter(1, won[:, None], 0.0), won, self.learned.sure(margins))
            old = torch.where(torch.isin(won, self.learning)[:, None], held, old)
        return torch.cat([outcome[:, :1] * old, outcome[:, 1:]], dim=1)

    def outcomes(self, logits: Tensor) -> Tensor:
        """Shares of the outcomes, from their logits.

        What nothing explains is old or not with even odds: it looks like neither.
        """
        plain = torch.softmax(logits, dim=1)
        won, margins, novel = winning(logits)
        shares = plain
        others = (plain + self.frequencies.to(plain)).scatter(1, won[:, None], 0.0)
        for spread, whose in ((self.novel, novel), (self.old, won == 0)):
            if spread is not None:
                shares = torch.where(whose[:, None], held_by(others, won, spread.sure(margins)), shares)
        if self.novel is None and self.old is None:
            return shares
        novel_too = plain[:, 1:] / plain[:, 1:].sum(dim=1, keepdim=True).clamp(min=1e-9)
        even = torch.cat([torch.full_like(plain[:, :1], 0.5), novel_too / 2], dim=1)
        return torch.where((won == logits.shape[1] - 1)[:, None], even, shares)


def held_by(others: Tensor, won: Tensor, sure: Tensor) -> Tensor:
    """Shares where the outcome that won is sure to some degree, and the others as likely as is said of them.

    Where there is no other, it is certain.

    >>> held_by(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([0]), torch.tensor([0.6]))
    tensor([[0.6000, 0.1000, 0.3000]])
    """
    total = others.sum(dim=1, keepdim=True)
    sure = torch.where(total > 0, sure[:, None], 1.0)
    return (others / total.clamp(min=1e-30) * (1 - sure)).scatter(1, won[:, None], sure)


def measured(space: Space, competition: Competition, prototypes: ClassPrototypes) -> Sureness:
    """How sure this competition may be.

    Classes that are being learned are mistaken `HARDER` times as often as known ones are on the validation set,
    and where answers say otherwise, as these do. Where known classes are mistaken for one another, so are
    samples of novel ones for known ones: that many of them are among what old classes win.
    """
    n_old, weights = space.old.shape[0], space.weights
    every = competition.logits(space.anchors_and_validation, prototypes)[: len(space.anchors)]
    logits = outcomes(every, n_old)
    won, margins, novel = winning(logits)
    frequencies = (torch.softmax(logits, dim=1) * weights[:, None]).sum(dim=0) / weights.sum()
    mistaken = 1 - space.told_apart
    right, judged = competition.judged()
    level = (right + KNOWN * max(0.0, 1 - HARDER * mistaken)) / (judged + KNOWN)
    sure = Sureness(Spread.of(margins[novel], weights[novel], level), None, frequencies)
    old = won == 0
    missed = mistaken * n_old / max(1, n_old + logits.shape[1] - 3)
    found = float((weights * (1 - sure.outcomes(logits)[:, 0]))[~old].sum())
    novel_too = found * missed / (1 - missed) / max(1.0, float(weights[old].sum()))
    likeliest, apart, _ = winning(every[:, :n_old])
    learned = old & torch.isin(likeliest, competition.learning)
    return Sureness(
        sure.novel,
        Spread.of(margins[old], weights[old], 1 - min(0.5, novel_too)),
        frequencies,
        competition.learning,
        Spread.of(apart[learned], weights[learned], level),
    )
