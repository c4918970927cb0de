"""From an empty workspace to the first question: by keyboard with one's own zip, by touch with the example."""

import io
import zipfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from page.accessibility import axe, complaints
from page.conftest import Service, free_port
from page.keyboard import next_tile, tab_to
from page.waiting import until

pytestmark = pytest.mark.page
COLOURS = {"red": (200, 30, 30), "green": (30, 180, 30), "blue": (30, 30, 200)}


@pytest.fixture
def empty(tmp_path: Path) -> Generator[Service]:
    (tmp_path / "data").mkdir()
    options = ("--root", str(tmp_path / "data"))
    running = Service(tmp_path / "workspace", free_port(), options=options).start()
    yield running
    running.stop()


def zipped(file: Path, classes: tuple[str, ...], n: int, folders: bool = True) -> Path:
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(file, "w") as packed:
        for name in classes:
            for i in range(n):
                noise = rng.integers(-30, 30, (24, 24, 3)) + np.array(COLOURS[name])
                held = io.BytesIO()
                Image.fromarray(noise.clip(0, 255).astype(np.uint8)).resize((64, 64)).save(held, "PNG")
                packed.writestr(f"{name}/{i}.png" if folders else f"{name}-{i}.png", held.getvalue())
    return file


def field(window: Any, form: str, name: str) -> Any:
    return window.page.get_by_role("region", name=form).locator(f"[name={name}]")


def test_a_team_lead_begins_with_a_zip_by_keyboard(
    empty: Service, window: Callable[..., Any], tmp_path: Path
) -> None:
    seen = window(empty.address)
    keys = seen.page.keyboard
    seen.page.get_by_text("Four steps lead from here").wait_for()
    assert complaints(seen.page) == []
    assert axe(seen.page) == []
    seen.picture("first_run")
    form = "New agent from your own data"
    field(seen, form, "files").set_input_files(zipped(tmp_path / "known.zip", ("red", "green"), 12))
    field(seen, form, "name").focus()
    keys.type("Colours")
    tab_to(seen, "Make the agent")
    keys.press("Enter")
    until(lambda: [a["state"] for a in empty.call("GET", "/agents")] == ["ready"])
    form = "New pool"
    seen.page.get_by_role("region", name=form).wait_for()
    pool = zipped(tmp_path / "new.zip", ("red", "green", "blue"), 12, folders=False)
    field(seen, form, "files").set_input_files(pool)
    field(seen, form, "name").focus()
    keys.type("Squares")
    tab_to(seen, "Make the pool")
    keys.press("Enter")
    seen.page.get_by_role("region", name="New adaptation").wait_for()
    assert "At most 30 answers" in seen.page.inner_text("[data-cost]")
    seen.picture("first_run_budget")
    tab_to(seen, "Start")
    seen.page.get_by_role("button", name="Start", exact=True).press("Enter")
    seen.wait("() => location.pathname.startsWith('/adaptations/')")
    assert next_tile(seen)
    assert seen.errors == []


def test_the_example_by_touch_then_renamed_and_deleted(empty: Service, window: Callable[..., Any]) -> None:
    seen = window(
        empty.address,
        has_touch=True,
        is_mobile=True,
        viewport={"width": 390, "height": 844},
        color_scheme="dark",
    )
    seen.page.get_by_role("button", name="Use the built-in example").tap()
    seen.page.get_by_role("region", name="New adaptation").wait_for()
    assert axe(seen.page) == []
    assert complaints(seen.page) == []
    seen.picture("first_run_phone")
    seen.page.get_by_role("button", name="Rename: New digits").tap()
    seen.page.get_by_role("dialog").get_by_label("New name").fill("Postcodes")
    seen.page.get_by_role("dialog").get_by_role("button", name="Rename").tap()
    until(lambda: empty.call("GET", "/pools")[0]["name"] == "Postcodes")
    seen.page.get_by_role("button", name="Delete: Postcodes").tap()
    seen.page.get_by_role("dialog").get_by_role("button", name="Delete").tap()
    until(lambda: empty.call("GET", "/pools") == [])
    seen.page.get_by_role("region", name="New pool").wait_for()
    reader = window(empty.person("Rita", "reader"))
    reader.page.get_by_text("Nothing to label yet").wait_for()
    assert seen.errors == []


def reach(seen: Any, label: str) -> None:
    """Press Tab until the control that is read out as `label` has the focus."""
    for _ in range(80):
        if seen.page.evaluate("document.activeElement.getAttribute('aria-label')") == label:
            return
        seen.page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {label!r}")


def features(file: Path, per_class: int) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(centre, 1, (per_class, 6)) for centre in (0, 9)])
    np.savez(file, X=X.astype(np.float32), y=np.repeat(["low", "high"], per_class))


def test_a_folder_of_the_server_tried_again_renamed_and_deleted_by_keyboard(
    empty: Service, window: Callable[..., Any], tmp_path: Path
) -> None:
    seen = window(empty.address, color_scheme="dark")
    keys, page = seen.page.keyboard, seen.page
    there = tmp_path / "data" / "known.npz"
    features(there, 2)
    form = "New agent from your own data"
    field(seen, form, "name").focus()
    keys.type("Numbers")
    field(seen, form, "path").focus()
    keys.type(str(there))
    keys.press("Enter")
    page.get_by_text("Numbers could not be made: a class takes at least 3 samples").wait_for()
    features(there, 20)
    reach(seen, "Try again: Numbers")
    keys.press("Enter")
    until(lambda: [a["state"] for a in empty.call("GET", "/agents")] == ["ready"])

    form = "New pool"
    page.get_by_role("region", name=form).wait_for()
    field(seen, form, "name").focus()
    keys.type("More")
    field(seen, form, "path").focus()
    keys.type(str(tmp_path))
    keys.press("Enter")
    page.get_by_role("region", name=form).get_by_text("does not lie under").wait_for()
    field(seen, form, "path").fill(str(there))
    keys.press("Enter")
    page.get_by_role("region", name="New adaptation").wait_for()

    for kind, name, other in (("agents", "Numbers", "Counts"), ("pools", "More", "Fewer")):
        reach(seen, f"Rename: {name}")
        keys.press("Enter")
        page.get_by_role("dialog").wait_for()
        assert axe(page) == []
        assert complaints(page) == []
        seen.wait("() => document.activeElement.tagName === 'INPUT'")
        keys.press("Control+A")
        keys.type(other)
        keys.press("Enter")
        page.get_by_role("dialog").wait_for(state="hidden")
        until(lambda kind=kind, other=other: empty.call("GET", f"/{kind}")[0]["name"] == other)
        reach(seen, f"Delete: {other}")
        keys.press("Enter")
        page.get_by_role("dialog").wait_for()
        for scheme in ("light", "dark") if kind == "agents" else ():
            page.emulate_media(color_scheme=scheme)
            assert axe(page) == []
            assert complaints(page) == []
        keys.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        assert len(empty.call("GET", f"/{kind}")) == 1
    seen.picture("managing")
    for kind, name in (("pools", "Fewer"), ("agents", "Counts")):
        reach(seen, f"Delete: {name}")
        keys.press("Enter")
        seen.wait("() => document.activeElement.innerText === 'Cancel'")
        keys.press("Tab")
        seen.wait("() => document.activeElement.innerText === 'Delete'")
        keys.press("Enter")
        until(lambda kind=kind: empty.call("GET", f"/{kind}") == [])
    assert ["403" in error for error in seen.errors] == [True], "the folder that is not allowed, and no more"


def test_making_is_cancelled_and_a_deleted_pool_is_told_of(
    empty: Service, window: Callable[..., Any], tmp_path: Path
) -> None:
    seen = window(empty.address, viewport={"width": 320, "height": 700})
    page = seen.page
    form = "New agent from your own data"
    seen.picture("first_run_narrow")
    field(seen, form, "files").set_input_files(zipped(tmp_path / "many.zip", ("red", "green"), 400))
    field(seen, form, "name").fill("Many")
    page.get_by_role("button", name="Make the agent").click()
    page.get_by_role("button", name="Cancel: Many").press("Enter")
    page.get_by_text("Many could not be made: cancelled by").wait_for()
    assert complaints(page) == []
    seen.picture("first_run_failed")
    said = [f"the {animal} is asleep,animal" for animal in ("cat", "dog", "owl", "bat", "fox")]
    said += [f"take the {vehicle} to work,vehicle" for vehicle in ("bus", "tram", "car", "train", "bike")]
    (tmp_path / "said.csv").write_text("\n".join(["sentence,about", *said]))
    field(seen, form, "files").set_input_files(tmp_path / "said.csv")
    field(seen, form, "name").fill("Sentences")
    seen.wait("() => document.querySelectorAll('#columns-of-agent option').length === 2")
    field(seen, form, "text").fill("sentence")
    field(seen, form, "label").fill("about")
    page.get_by_role("button", name="Make the agent").click()
    page.get_by_text("2 classes: animal, vehicle").wait_for()
    empty.call("POST", "/agents/example")
    page.get_by_role("region", name="New adaptation").wait_for()
    seen.picture("first_run_budget_narrow")
    (pool,) = empty.call("GET", "/pools")
    agent = max(a["id"] for a in empty.call("GET", "/agents"))
    begun = empty.call("POST", "/adaptations", {"agent": agent, "pool": pool["id"], "budget": 20})["id"]
    until(lambda: empty.call("GET", f"/adaptations/{begun}")["state"] == "asking")
    empty.call("POST", f"/adaptations/{begun}/drop")
    empty.call("DELETE", f"/pools/{pool['id']}")
    for tab in ("", "/map", "/review", "/answers", "/disputes", "/people", "/export"):
        seen.open(f"/adaptations/{begun}{tab}")
        page.get_by_text("The pool was deleted").wait_for()
        seen.wait("() => [...document.images].every((i) => i.complete && i.naturalWidth > 0)")
    assert seen.errors == []
