"""The documentation cannot rot: its example runs, its page names every component, its links lead somewhere."""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cual.cli.reading import read_options
from cual.methods import AXES, Method, methods
from cual.registry import Registry, options_of, to_json
from cual.uncertainty import uncertainties

ROOT = Path(__file__).parents[1]
COMPONENTS = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CUAL_PLUS = (ROOT / "docs" / "cual-plus.md").read_text(encoding="utf-8")
FIELDS = [f.name for f in fields(Method) if f.name not in ("name", "summary")]
REGISTRIES: dict[str, Registry[Any]] = {**AXES, "learner.uncertainty": uncertainties, "methods": methods}


@pytest.fixture(scope="module", autouse=True)
def bridges() -> None:
    """Parts that are registered only when their bridge is imported, as a run of all tests does somewhere."""
    for name in ("skactiveml", "small_text"):
        importlib.import_module(f"cual.bridges.{name}")


def test_the_readme_example_runs_in_fifteen_lines(capsys: pytest.CaptureFixture[str]) -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)  # the others need a service
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    exec(compile(example, "README.md", "exec"), {})
    printed = re.fullmatch(r"(\[.*\]) (\d+) (\S+)\n", capsys.readouterr().out)
    assert printed is not None
    classes, labels, accuracy = printed.groups()
    assert classes == "[0 1 2]"
    assert int(labels) <= 6
    assert float(accuracy) > 0.9


def test_the_onnx_example_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    exec(compile(example, "models.md", "exec"), {})
    assert capsys.readouterr().out == "cat False\n"


@pytest.mark.parametrize(("title", "name"), [("A strategy", "Bottom"), ("A head", "NearestMean")])
def test_the_parts_of_the_contributing_page_work(title: str, name: str, tmp_path: Path) -> None:
    """In a process of their own: what is registered there is not registered here."""
    (code,) = re.findall(rf"### {title}\n(?:(?!###).)*?```python\n(.*?)```", CONTRIBUTING, flags=re.DOTALL)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    lines = (
        "import mine, doctest",
        "from cual.checks import checks",
        f"for _, check in checks(mine.{name}): check()",
        "print(doctest.testmod(mine))",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert re.fullmatch(r"TestResults\(failed=0, attempted=\d+\)\n", process.stdout)


@pytest.mark.parametrize("axis", REGISTRIES)
def test_the_components_page_names_everything_that_is_registered(axis: str) -> None:
    assert [name for name in REGISTRIES[axis] if f"`{name}`" not in COMPONENTS] == []


def test_the_components_page_names_nothing_else() -> None:
    """First cells of its tables are names of components."""
    named = set(re.findall(r"^\| `(.*?)` \|", COMPONENTS, flags=re.MULTILINE))
    assert named == {name for registry in REGISTRIES.values() for name in registry}


def test_the_contributing_page_has_a_row_for_every_axis() -> None:
    (table,) = re.findall(r"\| axis \| option .*?\n\n", CONTRIBUTING, flags=re.DOTALL)
    named = set(re.findall(r"`([\w.]+)`", " ".join(row.split("|")[2] for row in table.splitlines()[2:] if row)))
    assert named == {*AXES, "learner.uncertainty", "method"}


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/commands.md",
        "docs/components.md",
        "docs/cual-plus.md",
        "docs/errors.md",
        "docs/http.md",
        "docs/models.md",
        "docs/python.md",
        "docs/ray.md",
    ],
)
def test_files_that_the_pages_name_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./-]+)`", text)
    linked = re.findall(r"(?<!!)\[[^]]*\]\((?!https?:)([^)#]+)", text)
    missing = [n for n in named if not (ROOT / n).exists()]
    missing += [n for n in linked if not ((ROOT / page).parent / n).exists()]
    assert missing == []


def test_the_components_page_says_what_each_method_changes() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|[^|]*\| ([^|]*) \| `src/cual/methods/", COMPONENTS, flags=re.MULTILINE)
    expected = {name: ", ".join(f"`{c}`" for c in changes(methods[name])) or "nothing" for name in methods}
    assert dict(rows) == expected


def changes(method: Method) -> Iterator[str]:
    """What differs from `cual`: another part, and options of it that are not its defaults."""
    for name in FIELDS:
        value = getattr(method, name)
        usual = getattr(methods["cual"], name)
        if name in AXES and value is not None:
            if type(value) is not type(usual):
                yield f"{name}={shown(AXES[name].name_of(value))}"
                usual = type(value)()
            for option, changed in options_of(value).items():
                if shown(changed) != shown(getattr(usual, option)):
                    yield f"{name}.{option}={shown(changed)}"
        elif value != usual:
            yield f"{name}={shown(value)}"


def test_the_example_of_options_is_understood() -> None:
    (command,) = re.findall(r"```sh\n(cual fit .*)\n```", COMPONENTS)
    given = read_options(re.findall(r"--option (\S+)", command))
    (call,) = re.findall(r"`Agent\.fit\(X, y, \"cual\", (.*)\)`\.", COMPONENTS)
    assert methods["cual"].but(**given) == methods["cual"].but(**eval(f"dict({call})")) != methods["cual"]


def option_rows() -> list[tuple[str, str, str]]:
    """The rows of the table of options: option, what has it, and its default."""
    (table,) = re.findall(r"\| option \| of \| default .*?\n\n", COMPONENTS, flags=re.DOTALL)
    rows = re.findall(r"^\| (\w[\w., ]*) \| (.*?) \| `(.*?)` \| \S.* \|$", table, flags=re.MULTILINE)
    assert len(rows) == table.count("\n|") - 1, "a row of the table is not understood"
    return [(name, of.strip("`"), default) for names, of, default in rows for name in names.split(", ")]


def test_the_components_page_has_a_row_for_every_option_with_its_default() -> None:
    default = Method(name="")
    expected = [(name, "every method", shown(getattr(default, name))) for name in FIELDS]
    for axis, registry in REGISTRIES.items():
        if axis == "methods":
            continue
        for part in registry:
            options = options_of(registry[part]())
            expected += [(f"{axis}.{name}", part, shown(value)) for name, value in options.items()]
    assert sorted(option_rows()) == sorted(expected)


@pytest.mark.parametrize("name", methods.names())
def test_every_option_of_every_method_is_on_the_components_page(name: str) -> None:
    method = methods[name]
    listed = {(option, of) for option, of, _ in option_rows()}
    for option in method.options():
        axis = option.partition(".")[0]
        part = getattr(method, axis, None)
        of = AXES[axis].name_of(part) if "." in option else "every method"
        assert (option, of) in listed


def test_the_page_of_cual_plus_names_options_that_it_has() -> None:
    axes = "|".join(AXES)
    named = set(re.findall(rf"`((?:{axes})\.\w+)`", CUAL_PLUS))
    assert len(named) > 15
    assert named <= methods["cual-plus"].options().keys()


def test_the_components_page_knows_every_way_to_end() -> None:
    code = (ROOT / "src/cual/loop/machine.py").read_text(encoding="utf-8")
    ways = re.findall(r'ended(?:\(|=|": )"(.*?)"', code)
    assert len(ways) == COMPONENTS[COMPONENTS.index("| said | because |") :].count("\n| ") - 1
    assert [way for way in ways if f"| {way} |" not in COMPONENTS] == []


def shown(value: object) -> str:
    """A value as the pages write it: a part by its name."""
    for registry in (*AXES.values(), uncertainties):
        if any(registry[name] is type(value) for name in registry):
            return json.dumps(to_json(value)["name"])
    return json.dumps(value) if isinstance(value, str) else repr(value)
