"""Rooms of the service: a lower one never imports a higher one, and none imports the bench or the doors."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import cual

ROOMS = ("storage", "rules", "jobs", "web", "operations")
SERVE = Path(cual.__file__).parent / "serve"
OUTSIDE = ("cual.bench", "cual.cli", "cual.client", "cual.bridges")


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_no_higher_one(room: str) -> None:
    higher = tuple(f"cual.serve.{name}." for name in ROOMS[ROOMS.index(room) + 1 :])
    wrong = {
        (file.relative_to(SERVE).as_posix(), name)
        for file in (SERVE / room).rglob("*.py")
        for name in imported(file)
        if name.startswith((*higher, *OUTSIDE))
    }
    assert not wrong


def test_every_module_is_in_a_room_and_says_what_lives_there() -> None:
    assert {path.name for path in SERVE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ROOMS)
    assert {path.name for path in SERVE.glob("*.py")} == {"__init__.py", "worker.py", "demo.py"}
    for file in SERVE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), file
