"""A candidate on the agent's page: where it differs, promoted with a reason, rolled back; readers only look."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from page.accessibility import axe
from page.conftest import Service
from page.waiting import until

pytestmark = pytest.mark.page


def finished(service: Service, truth: list[str]) -> int:
    """Answer the example's own adaptation rightly, and have its version made."""
    (task,) = [task["id"] for task in service.call("GET", "/adaptations")]
    while service.call("GET", f"/adaptations/{task}")["state"] not in ("review", "finished"):
        state = until(lambda: _settled(service, task))
        if state == "asking":
            lent = service.call("POST", f"/adaptations/{task}/lend", {"n": 1000})
            answers = {str(question["id"]): truth[question["row"]] for question in lent}
            service.call("POST", f"/adaptations/{task}/answers", {"answers": answers})
    service.call("POST", f"/adaptations/{task}/finish")
    until(lambda: service.call("GET", f"/adaptations/{task}")["state"] == "finished")
    return service.call("GET", f"/adaptations/{task}")["result_version"]


def _settled(service: Service, task: int) -> str | None:
    state = service.call("GET", f"/adaptations/{task}")["state"]
    return None if state == "thinking" else state


def test_a_candidate_is_looked_at_promoted_and_rolled_back(
    own_service: Service, window: Callable[..., Any], truth: list[str], example: Path
) -> None:
    from cual.serve.jobs.example import demo_data

    data = demo_data()
    features = [data.X[row].tolist() for row in data.pool[:200]]
    seen = window(own_service.person("Ada", "admin"))
    seen.open("/agents/1")
    seen.page.get_by_role("button", name="Let new versions begin as candidates").press("Enter")
    seen.page.get_by_text("begins as a candidate").wait_for()
    assert finished(own_service, truth) == 1

    card = seen.page.get_by_role("region", name="Candidate", exact=True)
    card.get_by_text("Nothing is compared yet").wait_for()
    said = own_service.call("POST", "/agents/1/predict", {"features": features})
    assert said["version"] == 0
    card.get_by_text(f"Of {len(features)} samples").wait_for()
    told = own_service.call("GET", "/agents/1/shadow")
    first = told["pairs"][0]
    row = card.locator("[data-pairs] tbody tr").first.inner_text().split()
    assert row[:3] == [str(first["live_label"]), str(first["label"]), str(first["samples"])]
    assert card.get_by_text("Accuracy of version").count() == 2
    assert axe(seen.page) == []
    seen.picture("candidate")

    reader = window(own_service.person("Eve", "reader"))
    reader.open("/agents/1")
    reader.page.get_by_text(f"Of {len(features)} samples").wait_for()
    assert reader.page.get_by_role("button", name="Promote version 1").count() == 0
    assert reader.page.get_by_role("button", name="Let new versions").count() == 0

    button = card.get_by_role("button", name="Promote version 1")
    button.press("Enter")
    dialog = seen.page.get_by_role("dialog", name="Let version 1 predict from now on?")
    dialog.get_by_role("button", name="Promote", exact=True).press("Enter")
    seen.page.get_by_text("Say why, for those who read the history.").wait_for()
    assert own_service.call("GET", "/agents/1")["version"] == 0
    seen.page.wait_for_selector(".q-dialog", state="detached")
    button.press("Enter")
    dialog.get_by_label("Why").fill("finds the new digits")
    dialog.get_by_role("button", name="Promote", exact=True).press("Enter")
    seen.page.wait_for_selector("[data-version='1'] .badge:has-text('current')")
    seen.page.get_by_text("Ada promoted version 1; before it, version 0 was live.").wait_for()
    reader.page.get_by_text("finds the new digits").wait_for()
    assert seen.page.get_by_role("region", name="Candidate", exact=True).count() == 0

    seen.page.get_by_role("button", name="Roll back to version 0").press("Enter")
    dialog = seen.page.get_by_role("dialog", name="Make version 0 the one that predicts?")
    dialog.get_by_label("Why").fill("too early")
    dialog.get_by_role("button", name="Roll back").press("Enter")
    seen.page.wait_for_selector("[data-version='0'] .badge:has-text('current')")
    assert json.dumps(own_service.call("GET", "/agents/1/stages")[0]).count("too early") == 1
    assert seen.errors == reader.errors == []
