"""What the page says, in the language of whoever looks at it.

English stands in the code, marked by `tr` and `trn`. `make texts` collects it in `page.pot`, the one place
where all of it can be read, and adds what is new to the translations beside it: files of gettext, which many
editors open. What has no translation yet is said in English.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from gettext import NullTranslations
from io import BytesIO
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import Translations
from nicegui.slot import Slot
from starlette.requests import Request

from cual.serve.rules.sentences import Sentence

FOLDER = Path(__file__).parent
COOKIE = "cual_language"
LANGUAGES = {"en": "English", "de": "Deutsch"}
"""By code, as each calls itself."""
_chosen: ContextVar[str] = ContextVar("language", default="en")


def tr(text: str, /, **values: object) -> str:
    """A text in the viewer's language; `values` stand where it has their names in braces.

    >>> tr("Version {number} is made.", number=3)
    'Version 3 is made.'
    """
    return _filled(_translations(here()).gettext(text), values)


def trn(one: str, many: str, n: int, /, **values: object) -> str:
    """A text that depends on a number, which stands where it has ``{n}``.

    >>> trn("{n} question", "{n} questions", 1), trn("{n} question", "{n} questions", 4)
    ('1 question', '4 questions')
    """
    return _filled(_translations(here()).ngettext(one, many, n), {"n": n, **values})


def told(sentence: Sentence) -> str:
    """A sentence of the rules, in the viewer's language."""
    language = _translations(here())
    if sentence.many is None:
        return _filled(language.gettext(sentence.text), sentence.values)
    return _filled(language.ngettext(sentence.text, sentence.many, sentence.n), sentence.values)


def here() -> str:
    """The language of the page that is being drawn, or whose event is handled; English outside of one."""
    stack = Slot.get_stack()
    if not stack:
        return _chosen.get()
    return language_of(stack[-1].parent.client.request)


@contextmanager
def speaking(language: str) -> Generator[None]:
    """Inside the block, texts are in this language, where no page says another."""
    token = _chosen.set(language)
    try:
        yield
    finally:
        _chosen.reset(token)


def language_of(request: Request) -> str:
    """The language that somebody chose, else the first one they understand of those that there are."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    accepted = (
        part.split(";")[0].strip().lower() for part in request.headers.get("accept-language", "").split(",")
    )
    return next((code[:2] for code in accepted if code[:2] in LANGUAGES), "en")


def _filled(text: str, values: dict[str, object]) -> str:
    return text.format(**values) if values else text


@cache
def _translations(language: str) -> NullTranslations:
    path = FOLDER / f"{language}.po"
    if language == "en" or not path.is_file():
        return NullTranslations()
    with path.open("rb") as file:
        catalog = read_po(file, locale=language)
    compiled = BytesIO()
    write_mo(compiled, catalog)
    compiled.seek(0)
    return Translations(compiled)
