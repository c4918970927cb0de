"""The skeleton of a self-contained HTML page, light and dark. Nothing is loaded from anywhere."""

import html
from collections.abc import Mapping
from importlib.resources import files

STYLE = files("cual.html").joinpath("page.css").read_text(encoding="utf-8")


def page(title: str, lead: str, body: str) -> str:
    """A whole HTML document; `title` and `lead` are text, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body><header><h1>{html.escape(title)}</h1>"
        f'<p class="lead">{html.escape(lead)}</p></header>\n{body}\n</body></html>\n'
    )


def section(title: str, body: str, name: str = "") -> str:
    """A part of the page; `name` is what `contents` links to."""
    named = f' id="{html.escape(name)}"' if name else ""
    return f"<section{named}><h2>{html.escape(title)}</h2>{body}</section>\n"


def contents(titles: Mapping[str, str]) -> str:
    """Links to sections: their titles by name."""
    links = (f'<a href="#{html.escape(n)}">{html.escape(title)}</a>' for n, title in titles.items())
    return f"<nav>{' '.join(links)}</nav>\n"


def subsection(title: str, body: str) -> str:
    return f"<h3>{html.escape(title)}</h3>{body}\n"


def figure(svg: str, caption: str, wide: bool = False) -> str:
    kind = " class=whole" if wide else ""
    return f"<figure{kind}>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>\n"


def grid(figures: str) -> str:
    """Figures beside each other where there is room."""
    return f"<div class=grid>{figures}</div>\n" if figures else ""


def fold(title: str, body: str, opened: bool = False) -> str:
    """A part that the reader opens."""
    return f"<details{' open' if opened else ''}><summary>{html.escape(title)}</summary>{body}</details>\n"
