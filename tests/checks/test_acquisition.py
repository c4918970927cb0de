"""Every check of strategies can fail: each one catches a strategy that is broken in its way."""

import itertools

import numpy as np
import pytest

from contracts import Breaks, expect_caught
from cual.acquisition import PoolView
from cual.acquisition.top import Top
from cual.types import IntArray

breaks = Breaks()


class Strategy(Top):
    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        return self.from_best(super().choose(view, n, rng), view, n, rng)

    def from_best(self, best: IntArray, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        raise NotImplementedError


@breaks(
    "chooses_positions_of_the_view", "chooses position 1, which is none of the view, given 1 samples, n = 1"
)
class OneOff(Strategy):
    def from_best(self, best, view, n, rng):
        return best + 1


@breaks("chooses_positions_of_the_view", "chooses position -1, which is none of the view")
class CountsFromTheEnd(Strategy):
    def from_best(self, best, view, n, rng):
        return best - len(view.scores)


@breaks("chooses_positions_of_the_view", "gives a list instead of a row of positions in int64")
class GivesAList(Strategy):
    def from_best(self, best, view, n, rng):
        return best.tolist()


@breaks("chooses_positions_of_the_view", "gives an array of int32 of the shape (0,)")
class GivesShortNumbers(Strategy):
    def from_best(self, best, view, n, rng):
        return best.astype(np.int32)


@breaks("chooses_positions_of_the_view", "gives an array of bool")
class GivesAMask(Strategy):
    def from_best(self, best, view, n, rng):
        return np.isin(np.arange(len(view.scores)), best)


@breaks("never_asks_about_more_than_n", "asks about 30 samples instead of at most 0, given 30 samples, n = 0")
class AsksAboutMany(Strategy):
    def from_best(self, best, view, n, rng):
        return np.arange(len(view.scores)) if len(view.scores) > 5 else best


@breaks("never_asks_twice", "chooses position 0 more than once, given 2 samples, n = 6")
class AsksTwice(Strategy):
    def from_best(self, best, view, n, rng):
        return best[np.arange(n) % len(best)] if len(best) > 1 else best


@breaks("leaves_the_view_alone", "changes the scores of the view")
class SortsInPlace(Strategy):
    def from_best(self, best, view, n, rng):
        view.scores.sort()
        return best


@breaks("leaves_the_view_alone", "changes the probabilities of the view")
class SharpensInPlace(Strategy):
    def from_best(self, best, view, n, rng):
        p = view.probabilities()
        p **= 2
        return best


@breaks("same_seed_same_choice", "by the same seed, given ")
class DrawsASeed(Strategy):
    def from_best(self, best, view, n, rng):
        return np.random.default_rng().permutation(best)


@breaks("same_seed_same_choice", "by the same seed")
class Remembers(Strategy):
    turns = itertools.count()

    def from_best(self, best, view, n, rng):
        return np.roll(best, next(self.turns) % 3)


@breaks("draws_only_from_its_generator", "draws from a global random generator instead of the one it is given")
class DrawsFromNumpy(Strategy):
    def from_best(self, best, view, n, rng):
        return np.random.permutation(best)  # noqa: NPY002


@breaks("draws_only_from_its_generator", "draws from a global random generator instead of the one it is given")
class SetsTheSeed(Strategy):
    def from_best(self, best, view, n, rng):
        np.random.seed(0)  # noqa: NPY002
        return np.random.permutation(best)  # noqa: NPY002


@pytest.mark.parametrize(("part", "check", "said"), breaks.parts)
def test_a_broken_strategy_is_caught(part: type, check: str, said: str) -> None:
    expect_caught(part(), check, said)


def test_every_check_can_fail() -> None:
    assert breaks.missing([Top()]) == set()
