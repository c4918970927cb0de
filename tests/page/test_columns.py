"""Columns that came with a pool: on tiles, in the enlarged view, in review and on the map; always as text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.accessibility import axe, complaints
from page.keyboard import next_tile
from page.test_looking import CLOSED, OPEN
from page.test_map import select
from page.test_safety import EVIL
from page.waiting import until

pytestmark = pytest.mark.page
LONG = "word " * 90
CELLS = "(list) => [...list.querySelectorAll('div')].map((row) => [...row.children].map((c) => c.innerText))"


@pytest.fixture(scope="module")
def pool(service: Any) -> int:
    """Features alone, with more columns than a tile has room for, one of them hostile."""
    from cual import Client
    from cual.serve.jobs.example import demo_data

    data = demo_data()
    n = len(data.pool)
    columns = {
        "number": [f"no. {row}" for row in range(n)],
        "<b>evil</b>": [EVIL] * n,
        "old": [True] * n,
        "said": [LONG] * n,
        "file": [f"scan{row}.png" for row in range(n)],
    }
    service.call("GET", "/me")
    with Client(service.url, service.token) as client:
        return client.add_pool("With columns", 1, X=data.X[data.pool], columns=columns).id


@pytest.fixture(scope="module")
def asking(service: Any, pool: int) -> int:
    return service.begin(pool=pool)


def cells(window: Any, selector: str) -> list[list[str]]:
    return window.page.eval_on_selector(selector, CELLS)


def unharmed(window: Any) -> None:
    assert window.page.evaluate("window.hacked") is None
    assert window.page.locator("img[src=x], dl b").count() == 0


def expected(row: int) -> list[list[str]]:
    return [["number", f"no. {row}"], ["<b>evil</b>", EVIL], ["old", "yes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_tile_the_first_and_in_the_large_view_all(
    service: Any, window: Any, asking: int, scheme: str
) -> None:
    seen = window(service.person(f"Cleo {scheme}", "annotator"), color_scheme=scheme)
    seen.open(f"/adaptations/{asking}")
    tile = next_tile(seen)
    row = {str(q["id"]): q["row"] for q in service.call("GET", f"/adaptations/{asking}/questions")}[tile]
    at = f"[data-tile='{tile}']"
    assert cells(seen, f"{at} dl") == expected(row)
    assert seen.page.inner_text(f"{at} .more-columns") == "and 2 more columns: F4"
    assert f"number: no. {row}" in seen.page.get_attribute(at, "aria-label")
    assert complaints(seen.page) + axe(seen.page) == []
    seen.picture(f"columns_{scheme}")
    seen.page.keyboard.press("F4")
    seen.wait(OPEN)
    assert "Most alike known samples" in seen.page.inner_text(".looking-words")
    all_of_it = [*expected(row), ["said", LONG.strip()], ["file", f"scan{row}.png"]]
    assert [[name, value.strip()] for name, value in cells(seen, ".looking-columns")] == all_of_it
    assert complaints(seen.page) + axe(seen.page) == []
    unharmed(seen)
    seen.picture(f"columns_large_{scheme}")
    seen.page.keyboard.press("ArrowRight")
    assert cells(seen, ".looking-columns")[0] != all_of_it[0], "those of the next one"
    seen.page.keyboard.press("F4")
    seen.wait(CLOSED)
    assert seen.errors == []


def test_a_narrow_page_is_not_widened_by_long_values(service: Any, window: Any, asking: int) -> None:
    phone = window(service.person("Cora", "reader"), viewport={"width": 320, "height": 640})
    phone.open(f"/adaptations/{asking}")
    phone.page.wait_for_selector(".tile dl")
    assert complaints(phone.page) == []
    phone.page.locator(".tile").first.dblclick()
    phone.wait(OPEN)
    fits = "(at) => at.scrollWidth <= at.clientWidth"
    assert phone.page.eval_on_selector("[data-looking-at]", fits)
    assert complaints(phone.page) == []


def test_in_review_and_on_the_maps_selection(service: Any, truth: list[str], admin: Any, pool: int) -> None:
    id = service.begin(pool=pool)
    lent = service.call("POST", f"/adaptations/{id}/lend", {"n": 1000})
    assert lent[0]["columns"]["number"] == f"no. {lent[0]['row']}"
    service.call("POST", f"/adaptations/{id}/answers", {"answers": {q["id"]: truth[q["row"]] for q in lent}})
    until(lambda: service.call("GET", f"/adaptations/{id}")["round"] == 1)
    believed = service.call("GET", f"/adaptations/{id}/pseudo-labels")
    assert believed[0]["columns"]["number"] == f"no. {believed[0]['row']}"
    admin.open(f"/adaptations/{id}/review")
    admin.page.wait_for_selector(".tile dl")
    first = admin.page.locator(".tile").first
    row = int(first.get_attribute("data-tile"))
    assert cells(admin, f"[data-tile='{row}'] dl") == expected(row)
    assert "Most alike known samples" in first.locator(".words").inner_text()
    assert complaints(admin.page) + axe(admin.page) == []
    first.dblclick()
    admin.wait(OPEN)
    assert len(cells(admin, ".looking-columns")) == 5
    assert "Most alike known samples" in admin.page.inner_text(".looking-words")
    admin.page.keyboard.press("Escape")
    admin.open(f"/adaptations/{id}/answers")
    admin.page.wait_for_selector(".tile dl")
    unharmed(admin)
    admin.open(f"/adaptations/{id}/map")
    admin.page.wait_for_selector(".chart canvas")
    select(admin, 0)
    admin.page.wait_for_selector(".tile dl")
    tile = admin.page.locator(".tile").first.get_attribute("data-tile")
    assert cells(admin, f"[data-tile='{tile}'] dl") == expected(int(tile))
    unharmed(admin)
    assert admin.errors == []


def test_the_card_says_which_columns_there_are(service: Any, admin: Any, pool: int, tmp_path: Path) -> None:
    from cual import Client
    from cual.serve.jobs.example import demo_data

    labels, who = np.array(["a", "b"]), np.array(["x", LONG * 9])
    np.savez(tmp_path / "x.npz", X=demo_data().X[:2], Label=labels, who=who)
    service.call("GET", "/me")
    with Client(service.url, service.token) as client:
        client.add_pool("Cut columns", 1, tmp_path / "x.npz")
    assert service.call("GET", f"/pools/{pool}")["columns"] == ["number", "<b>evil</b>", "old", "said", "file"]
    admin.open("/")
    card = admin.page.get_by_role("article", name="With columns").last  # before it are adaptations to the pool
    card.wait_for()
    assert "columns: number, <b>evil</b>, old, said, file" in card.inner_text()
    text = admin.page.get_by_role("article", name="Cut columns").inner_text()
    assert "columns: who" in text
    assert "not shown, they seem to be labels: Label" in text
    assert "too long values are cut: who" in text
    unharmed(admin)


def test_the_export_offers_them(service: Any, admin: Any, asking: int) -> None:
    admin.open(f"/adaptations/{asking}/export")
    box = admin.page.get_by_label("Also the columns that came with the samples")
    box.check()
    admin.wait("() => document.querySelector('[data-export]').href.includes('columns=true')")
    assert complaints(admin.page) + axe(admin.page) == []
    other = service.begin()
    admin.open(f"/adaptations/{other}/export")
    admin.page.wait_for_selector("[data-export]")
    assert box.count() == 0, "the pictures came without"


def test_the_form_says_which_columns_people_see(service: Any, admin: Any, tmp_path: Path) -> None:
    from cual.serve.jobs.example import demo_data

    X = demo_data().X[:3]
    np.savez(tmp_path / "x.npz", X=X, who=np.array(["a", "b", "c"]), secret=np.array(["1", "2", "3"]))
    admin.open("/")
    form = admin.page.locator("form[data-url='/api/pools']")
    form.locator("[name=name]").fill("Chosen columns")
    form.locator("[name=files]").set_input_files(tmp_path / "x.npz")
    form.locator("summary").click()
    form.locator("[name=columns]").fill(" who ,")
    form.locator("[type=submit]").click()

    def made() -> Any:
        return [
            p for p in service.call("GET", "/pools") if p["name"] == "Chosen columns" and p["state"] == "ready"
        ]

    (pool,) = until(made)
    assert pool["columns"] == ["who"]
    assert service.call("GET", f"/pools/{pool['id']}/columns/1") == {"columns": {"who": "b"}}
    assert pool["column_notes"] == []
