"""Which samples are held out, never trained on: of first classes, of what is accepted, of what is taught."""

import numpy as np

from cual.learned import coins
from cual.learners import Accepted
from cual.seeds import generator
from cual.types import BoolArray, IntArray


def held_out_of_first(codes: IntArray, share: float, seed: int) -> BoolArray:
    """Which samples of the first classes are held out: `share` of each class of three or more.

    >>> int(held_out_of_first(np.repeat([0, 1], [20, 2]), share=0.1, seed=0).sum())
    2
    """
    held_out = np.zeros(len(codes), dtype=np.bool_)
    for c in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == c)
        n = max(1, round(share * len(rows))) if len(rows) >= 3 else 0
        held_out[generator(seed, 0, c, "validation").permutation(rows)[:n]] = True
    return held_out


def held_out_of_accepted(accepted: Accepted, n_old: int, share: float, seed: int, task: int) -> BoolArray:
    """Which accepted samples are held out: `share` of each class that is learned, believed ones first.

    >>> rows, old_and_new = np.arange(20), np.repeat([0, 1], 10)
    >>> believed = Accepted(rows, old_and_new, human=np.zeros(20, np.int64))
    >>> held_out = held_out_of_accepted(believed, n_old=1, share=0.2, seed=0, task=1)
    >>> np.bincount(old_and_new[held_out]).tolist()
    [2, 2]
    """
    held_out = np.zeros(len(accepted.rows), dtype=np.bool_)
    learned = (accepted.classes >= n_old) | (accepted.human == 0)
    for c in np.unique(accepted.classes[learned]).tolist():
        mine = np.flatnonzero(accepted.classes == c)
        believed = mine[accepted.human[mine] == 0]
        candidates = generator(seed, task, c, "validation").permutation(believed if len(believed) else mine)
        held_out[candidates[: int(share * len(mine))]] = True
    return held_out


def held_out_of_taught(marks: IntArray, codes: IntArray, n_old: int, share: float, seed: int) -> BoolArray:
    """Which taught samples are held out: each by a coin of its own, so that no other sample has a say in it.

    So whoever is taught fewer samples, or under other names, holds out the same ones. Of a new class of which
    the coins leave nothing to learn from, all is learned.

    >>> marks, codes = np.arange(1000), np.zeros(1000, np.int64)
    >>> held_out = held_out_of_taught(marks, codes, n_old=1, share=0.1, seed=0)
    >>> fewer = held_out_of_taught(marks[:500], codes[:500], n_old=1, share=0.1, seed=0)
    >>> int(held_out.sum()), bool((held_out[:500] == fewer).all())
    (110, True)
    """
    held_out = coins(marks, seed) < share
    new, rest = codes[codes >= n_old], codes[~held_out]
    return held_out & ~np.isin(codes, np.setdiff1d(new, rest))
