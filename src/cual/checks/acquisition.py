"""The contract of a strategy that chooses whom to ask. Whether it chooses well is not checked here."""

from collections.abc import Iterator

import numpy as np

from cual.acquisition import Acquisition, PoolView
from cual.checks import options
from cual.checks.base import Suite, expect, given, same_array, untouched_random_state
from cual.checks.views import Contents, expect_once, expect_positions, view_of, views
from cual.types import IntArray

suite = options.add_to(Suite[Acquisition]("acquisition strategy", needs=("choose",)))
SEED = 7


def questions() -> Iterator[tuple[str, PoolView, int]]:
    """Views, and how many samples to ask about: none, some, all, and more than there are."""
    for case, view in views():
        few = len(view.scores) < 50  # k-means over hundreds of centres takes its time
        for n in (0, 1, 6, len(view.scores), len(view.scores) + 3) if few else (1, 9):
            yield f"{case}, n = {n}", view, n


def choice(strategy: Acquisition, view: PoolView, n: int) -> IntArray:
    return strategy.choose(view, n, np.random.default_rng(SEED))


@suite.check
def chooses_positions_of_the_view(strategy: Acquisition) -> None:
    for case, view, n in questions():
        with given(case):
            expect_positions(choice(strategy, view, n), view)


@suite.check
def never_asks_about_more_than_n(strategy: Acquisition) -> None:
    for case, view, n in questions():
        with given(case):
            chosen = choice(strategy, view, n)
            expect(len(chosen) <= n, f"asks about {len(chosen)} samples instead of at most {n}")


@suite.check
def never_asks_twice(strategy: Acquisition) -> None:
    for case, view, n in questions():
        with given(case):
            expect_once(choice(strategy, view, n))


@suite.check
def leaves_the_view_alone(strategy: Acquisition) -> None:
    for case, view, n in questions():
        before = Contents.of(view)
        with given(case):
            _ = choice(strategy, view, n)
            before.expect_in(view)


@suite.check
def same_seed_same_choice(strategy: Acquisition) -> None:
    """At once, and also if it has chosen from something else meanwhile."""
    other = view_of(12, seed=5)
    for case, view, n in questions():
        with given(case):
            chosen = choice(strategy, view, n)
            for between in (None, other):
                if between is not None:
                    _ = choice(strategy, between, 3)
                again = choice(strategy, view, n)
                expect(same_array(chosen, again), f"chooses {again} after {chosen}, by the same seed")


@suite.check
def draws_only_from_its_generator(strategy: Acquisition) -> None:
    for case, view, n in questions():
        with given(case), untouched_random_state():
            _ = choice(strategy, view, n)
