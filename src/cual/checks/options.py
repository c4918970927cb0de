"""The contract of every part's options: its constructor's signature lists them. What parts do is not here."""

import inspect
import json
from typing import Any, TypeVar

from cual.acquisition import acquisitions
from cual.checks.base import Suite, expect
from cual.errors import CualError
from cual.heads import heads
from cual.learners import learners
from cual.pseudo_labels import pseudo_labels
from cual.registry import Registry, options_of, to_json
from cual.uncertainty import uncertainties

AXES: tuple[Registry[Any], ...] = (acquisitions, pseudo_labels, uncertainties, heads, learners)
NO_OPTION = "no_part_has_such_an_option"
P = TypeVar("P")


def axis_of(part: object) -> Registry[Any] | None:
    """Where a part is registered; None if it is not."""
    return next((axis for axis in AXES if any(axis[name] is type(part) for name in axis)), None)


def as_json(part: object) -> dict[str, Any]:
    """A part's options as they come back from a file, with its name if it is registered."""
    row = to_json(part) if axis_of(part) is not None else {}
    if not row:
        row = {name: to_json(v) if axis_of(v) is not None else v for name, v in options_of(part).items()}
    return json.loads(json.dumps(row, allow_nan=False))


def of_json(part: object, row: dict[str, Any]) -> Any:
    """The part that `as_json` wrote; one that is not registered is made by its class."""
    axis = axis_of(part)
    return type(part)(**row) if axis is None else axis.part(row)


def parameters_are_attributes(part: object) -> None:
    """What the constructor takes can be read from the part, under the same name."""
    for name, parameter in inspect.signature(type(part)).parameters.items():
        expect(
            parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD),
            f"takes options that its constructor does not name (*{name})",
        )
        expect(hasattr(part, name), f"takes the option {name!r}, but does not keep it as an attribute")


def options_survive_json(part: object) -> None:
    """A part can be written as JSON and read back."""
    try:
        row = as_json(part)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"has options that cannot be written as JSON: {error}") from error
    again = of_json(part, row)
    before, after = options_of(part), options_of(again)
    for name, value in before.items():
        plain = axis_of(value) is None
        kept = after[name] == value if plain else as_json(after[name]) == as_json(value)
        expect(kept, f"has the option {name}={value!r}, which JSON gives back as {after[name]!r}")


def unknown_options_are_refused(part: object) -> None:
    """A misspelt option is an error."""
    try:
        _ = of_json(part, {**as_json(part), NO_OPTION: 1})
    except (TypeError, CualError):
        return
    raise AssertionError(f"takes the option {NO_OPTION!r}, which it cannot have")


def add_to(suite: Suite[P]) -> Suite[P]:
    """Let a suite check options first."""
    for check in (parameters_are_attributes, options_survive_json, unknown_options_are_refused):
        _ = suite.check(check)
    return suite
