"""Strategies by name: one small registry per axis. What is registered lives in the axis' own package."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, cast

from cual.errors import UnknownName

T = TypeVar("T")
Member = TypeVar("Member")


class Registry(Generic[T]):
    """Names of one axis and what they stand for, in the order of registration.

    >>> greetings = Registry[str]("greeting")
    >>> _ = greetings.add("polite")("good day")
    >>> greetings["polite"]
    'good day'
    >>> greetings["rude"]
    Traceback (most recent call last):
    cual.errors.UnknownName: no greeting is called 'rude'; known: polite
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._members: dict[str, T] = {}

    def add(self, name: str) -> Callable[[Member], Member]:
        """Register the decorated class or object under `name`; it keeps its own type."""

        def register(member: Member) -> Member:
            if name in self._members:
                raise ValueError(f"two {self._kind}s are called {name!r}")
            self._members[name] = cast("T", member)
            return member

        return register

    def __getitem__(self, name: str) -> T:
        try:
            return self._members[name]
        except KeyError:
            raise UnknownName(f"no {self._kind} is called {name!r}; known: {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def names(self) -> tuple[str, ...]:
        return tuple(self._members)
