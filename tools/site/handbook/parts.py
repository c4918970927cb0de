"""The reference of methods and parts: what the registries hold, with options and defaults."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from handbook.tables import NOTE, code, first_sentence, table

AXES = {
    "learner": "Learners: A_s, which scores a pool",
    "first": "Strategies: whom to ask",
    "believe": "Belief: what to take for a class without asking",
    "head": "Heads: the classifier",
}


def registries() -> dict[str, Any]:
    """Every registry by the title of its section."""
    from cual.datasets import datasets
    from cual.encoders import encoders
    from cual.export import formats
    from cual.methods import AXES as axes
    from cual.uncertainty import uncertainties

    return {
        **{title: axes[axis] for axis, title in AXES.items()},
        "Elemental uncertainty: how far a sample is from a class": uncertainties,
        "Encoders": encoders,
        "Datasets": datasets,
        "Formats of exported labels": formats,
    }


def page() -> str:
    """All methods, then all parts, with their options."""
    from cual.methods import methods

    parts = [
        "# Methods and parts\n",
        NOTE,
        "Names to use in `method=`, `--method` and in options, as they are registered. "
        "[Components](../components.md) has their equations and papers, "
        "[Contributing](../project/contributing.md) says how to add one.\n",
        "## Methods\n",
        table(["method", "is"], ([f"[`{name}`](#{name})", methods[name].summary] for name in methods)),
    ]
    for name in methods:
        parts += [
            f"### {name}\n",
            f"{methods[name].summary}\n",
            table(["option", "value"], _composition(methods[name])),
        ]
    for title, registry in registries().items():
        parts += [f"## {title}\n"]
        parts += [part for name in registry for part in _member(name, registry[name])]
    return "\n".join(part for part in parts if part)


def _composition(method: Any) -> Iterator[list[str]]:
    for field in fields(method):
        if field.name not in ("name", "summary"):
            yield [code(field.name), code(_shown(getattr(method, field.name)))]


def _member(name: str, member: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    # Classes say it in their docstring; what is registered as an object says it of itself.
    own = next((getattr(member, name) for name in ("summary", "about") if hasattr(member, name)), None)
    yield f"{own or first_sentence(inspect.getdoc(member))}\n"
    yield table(["option", "default", "is"], _options(member))


def _options(member: Any) -> Iterator[list[str]]:
    if not inspect.isclass(member):
        return
    meanings = _meanings(inspect.getdoc(member) or "")
    try:
        signature = inspect.signature(member)
    except ValueError:
        return
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = "" if parameter.default is parameter.empty else code(_shown(parameter.default))
        yield [code(parameter.name), default, meanings.get(parameter.name, "")]


def _meanings(docstring: str) -> dict[str, str]:
    """What the section "Parameters" of a docstring says of each."""
    section = re.search(r"Parameters\n-+\n(.*?)(?=\n\w+\n-+\n|\n>>> |\Z)", docstring, flags=re.DOTALL)
    if section is None:
        return {}
    found = re.findall(r"^(\w[\w, ]*)(?: *:[^\n]*)?\n((?:(?: +[^\n]*)?\n?)*)", section[1], flags=re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in found for name in names.split(", ")}


def _shown(value: object) -> str:
    """A value as one writes it; a part by its name, with its options."""
    from cual.errors import UnknownName
    from cual.registry import to_json

    try:
        written = to_json(value)
    except UnknownName:  # no part
        return repr(value)
    options = ", ".join(f"{key}={each!r}" for key, each in written.items() if key != "name")
    return f"{written['name']}({options})" if options else str(written["name"])
