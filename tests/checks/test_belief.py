"""Every check of rules of belief can fail: each one catches a rule that is broken in its way."""

import itertools

import numpy as np
import pytest

from contracts import Breaks, expect_caught
from cual.pseudo_labels import LikelierThanNot, MostNovel

breaks = Breaks()


@breaks("believes_positions_of_the_view", "gives an array of bool")
class GivesAMask(MostNovel):
    def choose(self, view):
        return view.scores > view.threshold


@breaks("believes_positions_of_the_view", "which is none of the view")
class OneOff(MostNovel):
    def choose(self, view):
        return super().choose(view) + len(view.scores)


@breaks("never_believes_twice", "more than once, given")
class BelievesTwice(MostNovel):
    def choose(self, view):
        return np.repeat(super().choose(view), 2)


@breaks(
    "believes_only_classes_that_are_learned", "though those below 2 are old and only [] of them still learned"
)
class BelievesOldClasses(MostNovel):
    def choose(self, view):
        return np.arange(len(view.scores))


@breaks("believes_only_classes_that_are_learned", "believes class -1")
class BelievesWhatNobodyKnows(MostNovel):
    def choose(self, view):
        return np.flatnonzero((view.classes >= view.n_old) | (view.classes < 0))


@breaks("doubts_are_shares", "gives a doubt of 1.5, which is not between 0 and 1")
class DoubtsTooMuch(MostNovel):
    def doubts(self, view):
        return np.full(len(view.scores), 1.5, np.float32)


@breaks("doubts_are_shares", "gives a doubt of nan")
class DividesByNothing(MostNovel):
    def doubts(self, view):
        with np.errstate(invalid="ignore"):
            return np.clip(view.scores / view.scores.max(initial=0), 0, 1)


@breaks("doubts_are_shares", "gives doubts of the shape ()")
class DoubtsOnce(MostNovel):
    def doubts(self, view):
        return np.float32(0.5)


@breaks("leaves_the_view_alone", "changes the scores of the view")
class CutsInPlace(MostNovel):
    def choose(self, view):
        view.scores[view.scores < view.threshold] = 0
        return super().choose(view)


@breaks("leaves_the_view_alone", "changes the probabilities of the view")
class StrikesOutTheBest(LikelierThanNot):
    def doubts(self, view):
        shares = view.probabilities()
        shares[np.arange(len(shares)), shares.argmax(axis=1)] = 0
        return shares.sum(axis=1)


@breaks("same_view_same_beliefs", "believes something else the second time")
class Alternates(MostNovel):
    turns = itertools.count()

    def choose(self, view):
        return super().choose(view)[next(self.turns) % 2 :]


@breaks("same_view_same_beliefs", "doubts something else the second time")
class DoubtsByLot(MostNovel):
    def doubts(self, view):
        return np.random.default_rng().random(len(view.scores))


@breaks("draws_nothing_at_random", "draws from a global random generator")
class BreaksTiesByLot(MostNovel):
    def choose(self, view):
        return np.random.permutation(super().choose(view))  # noqa: NPY002


@pytest.mark.parametrize(("part", "check", "said"), breaks.parts)
def test_a_broken_rule_is_caught(part: type, check: str, said: str) -> None:
    expect_caught(part(), check, said)


def test_every_check_can_fail() -> None:
    assert breaks.missing([MostNovel()]) == set()
