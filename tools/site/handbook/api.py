"""The reference of the Python API: which rooms are shown, and which names of each. mkdocstrings reads them."""

import ast
import importlib.util
import pkgutil
from pathlib import Path

from handbook.tables import NOTE, first_sentence

ROOMS = {
    "cual.agent": "Agent",
    "cual.loop.adaptation": "Adaptation and query",
    "cual.data.pool": "Pool",
    "cual.data.labels": "Labels and SKIP",
    "cual.data.table": "Table",
    "cual.data.folder": "Features folder",
    "cual.client": "Client",
    "cual.methods": "Methods",
    "cual.learners": "Learners",
    "cual.acquisition": "Acquisition",
    "cual.pseudo_labels": "Belief",
    "cual.heads": "Heads",
    "cual.uncertainty": "Uncertainty",
    "cual.encoders": "Encoders",
    "cual.export": "Exported labels",
    "cual.deploy": "Exported models",
    "cual.repair": "Repair",
    "cual.checks": "Checks",
    "cual.datasets": "Datasets",
    "cual.bench.evaluation": "Evaluation",
    "cual.errors": "Errors",
}
"""Modules whose names others may use, by the title of their page. Bridges are found."""
ONLY = {"cual.data.labels": ["SKIP"]}
"""Names of modules that have others for cual itself."""


def modules() -> dict[str, str]:
    """Every module of the reference and its title."""
    import cual.bridges

    found = sorted(
        module.name for module in pkgutil.iter_modules(cual.bridges.__path__) if module.name[0] != "_"
    )
    return ROOMS | {f"cual.bridges.{name}": f"Bridge: {name.replace('_', ' ')}" for name in found}


def pages() -> dict[str, str]:
    """Places on the site and texts of all pages of the API."""
    import cual

    rooms = modules()
    homes = {name: _room(cual._HOME[name], rooms) for name in sorted(cual.__all__) if name in cual._HOME}
    common = "\n".join(
        f"- [`cual.{name}`]({home}.md#{cual._HOME[name]}.{name})" for name, home in homes.items()
    )
    listed = "\n".join(f"- [{title}]({name}.md): {_purpose(name)}" for name, title in rooms.items())
    index = (
        f"# Python API\n\n{NOTE}\nWhat most programs need is in `cual` itself:\n\n{common}\n\n"
        f"All of it, room by room ([the house](../../house.md) shows how they lie):\n\n{listed}\n"
    )
    return {"reference/api/index.md": index} | {
        f"reference/api/{name}.md": f"# {title}\n\n{NOTE}\n{_directive(name)}" for name, title in rooms.items()
    }


def _directive(name: str) -> str:
    """What mkdocstrings is asked for. Constants of a single module are its own business."""
    if name in ONLY:
        return f"::: {name}\n    options:\n      members: {ONLY[name]}\n"
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is None:
        return f"::: {name}\n    options:\n      filters: ['!^_', '!^[A-Z][A-Z_0-9]+$']\n"
    return f"::: {name}\n"


def _room(module: str, rooms: dict[str, str]) -> str:
    return max((name for name in rooms if f"{module}.".startswith(f"{name}.")), key=len)


def _purpose(name: str) -> str:
    """The first words of a module, read without importing it: what a bridge leads to may be missing."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    return first_sentence(ast.get_docstring(ast.parse(source)))
