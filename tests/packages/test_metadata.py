"""What the project says of itself: version, citation, addresses, changelog by release, conda recipe."""

import datetime
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from cual import __version__
from tools_of import tool

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


release = tool("release")


def test_one_version_is_written_everywhere() -> None:
    assert {
        file: release._value(ROOT, file, pattern) for file, pattern in release.PLACES.items()
    } == dict.fromkeys(release.PLACES, __version__)


def test_no_other_file_of_a_release_names_a_version() -> None:
    """What would have to be changed with the next one, and is not in `release.PLACES`."""
    files = [ROOT / "pyproject.toml", *(ROOT / "deploy").rglob("*"), *(ROOT / "recipe").rglob("*")]
    naming = {
        str(file.relative_to(ROOT))
        for file in files
        if file.is_file()
        and re.search(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", file.read_text("utf-8"))
    }
    assert naming <= set(release.PLACES)


# -- the citation ----------------------------------------------------------------------------------------------


def test_the_citation_has_what_its_format_asks_for() -> None:
    """Checked once with cffconvert, which needs a jsonschema that others here do not want."""
    assert CITATION["cff-version"] == "1.2.0"
    assert set(CITATION) >= {"message", "title", "authors", "type", "version", "date-released", "license"}
    assert CITATION["type"] == "software"
    assert CITATION["license"] == PROJECT["license"]
    assert isinstance(CITATION["date-released"], datetime.date)
    assert f"## [{__version__}] - {CITATION['date-released']}" in CHANGELOG
    assert CITATION["keywords"] == PROJECT["keywords"]
    paper = CITATION["preferred-citation"]
    assert set(paper) >= {"type", "title", "authors", "year"}
    for person in paper["authors"]:
        assert {"given-names", "family-names"} <= set(person)


def test_the_citation_names_the_paper_as_it_names_itself() -> None:
    source = ROOT.parent / "shared" / "paper" / "cual.tex"
    if not source.is_file():
        pytest.skip("the paper is not here")
    text = source.read_text(encoding="utf-8")
    title = re.search(r"\\title\{(.*?)\}", text)
    authors = re.search(r"\\author\{(.*?)\n\}", text, re.DOTALL)
    assert title is not None
    assert authors is not None
    names = [part.strip().split("\\\\")[0].strip() for part in authors[1].split("\\And")]
    paper = CITATION["preferred-citation"]
    assert paper["title"] == title[1]
    assert [f"{p['given-names']} {p['family-names']}" for p in paper["authors"]] == names


# -- the package -----------------------------------------------------------------------------------------------


def test_the_package_names_its_systems_its_pythons_and_where_it_lives() -> None:
    classifiers = set(PROJECT["classifiers"])
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in classifiers
        assert SpecifierSet(PROJECT["requires-python"]).contains(f"3.{minor}")
    for system in ("MacOS", "Microsoft :: Windows", "POSIX :: Linux"):
        assert f"Operating System :: {system}" in classifiers
    assert set(PROJECT["urls"]) >= {"Homepage", "Documentation", "Repository", "Changelog"}
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())


def test_make_installs_the_tools_of_the_extra() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for requirement in PROJECT["optional-dependencies"]["packages"]:
        assert f'"{requirement}"' in makefile


def test_the_conda_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    called = {"torch": "pytorch"}
    wanted = {f"python {PROJECT['requires-python']}"}
    for text in PROJECT["dependencies"]:
        requirement = Requirement(text)
        range_ = text.removeprefix(requirement.name)
        wanted.add(f"{called.get(requirement.name, requirement.name)} {range_}")
    assert set(recipe["requirements"]["run"]) == wanted
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    host = {part.replace(" ", "") for part in recipe["requirements"]["host"]}
    assert set(build) <= host
    (point,) = recipe["build"]["python"]["entry_points"]
    name, _, target = point.partition(" = ")
    assert PROJECT["scripts"] == {name: target}
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]


# -- releases --------------------------------------------------------------------------------------------------


def test_every_release_has_a_section_the_latest_first() -> None:
    sections = re.findall(r"^## \[(\d[^\]]*)\] - (\d{4}-\d\d-\d\d)$", CHANGELOG, re.MULTILINE)
    assert sections[0][0] == __version__
    assert [day for _, day in sections] == sorted((day for _, day in sections), reverse=True)
    assert CHANGELOG.index(release.UNRELEASED) < CHANGELOG.index(f"## [{__version__}]")
    done = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True)
    tags = {tag.removeprefix("v") for tag in done.stdout.split()}
    assert tags <= {version for version, _ in sections}, "a release without a section"


def checkout(folder: Path) -> Path:
    for file in (*release.PLACES, release.CHANGELOG, "pyproject.toml"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, folder / file)
    return folder


def test_a_release_changes_every_place_and_is_then_ready_but_for_its_addresses(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    changelog = root / release.CHANGELOG
    text = changelog.read_text(encoding="utf-8")
    changelog.write_text(text.replace(release.UNRELEASED, f"{release.UNRELEASED}\n\n- Something.", 1), "utf-8")
    release.main("9.8.7", datetime.date(2030, 1, 2), root)
    assert [line for line in release.problems(root) if "example.org" not in line] == []
    assert '__version__ = "9.8.7"' in (root / "src/cual/__init__.py").read_text(encoding="utf-8")
    written = changelog.read_text(encoding="utf-8")
    assert f"{release.UNRELEASED}\n\n## [9.8.7] - 2030-01-02\n\n- Something." in written
    assert written.endswith(text.partition(release.UNRELEASED)[2][-200:])
    with pytest.raises(SystemExit, match=r"a section of 9\.8\.7 already"):
        release.main("9.8.7", datetime.date(2030, 1, 2), root)
    with pytest.raises(SystemExit, match="nothing under"):
        release.main("9.8.8", datetime.date(2030, 1, 2), root)


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3.4", ""])
def test_only_versions_are_released(version: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no version"):
        release.main(version, datetime.date(2030, 1, 2), checkout(tmp_path))


def test_a_placeholder_is_no_address_to_release_with(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    placeholders = [line for line in release.problems(root) if "example.org" in line]
    assert len(placeholders) == sum("example.org" in url for url in PROJECT["urls"].values())
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    (root / "pyproject.toml").write_text(project.replace("cual.example.org", "cual.invalid"), encoding="utf-8")
    assert not any("example.org" in line for line in release.problems(root))


def test_the_checklist_names_targets_and_tools_that_are_there() -> None:
    text = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {t for line in re.findall(r"^make ([a-z -]+)", text, re.MULTILINE) for t in line.split()}
    assert len(targets) >= 4
    assert {t for t in targets if not re.search(rf"^{t}:", makefile, re.MULTILINE)} == set()
    for file in re.findall(r"(?:python |--file |--recipe )((?:tools|deploy|recipe)\S*)", text):
        assert (ROOT / file).exists(), file


# -- the wheel -------------------------------------------------------------------------------------------------


@pytest.mark.packages
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_wheel_is_compiled_and_its_light_modules_imported_by_later_pythons(
    version: str, tmp_path: Path
) -> None:
    """Without PyTorch, for which there may be no wheel here: what does not need it is imported all the same."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = shutil.which(f"python{version}") if not found else str(found[-1])
    if python is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        pytest.skip(f"there is no Python {version} here")
    build = [sys.executable, str(ROOT / "tools" / "wheel.py"), str(tmp_path)]
    assert subprocess.run(build, capture_output=True).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    inside = str(tmp_path / "venv" / "bin" / "python")
    pip = [inside, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, capture_output=True)
    subprocess.run([*pip, "numpy", "typer", "rich", "filelock"], check=True, capture_output=True)
    (package,) = (tmp_path / "venv").glob("lib/python*/site-packages/cual")
    compiled = [inside, "-W", "error", "-m", "compileall", "-q", "-f", str(package)]
    assert subprocess.run(compiled, capture_output=True).returncode == 0
    code = "import cual, cual.cli, cual.errors, cual.options; cual.cli.app(['--help'])"
    done = subprocess.run([inside, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "adapt" in done.stdout
