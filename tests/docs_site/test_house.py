"""The page and the picture of the house show the rooms that there are, and say in words what is to be seen."""

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def rooms() -> set[str]:
    """All rooms that import-linter knows."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in told["tool"]["importlinter"]["contracts"] if c["containers"] == ["cual"])
    return {room.strip() for layer in contract["layers"] for room in re.split(r"[|:]", layer)}


def test_the_page_names_every_room() -> None:
    table = HOUSE.partition("| room |")[2].partition("\n\n")[0]
    assert sorted(room for room in rooms() if not re.search(rf"`{room}(?:/|\.py)?`", table)) == []


def test_the_picture_shows_rooms_that_there_are() -> None:
    tree = ElementTree.parse(ROOT / "docs" / "house.svg")
    names = [text.text or "" for text in tree.iter(f"{SVG}text") if text.get("class") == "name"]
    shown = {room for name in names for room in name.split(", ")} - {"doors", "ground"}
    assert len(shown) > 12
    assert shown <= rooms()


@pytest.mark.parametrize("picture", ["house", "loop"])
def test_a_picture_says_what_it_shows(picture: str) -> None:
    tree = ElementTree.parse(ROOT / "docs" / f"{picture}.svg")
    assert len(tree.findtext(f"{SVG}desc") or "") > 100
    for page in ("index", "house"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        (words,) = re.findall(rf"!\[([^\]]*)\]\({picture}\.svg\)", text)
        assert len(words) > 50


@pytest.mark.parametrize("picture", ["house", "loop"])
def test_a_picture_has_both_looks_and_loads_nothing(picture: str) -> None:
    text = (ROOT / "docs" / f"{picture}.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"(?:href|src|url\()", text) == []
