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
        Novel samples that the pool probably holds; None while nothing was scored.
    left
        Those of them that have neither an answer nor a pseudo-label.
    gain
        Samples that another question would probably settle.
    worth_asking
        Whether that is more than the question itself.
    """

    novel: float | None
    left: float | None
    gain: float | None
    worth_asking: bool

    def __str__(self) -> str:
        if self.novel is None or self.left is None or self.gain is None:
            return "Nothing is known yet of how many novel samples there are."
        say = "is worth it" if self.worth_asking else "is hardly worth it"
        return (
            f"About {self.novel:.0f} samples are novel, {self.left:.0f} of them still without a label. "
            f"Another question {say}: it would settle about {self.gain:.0f}."
        )


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
    unsettled: float, before: int, since: float, said_novel: int, said: int, labelled: bool = True
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

    >>> ahead = outlook(100.0, before=4, since=80, said_novel=4, said=5)
    >>> ahead.novel, ahead.left, round(ahead.gain), ahead.worth_asking
    (104.0, 20.0, 14, True)
    """
    if math.isnan(unsettled):
        return Outlook(None, None, None, worth_asking=True)
    left = max(0.0, unsettled - since)
    hit = (said_novel + 1) / (said + 2)  # how likely a question meets a novel sample
    each = (before + since) / said_novel if said_novel else math.inf
    if not labelled:
        each = left / (said_novel + 1)
    gain = hit * min(left, each)
    return Outlook(unsettled + before, left, gain, gain >= WORTH)
