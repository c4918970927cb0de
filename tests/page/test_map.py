"""The map: colours by class, a lasso, and what is selected gets a class or is reviewed."""

from collections.abc import Callable
from typing import Any

import pytest

from page.accessibility import axe, complaints
from page.keyboard import answer, tab_to
from page.test_looks import answer_all, answered
from page.waiting import until

pytestmark = pytest.mark.page
SELECTION = "(words) => document.querySelector('[data-selection]')?.innerText.includes(words)"
FOCUS_ON = "(id) => document.activeElement?.dataset?.tile === id"
CHART = "getElement(Number(document.querySelector('.chart').id.slice(1))).chart"


@pytest.fixture(scope="module")
def early(service: Any, truth: list[str]) -> int:
    """An adaptation in its second round, with open questions and first beliefs."""
    id = service.begin()
    answer_all(service, id, truth)
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "asking")
    return id


def opened(window: Any, id: int) -> None:
    window.open(f"/adaptations/{id}/map")
    window.page.wait_for_selector(".chart canvas")
    window.wait("() => document.querySelector('[data-choices]')?.options.length > 1")


def select(window: Any, choice: int) -> None:
    """Select what the list offers there, by keyboard."""
    window.page.keyboard.press("Tab")
    while window.page.evaluate("document.activeElement.dataset.choices") is None:
        window.page.keyboard.press("Tab")
    window.page.keyboard.press("Home")
    for _ in range(choice):
        window.page.keyboard.press("ArrowDown")
    tab_to(window, "Select these")
    window.page.keyboard.press("Enter")


def into_the_board(window: Any) -> None:
    window.wait("() => document.querySelector('.tile')")
    while not window.page.evaluate("document.activeElement.dataset.tile !== undefined"):
        window.page.keyboard.press("Tab")


def test_beliefs_are_selected_and_judged_by_keyboard(service: Any, truth: list[str], admin: Any) -> None:
    id = answered(service, truth)
    believed = service.call("GET", f"/adaptations/{id}/pseudo-labels")
    first = sorted({str(row["label"]) for row in believed})[0]
    mine = {row["row"] for row in believed if str(row["label"]) == first}
    opened(admin, id)
    tab_to(admin, "Colour by class")
    admin.page.keyboard.press("Enter")
    admin.wait("() => document.querySelector('.chart-box').ariaLabel.includes('without a class')")
    select(admin, 1)
    admin.wait(SELECTION, f"0 open questions, {len(mine)} labelled without asking, 0 others")
    admin.wait(f"(n) => {CHART}.getOption().series.at(-1).data.length === n", len(mine))
    into_the_board(admin)
    admin.page.keyboard.press("Control+a")
    admin.page.keyboard.press("=")
    admin.wait("() => !document.querySelector('[data-armed]').hidden")
    assert not any(row["verdict"] for row in service.call("GET", f"/adaptations/{id}/pseudo-labels"))
    admin.picture("map_selection")
    admin.page.keyboard.press("Enter")

    def verdicts() -> dict[int, str]:
        rows = service.call("GET", f"/adaptations/{id}/pseudo-labels")
        return {row["row"]: row["verdict"] for row in rows if row["verdict"]}

    tiles = min(len(mine), 60)
    until(lambda: len(verdicts()) == tiles)
    assert set(verdicts()) <= mine
    assert set(verdicts().values()) == {"confirm"}
    admin.wait("() => document.querySelector('.note').innerText.includes('confirmed')")
    admin.page.keyboard.press("Backspace")
    until(lambda: not verdicts())
    assert admin.errors == []


def test_open_questions_are_answered_on_the_map(service: Any, truth: list[str], early: int, admin: Any) -> None:
    waiting = [q for q in service.call("GET", f"/adaptations/{early}/questions") if not q["answers"]]
    opened(admin, early)
    select(admin, 0)
    admin.wait(SELECTION, f"{len(waiting)} open question")
    into_the_board(admin)
    tile = admin.page.evaluate("document.activeElement.dataset.tile")
    answer(admin, truth[int(tile)])
    admin.wait("(id) => !document.querySelector(`[data-tile='${id}']`)", tile)

    def label() -> str | None:
        questions = service.call("GET", f"/adaptations/{early}/questions")
        return next(q["effective"] for q in questions if q["row"] == int(tile))

    until(lambda: label() == truth[int(tile)])
    admin.wait("() => document.querySelector('.note').innerText.includes('1 question answered')")
    admin.page.keyboard.press("Control+z")
    admin.wait(FOCUS_ON, tile)
    until(lambda: label() is None)
    assert admin.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_lasso_selects(service: Any, early: int, window: Callable[..., Any], scheme: str) -> None:
    seen = window(service.person("Lasse", "admin"), color_scheme=scheme)
    opened(seen, early)
    seen.page.get_by_role("button", name="Lasso").click()
    box = seen.page.locator(".chart canvas").first.bounding_box()
    left, top, right, bottom = (
        box["x"] + 12,
        box["y"] + 60,
        box["x"] + box["width"] / 2,
        box["y"] + box["height"] - 12,
    )
    seen.page.mouse.move(left, top)
    seen.page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 5)):
        seen.page.mouse.move(x, y, steps=6)
    seen.page.mouse.up()
    seen.wait(SELECTION, "Selected:")
    drawn = f"{CHART}.getOption().series.at(-1).data"
    n = seen.wait(f"() => {drawn}.length")
    assert 0 < n < 600
    half = f"(x) => {drawn}.every((p) => {CHART}.convertToPixel('grid', [p[0], p[1]])[0] <= x + 1)"
    assert seen.page.evaluate(half, right - box["x"])
    seen.picture(f"map_lasso_{scheme}")
    assert complaints(seen.page) == []
    assert axe(seen.page) == []
    seen.page.get_by_role("button", name="Select nothing").click()
    seen.wait(SELECTION, "Nothing is selected.")
    assert seen.errors == []


def test_a_finger_draws_a_lasso_on_a_phone(service: Any, early: int, window: Callable[..., Any]) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    seen = window(service.person("Lasse", "admin"), **phone)
    opened(seen, early)
    seen.page.get_by_role("button", name="Colour by class").tap()
    seen.page.get_by_role("button", name="Lasso").tap()
    seen.wait("() => document.querySelector('.chart-box').classList.contains('lasso')")
    canvas = seen.page.locator(".chart canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, top, right, bottom = box["x"] + 12, box["y"] + 60, box["x"] + box["width"] - 12, box["y"] + 300
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top + 5)]
    session = seen.page.context.new_cdp_session(seen.page)
    for i, (x, y) in enumerate(corners):
        points = [{"x": x, "y": y}]
        kind = "touchMove" if i else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    seen.wait(SELECTION, "Selected:")
    seen.wait(f"() => {CHART}.getOption().series.at(-1).data.length")
    assert not seen.page.locator("aside.panel").evaluate("e => e.getBoundingClientRect().top < innerHeight")
    seen.picture("map_lasso_phone")
    tile = seen.page.locator(".tile").first
    tile.scroll_into_view_if_needed()
    tile.tap()
    seen.wait("() => document.querySelector('.tile[aria-selected=true]')")
    assert seen.page.get_by_role("button", name="Confirm").is_visible()
    seen.picture("map_selection_phone")
    assert complaints(seen.page) == []
    assert seen.errors == []


def test_whoever_only_reads_looks_and_selects(service: Any, early: int, window: Callable[..., Any]) -> None:
    seen = window(service.person("Rita", "reader"))
    opened(seen, early)
    select(seen, 1)
    seen.wait(SELECTION, "Selected:")
    seen.wait("() => document.querySelector('.note').innerText.includes('You can look, but not review.')")
    assert seen.page.locator("[data-verb=confirm]").count() == 0


def test_questions_that_others_hold_are_counted_but_left_to_them(service: Any, early: int, admin: Any) -> None:
    service.call("POST", f"/adaptations/{early}/lend", {"n": 100})
    held = [q for q in service.call("GET", f"/adaptations/{early}/questions") if q["lent_to"]]
    assert len(held) > 1
    opened(admin, early)
    select(admin, 0)
    admin.wait(SELECTION, f"Selected: {len(held)} open questions")
    assert f"{len(held)} questions are with somebody else" in admin.page.inner_text("[data-selection]")
    assert admin.page.locator(".tile").count() == 0
    assert admin.errors == []
