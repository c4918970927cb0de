"""A finger held on a tile selects it, as Space does; it answers nothing, opens no menu; scrolling holds not."""

from collections.abc import Callable
from typing import Any

import pytest

from page.accessibility import axe, complaints
from page.fingers import HELD, Finger, hold, middle, selected
from page.keyboard import gone, next_tile
from page.test_looks import answer_all, answered
from page.waiting import until

pytestmark = pytest.mark.page
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# What a browser sends before it opens its menu for a held finger; Chromium without a screen never does.
MENU = """(tile) => {
  const how = { bubbles: true, cancelable: true, pointerType: "touch" };
  const menu = new PointerEvent("contextmenu", how);
  document.querySelector(`[data-tile='${tile}'] img`).dispatchEvent(menu);
  return menu.defaultPrevented ? "stopped" : "opens";
}"""


@pytest.fixture
def phone(service: Any, window: Callable[..., Any]) -> Any:
    """A phone on the questions of a new adaptation."""
    opened = window(service.person("Tilda", "annotator"), **PHONE)
    opened.adaptation = service.begin()
    opened.open(f"/adaptations/{opened.adaptation}")
    next_tile(opened)
    return opened


def tiles(window: Any) -> list[str]:
    return window.page.eval_on_selector_all(".tile", "all => all.map(t => t.dataset.tile)")


def answers(service: Any, window: Any) -> int:
    return service.call("GET", f"/adaptations/{window.adaptation}")["answered_in_round"]


def test_a_held_finger_selects_taps_add_and_remove_and_an_answer_asks_first(service: Any, phone: Any) -> None:
    first, second, third = tiles(phone)[:3]
    hold(phone, first)
    assert selected(phone) == [first]
    for tile in (second, third):
        phone.page.locator(f"[data-tile='{tile}']").tap()
    assert selected(phone) == [first, second, third]
    phone.page.locator(f"[data-tile='{second}']").tap()
    assert selected(phone) == [first, third]
    for tile in (third, second):
        phone.page.locator(f"[data-tile='{tile}']").tap()
    assert selected(phone) == [first, second]
    hold(phone, third)
    hold(phone, third)
    assert selected(phone) == [first, second], "held again, it is deselected, as with Space"

    phone.page.locator(".class").first.tap()
    phone.page.wait_for_selector("[data-armed]:has-text('2 selected')")
    assert "Enter does it" not in phone.page.inner_text("[data-armed-text]"), "a phone has no such key"
    assert phone.page.locator("[data-armed]").evaluate("e => e.getBoundingClientRect().bottom <= innerHeight")
    phone.picture("holding_armed")
    assert complaints(phone.page) + axe(phone.page) == []
    hold(phone, third)
    assert not phone.page.locator("[data-armed]").is_visible(), "it was asked about two"
    phone.page.locator(".class").first.tap()
    phone.page.wait_for_selector("[data-armed]:has-text('3 selected')")
    assert answers(service, phone) == 0
    phone.page.get_by_role("button", name="Answer all").tap()
    gone(phone, third)
    until(lambda: answers(service, phone) == 3)
    assert phone.errors == []


def test_whoever_scrolls_or_moves_does_not_hold(service: Any, phone: Any) -> None:
    first, second = tiles(phone)[:2]
    x, y = middle(phone, f"[data-tile='{first}']")
    finger = Finger(phone, x, y)
    for step in range(1, 9):
        finger.move(x, y - 10 * step)
    phone.wait("() => scrollY > 0")
    phone.page.wait_for_timeout(HELD)
    finger.lift()
    assert selected(phone) == []

    x, y = middle(phone, f"[data-tile='{first}']")
    finger = Finger(phone, x, y)
    for step in range(1, 5):
        finger.move(x + 5 * step, y)  # sideways nothing scrolls
    phone.page.wait_for_timeout(HELD)
    assert selected(phone) == []
    finger.lift()
    hold(phone, second)
    assert selected(phone) == [second], "and afterwards a finger holds as before"
    assert answers(service, phone) == 0
    assert phone.errors == []


def test_no_menu_opens_for_a_finger_whenever_the_browser_wants_it(service: Any, phone: Any) -> None:
    first, second = tiles(phone)[:2]
    finger = Finger(phone, *middle(phone, f"[data-tile='{first}']"))
    assert phone.page.evaluate(MENU, first) == "stopped"
    phone.wait("() => document.querySelector('.tile[aria-selected=true]')")
    phone.page.wait_for_timeout(HELD)
    finger.lift()
    assert selected(phone) == [first], "once, by menu and clock together"
    hold(phone, second)
    assert phone.page.evaluate(MENU, second) == "stopped", "some browsers want it when the finger is lifted"
    assert selected(phone) == [first, second]
    assert answers(service, phone) == 0


def test_a_mouse_has_its_menu_and_does_not_select_by_it(phone: Any) -> None:
    phone.page.evaluate("() => addEventListener('contextmenu', (e) => { window.menu = e.defaultPrevented; })")
    phone.page.locator(".tile").first.click(button="right")
    assert phone.wait("() => String(window.menu)") == "false"
    assert selected(phone) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_the_review_too(service: Any, truth: list[str], window: Callable[..., Any], scheme: str) -> None:
    phone = window(service.person("Tilda", "annotator"), **PHONE, color_scheme=scheme)
    id = answered(service, truth)
    phone.open(f"/adaptations/{id}/review")
    phone.page.wait_for_selector(".tile img")
    first, second = tiles(phone)[:2]
    hold(phone, first)
    phone.page.locator(f"[data-tile='{second}']").tap()
    assert selected(phone) == [first, second]
    phone.page.locator("[data-class]").first.tap()
    phone.page.wait_for_selector("[data-armed]:has-text('2 selected')")
    phone.picture(f"holding_review_{scheme}")
    assert complaints(phone.page) + axe(phone.page) == []
    phone.page.get_by_role("button", name="Cancel").tap()
    believed = service.call("GET", f"/adaptations/{id}/pseudo-labels")
    assert not any(row["verdict"] for row in believed)
    phone.page.locator("[data-verb=help]").tap()
    phone.page.wait_for_selector(".q-dialog:has-text('By touch')")
    assert complaints(phone.page) + axe(phone.page) == []
    phone.picture(f"holding_help_{scheme}")
    assert phone.errors == []


def test_on_the_map_too(service: Any, truth: list[str], window: Callable[..., Any]) -> None:
    id = service.begin()
    answer_all(service, id, truth)
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "asking")
    phone = window(service.person("Tilda", "annotator"), **PHONE)
    phone.open(f"/adaptations/{id}/map")
    phone.wait("() => document.querySelector('[data-choices]')?.options.length > 1")
    phone.page.locator("[data-choices]").select_option(index=1)
    phone.page.get_by_role("button", name="Select these").tap()
    phone.page.wait_for_selector(".tile img")
    first, second = tiles(phone)[:2]
    hold(phone, first)
    phone.page.locator(f"[data-tile='{second}']").tap()
    assert selected(phone) == [first, second]
    phone.page.locator("[data-verb=confirm]").tap()
    phone.page.wait_for_selector("[data-armed]:has-text('2 selected')")
    phone.picture("holding_map")
    assert complaints(phone.page) + axe(phone.page) == []
    assert phone.errors == []
