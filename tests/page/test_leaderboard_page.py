"""The leaderboard in Chromium: nothing for axe to complain of, wide and narrow, light and dark."""

from pathlib import Path
from typing import Any

import pytest

from cual.bench.leaderboard import Board, Entry, to_html
from cual.bench.results import Amount, Value
from page.accessibility import axe, complaints
from page.conftest import PICTURES

pytestmark = pytest.mark.page


def board(budget: float) -> Board:
    entries = tuple(
        Entry(
            method,
            Value(accuracy, 0.012, seeds),
            Amount(120, 3, seeds),
            0.0125,
            Amount(1, 0.5, seeds),
            {"head": {"epochs": 3}, "rounds": 5},
            {"name": method, "budget_factor": factor},
            {"cual": "0.2.0", "their-parts": "3.1"},
            "0.2.0",
            f"results/{method}",
        )
        for method, accuracy, seeds, factor in (
            ("oracle", 0.95, 3, None),
            ("mine", 0.94, 2, 1.0),
            ("cual", 0.9, 5, 1.0),
        )
    )
    return Board("1", ("eurosat-r50",), "ab" * 32, {"first": 2, "increment": 1, "budget": budget}, entries)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_the_leaderboard(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    file = tmp_path / "index.html"
    file.write_text(to_html([board(0.005), board(0.05)]), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
    try:
        page = context.new_page()
        page.goto(file.as_uri())
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"leaderboard-{width}-{scheme}.png", full_page=True)
        page.click("summary >> nth=0")
        assert complaints(page) + axe(page) == []
        assert page.get_by_role("rowheader", name="1. oracle ‡").count() == 2
        assert page.get_by_role("rowheader", name="2. mine †").count() == 2
    finally:
        context.close()
