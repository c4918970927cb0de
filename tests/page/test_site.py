"""The documentation site in a browser: nothing comes from elsewhere, nothing fails, all can read it."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from docs_site.building import built
from page.conftest import Window

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytestmark = pytest.mark.page

PAGES = ["index.html", "start.html", "reference/errors.html", "cual-plus.html", "results.html"]
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
LOOKS = [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who asks for what is no news here."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    site: Path = built(tmp_path_factory.mktemp("site"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_pages_are_read_by_everybody(
    size: dict[str, int], scheme: str, home: str, window: Callable[..., Window]
) -> None:
    site = window(home, viewport=size, color_scheme=scheme)
    for page in PAGES:
        site.open(f"/{page}")
        site.page.wait_for_load_state("networkidle")
        found = Axe().run(site.page).response["violations"]
        serious = [
            f"{page} {each['id']}: {node['html'][:150]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
        assert serious == []
        assert site.page.evaluate("document.documentElement.scrollWidth") <= size["width"], page
        site.picture(f"site-{page.removesuffix('.html').replace('/', '-')}-{size['width']}-{scheme}")
    assert site.strangers == []
    assert site.errors == []


def test_what_is_looked_for_is_found(home: str, window: Callable[..., Window]) -> None:
    site = window(home, viewport=DESKTOP)
    site.page.fill("input.md-search__input", "T_inner")
    site.wait("() => document.querySelectorAll('.md-search-result__item').length > 0")
    assert site.errors == []


def test_formulas_need_no_script(home: str, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=DESKTOP)
    page = context.new_page()
    page.goto(f"{home}/method.html")
    box = page.locator("math[display=block]").first.bounding_box()
    assert box is not None
    assert box["height"] > 10
    context.close()
