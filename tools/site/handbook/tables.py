"""Markdown of what is generated: rows of tables and cells in them. What stands in them is said elsewhere."""

from collections.abc import Iterable

NOTE = "<!-- generated when the site is built -->\n"


def cell(text: object) -> str:
    """A text that does not break the table around it.

    >>> cell("a | b\\nc")
    'a \\\\| b c'
    """
    return " ".join(str(text).split()).replace("|", "\\|")


def code(text: object) -> str:
    """
    >>> code("a|b"), code("")
    ('`a|b`', '')
    """
    return f"`{text}`" if str(text) else ""


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table; none, if there is nothing in it.

    >>> print(table(["name", "meaning"], [["a", "b"]]))
    | name | meaning |
    | --- | --- |
    | a | b |
    <BLANKLINE>
    """
    names = list(head)
    lines = [_line(names), _line(["---"] * len(names)), *(_line(map(cell, row)) for row in rows)]
    return "\n".join([*lines, ""]) if len(lines) > 2 else ""


def first_sentence(text: str | None) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
