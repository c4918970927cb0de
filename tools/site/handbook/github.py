"""GitHub's Markdown as Python-Markdown reads it: indents of lists, anchors of headings. Links: `links`."""

import re
from dataclasses import dataclass

_ITEM = re.compile(r"(?P<marker>[-*+]|\d+[.)])(?P<gap> +)(?=\S)")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_INDENT = 4


@dataclass
class _Fence:
    mark: str
    shift: int


def slug(heading: str, separator: str = "-") -> str:
    """The anchor that GitHub gives a heading.

    >>> slug("What the paper leaves open, and what we do")
    'what-the-paper-leaves-open-and-what-we-do'
    >>> slug("Learners: A_s, which scores a pool")
    'learners-a_s-which-scores-a-pool'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def reindented(text: str) -> str:
    """Lists whose contents are indented by four spaces a level, which is all that Python-Markdown takes.

    GitHub takes what stands below the first letter of an item for a part of it, and lets a list follow a
    paragraph at once.

    >>> print(reindented("Steps:\\n1. one\\n\\n   - inside\\n2. two"))
    Steps:
    <BLANKLINE>
    1. one
    <BLANKLINE>
        - inside
    2. two
    """
    lines: list[str] = []
    items: list[int] = []  # where the contents of each open item begin, outermost first
    fence: _Fence | None = None
    before = ""
    for line in text.split("\n"):
        body = line.lstrip(" ")
        indent = len(line) - len(body)
        if fence is not None:
            lines.append(_shifted(line, fence.shift))
            if body.startswith(fence.mark) and not body.strip(fence.mark[0]).strip():
                fence = None
        elif not body.strip():
            lines.append("")
        else:
            item = _ITEM.match(body)
            if item is not None or not before.strip() or _FENCE.match(body):
                while items and indent < items[-1]:
                    items.pop()
            begin = items[-1] if items else 0
            if item is not None and indent - begin < _INDENT:
                if before.strip() and not _goes_on(lines, len(items)):
                    lines.append("")
                lines.append(" " * _INDENT * len(items) + item["marker"] + " " + body[item.end() :])
                items.append(indent + item.end())
            else:
                shift = _INDENT * len(items) - begin
                if (opened := _FENCE.match(body)) is not None:
                    fence = _Fence(opened[1], shift)
                lines.append(_shifted(line, shift) if indent >= begin else body)
        before = line
    return "\n".join(lines)


def _shifted(line: str, shift: int) -> str:
    if shift >= 0:
        return " " * shift + line if line else line
    return line[-shift:] if not line[:-shift].strip() else line.lstrip(" ")


def _goes_on(lines: list[str], depth: int) -> bool:
    """Whether an item of this depth can follow at once: the item before it is no deeper."""
    for line in reversed(lines):
        if not line.strip():
            return False
        body = line.lstrip(" ")
        if _ITEM.match(body):
            return len(line) - len(body) <= _INDENT * depth
    return False
