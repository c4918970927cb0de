"""Contracts as tests: every check of everything registered, and parts that break one check each."""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

from cual.checks import checks
from cual.registry import Registry

T = TypeVar("T")


def contracts(registry: Registry[Any]) -> list[Any]:
    """Every check of every part of an axis, to parametrize a test with."""
    return [
        pytest.param(check, id=f"{part}: {name}") for part in registry for name, check in checks(registry[part])
    ]


class Breaks:
    """Collects broken parts: which check has to catch each of them, and what it has to say."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.names: set[str] = set()

    def __call__(self, check: str, said: str) -> Callable[[T], T]:
        def collect(part: T) -> T:
            self.names.add(check)
            name = getattr(part, "__name__", check)
            self.parts.append(pytest.param(part, check, said, id=f"{check} catches {name}"))
            return part

        return collect

    def missing(self, parts: Iterable[object]) -> set[str]:
        """Checks of sound parts that no broken one is here for, but for those of options."""
        names = {name for part in parts for name, _ in checks(part)}
        return names - self.names - OF_OPTIONS


OF_OPTIONS = {"parameters_are_attributes", "options_survive_json", "unknown_options_are_refused"}


def expect_caught(part: object, check: str, said: str) -> None:
    """Expect that the check of this name, and with this sentence, catches a part."""
    with pytest.raises(AssertionError, match=re.escape(said)):
        dict(checks(part))[check]()
