"""Checks of who somebody is and of what people type. What is then done with it is the other rules' business."""

import unicodedata
from typing import Any

from cual.data.labels import ClassNames, as_label
from cual.errors import BadLabels, BadOption, NotAllowed
from cual.serve.rules.records import Person, Role
from cual.types import Label

LONGEST_NAME = 100
_UNSEEN = ("Cc", "Cs", "Zl", "Zp")
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""They change the direction of what follows, so that a name can look like another."""


def needs(person: Person, role: Role) -> None:
    """Refuse what a person's role does not allow."""
    if not person.role.may(role):
        raise NotAllowed(f"{person.name} is {person.role}; this takes {role}")


def check_name(text: Any, what: str) -> str:
    """A name that people gave: stripped, not too long, on one line.

    >>> check_name("  birds ", "a pool's name")
    'birds'
    """
    why = _wrong(text)
    if why:
        raise BadOption(f"{what} {why}")
    return str(text).strip()


def check_label(label: Any, names: ClassNames) -> Label:
    """A label of the type that the agent's classes have; a new name must be one that people can read.

    >>> check_label(" owl ", ClassNames(("cat",))), check_label(3, ClassNames((1, 2)))
    ('owl', 3)
    """
    if label in names and not isinstance(label, bool):
        return names.check(label)
    plain = as_label(label)
    if isinstance(plain, int):
        if abs(plain) >= 2**63:
            raise BadLabels(f"a label is a whole number of at most 64 bits, not {plain}")
        return names.check(plain)
    why = _wrong(plain)
    if why:
        raise BadLabels(f"a class's name {why}")
    return names.check(plain.strip())


def _wrong(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        return "is empty" if isinstance(text, str) else f"is {type(text).__name__}, not text"
    if len(text.strip()) > LONGEST_NAME:
        return f"has {len(text.strip())} characters; at most {LONGEST_NAME} are allowed"
    if any(unicodedata.category(c) in _UNSEEN or c in _TURNING for c in text.strip()):
        return "holds control characters"
    return ""
