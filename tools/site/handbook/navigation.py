"""Sections of the navigation that are folders: `tutorials/` stands for every page in it."""

import re
from pathlib import Path
from typing import Any


def expanded(navigation: list[Any], docs: Path, generated: list[str]) -> list[Any]:
    """The navigation with the pages of a folder where that is named; without any, its section is left out.

    Parameters
    ----------
    docs
        The folder of pages.
    generated
        Places of pages that are made while the site is built.
    """
    whole: list[Any] = []
    for entry in navigation:
        if not isinstance(entry, dict):
            whole.append(entry)
            continue
        ((title, content),) = entry.items()
        if isinstance(content, list):
            whole.append({title: expanded(content, docs, generated)})
        elif not content.endswith("/"):
            whole.append(entry)
        elif pages := _pages(content, docs, generated):
            whole.append({title: pages})
    return whole


def _pages(folder: str, docs: Path, generated: list[str]) -> list[str]:
    """Pages that people wrote as their index links to them, generated ones as they come; the index is first."""
    index = docs / folder / "index.md"
    links = re.findall(r"\]\(([\w-]+\.md)", index.read_text(encoding="utf-8")) if index.exists() else []
    paths = sorted((docs / folder).glob("*.md"))
    paths.sort(key=lambda path: links.index(path.name) if path.name in links else len(links))
    written = [path.relative_to(docs).as_posix() for path in paths]
    made = [page for page in generated if page.rpartition("/")[0] + "/" == folder]
    return sorted([*written, *made], key=lambda page: not page.endswith(("/index.md", "/README.md")))
