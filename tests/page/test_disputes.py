"""Two people who are asked the same and disagree; somebody else settles it by keyboard; the page of people."""

from collections.abc import Callable
from typing import Any

import pytest

from page.accessibility import axe, complaints
from page.keyboard import answer, gone, key_of, next_tile
from page.waiting import until

pytestmark = pytest.mark.page


def test_two_people_disagree_and_a_third_settles_it_by_keyboard(
    service: Any, window: Callable[..., Any]
) -> None:
    service.call("POST", "/agents/1/roll-back", {"version": 0})
    new = {"agent": 1, "pool": 1, "budget": 20, "overlap": 2}
    id = service.call("POST", "/adaptations", new)["id"]
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "asking")
    two = [window(service.person(name, "annotator")) for name in ("Ida", "Jon")]
    for seen in two:
        seen.open(f"/adaptations/{id}")
        next_tile(seen)
    ids = [{tile.get_attribute("data-tile") for tile in seen.page.locator("[data-tile]").all()} for seen in two]
    common = sorted(ids[0] & ids[1], key=int)
    assert common, "both are asked about the same samples"
    known = service.call("GET", "/agents/1")["classes"]
    for seen, label in zip(two, known, strict=False):
        seen.page.focus(f"[data-tile='{common[0]}']")
        answer(seen, str(label))
        gone(seen, common[0])
    until(lambda: service.call("GET", f"/adaptations/{id}/agreement")["disagreements"] == 1)

    party = two[0]
    party.open(f"/adaptations/{id}/disputes")
    tile = next_tile(party)
    assert "somebody else settles them" in party.page.inner_text("body")
    party.page.keyboard.press("=")
    party.page.wait_for_selector(".q-notification:has-text('somebody else settles it')")
    assert service.call("GET", f"/adaptations/{id}/agreement")["disagreements"] == 1

    judge = window(service.person("Kim", "annotator"))
    judge.open(f"/adaptations/{id}/disputes")
    assert next_tile(judge) == tile
    said = judge.page.inner_text(f"[data-tile='{tile}']")
    assert "Ida" in said
    assert "Jon" in said
    for theme in ("light", "dark"):
        judge.page.emulate_media(color_scheme=theme)
        assert not axe(judge.page)
        assert not complaints(judge.page)
        judge.picture(f"disputes_{theme}")
    judge.page.focus(f"[data-tile='{tile}']")
    assert key_of(judge, str(known[1])) is not None, "what people said has a key"
    answer(judge, str(known[1]))
    gone(judge, tile)
    judge.page.wait_for_selector("h2:has-text('Nobody disagrees')")
    (settled,) = [q for q in service.call("GET", f"/adaptations/{id}/questions") if str(q["id"]) == tile]
    assert (settled["effective"], settled["disagreement"], settled["answers"][-1]["person"]) == (
        known[1],
        False,
        "Kim",
    )


def test_the_people_page_tells_administrators_of_all_and_others_of_themselves(
    service: Any, window: Callable[..., Any]
) -> None:
    id = service.begin()
    mine = window(service.person("Nele", "annotator"))
    mine.open(f"/adaptations/{id}")
    tile = next_tile(mine)
    answer(mine, str(service.call("GET", "/agents/1")["classes"][0]))
    gone(mine, tile)
    mine.open(f"/adaptations/{id}/people")
    mine.page.wait_for_selector("h2:has-text('How I get on')")
    assert "Nele" in mine.page.inner_text("table")
    assert mine.page.get_by_role("button", name="Save").count() == 0
    admin = window(service.person("Mia", "admin"))
    admin.open(f"/adaptations/{id}/people")
    admin.page.wait_for_selector("h2:has-text('How each gets on')")
    for theme in ("light", "dark"):
        admin.page.emulate_media(color_scheme=theme)
        assert not axe(admin.page)
        assert not complaints(admin.page)
        admin.picture(f"team_{theme}")
    admin.page.get_by_label("People per question").fill("2")
    admin.page.get_by_role("button", name="Save").press("Enter")
    until(lambda: service.call("GET", f"/adaptations/{id}")["overlap"] == 2)
    admin.page.wait_for_selector("text=Each question goes to 2 people.")
