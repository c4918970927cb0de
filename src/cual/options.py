"""Checks of options, once, where they are given: what was expected, and what came. No defaults live here."""

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch

from cual.errors import BadOption


def whole(name: str, value: Any, least: int = 1, most: float = 2**63 - 1) -> int:
    """A whole number, of 64 bits unless more are allowed.

    >>> whole("epochs", np.int64(3))
    3
    >>> whole("epochs", 2.5)
    Traceback (most recent call last):
    cual.errors.BadOption: epochs is 2.5, but takes a whole number
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise _wrong(name, value, "a whole number")
    if value < least:
        raise BadOption(f"{name} is at least {least}, not {value}")
    if value > most:
        raise BadOption(f"{name} is at most {most}, not {value}")
    return int(value)


def number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, without_low: bool = False
) -> float:
    """A number from `low` to `high`.

    >>> number("alpha", 7, 0, 1)
    Traceback (most recent call last):
    cual.errors.BadOption: alpha lies between 0 and 1, but is 7
    >>> number("lr", 0, 0, without_low=True)
    Traceback (most recent call last):
    cual.errors.BadOption: lr lies above 0, but is 0
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise _wrong(name, value, "a number")
    plain = float(value)
    if math.isnan(plain):
        raise _wrong(name, value, "a number")
    if not low <= plain <= high or (without_low and plain == low):
        bottom = f"above {low}" if without_low else f"at {low} or above"
        between = f"between {low} and {high}" + (f", and not at {low}" if without_low else "")
        raise BadOption(f"{name} lies {bottom if math.isinf(high) else between}, but is {value}")
    return plain


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as such.

    >>> flag("reuse", np.bool_(True))
    True
    >>> flag("reuse", 1)
    Traceback (most recent call last):
    cual.errors.BadOption: reuse is 1, but takes True or False
    """
    if not isinstance(value, bool | np.bool_):
        raise _wrong(name, value, "True or False")
    return bool(value)


def text(name: str, value: Any) -> str:
    """A name, and no number that could be read as one.

    >>> text("head", 3)
    Traceback (most recent call last):
    cual.errors.BadOption: head is 3, but takes a name (str)
    """
    if not isinstance(value, str):
        raise _wrong(name, value, "a name (str)")
    return value


def named(name: str, value: Any) -> dict[str, Any]:
    """Options by name, as plain values.

    >>> named("head", {"epochs": np.int64(5)})
    {'epochs': 5}
    """
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) for key in cast("Mapping[Any, Any]", value)
    ):
        raise _wrong(name, value, 'options by name, for example {"epochs": 5}')
    given = cast("Mapping[str, Any]", value)
    return {key: v.item() if isinstance(v, np.generic) else v for key, v in given.items()}


def device(value: str | torch.device) -> torch.device:
    """Where to compute, if this machine has it.

    >>> device("abacus")
    Traceback (most recent call last):
    cual.errors.BadOption: there is no device 'abacus' here; use cpu...
    """
    here = torch.cuda.is_available()
    try:
        chosen = torch.device(value)
        if chosen.type == "cpu" or (
            chosen.type == "cuda" and here and (chosen.index or 0) < torch.cuda.device_count()
        ):
            return chosen
    except (RuntimeError, TypeError, ValueError, OverflowError):
        pass
    raise BadOption(f"there is no device {str(value)!r:.200} here; use cpu" + (" or cuda" if here else ""))


def person(value: Any) -> str | int | None:
    """Who says something, where that is known: a name or a number, as a journal can hold it.

    >>> person("ada"), person(np.int64(7)), person(None)
    ('ada', 7, None)
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and (isinstance(plain, bool) or not isinstance(plain, str | int)):
        raise _wrong("person", value, "a name or a number")
    return plain


def _wrong(name: str, value: Any, expected: str) -> BadOption:
    return BadOption(f"{name} is {value!r:.200}, but takes {expected}")
