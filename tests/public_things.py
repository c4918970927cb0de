"""Public things, from commands to names in Python, which pages name them, which have examples.

Pages are those that people write: README.md, CONTRIBUTING.md and docs/, less `NO_PAGES`.
"""

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "cual"
NO_PAGES = ("docs/reference/", "docs/security.md")
"""What is generated says nothing that the code does not say; who may call what does not say what for."""


class Thing(NamedTuple):
    """What a page must name; what belongs to an owner, in a section that names the owner, too."""

    kind: str
    name: str
    owner: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" of {self.owner}" if self.owner else "")


# -- pages -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, up to the next one. Its code: what is in backticks, or fenced."""

    title: str
    text: str

    @cached_property
    def code(self) -> str:
        return "\n".join([self.title, *re.findall(r"```.*?```|`[^`\n]+`", self.text, flags=re.DOTALL)])


def sections(page: str) -> list[Section]:
    """The sections of a page in Markdown; a line with # in a fenced block is no heading."""
    found, title, lines, fenced = list[Section](), "", list[str](), False
    for line in page.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if line.startswith("#") and not fenced:
            found.append(Section(title, "\n".join(lines)))
            title, lines = line.lstrip("# "), []
        else:
            lines.append(line)
    return [*found, Section(title, "\n".join(lines))]


def written_sections(root: Path = ROOT) -> list[Section]:
    """All sections of the pages that people write."""
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    kept = (page for page in pages if not page.relative_to(root).as_posix().startswith(NO_PAGES))
    return [section for page in kept for section in sections(page.read_text(encoding="utf-8"))]


def names(text: str, name: str) -> bool:
    """Whether a text has the name whole: `--id` is not in `--ids`, `GET /a` not in `GET /a/{id}`."""
    if name.startswith("`"):  # a part, which may have an argument: `python:module:function`
        return re.search(re.escape(name[:-1]) + r"[`:?]", text) is not None
    if name.startswith("cual["):  # an extra, alone or with others
        return re.search(rf"cual\[(?:[\w-]+,)*{re.escape(name[5:-1])}[\],]", text) is not None
    after = r"[\w{/-]|\.\w" if "/" in name else r"[\w-]"
    return re.search(rf"(?<![\w-]){re.escape(name)}(?!{after})", text) is not None


def missing(things: Iterable[Thing], written: Iterable[Section]) -> list[Thing]:
    """Things that no section names."""
    codes = [section.code for section in written]
    return [t for t in things if not any(names(code, t.name) and names(code, t.owner) for code in codes)]


# -- things ----------------------------------------------------------------------------------------------------


def commands(command: Any, path: str = "cual") -> Iterator[Thing]:
    """A command of click with those below it, and the options of each."""
    if getattr(command, "hidden", False):
        return
    yield Thing("command", path)
    for parameter in command.params:
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False):
            yield Thing("option", max(parameter.opts, key=len), path)
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{path} {name}")


def routes(description: dict[str, Any]) -> Iterator[Thing]:
    """The routes of an OpenAPI description."""
    for path, methods in description["paths"].items():
        for method in methods:
            yield Thing("route", f"{method.upper()} {path}")


def metrics(exposition: str) -> Iterator[Thing]:
    """The metrics of what Prometheus is told; when a counter began is a part of it."""
    for name in re.findall(r"^# TYPE (\w+) ", exposition, flags=re.MULTILINE):
        if not name.endswith("_created"):
            yield Thing("metric", name)


def modules(source: Path = SOURCE, having: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package that has a text, by its dotted name, as it was parsed."""
    for file in sorted(source.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if having in text:
            parts = file.relative_to(source.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(text)


def registries(source: Iterable[tuple[str, ast.Module]]) -> Iterator[tuple[str, str, str]]:
    """Where a module makes a registry: its kind, the module, the variable."""
    for module, tree in source:
        for node in tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if not isinstance(value, ast.Call) or not re.match(r"Registry\b", ast.unparse(value.func)):
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target  # pyright: ignore[reportAttributeAccessIssue]
            yield ast.literal_eval(value.args[0]), module, ast.unparse(target)


def parts(source: Iterable[tuple[str, ast.Module]]) -> Iterator[Thing]:
    """What is registered on every axis by cual itself."""
    for kind, module, variable in registries(source):
        importlib.import_module(module.removesuffix(".base"))  # a package imports all of its parts
        registry = getattr(importlib.import_module(module), variable)
        for name in registry:
            if _home(registry[name]).startswith("cual"):
                yield Thing(kind, f"`{name}`")  # alone: such names are words of everyday


def _home(member: Any) -> str:
    """The module of a registered class or function, or of the class of a registered object."""
    return getattr(member, "__module__", type(member).__module__)


def errors(module: Any) -> Iterator[Thing]:
    """The error classes that a module defines."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == module.__name__:
            yield Thing("error", name)


def variables(source: Iterable[tuple[str, ast.Module]]) -> Iterator[Thing]:
    """Variables of the environment: texts that look like one of ours, and those that stand for an option."""
    nodes = [node for _, tree in source for node in ast.walk(tree)]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    found = {text for text in texts if re.fullmatch(r"CUAL_[A-Z0-9_]+", text)}
    of_options = [n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "envvar"]
    found |= {value.value for value in of_options if isinstance(value, ast.Constant)}
    yield from (Thing("variable", name) for name in sorted(found))


def extras(project: Path) -> Iterator[Thing]:
    """What can be installed beside the bare package."""
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    yield from (Thing("extra", f"cual[{name}]") for name in declared)


def public_names(module: Any) -> Iterator[Thing]:
    """What a module says is public, and the members of the classes among it."""
    for name in module.__all__:
        if name.startswith("_"):
            continue
        yield Thing("name", name)
        value = getattr(module, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            yield from members(value)


def members(kind: type) -> Iterator[Thing]:
    """Public methods, properties and fields of a class, also those that it inherits from ours."""
    ours = [
        base
        for base in kind.__mro__
        if base.__module__.split(".")[0] not in ("builtins", "typing", "collections")
    ]
    found = {name: None for base in ours for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    yield from (Thing("member", name, kind.__name__) for name in sorted(found) if not name.startswith("_"))


# -- examples --------------------------------------------------------------------------------------------------

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Shown(NamedTuple):
    """A public function, method, property or class, and where an example shows it."""

    name: str
    function: bool
    """A function of a module, and no member of a class."""
    own: bool
    """Its own docstring has an example."""
    used: bool
    """An example of its class uses it."""


def examples(source: Iterable[tuple[str, ast.Module]]) -> Iterator[Shown]:
    """Every public function, method, property and class.

    Public: neither its name nor that of its module or class begins with an underscore, and the module can be
    imported by its name. Protocols are left out, for there is nothing to run, and functions inside functions.
    """
    for module, tree in source:
        if all(part.isidentifier() and not part.startswith("_") for part in module.split(".")):
            yield from _shown(tree.body, module)


def _shown(body: Iterable[ast.stmt], owner: str, example: str | None = None) -> Iterator[Shown]:
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_") or _left_out(node):
            continue
        own = example_in(node)
        used = re.search(rf"\.{node.name}\b", example or "") is not None
        is_class = isinstance(node, ast.ClassDef)
        yield Shown(f"{owner}.{node.name}", example is None and not is_class, bool(own), used)
        if isinstance(node, ast.ClassDef):
            yield from _shown(node.body, f"{owner}.{node.name}", own)


def _left_out(node: Definition) -> bool:
    """Protocols, and what is there for a type checker alone: overloads. A setter is its property once more."""
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    return any(re.search(r"\boverload$|\.setter$", mark) for mark in marks) or any(
        "Protocol" in b for b in bases
    )


def example_in(node: Definition) -> str:
    """The lines of its docstring that doctest runs."""
    lines = (ast.get_docstring(node) or "").splitlines()
    return "\n".join(line for line in lines if re.match(r"\s*(>>>|\.\.\.) ", line))
