"""Whether a built site holds together: every link leads somewhere, and nothing is loaded from elsewhere."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
_STYLE = re.compile(r"""@import\s+(?:url\()?["']?([^"')\s;]+)|url\(\s*["']?([^"')\s]+)""")
_TELLING = ("canonical", "alternate", "prev", "next")  # links of these kinds load nothing


class _Page(HTMLParser):
    """Anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        where = _LOADING.get(tag)
        if where in given and given.get("rel") not in _TELLING:
            self.loaded.append(given[where])
        self.loaded += [source.split()[0] for source in given.get("srcset", "").split(",") if source.strip()]


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with the site in a folder, in words."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        if name == "404.html":
            continue  # its addresses begin at the root of wherever the site is put
        for link in page.links:
            yield from (f"{name}: {problem}" for problem in _leads_nowhere(site, path, link, pages))
        for link in page.loaded:
            if _elsewhere(link):
                yield f"{name} loads {link}"
            else:
                yield from (f"{name}: {problem}" for problem in _leads_nowhere(site, path, link, pages))
    for path in sorted(site.rglob("*.css")):
        for link in (a or b for a, b in _STYLE.findall(path.read_text(encoding="utf-8"))):
            if _elsewhere(link):
                yield f"{path.relative_to(site).as_posix()} loads {link}"


def _elsewhere(link: str) -> bool:
    """
    >>> _elsewhere("https://example.org/x.js"), _elsewhere("../x.js"), _elsewhere("data:image/png;base64,")
    (True, False, False)
    """
    return link.startswith("//") or urlsplit(link).scheme in ("http", "https", "ftp")


def _leads_nowhere(site: Path, page: Path, link: str, pages: dict[Path, _Page]) -> Iterator[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return
    path = unquote(parts.path)
    target = page if not path else (page.parent / path).resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site.resolve()) and target != page:
        yield f"{link} leads out of the site"
    elif not target.is_file():
        yield f"{link} leads nowhere"
    elif parts.fragment and target.suffix == ".html":
        known = pages.get(target) or pages.get(site / target.relative_to(site.resolve()))
        if known is not None and unquote(parts.fragment) not in known.anchors:
            yield f"{link} leads to no such part"
