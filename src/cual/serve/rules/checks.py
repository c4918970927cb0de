"""Checks of who somebody is and of what people type. What is then done with it is the other rules' business."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from cual.data.labels import SKIP, ClassNames, Skip, alike, as_label, known_form, tidy, unreadable
from cual.errors import BadLabels, BadOption, NotAllowed
from cual.serve.rules.records import Person, Role
from cual.types import Label

LONGEST_NAME = 100
T = TypeVar("T")


def needs(person: Person, role: Role) -> None:
    """Refuse what a person's role does not allow.

    >>> needs(Person(1, "Ada", Role.reader), Role.annotator)
    Traceback (most recent call last):
    cual.errors.NotAllowed: Ada is reader; this takes annotator
    """
    if not person.role.may(role):
        raise NotAllowed(f"{person.name} is {person.role}; this takes {role}")


def may_send(person: Person) -> None:
    """Refuse samples of whoever only looks on or answers."""
    if not person.role.sends:
        raise NotAllowed(f"{person.name} is {person.role}; this takes sender or admin")


def check_name(text: Any, what: str) -> str:
    """A name that people gave: stripped, not too long, on one line.

    >>> check_name("  birds ", "a pool's name")
    'birds'
    """
    why = _wrong(text)
    if why:
        raise BadOption(f"{what} {why}")
    return tidy(str(text))


def check_text(text: Any, what: str, longest: int) -> str:
    """Plain text of several lines that people gave: stripped, not too long, nothing in it that hides.

    >>> check_text(" Count birds.\\r\\nNot bats. ", "the guidelines", 100)
    'Count birds.\\nNot bats.'
    """
    if not isinstance(text, str):
        raise BadOption(f"{what} is {type(text).__name__}, not text")
    lines = text.strip().replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ").split("\n")
    if sum(len(line) + 1 for line in lines) - 1 > longest:
        raise BadOption(f"{what} is longer than {longest} characters")
    why = next((why for line in lines if line.strip() and (why := unreadable(line.strip(), longest))), "")
    if why:
        raise BadOption(f"{what} {why}")
    return "\n".join(line.rstrip() for line in lines)


def check_label(label: Any, names: ClassNames, meant: bool = False) -> Label:
    """A label of the type that the agent's classes have; a new name must be one that people can read.

    Parameters
    ----------
    meant
        Whether a new name is meant that differs from a known one only by case or the like.

    >>> check_label(" owl ", ClassNames(("cat",))), check_label(3, ClassNames((1, 2)))
    ('owl', 3)
    >>> check_label("Cat", ClassNames(("cat",)))
    Traceback (most recent call last):
    cual.errors.BadLabels: did you mean 'cat'? 'Cat' differs from it only by case or form; say so if it is meant
    """
    if label in names and not isinstance(label, bool):
        return names.check(label)
    plain = as_label(label)
    if isinstance(plain, int):
        return names.check(plain)
    why = _wrong(plain)
    if why:
        raise BadLabels(f"a class's name {why}")
    name = known_form(plain, names)
    other = None if meant else alike(name, names)
    if other is not None:
        raise BadLabels(
            f"did you mean {other!r}? {name!r} differs from it only by case or form; say so if it is meant"
        )
    return names.check(name)


def check_labels(labels: Mapping[T, Any], names: ClassNames, meant: bool = False) -> dict[T, Label | Skip]:
    """Labels that belong together, or SKIP: names that are new among them must not be alike either.

    >>> check_labels({7: "owl", 8: SKIP}, ClassNames(("cat",)))
    {7: 'owl', 8: SKIP}
    >>> check_labels({7: "Cat"}, ClassNames(("cat",)))
    Traceback (most recent call last):
    cual.errors.BadLabels: did you mean 'cat'? 'Cat' differs from it only by case or form; say so ...
    """
    checked: dict[T, Label | Skip] = {}
    for key, label in labels.items():
        checked[key] = SKIP if label is SKIP else check_label(label, names, meant)
        if checked[key] is not SKIP:
            names = names.plus(cast(Label, checked[key]))
    return checked


def _wrong(text: Any) -> str:
    if not isinstance(text, str):
        return f"is {type(text).__name__}, not text"
    return unreadable(text.strip(), LONGEST_NAME) or unreadable(tidy(text), LONGEST_NAME)
