"""Where methods come from: packages of a method and of its parts, with versions. Nothing is imported here."""

from collections.abc import Iterator
from typing import Any

from cual import extensions
from cual.bench.settings import Setting
from cual.methods import AXES, Method, home_of, methods
from cual.registry import options_of, registered_name
from cual.types import Row


def origins(setting: Setting) -> dict[str, Row]:
    """Of each method of a run, all of its options and the packages that it and its parts are from.

    >>> origins(Setting("digits", ("cual",)))["cual"]["packages"].keys()
    dict_keys(['cual'])
    """
    return {
        name: {
            "packages": packages(method := methods[name].but(**setting.method_options), home_of(name)),
            "options": method.to_json(),
        }
        for name in setting.methods
    }


def packages(method: Method, home: str = "") -> dict[str, str]:
    """Packages and their versions, of a method that the module `home` registered."""
    modules = [home, *(type(part).__module__ for part in _parts(method))]
    roots = dict.fromkeys(module for module in modules if module)
    return dict(_package(module) for module in roots)


def _package(module: str) -> tuple[str, str]:
    from cual import __version__

    ours = module == "cual" or module.startswith("cual.")
    return ("cual", __version__) if ours else extensions.package_of(module)


def _parts(method: Method) -> Iterator[Any]:
    """The parts of a method, and the parts that those hold."""
    waiting = [getattr(method, axis) for axis in AXES]
    while waiting:
        part = waiting.pop(0)
        if registered_name(type(part)) is not None:
            yield part
            waiting += options_of(part).values()
