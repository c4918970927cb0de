"""Classes are renamed, merged and removed on the page, by administrators, and the history says so."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cual import Client
from cual.heads import MLP
from page.accessibility import axe
from page.conftest import Service
from page.waiting import until
from worlds import make_world

pytestmark = pytest.mark.page


def opened(seen: Any, name: str, agent: int = 1) -> Any:
    """The dialog about a class."""
    seen.open(f"/agents/{agent}/classes")
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


def add_trained(service: Service, folder: Path, epochs: int, hidden: int) -> int:
    """An agent whose head is trained again for so long, sample by sample; its number."""
    fitted = make_world().agent()
    head = MLP(hidden=hidden, epochs=epochs, batch=1)
    replace(fitted, method=replace(fitted.method, head=head)).save(folder / f"{epochs}.agent")
    service.call("GET", "/agents")  # makes the token
    with Client(service.url, service.token) as client:
        return client.add_agent(f"trained {epochs}", folder / f"{epochs}.agent").id


def test_where_a_head_is_trained_again_it_is_a_repair_under_way(
    own_service: Service, window: Callable[..., Any], tmp_path: Path
) -> None:
    seen = window(own_service.person("Ada", "admin"))
    slow = add_trained(own_service, tmp_path, epochs=20_000, hidden=4096)  # minutes: nobody waits for it
    dialog = opened(seen, "dog", slow)
    dialog.get_by_text("that takes a while and is not exact").wait_for()
    assert axe(seen.page) == []
    dialog.get_by_label("Class that it becomes part of").click()
    seen.page.get_by_role("option", name="cat").click()
    dialog.get_by_role("button", name="Merge").press("Enter")
    confirm(seen, "Make “dog” part of “cat”? The head is trained again", "Merge")
    row = seen.page.get_by_role("article", name="Classes merged 1")
    row.get_by_text("“dog” shall be part of “cat”").wait_for()
    row.get_by_text("training again").wait_for()
    row.get_by_role("progressbar").wait_for()
    assert axe(seen.page) == []
    row.get_by_role("button", name="Cancel").press("Enter")
    row.get_by_text("cancelled by Ada").wait_for()
    row.get_by_role("button", name="Drop").press("Enter")
    until(lambda: own_service.call("GET", f"/agents/{slow}/repairs")[0]["state"] == "dropped")
    assert len(own_service.call("GET", f"/agents/{slow}/versions")) == 1

    quick = add_trained(own_service, tmp_path, epochs=3, hidden=16)
    dialog = opened(seen, "dog", quick)
    dialog.get_by_label("Why").fill("by mistake")
    dialog.get_by_role("button", name="Remove the class").press("Enter")
    confirm(seen, "Remove “dog”? The head is trained again", "Remove the class")
    row = seen.page.get_by_role("article", name="Class removed 2")
    row.get_by_text("It made version 1.").wait_for()
    row.get_by_text("“dog” was removed; trained with what is kept, not exact").wait_for()
    assert own_service.call("GET", f"/agents/{quick}")["classes"] == ["cat"]
    seen.open(f"/agents/{quick}")
    seen.page.get_by_role("region", name="Table of versions").get_by_text(
        "“dog” was removed; trained with what is kept, not exact"
    ).wait_for()
    assert seen.errors == []


def test_whoever_answers_sees_no_such_button(own_service: Service, window: Callable[..., Any]) -> None:
    seen = window(own_service.person("Bob", "annotator"))
    seen.open("/agents/1/classes")
    seen.page.get_by_role("button", name="Edit").first.wait_for()
    name = str(own_service.call("GET", "/agents/1")["classes"][0])
    assert seen.page.get_by_role("button", name=f"Edit {name}", exact=True).count() == 1
    assert seen.page.get_by_role("button", name=f"Change {name}", exact=True).count() == 0
