"""Several people: who may do what, who gets which questions, what happens when they disagree."""

import csv
import io
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from page.keyboard import gone, next_tile
from page.waiting import until

pytestmark = pytest.mark.page
TILES = "() => [...document.querySelectorAll('[data-tile]')].map((tile) => tile.dataset.tile)"
# What somebody could do who knows how the page talks to the service.
FORGED = """(ids) => {
  const keys = Object.values(mounted_app.$refs).find((c) => c?.restore && c?.targets);
  keys.$emit('act', {verb: 'answer', ids, name: 'forged'});
}"""


def test_a_stranger_gets_the_door(service: Any, window: Callable[..., Any]) -> None:
    seen = window(f"{service.url}/adaptations/1")
    seen.wait("() => location.pathname === '/sign-in'")
    seen.picture("sign_in")
    address = service.person("Dora", "annotator")
    seen.page.fill("input[name=token]", address)
    seen.page.keyboard.press("Enter")
    seen.wait("() => document.body?.innerText.includes('Adaptations')")
    again = window(address)  # works once
    assert "has been used already" in again.page.inner_text("body")
    seen.page.get_by_role("button", name="Sign out").press("Enter")
    seen.wait("() => location.pathname === '/sign-in'")
    seen.open("/")
    seen.wait("() => location.pathname === '/sign-in'")


def test_an_address_is_opened_without_scripts_and_in_german(service: Any, window: Callable[..., Any]) -> None:
    address = service.person("Dirk", "annotator")
    seen = window(f"{service.url}/sign-in", java_script_enabled=False, locale="de-DE")
    for _ in range(2):  # only looking at it uses nothing up
        seen.page.goto(address)
    assert "Diese Adresse meldet Sie an" in seen.page.inner_text("main")
    with seen.page.expect_navigation():
        seen.page.get_by_role("button", name="Anmelden").click()
    assert seen.page.url == f"{service.url}/"
    assert "Dirk" in seen.page.content()


def test_a_reader_looks_and_cannot_answer(service: Any, window: Callable[..., Any]) -> None:
    id = service.begin()
    seen = window(service.person("Emil", "reader"))
    seen.open(f"/adaptations/{id}")
    tile = next_tile(seen)
    assert seen.page.locator(".panel").is_hidden()
    assert seen.page.get_by_role("button", name="Stop asking").count() == 0
    for key in ("1", "u", "p", "z"):
        seen.page.keyboard.press(key)
    seen.page.evaluate(FORGED, [tile])
    seen.page.wait_for_selector(".q-notification:has-text('needs the role annotator')")
    assert service.call("GET", f"/adaptations/{id}")["answered_in_round"] == 0
    assert tile in seen.page.evaluate(TILES)
    seen.open("/people")
    assert "this needs the role admin" in seen.page.inner_text("body")
    seen.open("/audit")
    assert "this needs the role admin" in seen.page.inner_text("body")
    assert seen.page.goto(f"{seen.home}/adaptations/99999").status == 404


def test_somebody_who_was_locked_out_cannot_go_on(service: Any, window: Callable[..., Any]) -> None:
    id = service.begin()
    seen = window(service.person("Fay", "annotator"))
    seen.open(f"/adaptations/{id}")
    next_tile(seen)
    person = next(p for p in service.call("GET", "/people") if p["name"] == "Fay")
    service.call("PATCH", f"/people/{person['id']}", {"active": False})
    seen.page.keyboard.press("1")
    seen.page.wait_for_selector(".q-notification:has-text('locked out')")
    assert service.call("GET", f"/adaptations/{id}")["answered_in_round"] == 0
    seen.page.evaluate("window.socket.disconnect().connect()")
    seen.page.wait_for_selector("form[action='/sign-in']")


def test_two_people_get_different_questions(service: Any, window: Callable[..., Any]) -> None:
    id = service.begin()
    one, two = window(service.person("Gil", "annotator")), window(service.person("Hana", "annotator"))
    for seen in (one, two):
        seen.open(f"/adaptations/{id}")
        next_tile(seen)
    asked = service.call("GET", f"/adaptations/{id}")["asked_in_round"]
    until(lambda: _shared_out(one, two, asked))
    tile = next_tile(one)
    one.page.keyboard.press("2")
    gone(one, tile)
    two.wait("(text) => document.querySelector('.status')?.innerText.includes(text)", f"1 of {asked} answered")
    assert one.errors == two.errors == []


def _shared_out(one: Any, two: Any, n: int) -> bool:
    """Whether two people have all questions between them, as many each and none both."""
    mine, theirs = set(one.page.evaluate(TILES)), set(two.page.evaluate(TILES))
    return not mine & theirs and len(mine) + len(theirs) == n and abs(len(mine) - len(theirs)) <= 1


def test_a_disagreement_is_shown_and_settled(service: Any, admin: Any) -> None:
    id = service.begin()
    admin.open(f"/adaptations/{id}")
    tile = next_tile(admin)
    admin.page.keyboard.press("1")
    gone(admin, tile)
    service.call("POST", f"/adaptations/{id}/answers", {"answers": {tile: "2"}})
    admin.open(f"/adaptations/{id}/answers")
    admin.wait("() => document.activeElement?.dataset?.tile")
    assert "People disagree" in admin.page.inner_text(".board")
    assert "robot: 2" in admin.page.inner_text(f"[data-tile='{tile}']")
    admin.picture("disagreement")
    admin.page.keyboard.press("2")
    admin.wait("() => document.querySelector('.board')?.innerText.includes('People disagree') === false")
    question = next(q for q in service.call("GET", f"/adaptations/{id}/questions") if str(q["id"]) == tile)
    assert (question["effective"], question["disagreement"], len(question["answers"])) == ("2", False, 3)


def test_an_administrator_invites_somebody(admin: Any, window: Callable[..., Any]) -> None:
    admin.open("/people")
    admin.page.get_by_label("Name").fill("Ines")
    admin.page.get_by_role("button", name="Make a sign-in address").press("Enter")
    address = admin.page.wait_for_selector("[data-secret]").inner_text()
    admin.picture("invited")
    invited = window(address)
    invited.wait("() => document.querySelector('.who')?.innerText.includes('Ines')")
    assert invited.page.get_by_text("New adaptation").count() == 0
    admin.page.get_by_role("button", name="Close").press("Enter")
    admin.page.get_by_role("link", name="Audit").press("Enter")
    admin.page.locator("[data-audit]", has_text="Ines").filter(has_text="sign in").wait_for()
    admin.page.get_by_role("combobox", name="What").press("Enter")
    admin.page.get_by_role("option", name="add person").click()
    admin.wait("() => document.querySelector('[data-audit]')?.innerText.includes('add person')")
    admin.page.locator("[data-audit] a[href^='/people/']").first.wait_for()
    export = admin.page.get_by_role("link", name="All of it as CSV").get_attribute("href")
    assert export == "/api/audit.csv?action=add+person"


def test_a_token_is_made_used_listed_and_revoked(service: Any, admin: Any) -> None:
    person = service.call("POST", "/people", {"name": "Counter", "role": "reader"})["id"]
    admin.open("/people")
    admin.page.get_by_role("link", name="Counter: tokens").press("Enter")
    admin.wait("() => document.querySelector('h1')?.innerText === 'Counter'")
    admin.page.get_by_label("Note").fill("counts at night")
    admin.page.get_by_role("button", name="New API token").press("Enter")
    secret = admin.page.wait_for_selector("[data-secret]").inner_text()
    admin.page.get_by_role("button", name="Close").press("Enter")
    row = admin.page.locator("[data-token]")
    row.get_by_text("counts at night").wait_for()
    assert "never" in row.inner_text()
    assert _status(service, secret) == 200
    admin.page.reload()
    row.get_by_text("good until").wait_for()
    assert "never" not in row.inner_text()
    assert secret not in admin.page.content()
    admin.picture("tokens")
    admin.page.get_by_text("Only programs come in under this name").wait_for()
    row.get_by_role("button", name="Revoke").press("Enter")
    admin.page.get_by_role("dialog").get_by_role("button", name="Revoke").press("Enter")
    row.get_by_text("revoked").wait_for()
    assert row.get_by_role("button").count() == 0
    assert _status(service, secret) == 401
    assert service.call("GET", f"/people/{person}/tokens")[0]["revoked_at"]
    assert admin.errors == []


def _status(service: Any, secret: str) -> int:
    request = urllib.request.Request(f"{service.url}/api/me", headers={"Authorization": f"Bearer {secret}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_new_address_ends_the_one_before(service: Any, admin: Any, window: Callable[..., Any]) -> None:
    old = service.person("Jane", "reader")
    person = next(p["id"] for p in service.call("GET", "/people") if p["name"] == "Jane")
    admin.open(f"/people/{person}")
    admin.page.get_by_role("button", name="New sign-in address").press("Enter")
    new = admin.page.wait_for_selector("[data-secret]").inner_text()
    assert "a newer one was made" in window(old).page.inner_text("body")
    seen = window(new)
    seen.wait("() => document.querySelector('.who')?.innerText.includes('Jane')")
    seen.open(f"/people/{person}")
    assert "this needs the role admin" in seen.page.inner_text("body")


def test_names_that_differ_by_case_are_refused(service: Any, admin: Any) -> None:
    service.person("Kira", "reader")
    admin.open("/people")
    admin.page.get_by_label("Name").fill("KIRA")
    admin.page.get_by_role("button", name="Make a sign-in address").press("Enter")
    admin.page.wait_for_selector(".q-notification:has-text(\"somebody called 'Kira' already\")")


def test_labels_are_downloaded(service: Any, window: Callable[..., Any], tmp_path: Path) -> None:
    """By somebody who may only look, by keyboard alone; and it is written down."""
    id = service.begin()
    lent = service.call("POST", f"/adaptations/{id}/lend", {"n": 2})
    service.call("POST", f"/adaptations/{id}/answers", {"answers": {str(lent[0]["id"]): "3"}})
    seen = window(service.person("Lea", "reader"))
    seen.open(f"/adaptations/{id}")
    seen.page.get_by_role("link", name="Export").press("Enter")
    with seen.page.expect_download() as begun:
        seen.page.get_by_role("link", name="Download").press("Enter")
    begun.value.save_as(tmp_path / "labels.csv")
    assert begun.value.suggested_filename == f"labels-adaptation-{id}.csv"
    (row,) = csv.DictReader((tmp_path / "labels.csv").open(encoding="utf-8"))
    assert (row["sample"], row["label"], row["person"]) == (str(lent[0]["sample"]), "3", "robot")
    seen.page.get_by_role("combobox", name="Format").press("Enter")
    seen.page.get_by_role("option", name="JSON lines").click()
    seen.page.get_by_role("checkbox").press("Space")
    seen.wait("() => document.querySelector('[data-export]').href.endsWith('format=jsonl&everything=true')")
    with seen.page.expect_download() as begun:
        seen.page.get_by_role("link", name="Download").press("Enter")
    assert begun.value.suggested_filename == f"labels-adaptation-{id}.jsonl"
    trail = service.call("GET", "/audit?action=export&n=2")
    assert [(row["person"], row["thing"], row["details"]["format"]) for row in trail] == [
        ("Lea", id, "jsonl"),
        ("Lea", id, "csv"),
    ]
    seen.open("/agents/1")
    with seen.page.expect_download() as begun:
        seen.page.get_by_role("link", name="Download").press("Enter")
    assert begun.value.suggested_filename == "labels-agent-1.csv"
    assert seen.errors == []


def test_an_administrator_begins_with_what_is_there(service: Any, admin: Any) -> None:
    admin.open("/")
    admin.page.get_by_role("spinbutton", name="Budget").fill("12")
    admin.page.get_by_role("button", name="Start", exact=True).press("Enter")
    admin.wait("() => location.pathname.startsWith('/adaptations/')")
    admin.wait("() => document.querySelector('.status')?.innerText.includes('of 12 labels spent')")
    admin.page.get_by_role("button", name="Stop asking").press("Enter")
    admin.page.get_by_role("button", name="Ask no more").press("Enter")
    admin.wait("() => document.body?.innerText.includes('No more questions')")
    admin.open("/")
    form = admin.page.get_by_role("region", name="New pool")
    form.get_by_label("Name").fill("Sent from the page")
    files = [{"name": f"{i}.png", "mimeType": "image/png", "buffer": _png(i)} for i in range(3)]
    form.locator("input[type=file]").set_input_files(files)
    form.get_by_role("button", name="Make the pool").press("Enter")
    form.get_by_text("Received").wait_for()
    pools = service.call("GET", "/pools")
    assert "Sent from the page" in [pool["name"] for pool in pools]


def test_rolling_back(service: Any, admin: Any) -> None:
    id = service.begin()
    service.call("POST", f"/adaptations/{id}/stop")
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "review")
    service.call("POST", f"/adaptations/{id}/finish")
    made = until(lambda: service.call("GET", f"/adaptations/{id}")["result_version"])
    admin.open("/agents/1")
    admin.page.wait_for_selector(f"[data-version='{made}'] .badge:has-text('current')")
    admin.page.get_by_role("button", name="Roll back to version 0").press("Enter")
    admin.page.get_by_role("dialog").get_by_role("button", name="Cancel").press("Enter")
    admin.page.wait_for_selector(".q-dialog", state="detached")
    assert service.call("GET", "/agents/1")["version"] == made
    admin.page.get_by_role("button", name="Roll back to version 0").press("Enter")
    admin.page.get_by_role("dialog").get_by_role("button", name="Roll back").press("Enter")
    admin.page.wait_for_selector("[data-version='0'] .badge:has-text('current')")
    assert service.call("GET", "/agents/1")["version"] == 0
    report = admin.page.get_by_role("link", name="Report").first.get_attribute("href")
    assert admin.page.goto(admin.home + report).ok


def _png(seed: int) -> bytes:
    from PIL import Image

    held = io.BytesIO()
    Image.new("RGB", (12, 12), (40 * seed, 90, 120)).save(held, "PNG")
    return held.getvalue()


def test_an_administrator_sets_the_rate_of_false_alarms(service: Any, window: Callable[..., Any]) -> None:
    seen = window(service.person("Ivo", "admin"))
    seen.open("/agents/1")
    card = seen.page.locator("[data-false-alarms]")
    assert "the method's own threshold" in card.inner_text()
    field = card.get_by_label("Known samples taken for unknown, %")
    assert field.input_value() == "5"
    field.fill("1")
    card.get_by_role("button", name="Save").press("Enter")
    seen.wait(
        "() => document.querySelector('[data-false-alarms]')?.innerText.includes('may call 1 % of known')"
    )
    assert service.call("GET", "/agents/1")["false_alarms"] == 0.01
    card.get_by_role("button", name="Back to the method's own").press("Enter")
    seen.wait("() => document.querySelector('[data-false-alarms]')?.innerText.includes('own threshold')")
    assert service.call("GET", "/agents/1")["false_alarms"] is None
    looking = window(service.person("Emil", "reader"))
    looking.open("/agents/1")
    assert looking.page.locator("[data-false-alarms]").get_by_role("button").count() == 0
