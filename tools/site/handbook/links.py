"""Links of pages that are read on GitHub and on the site: to the same thing in both. Anchors: mkdocs."""

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

PROJECT = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security-policy.md",
}
"""Pages that lie beside `docs/`, and their places on the site."""

_LINK = re.compile(
    r"(?P<before>!?\[(?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*\]\()(?P<to>[^)\s]+)(?P<after>[^)]*\))"
)
_CODE = re.compile(
    r"^(?P<fence> *(?P<mark>`{3,}|~{3,}).*?\n *(?P=mark)[`~]*) *$|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)",
    re.M | re.S,
)
_NAMED = re.compile(r"`((?:src|tests|benchmarks|docs|tools|deploy)/[\w./-]+)`")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//")


class Repository:
    """The files that pages may link to.

    Parameters
    ----------
    root
        Where the repository lies.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shown: dict[str, str] = {}
        """Files outside `docs/` that pages link to, and their places on the site."""

    def rewritten(self, text: str, source: str, page: str, problem: Callable[[str], None]) -> str:
        """A page of the repository with links that lead from its place on the site.

        Parameters
        ----------
        source, page
            Where the page lies in the repository, and where on the site.
        problem
            Is told of every link to a file that does not exist.
        """

        def lead(match: re.Match[str]) -> str:
            target, hash_, anchor = match["to"].partition("#")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
            if _ELSEWHERE.match(match["to"]):
                return match[0]
            if path.startswith("../") or not (self.root / path).exists():
                problem(f"{source} links to {match['to']}, which does not exist")
                return match[0]
            if (place := self.place(path)) is None:
                return _text(match)
            return match["before"] + _relative(place, page) + hash_ + anchor + match["after"]

        return outside_code(text, lambda part: _LINK.sub(lead, part))

    def place(self, path: str) -> str | None:
        """Where a file of the repository is on the site; a folder is nowhere."""
        if path.startswith("docs/"):
            return path.removeprefix("docs/") if (self.root / path).is_file() else None
        if path in PROJECT:
            return PROJECT[path]
        if not (self.root / path).is_file():
            return None
        return self.shown.setdefault(path, f"files/{path}.txt")

    def missing(self, text: str) -> Iterator[str]:
        """Files that a page names in `code` and that do not exist."""
        return (path for path in _NAMED.findall(text) if not (self.root / path).exists())


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change a page, except for what is code in it.

    >>> outside_code("a `a` a", str.upper)
    'A `a` A'
    """
    codes: list[str] = []

    def put_away(code: re.Match[str]) -> str:
        codes.append(code[0])
        return f"\ue000{len(codes) - 1}\ue001"  # of the private area: no page has them

    changed = change(_CODE.sub(put_away, text))
    return re.sub("\ue000(\\d+)\ue001", lambda mark: codes[int(mark[1])], changed)


def _relative(place: str, page: str) -> str:
    return posixpath.relpath(place, posixpath.dirname(page) or ".")


def _text(match: re.Match[str]) -> str:
    """What a link says, without the link."""
    return match["before"].lstrip("!")[1:-2]
