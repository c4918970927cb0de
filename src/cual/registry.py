"""Parts by name: one registry per axis, and what every part has in common. What is registered lives elsewhere.

A part is an object whose constructor's parameters are its options, kept as attributes of the same names. So a
part can be written as JSON, read back, and changed option by option, and its signature is its documentation.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from cual import options
from cual.errors import BadOption, UnknownName

T = TypeVar("T")
Member = TypeVar("Member")

_axes: "dict[type, Registry[Any]]" = {}
"""Where each type of part is registered, so that a part can hold parts of other axes."""


class Registry(Generic[T]):
    """Names of one axis and what they stand for, in the order of registration.

    >>> greetings = Registry[str]("greeting")
    >>> _ = greetings.add("polite")("good day")
    >>> greetings["polite"]
    'good day'
    >>> greetings["rude"]
    Traceback (most recent call last):
    cual.errors.UnknownName: no greeting is called 'rude'; known: polite
    >>> "polite" in greetings, greetings.names()
    (True, ('polite',))
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
            if isinstance(member, type):
                _axes[member] = self
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

    def name_of(self, part: object) -> str:
        """The name under which the type of a part is registered."""
        return self.name_of_type(type(part))

    def name_of_type(self, kind: type) -> str:
        """The name under which a type is registered."""
        for name, member in self._members.items():
            if member is kind:
                return name
        raise UnknownName(f"{kind.__name__} is not registered as {self._kind}; known: {', '.join(self)}")

    def part(self, given: Any, before: Any = None) -> Any:
        """A part of this axis: as it is, by name, or by its options.

        Parameters
        ----------
        given
            A part; a name; or options by name, of the part called ``given["name"]`` or of `before`.
        before
            The part that is to be changed. Its own name leaves it as it is.

        >>> from cual.acquisition import acquisitions
        >>> diverse = acquisitions.part({"name": "diverse", "turns": 3})
        >>> acquisitions.part({"candidates": 99}, before=diverse).turns, acquisitions.name_of(diverse)
        (3, 'diverse')
        """
        if isinstance(given, str):
            same = before is not None and self[given] is type(before)
            return before if same else self._made(given, {})
        if isinstance(given, Mapping):
            changes = options.named(self._kind, given)
            name = changes.pop("name", None)
            if before is not None and (name is None or self[name] is type(before)):
                return self._made(self.name_of(before), {**options_of(before), **_inner(before, changes)})
            if name is None:
                raise BadOption(f"options of a {self._kind} need its name; known: {', '.join(self)}")
            return self._made(options.text("name", name), changes)
        _ = self.name_of(given)
        return given

    def _made(self, name: str, given: Mapping[str, Any]) -> Any:
        constructor = cast("Callable[..., Any]", self[name])
        known = _parameters(constructor)
        unknown = [option for option in given if option not in known]
        if unknown:
            has = ", ".join(known) or "no options"
            raise BadOption(f"the {self._kind} {name!r} has no {', '.join(unknown)}; it has {has}")
        try:
            return constructor(**given)
        except BadOption as error:
            raise BadOption(f"{self._kind} {name!r}: {error}") from error
        except (TypeError, ValueError) as error:
            raise BadOption(f"{self._kind} {name!r}: {error}") from error


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that a part needs no more than a file of its own."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


def options_of(part: object) -> dict[str, Any]:
    """The options that a part has: what its constructor was given, or the defaults.

    >>> from cual.acquisition import acquisitions
    >>> options_of(acquisitions["diverse"](turns=3))
    {'least_doubt': 0.3, 'candidates': 5000, 'turns': 3}
    """
    return {name: getattr(part, name) for name in _parameters(type(part))}


def registered_name(kind: object) -> str | None:
    """The name under which a class of parts is registered, on whichever axis; None where it is not.

    >>> from cual.uncertainty.knn import KNN
    >>> registered_name(KNN), registered_name(int)
    ('knn', None)
    """
    if not isinstance(kind, type) or kind not in _axes:
        return None
    return _axes[kind].name_of_type(kind)


def to_json(part: object) -> dict[str, Any]:
    """A part as plain JSON: its name on its axis, and its options.

    >>> from cual.methods import methods
    >>> to_json(methods["cual"].learner)["uncertainty"]
    {'name': 'fre', 'variance': 0.995}
    """
    row: dict[str, Any] = {"name": _axes[type(part)].name_of(part)} if type(part) in _axes else {}
    if not row:
        raise UnknownName(f"{type(part).__name__} is not registered on any axis, so it cannot be saved")
    for name, value in options_of(part).items():
        row[name] = to_json(value) if type(value) in _axes else value
    return row


def _inner(part: object, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of a part's options, where those that hold a part themselves may be changed by their options."""
    current = options_of(part)
    inner: dict[str, Any] = {}
    for name, value in changes.items():
        before = current.get(name)
        inner[name] = _axes[type(before)].part(value, before) if type(before) in _axes else value
    return inner


def _parameters(constructor: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(constructor).parameters)
