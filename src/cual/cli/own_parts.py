"""Parts and methods of one's own on the command line, python:module:Name. Importing is in `cual.extensions`."""

from typing import Any

from cual.errors import BadOption
from cual.extensions import is_own, own


def part_name(text: str) -> str:
    """The name under which a part is registered; one that is called python:… is imported first."""
    from cual.registry import registered_name

    if not is_own(text):
        return text
    part = own(text)
    name = registered_name(part)
    if name is None:
        raise BadOption(
            f"{text} is not registered; write @acquisition, @heads.add or another of CONTRIBUTING.md above it"
        )
    return name


def method_name(text: str) -> str:
    """The name of a method; one that is called python:… is imported first."""
    from cual.methods import Method, methods

    if not is_own(text):
        return text
    method: Any = own(text)
    if not isinstance(method, Method):
        raise BadOption(f"{text} is a {type(method).__name__}; a method is made by Method(…) or CUAL.but(…)")
    if method.name not in methods or methods[method.name] is not method:
        raise BadOption(f"{text} is not registered; write cual.methods.add(…) around it")
    return method.name
