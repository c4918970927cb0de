"""The whole site: no warning, every page, nothing from elsewhere; and a broken link ends the build."""

import re
import shutil
from pathlib import Path

import pytest
from handbook import api
from handbook.checking import problems

from docs_site.building import ROOT, build, built

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"))


def test_the_site_holds_together(site: Path) -> None:
    assert [*problems(site)] == []


def test_every_page_is_on_it(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(page for page in pages if not (site / page).exists()) == []
    for page in api.pages():
        assert (site / page).with_suffix(".html").exists()


def test_formulas_are_drawn_and_none_is_left(site: Path) -> None:
    page = (site / "cual-plus.html").read_text(encoding="utf-8")
    assert page.count("<math ") > 5
    assert "arithmatex" not in page
    assert "$$" not in page


def test_lists_of_github_are_lists(site: Path) -> None:
    page = (site / "cual-plus.html").read_text(encoding="utf-8")
    for step in ("Novelty", "Questions", "Competition", "Sureness"):
        assert re.search(rf"<li>\s*(?:<p>)?<strong>{step}</strong>", page)


def test_docstrings_have_their_examples(site: Path) -> None:
    page = (site / "reference" / "api" / "cual.agent.html").read_text(encoding="utf-8")
    assert 'id="cual.agent.Agent.fit"' in page
    assert "Could not parse" not in page


def test_a_broken_link_ends_the_build(tmp_path: Path) -> None:
    for folder in ("docs", "tools/site"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("src", "tests", "benchmarks", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    for path in [*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "mkdocs.yml"]:
        shutil.copy(path, tmp_path)
    page = tmp_path / "docs" / "start.md"
    page.write_text(
        page.read_text(encoding="utf-8") + "\n[x](nowhere.md), `src/cual/nowhere.py`\n", encoding="utf-8"
    )
    done = build(tmp_path / "out", tmp_path)
    assert done.returncode != 0
    assert "docs/start.md links to nowhere.md, which does not exist" in done.stderr
    assert "docs/start.md names src/cual/nowhere.py, which does not exist" in done.stderr
