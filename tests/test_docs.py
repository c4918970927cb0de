"""The documentation cannot rot: its example runs, its page names every component, its links lead somewhere."""

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

import pytest

from cual.acquisition import acquisitions
from cual.heads import heads
from cual.methods import SCORES, Method, methods
from cual.pseudo_labels import pseudo_labels
from cual.registry import Registry
from cual.uncertainty import uncertainties

ROOT = Path(__file__).parents[1]
COMPONENTS = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPTIONS = [f.name for f in fields(Method) if f.name not in ("name", "summary")]
AXES = {
    "uncertainties": uncertainties,
    "acquisitions": acquisitions,
    "pseudo-label rules": pseudo_labels,
    "heads": heads,
    "methods": methods,
}


def test_the_readme_example_runs_in_fifteen_lines(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    exec(compile(example, "README.md", "exec"), {})
    printed = re.fullmatch(r"(\[.*\]) (\d+) (\S+)\n", capsys.readouterr().out)
    assert printed is not None
    classes, labels, accuracy = printed.groups()
    assert classes == "[0 1 2]"
    assert int(labels) <= 6
    assert float(accuracy) > 0.9


def test_the_strategy_of_the_contributing_page_works(tmp_path: Path) -> None:
    (indented,) = re.findall(r"```python\n(.*?)```", CONTRIBUTING, flags=re.DOTALL)
    file = tmp_path / "bottom.py"
    file.write_text(textwrap.dedent(indented), encoding="utf-8")
    run = "import bottom, doctest; print(doctest.testmod(bottom))"
    told = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout == "TestResults(failed=0, attempted=2)\n"


@pytest.mark.parametrize("axis", AXES)
def test_the_components_page_names_everything_that_is_registered(axis: str) -> None:
    registry: Registry[object] = AXES[axis]
    assert [name for name in registry if f"`{name}`" not in COMPONENTS] == []


def test_the_components_page_names_nothing_else() -> None:
    """First cells of its tables are names of components."""
    named = set(re.findall(r"^\| `(.*?)` \|", COMPONENTS, flags=re.MULTILINE))
    assert named == {name for registry in AXES.values() for name in registry} | set(SCORES)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/components.md"])
def test_files_that_the_pages_name_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./-]+)`", text)
    linked = re.findall(r"(?<!!)\[[^]]*\]\((?!https?:)([^)#]+)", text)
    missing = [n for n in named if not (ROOT / n).exists()]
    missing += [n for n in linked if not ((ROOT / page).parent / n).exists()]
    assert missing == []


def test_the_components_page_says_what_each_method_changes() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|[^|]*\| ([^|]*) \| `src/cual/methods/", COMPONENTS, flags=re.MULTILINE)
    cual = methods["cual"]
    expected: dict[str, str] = {}
    for name in methods:
        changed = [o for o in OPTIONS if getattr(methods[name], o) != getattr(cual, o)]
        written = [f"`{o}={shown(getattr(methods[name], o))}`" for o in changed]
        expected[name] = ", ".join(written) or "nothing"
    assert dict(rows) == expected


def test_the_components_page_says_the_defaults() -> None:
    (table,) = re.findall(r"\| option \| default .*?\n\n", COMPONENTS, flags=re.DOTALL)
    told: dict[str, str] = {}
    for names, values in re.findall(r"^\| (\w[\w, ]*) \| (`[^|]*`) \|", table, flags=re.MULTILINE):
        told |= dict(zip(names.split(", "), values.replace("`", "").split(", "), strict=True))
    default = Method(name="")
    expected = {option: shown(getattr(default, option)) for option in OPTIONS}
    assert told == expected


def test_the_components_page_knows_every_way_to_end() -> None:
    code = (ROOT / "src/cual/adaptation.py").read_text(encoding="utf-8")
    ways = re.findall(r'ended = "(.*?)"', code)
    assert len(ways) > 3
    assert [way for way in ways if f"| {way} |" not in COMPONENTS] == []


def shown(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
