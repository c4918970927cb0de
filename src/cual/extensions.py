"""Code of others that registers parts and methods: installed packages, and modules that a person names.

Files name neither. An agent's file names parts, and they are found if they are registered or not at all: what
runs is decided by who installs packages and who types commands.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points, packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from cual.errors import BadOption, Unavailable

GROUP = "cual.parts"
"""Entry points of installed packages: modules that register parts when they are imported."""
PREFIX = "python:"
"""What a part of one's own is called on the command line: ``python:module:Name``."""

_OWN = "cual_own_"
"""What modules of files begin with: the file's name follows, and a hash of what is in it."""
_used: list[str] = []


def load_installed() -> list[str]:
    """Import every module that installed packages name as having parts: all of them, whatever is used.

    Returns what could not be imported, and why; a package that is broken must not stop the others.
    """
    broken: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:  # whatever a package of somebody else raises
            broken.append(f"{entry.name} ({entry.value}) cannot be loaded: {error!r}")
    return broken


def package_of(module: str) -> tuple[str, str]:
    """The installed package that a module is from, and its version; of a file of one's own, a hash of it.

    >>> package_of("numpy.linalg")[0], package_of("nowhere")
    ('numpy', ('nowhere', ''))
    """
    if module.startswith(_OWN):
        file = Path(str(sys.modules[module].__file__))
        return file.name, hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    root = module.partition(".")[0]
    for entry in entry_points(group=GROUP):
        if entry.module.partition(".")[0] == root and entry.dist is not None:
            return entry.dist.name, entry.dist.version
    for name in packages_distributions().get(root, ()):
        return name, version(name)
    return root, ""


def load(name: str) -> ModuleType:
    """Import a module that a person named: ``package.module``, or ``path/to/file.py`` as it is now.

    >>> load("json").__name__
    'json'
    """
    try:
        return _from_file(Path(name).resolve()) if name.endswith(".py") else importlib.import_module(name)
    except Exception as error:  # whatever the module raises
        here = f"; for the file in this folder write {name}.py" if Path(f"{name}.py").is_file() else ""
        raise Unavailable(f"{name} cannot be loaded: {error}{here}") from error


def _from_file(file: Path) -> ModuleType:
    """The module of a file, run once as long as the file stays as it is."""
    content = hashlib.sha256(str(file).encode(errors="replace") + file.read_bytes()).hexdigest()
    called = f"{_OWN}{file.stem}_{content[:12]}"
    if called in sys.modules:
        return sys.modules[called]
    spec = importlib.util.spec_from_file_location(called, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = sys.modules[called] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[called]
        raise
    return module


def use(name: str) -> ModuleType:
    """Import a module with parts of one's own; other processes that do work of this one import it as well."""
    module = load(name)
    name = str(Path(name).resolve()) if name.endswith(".py") else name
    if name not in _used:
        _used.append(name)
    return module


def used() -> tuple[str, ...]:
    """Modules that `use` imported, for other processes."""
    return tuple(_used)


def load_all(names: Iterable[str]) -> None:
    """What another process has: installed parts, and the modules that were named there."""
    load_installed()
    for name in names:
        use(name)


def is_own(text: str) -> bool:
    """Whether a text names something of one's own.

    >>> is_own("python:bottom.py:Bottom"), is_own("diverse")
    (True, False)
    """
    return text.startswith(PREFIX)


def own(text: str) -> Any:
    """What ``python:module:Name`` stands for. Only for what a person typed: the module is run.

    >>> own("python:json:dumps").__name__
    'dumps'
    """
    module, _, name = text.removeprefix(PREFIX).rpartition(":")
    if not module or not name:
        raise BadOption(f"write python:module:Name or python:path/to/file.py:Name, not {text}")
    try:
        return getattr(use(module), name)
    except AttributeError:
        raise Unavailable(f"{module} has no {name}") from None
