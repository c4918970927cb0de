"""What mkdocs calls while it builds the site. The work is in `handbook/`; settings are in `mkdocs.yml`."""

import logging
from pathlib import Path
from typing import Any

from handbook import (
    accessible,
    api,
    checking,
    commands,
    errors,
    github,
    links,
    mathml,
    metrics,
    navigation,
    parts,
    routes,
)
from mkdocs.structure.files import File

LOG = logging.getLogger("mkdocs.plugins.handbook")
ROOT = Path(__file__).parents[2]
GENERATED = {
    "reference/commands.md": commands.page,
    "reference/http.md": routes.page,
    "reference/errors.md": errors.page,
    "reference/metrics.md": metrics.page,
    "reference/parts.md": parts.page,
}

ALONE = ("index.md", "start.md")
"""Pages that have no others beside them in the navigation."""


def on_config(config: Any) -> Any:
    """GitHub's anchors, and folders in the navigation as their pages."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = github.slug
    config.nav = navigation.expanded(config.nav, Path(config.docs_dir), [*api.pages()])
    return config


def on_files(files: Any, config: Any) -> Any:
    """Put pages from beside `docs/` and generated ones among the files, and what they all link to."""
    repository = links.Repository(ROOT)
    for source, place in links.PROJECT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(
            File.generated(config, place, content=repository.rewritten(text, source, place, LOG.warning))
        )
    for place, text in ({place: page() for place, page in GENERATED.items()} | api.pages()).items():
        files.append(File.generated(config, place, content=text))
    for file in list(files.documentation_pages()):
        if file.generated_by is None:
            # Only to learn which files it links to: problems are told when the page is made.
            repository.rewritten(file.content_string, f"docs/{file.src_uri}", file.src_uri, LOG.debug)
    for path, place in repository.shown.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """What GitHub reads, as mkdocs reads it."""
    repository = links.Repository(ROOT)
    if page.file.src_uri in ALONE:
        page.meta["hide"] = ["navigation"]
    if page.file.generated_by is None:
        source = f"docs/{page.file.src_uri}"
        markdown = repository.rewritten(markdown, source, page.file.src_uri, LOG.warning)
        for path in repository.missing(markdown):
            LOG.warning("%s names %s, which does not exist", source, path)
    return github.reindented(markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Formulas, drawn."""
    try:
        return mathml.formulas(html)
    except ValueError as error:
        LOG.warning("%s: %s", page.file.src_uri, error)
        return html


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Names for what the theme leaves without one."""
    return accessible.named(output)


def on_post_build(config: Any) -> None:
    """Look at every page once more, as a browser would."""
    for problem in checking.problems(Path(config.site_dir)):
        LOG.warning(problem)
