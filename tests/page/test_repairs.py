"""The page of repairs: labelled data is taught, a class split, samples taken back; by administrators."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.accessibility import axe
from page.conftest import Service
from page.test_repair import confirm, opened
from page.waiting import until

pytestmark = pytest.mark.page


def labelled(path: Path, truth: list[str], digits: tuple[str, ...], name: str) -> list[int]:
    """Samples of the example's pool, of some digits, all under one name; their rows."""
    from cual.serve.jobs.example import demo_data

    data = demo_data()
    rows = [row for row, digit in enumerate(truth) if digit in digits]
    X = data.X[data.pool][rows].astype(np.float32)
    np.savez(path, X=X, y=np.array([name] * len(rows)))
    return rows


def test_teach_split_and_take_back(
    own_service: Service, window: Callable[..., Any], truth: list[str], tmp_path: Path
) -> None:
    own_service.call("POST", "/adaptations/1/drop")  # the example's own
    rows = labelled(tmp_path / "labelled.npz", truth, ("6", "7"), "both")
    seen = window(own_service.person("Ada", "admin"))
    seen.open("/agents/1")
    seen.page.get_by_role("link", name="Teach and repair").click()
    seen.page.get_by_role("heading", name="Teach and repair").wait_for()
    seen.page.get_by_text("Nothing was taught, taken back or split yet.").wait_for()
    assert axe(seen.page) == []

    card = seen.page.get_by_role("region", name="Teach labelled data")
    card.get_by_role("button", name="Teach", exact=True).press("Enter")
    card.get_by_text("Choose a file first").wait_for()
    card.locator("input[type=file]").set_input_files(tmp_path / "labelled.npz")
    card.get_by_label("Why").fill("labels of May")
    card.get_by_role("button", name="Teach", exact=True).press("Enter")
    card.get_by_text("Received; it is taught now.").wait_for()
    until(lambda: "both" in own_service.call("GET", "/agents/1")["classes"])
    seen.page.get_by_text("It made version 1.").wait_for()

    dialog = opened(seen, "both")
    dialog.get_by_label("Parts").fill("2")
    dialog.get_by_role("button", name="Split", exact=True).press("Enter")
    confirm(seen, "Split “both” into 2 parts?", "Split")
    card = seen.page.get_by_role("region", name="Split of both")
    card.wait_for()
    repair = own_service.call("GET", "/agents/1/repairs")[0]
    assert repair["state"] == "asking"
    card.get_by_role("img").first.wait_for()
    assert axe(seen.page) == []
    seen.picture("class_split")
    card.get_by_role("button", name="Split the class").press("Enter")
    seen.page.get_by_text("Every group needs a name").wait_for()
    for number, group in enumerate(repair["split"]["groups"], start=1):
        card.get_by_label(f"Name of group {number}").fill(truth[group["examples"][0]["row"]])
    asked = repair["split"]["questions"][0]
    card.get_by_label("Doubtful sample 1,").fill(truth[asked["row"]])
    card.get_by_role("button", name="Split the class").press("Enter")
    until(lambda: {"6", "7"} <= set(own_service.call("GET", "/agents/1")["classes"]))
    card.wait_for(state="detached")
    assert "both" not in own_service.call("GET", "/agents/1")["classes"]

    seen.open("/agents/1/repair")
    card = seen.page.get_by_role("region", name="Take back samples")
    card.get_by_label("Pool").click()
    seen.page.get_by_role("option", name="New digits").click()
    from cual.serve.jobs.example import demo_data, demo_pool

    sample = str(list(demo_pool(demo_data()).ids)[rows[0]])
    card.get_by_label("Ids of samples").fill(f"{sample}\n")
    card.get_by_role("checkbox", name="Also in all earlier versions").click()
    card.get_by_role("checkbox", name="Also remove their pictures").click()
    card.get_by_role("button", name="Take back samples").press("Enter")
    confirm(seen, "Take back 1 sample?", "Take back")
    until(lambda: len(own_service.call("GET", "/agents/1/versions")) == 4)
    until(lambda: own_service.call("GET", "/agents/1/repairs")[0]["state"] == "done")
    assert seen.errors == []

    seen.open("/agents/1")
    seen.page.get_by_text("1 sample was taken back").wait_for()
    text = seen.page.inner_text("table")
    assert f"{len(rows)} samples were taught, new: “both”" in text
    assert "“both” was split into" in text


def test_only_administrators_see_it(own_service: Service, window: Callable[..., Any]) -> None:
    seen = window(own_service.person("Bob", "annotator"))
    seen.open("/agents/1")
    seen.page.get_by_role("link", name="What each of them is").wait_for()
    assert seen.page.get_by_role("link", name="Teach and repair").count() == 0
    seen.open("/agents/1/repair")
    seen.page.get_by_role("heading", name="Not possible").wait_for()
