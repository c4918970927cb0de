"""The contract of a rule that says what to believe without asking. Whether that is true is not checked here."""

import numpy as np

from cual.checks import options
from cual.checks.base import Suite, expect, first, given, same_array, untouched_random_state
from cual.checks.views import Contents, expect_once, expect_positions, view_of, views
from cual.pseudo_labels import BelievesKnown, PseudoLabels

suite = options.add_to(Suite[PseudoLabels]("rule of belief", needs=("choose", "doubts")))


@suite.check
def believes_positions_of_the_view(rule: PseudoLabels) -> None:
    for case, view in views():
        with given(case):
            expect_positions(rule.choose(view), view)


@suite.check
def never_believes_twice(rule: PseudoLabels) -> None:
    for case, view in views():
        with given(case):
            expect_once(rule.choose(view))


@suite.check
def believes_only_classes_that_are_learned(rule: PseudoLabels) -> None:
    """Novel ones, and old ones of which too little is known; never a class that nobody knows.

    A rule that says it `BelievesKnown` may believe any that somebody knows.
    """
    any_known = isinstance(rule, BelievesKnown)
    for case, view in views():
        with given(case):
            chosen = view.classes[rule.choose(view)]
            old = chosen < (0 if any_known else view.n_old)
            known = chosen[old & ~np.isin(chosen, view.learning)].tolist()
            expect(
                not known,
                f"believes class {first(known)}, though those below {view.n_old} are old and only "
                f"{view.learning.tolist()} of them still learned",
            )


@suite.check
def doubts_are_shares(rule: PseudoLabels) -> None:
    """One of each sample, from 0 to 1."""
    for case, view in views():
        with given(case):
            doubts = rule.doubts(view)
            expect(
                doubts.shape == view.scores.shape and doubts.dtype.kind == "f",
                f"gives doubts of the shape {doubts.shape} in {doubts.dtype}, not one number for each sample",
            )
            outside = doubts[~((doubts >= 0) & (doubts <= 1))].tolist()
            expect(not outside, f"gives a doubt of {first(outside)}, which is not between 0 and 1")


@suite.check
def leaves_the_view_alone(rule: PseudoLabels) -> None:
    for case, view in views():
        before = Contents.of(view)
        with given(case):
            _ = rule.choose(view), rule.doubts(view)
            before.expect_in(view)


@suite.check
def same_view_same_beliefs(rule: PseudoLabels) -> None:
    """At once, and also if it has seen something else meanwhile."""
    other = view_of(12, seed=5)
    for case, view in views():
        with given(case):
            chosen, doubts = rule.choose(view), rule.doubts(view)
            for between in (None, other):
                if between is not None:
                    _ = rule.choose(between), rule.doubts(between)
                expect(same_array(chosen, rule.choose(view)), "believes something else the second time")
                expect(same_array(doubts, rule.doubts(view)), "doubts something else the second time")


@suite.check
def draws_nothing_at_random(rule: PseudoLabels) -> None:
    for case, view in views():
        with given(case), untouched_random_state():
            _ = rule.choose(view), rule.doubts(view)
