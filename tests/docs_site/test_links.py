"""A page leads to the same things on GitHub and on the site, and to nothing that is not there."""

from pathlib import Path

import pytest
from handbook.checking import problems
from handbook.links import PROJECT, Repository

ROOT = Path(__file__).parents[2]


def rewritten(text: str, source: str, page: str) -> tuple[str, list[str]]:
    told: list[str] = []
    return Repository(ROOT).rewritten(text, source, page, told.append), told


@pytest.mark.parametrize(
    ("source", "page", "before", "after"),
    [
        ("docs/terminal.md", "terminal.md", "../CONTRIBUTING.md#words", "project/contributing.md#words"),
        ("docs/guides/ray.md", "guides/ray.md", "../ray.md", "../ray.md"),
        ("README.md", "project/readme.md", "docs/results.md#text", "../results.md#text"),
        ("README.md", "project/readme.md", "docs/demo.png", "../demo.png"),
        ("README.md", "project/readme.md", "CHANGELOG.md", "changelog.md"),
        ("README.md", "project/readme.md", "LICENSE", "../files/LICENSE.txt"),
        ("README.md", "project/readme.md", "https://example.org/README.md", "https://example.org/README.md"),
        ("README.md", "project/readme.md", "#results", "#results"),
    ],
)
def test_links_lead_from_the_place_on_the_site(source: str, page: str, before: str, after: str) -> None:
    assert rewritten(f"see [`it`]({before}) there", source, page) == (f"see [`it`]({after}) there", [])


def test_a_link_to_nothing_is_told() -> None:
    assert rewritten("[x](nowhere.md)", "docs/a.md", "a.md")[1] == [
        "docs/a.md links to nowhere.md, which does not exist"
    ]
    assert rewritten("[x](../../etc/passwd)", "docs/a.md", "a.md")[1] != []


def test_code_is_left_as_it_is() -> None:
    text = "```md\n[x](nowhere.md)\n```\n`[x](nowhere.md)`"
    assert rewritten(text, "docs/a.md", "a.md") == (text, [])


def test_a_folder_has_no_page() -> None:
    assert rewritten("in [deploy](../deploy)", "docs/a.md", "a.md") == ("in deploy", [])


def test_files_outside_the_pages_are_shown() -> None:
    repository = Repository(ROOT)
    assert repository.place("deploy/prometheus-rules.yml") == "files/deploy/prometheus-rules.yml.txt"
    assert [*repository.shown] == ["deploy/prometheus-rules.yml"]
    assert all((ROOT / page).is_file() for page in PROJECT)


def test_files_that_are_named_and_missing_are_found() -> None:
    assert [*Repository(ROOT).missing("`src/cual/agent.py` and `src/cual/nothing.py`")] == [
        "src/cual/nothing.py"
    ]


def test_a_built_site_is_looked_through(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="in/b.html#there">a</a><a href="in/b.html#gone">b</a><a href="in/c.html">c</a>'
        '<a href="https://example.org">d</a><img src="https://example.org/x.png"><a href="../out.html">e</a>'
        '<link rel="stylesheet" href="own.css"><link rel="canonical" href="https://example.org/">'
    )
    (tmp_path / "in" / "b.html").write_text('<h2 id="there">x</h2><a href="../index.html">x</a>')
    (tmp_path / "own.css").write_text('@import "https://example.org/font.css"; a { background: url(x.png) }')
    assert [*problems(tmp_path)] == [
        "index.html: in/b.html#gone leads to no such part",
        "index.html: in/c.html leads nowhere",
        "index.html: ../out.html leads out of the site",
        "index.html loads https://example.org/x.png",
        "own.css loads https://example.org/font.css",
    ]
