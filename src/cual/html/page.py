"""The skeleton of a self-contained HTML page, light and dark. Nothing is loaded from anywhere.

Pages are jinja2 templates that begin with ``{% extends "cual.html/page.jinja" %}`` and put the macros of
`parts.jinja` together. Text in them is escaped; only `Markup` is not. The functions below are those macros, for
whoever puts a page together in Python.
"""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, **values: Any) -> str:
    """A whole document: `template` is named with its package, ``cual.bench/report.jinja``."""
    return _environment().get_template(template).render(style=_style(), **values)


def part(name: str, *values: Any) -> "Markup":
    """One of the macros of `parts.jinja`."""
    return getattr(_environment().get_template("cual.html/parts.jinja").module, name)(*values)


def as_html(text: str) -> "Markup":
    """What is HTML already, and must not be escaped again.

    >>> from markupsafe import escape
    >>> str(escape("<b>")), str(escape(as_html("<b>")))
    ('&lt;b&gt;', '<b>')
    """
    from markupsafe import Markup

    return Markup(text)


def page(title: str, lead: str, body: str) -> str:
    """A whole HTML document; `title` and `lead` are text, `body` is HTML.

    >>> whole = page("Results", "Seeds 0 < 1", "<p>body</p>")
    >>> "Seeds 0 &lt; 1" in whole, "<p>body</p>" in whole
    (True, True)
    """
    return render("cual.html/page.jinja", title=title, lead=lead, body=as_html(body))


def section(title: str, body: str) -> str:
    return str(part("section", title, as_html(body)))


def figure(svg: str, caption: str) -> str:
    return str(part("figure", as_html(svg), caption))


def grid(figures: str) -> str:
    """Figures beside each other where there is room."""
    return str(part("grid", as_html(figures)))


def fold(title: str, body: str, opened: bool = False) -> str:
    """A part that the reader opens."""
    return str(part("fold", title, as_html(body), opened))


def _source(name: str) -> str:
    package, _, file = name.rpartition("/")
    return files(package).joinpath(file).read_text(encoding="utf-8")


def _style() -> "Markup":
    return as_html(_source("cual.html/page.css"))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,  # a name that nobody gave is an error, not an empty place on the page
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
