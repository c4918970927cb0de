"""What the page says can be translated: all of it is marked and collected, and one translation is whole."""

import ast
import re
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po
from starlette.requests import Request

import cual.serve
from cual.serve.rules.sentences import said, said_n
from cual.serve.web.page import texts

SERVE = Path(cual.serve.__file__).parent
PAGE = SERVE / "web" / "page"
MARKS = {"tr": None, "trn": (1, 2), "said": None, "said_n": (1, 2)}
TRANSLATIONS = sorted(path.stem for path in texts.FOLDER.glob("*.po"))
Texts = dict[Any, Any]


def catalogue(name: str) -> Texts:
    """Texts of a file, with what they become."""
    with (texts.FOLDER / name).open("rb") as file:
        return {message.id: message.string for message in read_po(file) if message.id}


def forms(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_every_text_is_collected() -> None:
    method = [("**.py", "python")]
    marked = {text for _, _, text, _, _ in extract_from_dir(SERVE, method, keywords=MARKS)}
    assert len(marked) > 150
    assert set(catalogue("page.pot")) == marked, "run `make texts`"


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_a_translation_is_whole_and_fits(language: str) -> None:
    assert language in texts.LANGUAGES
    translated = catalogue(f"{language}.po")
    assert set(translated) == set(catalogue("page.pot")), "run `make texts`"
    for text, string in translated.items():
        assert all(forms(string)), f"{language}.po does not translate {text!r}"
        wanted = set.union(*(fields(form) for form in forms(text)))
        assert set.union(*(fields(form) for form in forms(string))) == wanted, text


def test_no_text_of_the_page_is_unmarked() -> None:
    found = [f"{path.name}:{text}" for path in PAGE.glob("*.py") for text in unmarked(path)]
    assert found == []


def unmarked(path: Path) -> list[str]:
    """Words that are shown, or read aloud, as they stand in the code."""
    shown: list[ast.expr] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name == "El":
            shown += node.args[1:2]
        elif name in ("button", "link", "announce", "say", "notify", "textarea", "input", "number"):
            shown += node.args[:1]
        elif name == "confirmed":
            shown += node.args[:2]
        shown += [
            k.value for k in node.keywords if k.arg in ("aria_label", "placeholder", "title", "label", "alt")
        ]
    return [f"{node.lineno} {ast.unparse(node)}" for part in shown for node in literals(part)]


def literals(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [*literals(node.body), *literals(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [literal for value in node.values for literal in literals(value)]
    words = ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = node.value
    elif isinstance(node, ast.JoinedStr):
        words = " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return [node] if re.search(r"[A-Za-z]{2}", words.replace("cual", "")) else []


def asking(**headers: str) -> Request:
    """A request of somebody's browser."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": pairs})


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ({}, "en"),
        ({"accept_language": "de-AT,de;q=0.9,en;q=0.5"}, "de"),
        ({"accept_language": "fr-FR, fr;q=0.9"}, "en"),
        ({"accept_language": "en-GB,de;q=0.9"}, "en"),
        ({"accept_language": "en", "cookie": "cual_language=de"}, "de"),
        ({"accept_language": "de", "cookie": "cual_language=../../x"}, "de"),
    ],
)
def test_the_language_is_the_chosen_one_or_the_first_that_is_understood(
    headers: dict[str, str], language: str
) -> None:
    assert texts.language_of(asking(**headers)) == language


def test_sentences_of_the_rules_are_translated_with_their_numbers() -> None:
    with texts.speaking("de"):
        assert texts.tr("Cancel") == "Abbrechen"
        assert texts.trn("{n} class", "{n} classes", 1) == "1 Klasse"
        assert texts.told(said_n("{n} class", "{n} classes", 3)) == "3 Klassen"
        assert texts.told(said("Version {number} predicts now.", number=2)) == "Jetzt sagt Version 2 vorher."
        assert texts.tr("Nobody has translated {this}.", this="it") == "Nobody has translated it."
    assert texts.tr("Cancel") == "Cancel"
