"""How many labels a budget allows, and how they are spread over rounds: one rule for every door."""

import math
from typing import Any

import numpy as np

from cual.errors import BadBudget


def allotment(left: int, budget: int, rounds: int, first_share: float | None) -> int:
    """Questions of a round: a first share until a novel class is known, then the rest evenly.

    Parameters
    ----------
    left, budget
        Labels that are left, and that there were.
    rounds
        Rounds that are left, this one included.
    first_share
        Share of the budget for a round of first questions; None once a novel class is known.

    >>> allotment(20, 20, rounds=10, first_share=0.4), allotment(12, 20, rounds=9, first_share=None)
    (8, 2)
    """
    if left and first_share is not None:
        return min(left, max(1, round(first_share * budget)))
    return math.ceil(left / rounds)


def count_labels(budget: Any, pool_size: int, factor: float = 1.0) -> int:
    """Labels that `budget` buys from a pool: a float is a share of it, an int a count; the pool at most.

    >>> count_labels(0.005, 1560), count_labels(20, 1560), count_labels(5000, 1560)
    (8, 20, 1560)
    >>> count_labels(0.0001, 1560)
    Traceback (most recent call last):
    cual.errors.BadBudget: a budget of 0.0001 of 1560 samples is below one label; give 0.000641 or a count
    """
    if isinstance(budget, bool) or not isinstance(budget, int | float | np.integer | np.floating):
        raise BadBudget(f"a budget is a share of the pool (float) or a number of labels (int), not {budget!r}")
    if isinstance(budget, int | np.integer):
        if budget < 1:
            raise BadBudget(f"a budget of {budget} labels is below one label")
        labels = float(budget)
    else:
        if not 0 <= budget <= 1:
            raise BadBudget(f"a budget given as a float is a share between 0 and 1 of the pool, not {budget}")
        labels = float(budget) * pool_size
        if labels < 0.5:
            raise BadBudget(
                f"a budget of {budget} of {pool_size} samples is below one label; "
                f"give {1 / pool_size:.3g} or a count"
            )
    return min(pool_size, max(1, math.floor(labels * factor + 0.5))) if math.isfinite(factor) else pool_size


def check_overlap(overlap: Any, budget: int) -> int:
    """To how many people each question is put: one at least, and no more than there are labels.

    >>> check_overlap(2, budget=30)
    2
    >>> check_overlap(3, budget=2)
    Traceback (most recent call last):
    cual.errors.BadBudget: a budget of 2 labels does not pay for one question to 3 people
    """
    if isinstance(overlap, bool) or not isinstance(overlap, int | np.integer) or overlap < 1:
        raise BadBudget(f"overlap is the number of people each question is put to, from 1 on, not {overlap!r}")
    if overlap > budget:
        raise BadBudget(f"a budget of {budget} labels does not pay for one question to {overlap} people")
    return int(overlap)
