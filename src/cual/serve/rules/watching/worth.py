"""Whether an adaptation is worth it: samples that it would settle against the questions that it costs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

PER_GROUP = 5
"""Questions for each group: one names it, the others find where it ends."""
MOST_QUESTIONS = 50
LEAST_GAIN = 5.0


@dataclass(frozen=True)
class Worth:
    """What an adaptation would come to.

    Attributes
    ----------
    groups
        Groups that its questions suffice for, the largest ones.
    settled
        Samples that these hold: all are settled once the group has a name.
    questions
        Its budget.
    worth
        Whether each question settles enough.
    """

    groups: int
    settled: int
    questions: int
    worth: bool


def worth(
    sizes: Sequence[int],
    looked_at: int,
    waiting: int,
    most_questions: int = MOST_QUESTIONS,
    least_gain: float = LEAST_GAIN,
) -> Worth:
    """Weigh an adaptation on what waits.

    Each group costs `PER_GROUP` questions, so many groups as `most_questions` pays for, one at least; groups
    are larger by as much as more samples wait than were looked at. It is worth it if a question settles
    `least_gain` samples or more: samples that form no group count for nothing, so false alarms alone, however
    many, never are.

    Parameters
    ----------
    sizes
        Of the groups that are no rim of a known class.
    looked_at, waiting
        Samples unlike anything known that the groups were found in, and all of them.

    >>> worth([40, 12], looked_at=80, waiting=80)
    Worth(groups=2, settled=52, questions=10, worth=True)
    >>> worth([12], looked_at=80, waiting=80)
    Worth(groups=1, settled=12, questions=5, worth=False)
    >>> worth([], looked_at=500, waiting=500)
    Worth(groups=0, settled=0, questions=0, worth=False)
    """
    payable = max(1, most_questions // PER_GROUP)
    largest = sorted(sizes, reverse=True)[:payable]
    if not largest or looked_at <= 0:
        return Worth(0, 0, 0, False)
    settled = round(sum(largest) * max(1.0, waiting / looked_at))
    questions = min(PER_GROUP * len(largest), most_questions)
    return Worth(len(largest), settled, questions, settled >= least_gain * questions)
