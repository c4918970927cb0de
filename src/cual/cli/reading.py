"""From what people type to what the library takes: budgets, options of a method, devices."""

import json
from collections.abc import Iterable
from typing import Any

from cual import options
from cual.cli.own_parts import part_name
from cual.errors import BadBudget, BadOption


def read_budget(text: str) -> float | int:
    """A whole number is a number of labels, anything with a point or an exponent a share of the pool.

    >>> read_budget("20"), read_budget("0.0125"), read_budget("1.0")
    (20, 0.0125, 1.0)
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise BadBudget(f"--budget takes a number of labels (20) or a share of the pool (0.0125), not {text!r}")


def check_device(device: str) -> str:
    """The device, if this machine has it."""
    return str(options.device(device))


def read_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options of a method from ``name=value`` texts; each dot reaches into a part.

    >>> read_options(["rounds=4", "then=top", "believe.alpha=0.1", "learner.uncertainty.variance=0.9"])
    {'rounds': 4, 'then': 'top', 'believe': {'alpha': 0.1}, 'learner': {'uncertainty': {'variance': 0.9}}}

    A part may be named and changed, in any order:

    >>> read_options(["head.shrink=1", "head=ridge"])
    {'head': {'shrink': 1, 'name': 'ridge'}}
    """
    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        *parts, name = key.split(".")
        if not equals or not all([*parts, name]):
            raise BadOption(f"--option takes name=value, for example believe.alpha=0.1, not {text!r}")
        inner = given
        for part in parts:
            inner[part] = _part_options(part, inner.get(part, {}))
            inner = inner[part]
        read = _read_value(value)
        before = inner.get(name)
        inner[name] = {**before, **_part_options(name, read)} if isinstance(before, dict) else read
    return given


def _read_value(text: str) -> Any:
    """JSON where it is that, else the text itself: where it is python:…, the name of that part."""
    try:
        return json.loads(text)
    except ValueError:
        return part_name(text)


def _part_options(part: str, given: Any) -> dict[str, Any]:
    """What is given for a part, as options by name: a plain name is one of them."""
    return {"name": given} if isinstance(given, str) else options.named(part, given)
