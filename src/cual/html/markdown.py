"""Text of others in Markdown: shown as it is, whoever wrote it. Tables of the bench have their own writer."""

from collections.abc import Iterable

_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def plain(text: str) -> str:
    r"""Text that Markdown shows as it is: no markup, no links, one line.

    >>> print(plain("a|b <script> [x](y) er_random\n# c"))
    a\|b &lt;script&gt; \[x\](y) er\_random�# c
    """
    shown = (c if c.isprintable() else "�" for c in text)
    return "".join(f"\\{c}" if c in "\\`*_[]|" else _ENTITIES.get(c, c) for c in shown)


def line(cells: Iterable[str]) -> str:
    """A line of a table; its cells are Markdown.

    >>> line(["a", "b"])
    '| a | b |'
    """
    return f"| {' | '.join(cells)} |"
