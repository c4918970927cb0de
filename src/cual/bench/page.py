"""The skeleton of a self-contained HTML page, light and dark. Nothing is loaded from anywhere."""

import html
from importlib.resources import files

STYLE = files("cual.bench").joinpath("page.css").read_text(encoding="utf-8")


def page(title: str, lead: str, body: str) -> str:
    """A whole HTML document; `title` and `lead` are text, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body><header><h1>{html.escape(title)}</h1>"
        f'<p class="lead">{html.escape(lead)}</p></header>\n{body}\n</body></html>\n'
    )


def section(title: str, body: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{body}</section>\n"


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>\n"


def fold(title: str, body: str, opened: bool = False) -> str:
    """A part that the reader opens."""
    return f"<details{' open' if opened else ''}><summary>{html.escape(title)}</summary>{body}</details>\n"
