"""Contracts of parts, to run on your own: does a strategy, a head, a learner keep to what others rely on?

>>> from cual.acquisition.top import Top
>>> from cual.checks import check_acquisition, checks
>>> check_acquisition(Top())
>>> [name for name, check in checks(Top())][3:5]
['chooses_positions_of_the_view', 'never_asks_about_more_than_n']

Whether a part is any good is not checked. Without pytest; `docs/checks.md` shows how to use it with pytest.
"""

from typing import Any

from cual.acquisition import Acquisition, acquisitions
from cual.checks import acquisition, belief, head_abilities, learner, method, uncertainty
from cual.checks.base import Check, Suite, objects
from cual.checks.options import axis_of
from cual.errors import UnknownName
from cual.heads import Head, heads
from cual.learners import Learner, learners
from cual.methods import Method, methods
from cual.pseudo_labels import PseudoLabels, pseudo_labels
from cual.registry import Registry
from cual.uncertainty import Uncertainty, uncertainties

__all__ = [
    "check_acquisition",
    "check_belief",
    "check_head",
    "check_learner",
    "check_method",
    "check_uncertainty",
    "checks",
]

_SUITES: tuple[tuple[Registry[Any], Suite[Any]], ...] = (
    (pseudo_labels, belief.suite),  # before strategies: these have a `choose` as well
    (acquisitions, acquisition.suite),
    (uncertainties, uncertainty.suite),
    (heads, head_abilities.suite),
    (learners, learner.suite),
    (methods, method.suite),
)


def check_acquisition(part: Acquisition | type[Acquisition]) -> None:
    """Raise `AssertionError` where a strategy breaks the contract of those who choose whom to ask.

    >>> import numpy as np
    >>> class Twice:
    ...     def choose(self, view, n, rng):
    ...         return np.zeros(min(2, len(view.scores)), dtype=np.int64)
    >>> check_acquisition(Twice())
    Traceback (most recent call last):
    AssertionError: Twice() asks about 1 samples instead of at most 0, given 1 samples, n = 0
    """
    acquisition.suite.run(part)


def check_belief(part: PseudoLabels | type[PseudoLabels]) -> None:
    """Raise `AssertionError` where a rule breaks the contract of those who say what to believe."""
    belief.suite.run(part)


def check_uncertainty(part: Uncertainty[Any] | type[Uncertainty[Any]]) -> None:
    """Raise `AssertionError` where an uncertainty breaks the contract of distances to classes."""
    uncertainty.suite.run(part)


def check_head(part: Head | type[Head]) -> None:
    """Raise `AssertionError` where an empty head breaks the contract of heads, abilities included."""
    head_abilities.suite.run(part)


def check_learner(part: Learner | type[Learner]) -> None:
    """Raise `AssertionError` where a learner, its A_s or its detector break the contract of learners."""
    learner.suite.run(part)


def check_method(part: Method) -> None:
    """Raise `AssertionError` where a method breaks the contract of whole adaptations."""
    method.suite.run(part)


def checks(part: object) -> list[tuple[str, Check]]:
    """Every check of a part by name, each to be called without arguments.

    Parameters
    ----------
    part
        An object, which is checked as it is. Or a class, of which one object is checked for each row of
        parameters that its classmethod ``unit_test_params()`` gives, or one of its defaults if it has none.

    >>> from cual.acquisition.top import Top
    >>> [name for name, _ in checks(Top)][:2]
    ['parameters_are_attributes', 'options_survive_json']
    """
    named_checks: list[tuple[str, Check]] = []
    for each, parameters in objects(part):
        for name, check in _suite_of(each).of(each):
            named_checks.append((f"{name} ({parameters})" if parameters else name, check))
    return named_checks


def _suite_of(part: object) -> Suite[Any]:
    """By where a part is registered, else by what it can do."""
    registered = axis_of(part)
    for axis, suite in _SUITES:
        if axis is registered or (registered is None and suite.fits(part)):
            return suite
    kinds = ", ".join(suite.kind for _, suite in _SUITES)
    raise UnknownName(f"{type(part).__name__} is not registered, and has not what makes it one of: {kinds}")
