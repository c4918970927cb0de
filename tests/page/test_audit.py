"""The audit trail by days of the reader's own calendar; the CSV has the rows that are shown."""

import csv
import io
import sqlite3
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from page.accessibility import axe, complaints

pytestmark = pytest.mark.page
TIMES = {  # New York is five hours behind UTC on that day
    901: "2026-03-01T04:59:59+00:00",
    902: "2026-03-01T05:00:00+00:00",
    903: "2026-03-02T04:59:59+00:00",
    904: "2026-03-02T05:00:00+00:00",
}
SHAPES: dict[str, dict[str, Any]] = {
    "desk": {},
    "tablet": {"viewport": {"width": 768, "height": 1024}, "is_mobile": True, "has_touch": True},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
ROWS = "(ids) => [...document.querySelectorAll('[data-audit]')].map((r) => r.dataset.audit).join() === ids"


@pytest.fixture
def in_march(own_service: Any) -> Any:
    """A service where something was done on the first of March, and just before and after."""
    database = sqlite3.connect(own_service.folder / "cual.sqlite3")
    for id, at in TIMES.items():
        row = (id, datetime.fromisoformat(at).timestamp(), "stop", "adaptation", 1, "{}")
        database.execute(
            "INSERT INTO audit (id, at, action, kind, thing, details) VALUES (?, ?, ?, ?, ?, ?)", row
        )
    database.commit()
    database.close()
    return own_service


def choose(window: Any, first: str, last: str) -> None:
    window.page.locator("[data-day=first]").fill(first)
    window.page.locator("[data-day=last]").fill(last)


def test_days_are_those_of_the_reader_and_both_are_included(in_march: Any, window: Callable[..., Any]) -> None:
    seen = window(in_march.person("Ada", "admin"), timezone_id="America/New_York")
    seen.open("/audit")
    seen.page.wait_for_selector("[data-audit]")
    assert "your time zone, America/New_York; both days are included" in seen.page.inner_text("main")
    assert "When (America/New_York)" in seen.page.inner_text("thead")
    choose(seen, "2026-03-01", "2026-03-01")
    seen.wait(ROWS, "903,902")
    assert "2026-03-01 00:00:00" in seen.page.inner_text("[data-audit='902']")
    assert "2026-03-01 23:59:59" in seen.page.inner_text("[data-audit='903']")
    with seen.page.expect_download() as download:
        seen.page.get_by_role("link", name="All of it as CSV").click()
    table = csv.DictReader(io.StringIO(download.value.path().read_text()))
    assert {row["id"]: row["at"] for row in table} == {"903": TIMES[903], "902": TIMES[902]}

    choose(seen, "", "2026-02-28")
    seen.wait(ROWS, "901")
    choose(seen, "2026-03-02", "2026-03-02")
    seen.wait(ROWS, "904")
    choose(seen, "2026-03-04", "2026-03-05")
    seen.page.get_by_text("Nothing was done that fits.").wait_for()
    choose(seen, "2026-03-05", "2026-03-02")
    seen.page.get_by_text("since is later than until").wait_for()

    # the other filters go on to hold beside it
    choose(seen, "2026-03-01", "2026-03-01")
    seen.wait(ROWS, "903,902")
    seen.page.get_by_label("Who").click()
    seen.page.get_by_role("option", name="Ada").click()
    seen.page.get_by_text("Nothing was done that fits.").wait_for()
    assert seen.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_every_shape(service: Any, window: Callable[..., Any], shape: str, scheme: str) -> None:
    seen = window(
        service.person("Ben", "admin"), **SHAPES[shape], color_scheme=scheme, timezone_id="Asia/Tokyo"
    )
    seen.open("/audit")
    seen.page.wait_for_selector("[data-audit]")
    seen.picture(f"audit_days_{shape}_{scheme}")
    assert complaints(seen.page) + axe(seen.page) == []
    assert seen.errors == []
