"""The inbox on an agent's page: what waits, what is kept, and a pool that is made of it."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.page


def test_an_administrator_sees_what_waits_and_makes_a_pool_of_it(
    service: Any, window: Callable[..., Any]
) -> None:
    width = service.call("GET", "/agents/1")["width"]
    seen = window(service.person("Ina", "admin"))
    seen.open("/agents/1")
    card = seen.page.locator("[data-inbox]")
    assert "Nothing waits" in card.inner_text()
    card.get_by_text("What is kept").click()
    share = card.get_by_label("Known-looking samples that are kept, %")
    assert share.input_value() == "10"
    share.fill("100")
    card.get_by_role("button", name="Save").press("Enter")
    seen.page.get_by_text("Saved.").wait_for()
    assert service.call("GET", "/agents/1/inbox")["policy"]["known_share"] == 1.0
    rows = [[float((row * 7 + column * 3) % 5) for column in range(width)] for row in range(4)]
    service.call("POST", "/agents/1/send", {"features": rows})
    seen.wait("() => document.querySelector('[data-waiting]')?.innerText.includes('4 samples wait')")
    card.get_by_label("Name of the pool").fill("from the page")
    card.get_by_role("button", name="Make a pool of what waits").press("Enter")
    seen.wait("() => document.querySelector('[data-waiting]')?.innerText.includes('Nothing waits')")
    assert "from the page" in [pool["name"] for pool in service.call("GET", "/pools")]


def test_others_see_it_and_change_nothing(service: Any, window: Callable[..., Any]) -> None:
    looking = window(service.person("Ilja", "reader"))
    looking.open("/agents/1")
    card = looking.page.locator("[data-inbox]")
    assert card.count() == 1
    assert card.get_by_role("button").count() == 0
