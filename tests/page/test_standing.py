"""How an adaptation stands, said once; budgets raised, versions made and taken back, by keyboard; in German."""

from collections.abc import Callable
from typing import Any

import pytest

from page.accessibility import complaints
from page.test_looks import answer_all, answered
from page.waiting import until

pytestmark = pytest.mark.page


def test_a_budget_is_raised_a_version_made_and_taken_back_by_keyboard(
    service: Any, truth: list[str], window: Callable[..., Any]
) -> None:
    id = answered(service, truth)
    record = service.call("GET", f"/adaptations/{id}")
    seen = window(service.person("Alma", "admin"))
    page, keys = seen.page, seen.page.keyboard
    seen.open(f"/adaptations/{id}")
    page.get_by_role("heading", name="No more questions").wait_for()
    status = record["status"]
    assert page.inner_text(".status").count(status) == 1
    assert status in page.inner_text(".empty")

    more = page.locator(".empty").get_by_role("button", name="More labels")
    more.focus()
    keys.press("Enter")
    dialog = page.get_by_role("dialog", name="More labels")
    field = dialog.get_by_label("Labels in all")
    seen.wait("() => document.activeElement?.tagName === 'INPUT'")
    assert complaints(page) == []
    seen.picture("more-labels")
    keys.press("Control+a")
    keys.type(str(record["budget"] + 2))
    assert field.input_value() == str(record["budget"] + 2)
    keys.press("Enter")
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "asking")
    assert service.call("GET", f"/adaptations/{id}")["budget"] == record["budget"] + 2

    def ended() -> bool:
        state = service.call("GET", f"/adaptations/{id}")["state"]
        if state == "asking":
            answer_all(service, id, truth)
        return state == "review"

    until(ended)
    finish = page.get_by_role("button", name="Finish: make the new version")
    finish.wait_for()
    finish.focus()
    keys.press("Enter")
    sure = page.get_by_role("dialog")
    sure.get_by_text("A new version learns from").wait_for()
    words = sure.inner_text()
    assert f"{record['budget'] + 2} answers" in words
    assert f"go back to version {record['base_version']} at any time" in words
    assert complaints(page) == []
    seen.picture("finishing")
    sure.get_by_role("button", name="Make the new version").press("Enter")
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "finished")
    made = service.call("GET", f"/adaptations/{id}")["result_version"]
    page.get_by_role("heading", name=f"Finished: version {made}").wait_for()
    back = page.get_by_role("button", name="Take it back")
    back.focus()
    keys.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Roll back").press("Enter")
    until(lambda: service.call("GET", f"/agents/{record['agent']}")["version"] == record["base_version"])


def test_the_page_in_german(service: Any, window: Callable[..., Any]) -> None:
    id = service.begin()
    seen = window(service.person("Ute", "annotator"), locale="de-DE")
    page = seen.page
    seen.open(f"/adaptations/{id}")
    page.wait_for_selector(".tile img")
    seen.wait("() => document.documentElement.lang === 'de'")
    words = page.inner_text("body")
    assert "Labels verbraucht" in words
    assert "warten auf eine Antwort" in words
    assert page.get_by_role("link", name="Fragen").get_attribute("aria-current") == "page"
    assert complaints(page) == []
    seen.picture("questions_german")
    page.get_by_role("combobox", name="Sprache").select_option("en")
    page.get_by_role("button", name="Sign out").wait_for()
    page.reload()
    page.get_by_role("button", name="Sign out").wait_for()
    assert "labels spent" in page.inner_text(".status")
