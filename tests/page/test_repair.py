"""Classes are renamed, merged and removed on the page, by administrators, and the history says so."""

from collections.abc import Callable
from typing import Any

import pytest

from page.accessibility import axe
from page.conftest import Service
from page.waiting import until

pytestmark = pytest.mark.page


def opened(seen: Any, name: str) -> Any:
    """The dialog about a class."""
    seen.open("/agents/1/classes")
    seen.page.get_by_role("button", name=f"Change {name}", exact=True).press("Enter")
    dialog = seen.page.get_by_role("dialog", name=f"Change {name}")
    dialog.wait_for()
    return dialog


def confirm(seen: Any, question: str, yes: str) -> None:
    """Say yes in the dialog that asks again; the first may still be there, and has a button of that name."""
    dialog = seen.page.get_by_role("dialog", name=question)
    dialog.get_by_role("button", name=yes, exact=True).press("Enter")


def test_an_administrator_renames_merges_and_removes(own_service: Service, window: Callable[..., Any]) -> None:
    own_service.call("POST", "/adaptations/1/drop")  # the example's own
    seen = window(own_service.person("Ada", "admin"))
    one, two, three, *_ = [str(label) for label in own_service.call("GET", "/agents/1")["classes"]]

    dialog = opened(seen, one)
    assert "Version 0 predicts now" in dialog.inner_text()
    assert axe(seen.page) == []
    seen.picture("class_change")
    dialog.get_by_label("Why").fill("said so")
    dialog.get_by_label("New name").fill("naught")
    dialog.get_by_role("button", name="Rename").press("Enter")
    confirm(seen, f"Call “{one}” “naught” from now on?", "Rename")
    until(lambda: "naught" in own_service.call("GET", "/agents/1")["classes"])
    seen.page.get_by_role("button", name="Change naught").wait_for()

    dialog = opened(seen, two)
    dialog.get_by_label("Class that it becomes part of").click()
    seen.page.get_by_role("option", name="naught").click()
    dialog.get_by_role("button", name="Merge").press("Enter")
    confirm(seen, f"Make “{two}” part of “naught”?", "Merge")
    until(lambda: two not in own_service.call("GET", "/agents/1")["classes"])

    dialog = opened(seen, three)
    dialog.get_by_role("button", name="Remove the class").press("Enter")
    confirm(seen, f"Remove “{three}”?", "Remove the class")
    until(lambda: three not in own_service.call("GET", "/agents/1")["classes"])

    seen.open("/agents/1")
    seen.page.get_by_text(f"“{three}” was removed").wait_for()
    text = seen.page.inner_text("table")
    assert f"“{one}” is called “naught” now" in text
    assert f"“{two}” became part of “naught”" in text
    assert seen.errors == []
    versions = own_service.call("GET", "/agents/1/versions")
    assert (versions[1]["change"]["person"], versions[1]["change"]["why"]) == ("Ada", "said so")


def test_what_is_under_way_is_named_and_nothing_happens(
    own_service: Service, window: Callable[..., Any]
) -> None:
    (task,) = [task["id"] for task in own_service.call("GET", "/adaptations")]
    seen = window(own_service.person("Ada", "admin"))
    name = str(own_service.call("GET", "/agents/1")["classes"][0])
    dialog = opened(seen, name)
    assert f"Adaptation {task} is under way with this agent" in dialog.inner_text()
    dialog.get_by_role("button", name="Remove the class").press("Enter")
    confirm(seen, f"Remove “{name}”?", "Remove the class")
    seen.page.get_by_text("under way with this agent; finish or drop").wait_for()
    assert len(own_service.call("GET", "/agents/1/versions")) == 1


def test_whoever_answers_sees_no_such_button(own_service: Service, window: Callable[..., Any]) -> None:
    seen = window(own_service.person("Bob", "annotator"))
    seen.open("/agents/1/classes")
    seen.page.get_by_role("button", name="Edit").first.wait_for()
    name = str(own_service.call("GET", "/agents/1")["classes"][0])
    assert seen.page.get_by_role("button", name=f"Edit {name}", exact=True).count() == 1
    assert seen.page.get_by_role("button", name=f"Change {name}", exact=True).count() == 0
