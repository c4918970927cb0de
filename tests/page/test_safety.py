"""What people type is shown and never run; and a page outlives the process that served it."""

from collections.abc import Callable
from typing import Any

import pytest

from page.keyboard import create, gone, next_tile
from page.waiting import until

pytestmark = pytest.mark.page
EVIL = """<img src=x onerror="window.hacked=1">'`${7*7}{{7*7}}"""


def test_a_class_name_is_text_wherever_it_is_shown(service: Any, admin: Any) -> None:
    """The worst name there is, created by typing it, on every page that shows it."""
    id = service.begin()
    base = f"/adaptations/{id}"
    admin.open(base)
    next_tile(admin)
    service.call("PUT", "/pools/1/guidelines", {"text": EVIL})
    admin.page.reload()
    next_tile(admin)
    assert admin.page.inner_text(".guidelines-text") == EVIL
    admin.page.keyboard.press("Control+a")
    many = admin.page.locator(".tile[aria-selected=true]").count() > 1
    admin.page.keyboard.press("/")
    admin.page.keyboard.type(EVIL)
    admin.page.keyboard.press("Enter")
    create(admin)
    if many:
        admin.page.wait_for_selector("[data-armed]:has-text('onerror')")
        _unharmed(admin)
        admin.page.keyboard.press("Enter")
    admin.wait(
        "(name) => [...document.querySelectorAll('[data-class]')].some((o) => o.dataset.name === name)", EVIL
    )
    service.call("PUT", "/agents/1/classes", {"label": EVIL, "description": EVIL})
    shown = admin.page.locator("[data-class] .name", has_text="onerror")
    assert shown.inner_text().strip() == EVIL
    _unharmed(admin)
    admin.picture("evil_name")
    for tile in admin.page.evaluate("[...document.querySelectorAll('[data-tile]')].map((t) => t.dataset.tile)"):
        next_tile(admin)
        admin.page.focus(f"[data-tile='{tile}']")
        admin.page.keyboard.press("1")
        gone(admin, tile)
    until(lambda: service.call("GET", f"/adaptations/{id}")["round"] == 1)
    admin.open(f"{base}/answers")
    admin.wait("(name) => document.querySelector('.board')?.innerText.includes(name)", EVIL)
    _unharmed(admin)
    admin.open(f"{base}/map")
    admin.page.wait_for_selector(".chart canvas")
    admin.page.get_by_role("img", name="Map of").focus()
    admin.page.keyboard.press("ArrowLeft")  # from the end: what was asked
    admin.wait("() => document.querySelector('.tip')?.innerText.includes('asked')")
    _unharmed(admin)
    for path in (f"{base}/review", base, "/", "/agents/1"):
        admin.open(path)
        admin.page.wait_for_selector(".content :is(h1, h2)")
        _unharmed(admin)
    admin.page.goto(f"{admin.home}/api{base}/report")
    _unharmed(admin)


def test_a_persons_name_is_text(service: Any, admin: Any, window: Callable[..., Any]) -> None:
    seen = window(service.person(EVIL, "reader"))
    seen.wait("() => document.querySelector('.who')")
    assert EVIL in seen.page.inner_text(".who")
    _unharmed(seen)
    admin.open("/people")
    admin.page.get_by_role("button", name=f"New sign-in address for {EVIL}").press("Enter")
    admin.page.wait_for_selector("[data-secret]")
    _unharmed(admin)


def test_a_page_shows_why_a_name_is_refused(service: Any, admin: Any) -> None:
    admin.open(f"/adaptations/{service.begin()}")
    tile = next_tile(admin)
    admin.page.keyboard.press("/")
    admin.page.keyboard.insert_text("turned\u202ename")
    admin.page.keyboard.press("Enter")
    create(admin)
    admin.page.wait_for_selector(".q-notification:has-text('control characters')")
    admin.wait("(id) => document.activeElement?.dataset?.tile === id", tile)
    assert admin.page.locator(".tile.leaving").count() == 0


def test_the_page_survives_kill_minus_nine(own_service: Any, window: Callable[..., Any]) -> None:
    seen = window(own_service.address)
    seen.open("/adaptations/1")
    first = next_tile(seen)
    seen.page.keyboard.press("1")
    gone(seen, first)
    second = next_tile(seen)
    own_service.kill()
    seen.wait("() => !window.socket.connected")
    seen.page.keyboard.press("2")
    assert "Not connected" in seen.page.text_content("[data-said]")
    assert (
        seen.page.evaluate("document.activeElement.dataset.tile") == second
    )  # nothing pretends to be answered
    own_service.start()
    seen.wait("() => window.socket?.connected && document.activeElement?.dataset?.tile")
    tile = next_tile(seen)
    seen.page.keyboard.press("2")
    gone(seen, tile)
    record = own_service.call("GET", "/adaptations/1")
    assert (record["answered_in_round"], record["spent"]) == (2, 2)


def _unharmed(window: Any) -> None:
    assert window.page.evaluate("window.hacked") is None
    assert window.page.locator("img[src=x]").count() == 0
    assert "49" not in window.page.locator("[data-class] .name, .tile b, .who").all_inner_texts()
