"""One tile, large: zoomed, moved and scrolled by key, by mouse and by finger; the focus comes back to it."""

import re
from typing import Any

import pytest

from page.accessibility import axe, complaints
from page.keyboard import FOCUSED, next_tile
from page.test_looks import answered

pytestmark = pytest.mark.page
OPEN = "() => document.querySelector('dialog[open]') !== null"
CLOSED = "() => document.querySelector('dialog[open]') === null"
LOADED = "() => { const i = document.querySelector('dialog img'); return i.complete && i.naturalWidth > 0; }"
TRANSFORM = "new DOMMatrix(getComputedStyle(document.querySelector('dialog img')).transform)"


@pytest.fixture(scope="module")
def asking(service: Any) -> int:
    return service.begin()


def place(window: Any) -> tuple[float, float, float]:
    """How large the picture is drawn, and how far it was moved."""
    return tuple(window.page.evaluate(f"(() => {{ const m = {TRANSFORM}; return [m.a, m.e, m.f]; }})()"))


def zoom(window: Any) -> str:
    return window.page.inner_text("dialog [role=status]")


def test_a_picture_by_keyboard_alone(admin: Any, asking: int) -> None:
    admin.open(f"/adaptations/{asking}")
    keys, first = admin.page.keyboard, next_tile(admin)
    name = admin.page.get_attribute(f"[data-tile='{first}'] img", "alt")
    keys.press("F4")
    admin.wait(OPEN)
    admin.wait(LOADED)
    assert admin.page.get_attribute("dialog img", "alt") == name
    assert name in admin.page.inner_text("dialog")
    assert (zoom(admin), place(admin)) == ("Zoom 100 %", (1, 0, 0))
    keys.press("+")
    keys.press("+")
    assert zoom(admin) == "Zoom 225 %"
    keys.press("ArrowRight")
    keys.press("ArrowDown")
    size, x, y = place(admin)
    assert size == 2.25
    assert x < 0
    assert y < 0
    for _ in range(20):
        keys.press("ArrowRight")
    wide = admin.page.evaluate("document.querySelector('[data-looking-at]').clientWidth")
    assert place(admin)[1] == pytest.approx(-wide * 1.25 / 2, abs=1), "no further than its edge"
    keys.press("-")
    assert zoom(admin) == "Zoom 150 %"
    keys.press("0")
    assert place(admin) == (1, 0, 0)

    # whole again, the arrows go to the next one; Tab stays inside; letters and digits answer nothing
    keys.press("ArrowRight")
    assert admin.page.get_attribute("dialog img", "alt") != name
    for _ in range(12):
        keys.press("Tab")
        inside = "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        assert admin.page.evaluate(inside)
    keys.press("1")
    keys.press("a")
    keys.press("Escape")
    admin.wait(CLOSED)
    second = admin.page.evaluate(FOCUSED)
    assert second not in (None, first)
    assert admin.page.query_selector(f"[data-tile='{first}']") is not None
    assert not admin.page.query_selector_all("[data-tile].leaving")
    keys.press("F4")
    admin.wait(OPEN)
    keys.press("ArrowLeft")
    keys.press("F4")
    admin.wait(CLOSED)
    assert admin.page.evaluate(FOCUSED) == first
    assert admin.errors == []


def test_a_text_scrolls_by_key(service: Any, window: Any) -> None:
    id = service.begin(pool=2)
    seen = window(service.person("Tess", "annotator"), viewport={"width": 420, "height": 360})
    seen.open(f"/adaptations/{id}")
    keys, tile = seen.page.keyboard, next_tile(seen)
    keys.press("F4")
    seen.wait(OPEN)
    assert seen.page.inner_text(".looking-words") == seen.page.inner_text(f"[data-tile='{tile}'] .words")
    assert "<b>the digit</b>" in seen.page.inner_text(".looking-words"), "as text, never as markup"
    for _ in range(4):
        keys.press("+")
    top = "() => document.querySelector('[data-looking-at]').scrollTop"
    assert seen.page.evaluate(top) == 0
    keys.press("ArrowDown")
    seen.wait("() => document.querySelector('[data-looking-at]').scrollTop > 0")
    keys.press("Home")
    seen.wait("() => document.querySelector('[data-looking-at]').scrollTop === 0")
    keys.press("PageDown")
    seen.wait("() => document.querySelector('[data-looking-at]').scrollTop > 0")
    keys.press("PageUp")
    seen.wait("() => document.querySelector('[data-looking-at]').scrollTop === 0")
    seen.picture("looking_text")
    keys.press("F4")
    seen.wait(CLOSED)
    assert seen.page.evaluate(FOCUSED) == tile
    assert seen.errors == []


def test_by_mouse_on_the_review(service: Any, truth: list[str], admin: Any) -> None:
    admin.open(f"/adaptations/{answered(service, truth)}/review")
    admin.page.locator(".tile img").nth(1).dblclick()
    admin.wait(OPEN)
    admin.wait(LOADED)
    box = admin.page.locator("[data-looking-at]").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    admin.page.mouse.move(*middle)
    for _ in range(4):
        admin.page.mouse.wheel(0, -100)
    admin.wait("() => document.querySelector('dialog [role=status]').innerText === 'Zoom 225 %'")
    admin.page.mouse.down()
    admin.page.mouse.move(middle[0] + 60, middle[1] - 40)
    admin.page.mouse.up()
    admin.page.mouse.move(*middle)
    assert place(admin)[1:] == (60, -40)
    admin.page.get_by_role("button", name="Close").click()
    admin.wait(CLOSED)
    assert admin.page.evaluate(FOCUSED) == admin.page.locator(".tile").nth(1).get_attribute("data-tile")
    assert admin.errors == []


def test_features_alone_say_what_they_are_most_alike(service: Any, admin: Any) -> None:
    from cual import Client
    from cual.serve.jobs.example import demo_data

    data = demo_data()
    service.call("GET", "/me")
    with Client(service.url, service.token) as client:
        pool = client.add_pool("Numbers only", 1, X=data.X[data.pool])
    id = service.begin(pool=pool.id)
    admin.open(f"/adaptations/{id}")
    tile = next_tile(admin)
    shown = admin.page.inner_text(f"[data-tile='{tile}'] .words")
    row = {str(q["id"]): q["row"] for q in service.call("GET", f"/adaptations/{id}/questions")}[tile]
    assert re.fullmatch(rf"{row}\nMost alike known samples \(1 is the same\): (\d \d\.\d\d(, )?){{3}}", shown)
    admin.page.keyboard.press("F4")
    admin.wait(OPEN)
    assert admin.page.inner_text(".looking-words") == shown
    admin.picture("looking_features")
    assert complaints(admin.page) + axe(admin.page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_touch_and_for_everyone(service: Any, asking: int, window: Any, scheme: str) -> None:
    phone = window(
        service.person("Tom", "annotator"),
        has_touch=True,
        viewport={"width": 390, "height": 780},
        color_scheme=scheme,
    )
    phone.open(f"/adaptations/{asking}")
    phone.page.locator(".tile img").first.tap()
    phone.picture(f"looking_before_{scheme}")
    phone.page.locator("[data-verb=look]").tap()
    phone.wait(OPEN)
    phone.wait(LOADED)
    assert complaints(phone.page) + axe(phone.page) == []
    pinch(phone)
    assert place(phone)[0] == pytest.approx(3, abs=0.1)
    phone.page.get_by_role("button", name="Whole").tap()
    assert place(phone) == (1, 0, 0)
    phone.page.get_by_role("button", name="Larger").tap()
    phone.page.get_by_role("button", name="Next").tap()
    assert zoom(phone) == "Zoom 100 %"
    phone.picture(f"looking_phone_{scheme}")
    phone.page.get_by_role("button", name="Close").tap()
    phone.wait(CLOSED)
    assert phone.errors == []


def pinch(window: Any) -> None:
    """Two fingers, three times as far apart at the end."""
    box = window.page.locator("[data-looking-at]").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = window.page.context.new_cdp_session(window.page)

    def touch(kind: str, half: float | None) -> None:
        points = [] if half is None else [{"x": x - half, "y": y, "id": 0}, {"x": x + half, "y": y, "id": 1}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 40)
    for half in (60, 80, 100, 120):
        touch("touchMove", half)
    touch("touchEnd", None)
    session.detach()
