"""Is another question worth it? How many novel samples a pool probably holds, and how many stay unlabelled.

Estimates from scores alone, whatever the method; nothing here asks or believes.
"""

import math
from dataclasses import dataclass

import numpy as np

from cual.learners import Scored

OLD_HALF = 0.5
"""Known validation samples with lower scores than their median: where hardly any novel sample lies."""
AT_ONCE = 2**20
"""Scores that are looked at together."""
WORTH = 2.0
"""A question should settle at least this many samples, itself included."""


@dataclass(frozen=True)
class Outlook:
    """What people may expect of further questions.

    Attributes
    ----------
    novel
        Novel samples that the pool probably holds; None while nothing was scored, or answered of a pool that
        has drifted: all of it looks novel then.
    left
        Those of them that have neither an answer nor a pseudo-label.
    gain
        Samples that another question would probably settle.
    worth_asking
        Whether that is more than the question itself.
    drift
        What all of the pool has in common, if it has drifted.

    >>> str(Outlook(novel=120.4, left=31.2, gain=6.1, worth_asking=True)).split(". ")[0]
    'About 120 samples are novel, 31 of them still without a label'
    """

    novel: float | None
    left: float | None
    gain: float | None
    worth_asking: bool
    drift: "Drifted | None" = None

    def __str__(self) -> str:
        if self.novel is None or self.left is None or self.gain is None:
            if self.drift is not None:
                return f"{self.drift} How much of it is novel, only answers can tell."
            return "Nothing is known yet of how many novel samples there are."
        say = "is worth it" if self.worth_asking else "is hardly worth it"
        look = "" if self.drift is None else f"{self.drift} "
        return (
            f"{look}About {self.novel:.0f} samples are novel, {self.left:.0f} of them still without a label. "
            f"Another question {say}: it would settle about {self.gain:.0f}."
        )


@dataclass(frozen=True)
class Drifted:
    """A pool that has changed as a whole: what is not novel looks otherwise than it did.

    Attributes
    ----------
    size
        How far nine tenths of the pool have moved together, in deviations of known samples.
    share
        Of the pool, what is of known classes, and its interval of 95 %; None before anything was answered.

    >>> print(Drifted(size=2.34, share=None))
    This looks like known classes in a new look: the whole pool has moved by 2.3 deviations.
    """

    size: float
    share: tuple[float, float, float] | None

    def __str__(self) -> str:
        moved = f"the whole pool has moved by {self.size:.1f} deviations"
        if self.share is None:
            return f"This looks like known classes in a new look: {moved}."
        share, low, high = (f"{100 * value:.0f}" for value in self.share)
        some = "Most" if self.share[0] > 0.5 else "A part"
        return (
            f"{some} of this looks like known classes in a new look: {moved}, "
            f"and {share} % of it ({low} to {high}) are of known classes."
        )


def drifted(size: float, pool: int, novel: float, said_novel: int, said: int) -> Drifted:
    """How much of a drifted pool is known, by what was found novel; how sure that is, by the answers.

    The interval is Wilson's, of the answers that named a known class. Questions are spread over a drifted pool,
    but not drawn by lot: the estimate is always inside.

    >>> drifted(4.2, pool=100, novel=20.0, said_novel=2, said=8).share
    (0.8, 0.41, 0.93)
    """
    if not said:
        return Drifted(size, None)
    share, p, z = 1 - min(1.0, novel / pool), 1 - said_novel / said, 1.96
    centre = (p + z**2 / (2 * said)) / (1 + z**2 / said)
    reach = z / (1 + z**2 / said) * math.sqrt(p * (1 - p) / said + z**2 / (4 * said**2))
    low, high = min(share, centre - reach), max(share, centre + reach)
    return Drifted(size, (round(share, 4), round(max(0.0, low), 2), round(min(1.0, high), 2)))


def novel_samples(scored: Scored) -> float:
    """How many of the scored samples are probably novel.

    Where a score is a probability (it has a natural threshold) they are added up. Else by what is *not* novel
    (Storey, 2002): below the median of the known validation samples' scores lie half of the old samples and
    hardly a novel one, so the pool's old samples are twice as many as it has there.

    >>> import torch
    >>> novel_samples(Scored(np.array([1, 2, 3, 4, 9.0]), np.full(5, -1), torch.tensor([1.0, 2, 3, 4])))
    1.0
    """
    if not len(scored.scores):
        return 0.0
    if scored.threshold is not None:
        return float(scored.scores.sum(dtype=np.float64))
    known = np.sort(scored.validation.cpu().numpy())
    below = 0
    for start in range(0, len(scored.scores), AT_ONCE):
        scores = scored.scores[start : start + AT_ONCE]
        low, high = (np.searchsorted(known, scores, side) for side in ("left", "right"))
        middle = (low + high) / 2 / len(known)  # of equals, of which there may be many
        below += int((middle <= OLD_HALF).sum())
    return max(0.0, len(scored.scores) - below / OLD_HALF)


def outlook(
    unsettled: float,
    before: int,
    since: float,
    said_novel: int,
    said: int,
    labelled: bool = True,
    drift: Drifted | None = None,
) -> Outlook:
    """The outlook of an adaptation.

    Parameters
    ----------
    unsettled
        Novel samples among those that had no label when the pool was last scored; NaN if it never was.
    before, since
        Novel samples that got a label, an answer or a pseudo-label, before that and since.
    said_novel, said
        Answers that named a novel class, and all answers.
    labelled
        Whether the pool was labelled since the first answer. Before that, what an answer settles can only be
        guessed: its share of what is left.
    drift
        Whether all of the pool has changed. Then an answer about a known class is worth asking for, too.

    >>> ahead = outlook(100.0, before=4, since=80, said_novel=4, said=5)
    >>> ahead.novel, ahead.left, round(ahead.gain), ahead.worth_asking
    (104.0, 20.0, 14, True)
    """
    if math.isnan(unsettled) or (drift is not None and drift.share is None):
        return Outlook(None, None, None, True, drift)
    left = max(0.0, unsettled - since)
    hit = (said_novel + 1) / (said + 2)  # how likely a question meets a novel sample
    each = (before + since) / said_novel if said_novel else math.inf
    if not labelled:
        each = left / (said_novel + 1)
    gain = hit * min(left, each)
    return Outlook(unsettled + before, left, gain, gain >= WORTH or drift is not None, drift)
