"""What each named method is made of: CUAL as the paper states it, and how every other one differs from it."""

import math
from typing import Any

import pytest

from cual.errors import BadOption, UnknownName
from cual.heads import Ridge
from cual.methods import Method, methods

CUAL = methods["cual"]
RANDOM = {
    "first": "random",
    "then": "random",
    "first_share": 1.0,
    "believe": None,
    "ends_below_threshold": False,
}
ENTROPY = {"learner": "hesitation", "believe": None, "ends_below_threshold": False}
DIFFERENCES: dict[str, dict[str, Any]] = {
    "al-top": {"then": "top"},
    "al-random": {"first": "random", "then": "random"},
    "al-oneshot": {"first_share": 1.0},
    "al-oneshot-both": {"first_share": 1.0, "believes_last": True},
    "only-al": {"believe": None},
    "only-al-random": RANDOM,
    "only-al-8x": {"believe": None, "budget_factor": 8.0},
    "er-entropy": ENTROPY,
    "er-margin": ENTROPY,
    "er-entropy-oneshot": {**ENTROPY, "first_share": 1.0},
    "er-entropy-top": {**ENTROPY, "first": "entropy", "then": "entropy"},
    "er-random": RANDOM,
    "ccic": {**RANDOM, "head": "ccic"},
    "pseudo-er-entropy": {**ENTROPY, "believe": "most-certain"},
    "pseudo-er-margin": {**ENTROPY, "believe": "most-certain"},
    "pseudo-er-entropy-all": {**ENTROPY, "believe": "most-certain-of-all"},
    "pseudo-er-margin-all": {**ENTROPY, "believe": "most-certain-of-all"},
    "incdfm": {"learner": "novelty"},
    "oracle": {**RANDOM, "budget_factor": None},
    "oracle-ridge": {**RANDOM, "budget_factor": None, "head": "ridge"},
    "oracle-novel": {**RANDOM, "budget_factor": None, "head": "ridge"},
    "cual-plus": {
        "learner": "prototypes",
        "first": "coverage",
        "then": "coverage",
        "first_share": 0.6,
        "believe": "likelier-than-not",
        "believes_last": True,
        "rounds": 4,
        "ends_below_threshold": False,
        "head": "ridge",
    },
}


def test_cual_is_what_the_paper_and_the_design_say() -> None:
    """40 % of the budget first, ten rounds at most, T_inner at two deviations, α a fifth, 2500 replayed."""
    row = CUAL.to_json()
    assert {name: value for name, value in row.items() if not isinstance(value, dict | str)} == {
        "first_share": 0.4,
        "believes_last": False,
        "rounds": 10,
        "stds": 2.0,
        "ends_below_threshold": True,
        "validation_share": 0.1,
        "buffer": 2500,
        "budget_factor": 1.0,
    }
    assert row["learner"]["uncertainty"] == {"name": "fre", "variance": 0.995}
    assert row["believe"] == {"name": "most-novel", "alpha": 0.2}
    assert (row["first"], row["then"]) == ({"name": "novel"}, {"name": "ambiguous"})


@pytest.mark.parametrize("name", [name for name in methods.names() if name in DIFFERENCES])
def test_a_method_differs_from_cual_in_what_it_is_for(name: str) -> None:
    row, usual = methods[name].to_json(), CUAL.to_json()
    differing = {
        key: value for key, value in row.items() if value != usual[key] and key not in ("name", "summary")
    }
    named = {key: value["name"] if isinstance(value, dict) else value for key, value in differing.items()}
    assert named == DIFFERENCES[name]


def test_what_names_do_not_tell() -> None:
    assert methods["incdfm"].learner.unnamed
    assert not CUAL.learner.unnamed
    for name, different in DIFFERENCES.items():
        if different.get("learner") == "hesitation":
            assert methods[name].learner.measure in name
    assert math.isinf(methods["oracle"].budget_factor)
    for name in ("cual-plus", "oracle-ridge", "oracle-novel"):
        assert methods[name].head.expand == -1


@pytest.mark.parametrize(
    ("option", "inside", "outside"),
    [
        ("first_share", [0, 0.5, 1], [-0.01, 1.01]),
        ("validation_share", [0, 0.5], [-0.01, 0.51]),
        ("budget_factor", [0, 1000, math.inf], [-0.01]),
        ("stds", [-5, 0, 1e9], []),
        ("rounds", [1, 100], [0, -1]),
        ("buffer", [1, 10**6], [0, -1]),
    ],
)
def test_options_lie_within_their_bounds(option: str, inside: list[float], outside: list[float]) -> None:
    for value in inside:
        assert getattr(CUAL.but(**{option: value}), option) == value
    for value in outside:
        with pytest.raises(BadOption, match=option):
            CUAL.but(**{option: value})


def test_methods_are_equal_if_all_that_they_are_made_of_is() -> None:
    assert Method.from_json(CUAL.to_json()) == CUAL
    assert CUAL.but(stds=2.5) != CUAL
    assert CUAL.but(head=Ridge()) != CUAL
    assert CUAL.to_json() != CUAL
    assert len({CUAL, Method.from_json(CUAL.to_json()), CUAL.but(stds=2.5)}) == 2


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_may_be_believed_but_every_other_part_is_needed(nothing: Any) -> None:
    assert CUAL.but(believe=nothing).believe is None
    assert CUAL.but(believe="most-certain").believe.alpha == 0.2
    for part in ("learner", "first", "then", "head"):
        with pytest.raises((BadOption, UnknownName)):
            CUAL.but(**{part: nothing})
    with pytest.raises(BadOption, match="must believe"):
        methods["incdfm"].but(believe=nothing)
    assert methods["only-al"].but(learner={"unnamed": False}).believe is None


@pytest.mark.parametrize("part", ["learner", "first", "then", "believe", "head"])
def test_a_method_is_made_of_registered_parts_only(part: str) -> None:
    """Whoever composes one by hand is told at once, not when it is used or saved."""
    wrong = [object(), "novelty"] + [None] * (part != "believe")
    for given in wrong:
        with pytest.raises(UnknownName, match="is not registered as"):
            Method(name="mine", **{part: given})
    assert Method(name="mine", believe=None).believe is None
