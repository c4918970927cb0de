"""Formulas of pages as MathML, drawn by browsers without a script. GitHub draws the same ``$…$``."""

import html
import re
from xml.etree import ElementTree

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])\s*</(?P=tag)>",
    re.DOTALL,
)


def formulas(page: str) -> str:
    """The HTML of a page, its formulas drawn.

    >>> print(formulas('<span class="arithmatex">\\\\(x^2\\\\)</span>'))  # doctest: +ELLIPSIS
    <math xmlns="http://www.w3.org/1998/Math/MathML" ...<msup><mi>x</mi><mn>2</mn></msup></mrow></math>
    """
    return _FORMULA.sub(_drawn, page)


def _drawn(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    block = match["block"] is not None
    tex = html.unescape(match["block"] if block else match["inline"]).strip()
    drawn = convert(tex, display="block" if block else "inline")
    ElementTree.fromstring(drawn)
    # What cannot be drawn stays as a command, in red or not at all: better no page than such a one.
    if left := re.findall(r"\\[a-zA-Z]+", drawn):
        raise ValueError(f"cannot draw {', '.join(left)} in the formula {tex}")
    return f'<div class="formula">{drawn}</div>' if block else drawn
