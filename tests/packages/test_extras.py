"""Extras: messages for missing packages name those that there are; the wheel works bare and with each alone."""

import ast
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cual.cli.missing import EXTRA_FOR, EXTRA_OF
from tools_of import tool

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def brought(extra: str) -> set[str]:
    """Distributions that an extra brings, and those of the extras that it names."""
    found: set[str] = set()
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == "cual":
            found |= {name for inner in requirement.extras for name in brought(inner)}
        found.add(canonicalize_name(requirement.name))
    return found


def advised(source: str) -> list[str]:
    """Extras that the texts of a source tell people to install; in f-strings the parts that are there."""
    return [
        extra
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for group in re.findall(r"cual\[([\w,-]+)\]", node.value)
        for extra in group.split(",")
    ]


def test_advice_is_found_in_plain_texts_and_in_f_strings() -> None:
    assert advised("""raise X(f"{a} needs it: pip install 'cual[onnx]'")\nTEXT = "'cual[serve,ray]'" """) == [
        "serve",
        "ray",
        "onnx",
    ]


def test_every_extra_that_a_message_names_is_there() -> None:
    named = {extra: file.name for file in SOURCES for extra in advised(file.read_text(encoding="utf-8"))}
    assert {extra: file for extra, file in named.items() if extra not in EXTRAS} == {}
    assert len(named) >= 9


def test_every_extra_that_the_pages_name_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.name, extra)
        for page in pages
        for group in re.findall(r"cual\[([\w,-]+)\]", page.read_text(encoding="utf-8"))
        for extra in group.split(",")
    }
    assert {(page, extra) for page, extra in named if extra not in EXTRAS} == set()


@pytest.mark.parametrize("package", sorted(EXTRA_OF))
def test_the_extra_that_a_command_names_brings_the_package(package: str) -> None:
    extra = EXTRA_OF[package]
    known = importlib.metadata.packages_distributions()
    if package not in known:
        pytest.skip(f"{package} is not installed here")
    wheels = {canonicalize_name(name) for name in known[package]}
    same = {"mlflow": "mlflow-skinny", "scipy": "scikit-learn"}  # one that is a part of the other, or brings it
    assert (wheels | {same.get(name, name) for name in wheels}) & brought(extra), f"{package} is not in {extra}"


@pytest.mark.parametrize("extra", sorted(set(EXTRA_FOR.values())))
def test_commands_name_extras_that_are_there(extra: str) -> None:
    assert extra in EXTRAS


def imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def test_every_package_that_is_not_a_bare_one_has_an_extra() -> None:
    """Whoever imports one more says here, and thereby in the message, which extra brings it."""
    bare = {"cual", "filelock", "numpy", "rich", "safetensors", "torch", "typer", "click", "packaging"}
    beside = {
        "anyio": "comes with fastapi",
        "markupsafe": "comes with jinja2",
        "pydantic_core": "comes with fastapi and typer",
        "starlette": "comes with fastapi",
        "httptools": "comes with uvicorn[standard]",
        "websockets": "comes with uvicorn[standard]",
        "pydantic": "comes with fastapi and typer",
        "mpl_toolkits": "comes with matplotlib",
        "huggingface_hub": "has a message of its own",
        "pandas": "is asked for only where somebody hands over a frame, or by mlflow",
    }
    of_bridges = {name for file in SOURCES if "bridges" in file.parts for name in imported(file)}
    everywhere = {name for file in SOURCES if "bridges" not in file.parts for name in imported(file)}
    others = everywhere - bare - set(beside) - set(EXTRA_OF) - set(sys.stdlib_module_names)
    assert others - of_bridges == set()


def test_the_tool_uses_every_extra_that_is_for_users() -> None:
    extras = tool("extras")
    assert {*extras.USES, *extras.NEIGHBOURS, *extras.OURS} - {extras.BARE} >= set(EXTRAS)
    assert set(extras.USES) - {extras.BARE} <= set(EXTRAS)


@pytest.mark.packages
@pytest.mark.slow
def test_the_wheel_works_bare_and_with_each_extra_alone(tmp_path: Path) -> None:
    build = [sys.executable, str(ROOT / "tools" / "wheel.py"), str(tmp_path)]
    assert subprocess.run(build, capture_output=True).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "extras.py"), str(wheel)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.packages
def test_the_wheel_learns_in_a_folder_that_has_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, str(ROOT / "tools" / "wheel.py"), str(tmp_path)]
    assert subprocess.run(build, capture_output=True).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert tool("extras").use(wheel, "-") == ""
