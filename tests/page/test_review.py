"""The review: early and marked so, most doubtful first, by class and state, with the right class, undone."""

from typing import Any

import pytest

from page.accessibility import axe, complaints
from page.keyboard import answer, tab_to
from page.test_looks import answer_all, answered
from page.waiting import until

pytestmark = pytest.mark.page
SAYS = "([id, words]) => document.querySelector(`[data-tile='${id}']`)?.innerText.includes(words)"


@pytest.fixture
def early(service: Any, truth: list[str]) -> int:
    """An adaptation in its second round, which would believe something already."""
    id = service.begin()
    answer_all(service, id, truth)
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "asking")
    return id


def believed(service: Any, id: int) -> dict[int, dict[str, Any]]:
    return {row["row"]: row for row in service.call("GET", f"/adaptations/{id}/pseudo-labels")}


def tiles(window: Any) -> list[str]:
    return window.page.eval_on_selector_all(".tile", "all => all.map(t => t.dataset.tile)")


def test_review_by_keyboard_alone(service: Any, truth: list[str], admin: Any) -> None:
    id = answered(service, truth)
    admin.open(f"/adaptations/{id}/review")
    keys = admin.page.keyboard
    admin.wait("() => document.activeElement?.dataset?.tile")
    order = [str(row) for row in believed(service, id)]
    first, second = tiles(admin)[:2]
    assert tiles(admin) == order[: len(tiles(admin))], "by the margin, the smallest first"
    keys.press("-")
    admin.wait(SAYS, [first, "rejected"])
    admin.wait("(id) => document.activeElement.dataset.tile === id", second)
    keys.press("=")
    admin.wait(SAYS, [second, "confirmed"])
    keys.press(" ")
    keys.press("Shift+ArrowRight")
    keys.press("=")
    admin.wait("() => document.querySelector('[data-board]')?.innerText.split('confirmed').length === 4")
    verdicts = {row: each["verdict"] for row, each in believed(service, id).items()}
    assert (verdicts[int(first)], verdicts[int(second)]) == ("reject", "confirm")
    assert sorted(v for v in verdicts.values() if v) == ["confirm"] * 3 + ["reject"]
    for _ in range(3):
        keys.press("Backspace")
    until(lambda: not any(each["verdict"] for each in believed(service, id).values()))
    admin.wait("() => !document.querySelector('[data-board]').innerText.includes('confirmed')")
    assert admin.errors == []


def test_the_right_class_is_given_early_and_taken_back(service: Any, early: int, admin: Any) -> None:
    admin.open(f"/adaptations/{early}/review")
    admin.wait("() => document.activeElement?.dataset?.tile")
    assert "Provisional" in admin.page.inner_text("main")
    spent = service.call("GET", f"/adaptations/{early}")["spent"]
    row = tiles(admin)[0]
    answer(admin, "something else")
    admin.wait(SAYS, [row, "something else instead"])
    admin.wait("() => document.querySelector('.note').innerText.includes('1 label charged')")
    assert service.call("GET", f"/adaptations/{early}")["spent"] == spent + 1
    admin.picture("review_provisional")
    admin.page.keyboard.press("Control+z")
    until(lambda: service.call("GET", f"/adaptations/{early}")["spent"] == spent)
    admin.wait("(id) => document.activeElement.dataset.tile === id", row)
    assert all(each["provisional"] for each in believed(service, early).values())


def test_one_class_and_one_state_are_shown(service: Any, truth: list[str], admin: Any) -> None:
    id = answered(service, truth)
    everything = believed(service, id)
    label = next(iter(everything.values()))["label"]
    mine = [row for row, each in everything.items() if each["label"] == label]
    service.call("POST", f"/adaptations/{id}/reviews", {"reviews": {str(mine[0]): "confirm"}})
    admin.open(f"/adaptations/{id}/review")
    admin.wait("() => document.querySelectorAll('.tile').length > 1")
    admin.page.locator(".classes button", has_text=str(label)).first.focus()
    admin.page.keyboard.press("Enter")
    admin.wait("(label) => document.querySelector('.group h2')?.innerText.includes(label)", str(label))
    assert tiles(admin) == [str(row) for row in mine][: len(tiles(admin))]
    tab_to_state = admin.page.get_by_role("button", name="Confirmed")
    tab_to_state.focus()
    admin.page.keyboard.press("Enter")
    admin.wait("() => document.querySelectorAll('.tile').length === 1")
    assert tiles(admin) == [str(mine[0])]
    assert "1 of 1 shown" in admin.page.inner_text("main")
    tab_to(admin, "Review")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_review_by_touch_and_for_everyone(service: Any, early: int, window: Any, scheme: str) -> None:
    phone = window(
        service.person("Tom", "annotator"),
        has_touch=True,
        viewport={"width": 390, "height": 780},
        color_scheme=scheme,
    )
    phone.open(f"/adaptations/{early}/review")
    phone.page.wait_for_selector(".tile")
    first, second = tiles(phone)[:2]
    for row in (first, second):
        phone.page.locator(f"[data-tile='{row}'] img").tap()
    phone.page.locator("[data-verb=reject]").tap()
    phone.wait(SAYS, [second, "rejected"])
    phone.wait(SAYS, [first, "rejected"])
    phone.picture(f"review_phone_{scheme}")
    assert complaints(phone.page) + axe(phone.page) == []
    phone.page.locator("[data-verb=undo]").tap()
    until(lambda: believed(service, early)[int(first)]["verdict"] is None)
    assert phone.errors == []
