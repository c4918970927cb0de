"""The page on which a team watches what its agent sees: alerts, groups with pictures, proposals, webhooks."""

import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from page.accessibility import complaints
from page.waiting import until

pytestmark = pytest.mark.page


def pictures_of(service: Any, rows: list[int]) -> list[bytes]:
    """Pictures of the example's pool, as files."""
    return [_get(service, f"/pools/1/pictures/{row}") for row in rows]


def _get(service: Any, path: str) -> bytes:
    service.call("GET", "/me")  # there is a token then
    headers = {"Authorization": f"Bearer {service.token}"}
    with urllib.request.urlopen(urllib.request.Request(f"{service.url}/api{path}", headers=headers)) as answer:
        return answer.read()


def wait_in(service: Any, X: np.ndarray, originals: list[bytes]) -> None:
    """Let samples wait in the inbox, as if they had been sent with their pictures."""
    from cual.serve.rules.inbox.records import Arrivals
    from cual.serve.rules.records import OPERATOR
    from cual.serve.rules.workspace import Workspace

    workspace = Workspace.open(service.folder)
    n = len(X)
    arrivals = Arrivals(
        X=X,
        digests=[f"{row:064x}" for row in range(n)],
        verdicts=["unlike anything known"] * n,
        labels=[workspace.agent(1).classes[0]] * n,
        scores=[1.0] * n,
        version=0,
        kind="picture",
        originals=originals,
    )
    workspace.send(1, arrivals, OPERATOR, lambda fates: b"")
    workspace.close()


def test_a_team_sees_what_is_new_and_begins_to_adapt(
    own_service: Any, window: Callable[..., Any], truth: list[str]
) -> None:
    from cual.serve.jobs.example import demo_data

    data = demo_data()
    pool = data.X[data.pool]
    new = [row for row, digit in enumerate(truth) if digit == "8"][:30]
    known = [row for row, digit in enumerate(truth) if digit in ("0", "1")][:40]
    assert len(new) == 30
    for task in own_service.call("GET", "/adaptations"):  # of the example: nothing is proposed meanwhile
        own_service.call("POST", f"/adaptations/{task['id']}/drop")
    own_service.call("POST", "/agents/1/predict", {"features": pool[known + new].tolist()})
    wait_in(own_service, pool[new], pictures_of(own_service, new))
    own_service.call("PUT", "/agents/1/watching", {"least_gain": 1.5})
    until(lambda: own_service.call("GET", "/agents/1/watching")["proposal"] is not None)
    seen = window(own_service.address)
    seen.open("/agents/1")
    seen.page.get_by_role("link", name="What its predictions say").click()
    seen.page.wait_for_selector("[data-proposal]")
    assert "70 samples" in seen.page.inner_text("[data-now]")
    assert "30 samples wait" in seen.page.inner_text("[data-groups]")
    seen.wait("() => [...document.querySelectorAll('[data-group] img')].some((i) => i.naturalWidth > 0)")
    shown = seen.page.locator("[role=img]").first.get_attribute("aria-label")
    assert shown.startswith("70 samples, ")
    seen.picture("watching_groups")
    assert complaints(seen.page) == []
    seen.page.get_by_role("button", name="Begin the adaptation").click()
    seen.page.locator(".q-dialog").get_by_role("button", name="Begin the adaptation").click()
    until(lambda: own_service.call("GET", "/adaptations")[0]["state"] == "asking")
    assert seen.errors == []
    assert seen.strangers == []


def test_webhooks_are_added_paused_and_removed_on_the_page(service: Any, admin: Any) -> None:
    admin.open("/agents/1/watching")
    admin.page.get_by_label("Address").fill("http://example.org/<b>x</b>")
    admin.page.get_by_role("button", name="Add webhook").click()
    admin.page.wait_for_selector("[data-webhook]")
    assert "shown this once" in admin.page.inner_text("[data-secret]")
    assert "<b>x</b>" in admin.page.inner_text("[data-webhook]")
    admin.page.get_by_role("button", name="Pause").click()
    admin.page.get_by_role("button", name="Go on").wait_for()
    assert [hook["active"] for hook in service.call("GET", "/agents/1/webhooks")] == [False]
    admin.page.locator("[data-webhook]").get_by_role("button", name="Remove").click()
    admin.page.locator(".q-dialog").get_by_role("button", name="Remove").click()
    admin.page.wait_for_selector("[data-webhook]", state="detached")
    assert service.call("GET", "/agents/1/webhooks") == []
    admin.page.get_by_label("Address").fill("ftp://example.org/")
    admin.page.get_by_role("button", name="Add webhook").click()
    admin.page.wait_for_selector(".q-notification:has-text('begins with https')")


def test_a_reader_sees_no_webhooks_and_changes_nothing_in_german(
    service: Any, window: Callable[..., Any]
) -> None:
    seen = window(service.person("Rita", "reader"), locale="de-DE")
    seen.open("/agents/1/watching")
    seen.page.wait_for_selector("[data-now]")
    assert "Beobachtung" in seen.page.inner_text("h1")
    assert seen.page.locator("[data-webhooks]").count() == 0
    assert seen.page.get_by_role("button", name="Speichern").count() == 0
