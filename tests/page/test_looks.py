"""How the pages look: on a desk, on a phone, in the dark; to screen readers; and without a network."""

from collections.abc import Callable
from typing import Any

import pytest

from page.accessibility import complaints, without_ring
from page.waiting import until

pytestmark = pytest.mark.page

PAGES = {
    "start": "/",
    "questions": "/adaptations/{id}",
    "map": "/adaptations/{id}/map",
    "review": "/adaptations/{id}/review",
    "answers": "/adaptations/{id}/answers",
    "export": "/adaptations/{id}/export",
    "history": "/agents/1",
    "classes": "/agents/1/classes",
    "watching": "/agents/1/watching",
    "people": "/people",
    "person": "/people/1",
    "audit": "/audit",
}
SIGNS = {
    "start": ".card h3:visible",
    "questions": ".tile img",
    "map": ".chart canvas",
    "review": ".tile img",
    "answers": ".tile img",
    "export": "[data-export]",
    "history": "[data-version]",
    "classes": "[data-classes] article",
    "watching": "[data-now]",
    "people": "[data-person]",
    "person": "[data-token]",
    "audit": "[data-audit]",
}
SIZES: dict[str, dict[str, Any]] = {
    "desk": {},
    "tablet": {"viewport": {"width": 820, "height": 1180}, "is_mobile": True, "has_touch": True},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
SHAPES = {
    **{size: {**how, "color_scheme": "light"} for size, how in SIZES.items()},
    **{f"{size}_dark": {**how, "color_scheme": "dark"} for size, how in SIZES.items()},
    # What a window of 1280 × 1024 has room for at 200 and at 400 %.
    "zoom_200": {"viewport": {"width": 640, "height": 512}, "device_scale_factor": 2},
    "zoom_400": {"viewport": {"width": 320, "height": 256}, "device_scale_factor": 4},
}


@pytest.fixture(scope="module")
def half_way(service: Any, truth: list[str]) -> int:
    """An adaptation in its second round."""
    id = service.begin()
    answer_all(service, id, truth)
    until(lambda: service.call("GET", f"/adaptations/{id}")["state"] == "asking")
    return id


@pytest.fixture(scope="module")
def over(service: Any, truth: list[str]) -> int:
    """An adaptation without more questions, whose pseudo-labels wait for a review."""
    return answered(service, truth)


def answered(service: Any, truth: list[str]) -> int:
    """An adaptation whose questions are all answered."""
    id = service.begin()

    def ended() -> bool:
        state = service.call("GET", f"/adaptations/{id}")["state"]
        if state == "asking":
            answer_all(service, id, truth)
        return state == "review"

    until(ended)
    return id


def answer_all(service: Any, id: int, truth: list[str]) -> None:
    """Answer what is open, over the API."""
    questions = service.call("POST", f"/adaptations/{id}/lend", {"n": 100})
    answers = {str(q["id"]): truth[q["row"]] for q in questions}
    service.call("POST", f"/adaptations/{id}/answers", {"answers": answers})


@pytest.mark.parametrize("shape", SHAPES)
def test_every_page_in_every_shape(
    service: Any, half_way: int, over: int, window: Callable[..., Any], shape: str
) -> None:
    seen = window(service.person("Ben", "admin"), **SHAPES[shape])
    for name, path in PAGES.items():
        seen.open(path.format(id=over if name == "review" else half_way))
        seen.page.wait_for_selector(SIGNS[name])
        seen.picture(f"{name}_{shape}")
        if "{id}" in path:
            assert "Another question" in seen.page.inner_text(".status")
        assert complaints(seen.page) == [], name
        assert shape != "desk" or without_ring(seen.page) == [], name
    assert seen.strangers == []
    assert seen.errors == []


@pytest.mark.parametrize("shape", ["desk", "phone_dark", "zoom_400"])
def test_the_pages_outside_of_the_frame(
    service: Any, over: int, window: Callable[..., Any], shape: str
) -> None:
    seen = window(service.person("Ben", "admin"), **SHAPES[shape])
    seen.open(f"/api/adaptations/{over}/report")
    seen.page.wait_for_selector("h1")
    seen.picture(f"report_{shape}")
    assert "\n".join(complaints(seen.page)) == ""
    seen.page.context.clear_cookies()
    seen.page.goto(f"{service.url}/sign-in")
    seen.page.get_by_label("Token, or the whole address").fill("wrong")
    seen.page.keyboard.press("Enter")
    seen.page.get_by_role("alert").wait_for()
    seen.picture(f"sign-in_{shape}")
    assert complaints(seen.page) == []


@pytest.mark.parametrize("shape", ["desk", "desk_dark", "phone"])
def test_names_that_are_probably_one_class_are_told(
    service: Any, truth: list[str], window: Callable[..., Any], shape: str
) -> None:
    known = service.call("GET", "/agents/1/versions")[0]["classes"]
    second = [f"{name} again" if row % 2 and name not in known else name for row, name in enumerate(truth)]
    id = answered(service, second)
    merges = service.call("GET", f"/adaptations/{id}")["merges"]
    assert any(merge["a"].split()[0] == merge["b"].split()[0] for merge in merges)
    seen = window(service.person("Ben", "admin"), **SHAPES[shape])
    seen.open(f"/adaptations/{id}/review")
    seen.page.wait_for_selector(".status li")
    assert merges[0]["text"] in seen.page.inner_text(".status")
    seen.picture(f"merges_{shape}")
    assert complaints(seen.page) == []


def test_the_colours_follow_the_system_or_the_switch(service: Any, window: Callable[..., Any]) -> None:
    seen = window(service.person("Cleo", "reader"), color_scheme="dark")
    background = "() => getComputedStyle(document.body).backgroundColor"
    dark = seen.wait("() => document.body.classList.contains('body--dark') && (" + background + ")()")
    switch = seen.page.get_by_role("button", name="Colours: auto")
    switch.press("Enter")  # dark
    seen.page.get_by_role("button", name="Colours: dark").press("Enter")
    seen.wait("() => document.body.classList.contains('body--light')")
    assert seen.page.evaluate(background) != dark
    seen.page.reload()
    seen.page.get_by_role("button", name="Colours: light").wait_for()
    assert seen.page.evaluate(background) != dark


def test_the_map_shows_pictures(service: Any, half_way: int, admin: Any) -> None:
    admin.open(f"/adaptations/{half_way}/map")
    admin.page.wait_for_selector(".chart canvas")
    box = admin.page.get_by_role("img", name="Map of the pool, 600 samples")
    box.focus()
    admin.page.keyboard.press("ArrowRight")
    admin.page.wait_for_selector(".tip img")
    admin.picture("map_tip")
    assert admin.page.evaluate("document.querySelector('.tip img').naturalWidth") >= 0
    assert admin.page.get_by_role("img", name="what lies right of it is probably new").is_visible()
    assert "T_inner" not in admin.page.content()


def test_texts_instead_of_pictures(service: Any, admin: Any) -> None:
    id = service.begin(pool=2)
    admin.open(f"/adaptations/{id}")
    admin.wait("() => document.activeElement?.dataset?.tile")
    words = admin.page.evaluate("document.activeElement.querySelector('.words').innerText")
    assert words.startswith("This is <b>the digit</b> ")
    assert words in admin.page.evaluate("document.activeElement.ariaLabel")
    assert complaints(admin.page) == []
    admin.picture("texts")
    admin.open(f"/adaptations/{id}/map")
    admin.page.get_by_role("img", name="Map of the pool, 600 samples").focus()
    admin.page.keyboard.press("ArrowRight")
    admin.wait("() => document.querySelector('.tip')?.innerText.includes('This is <b>the digit</b>')")


def test_the_checks_find_what_is_wrong(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(
        "<main><h1>A</h1><h3>B</h3><img src='data:,' width=9 height=9><button></button>"
        "<p id=x style='color: #999; background: #fff'>pale</p><p id=x tabindex=2>twice</p></main>"
    )
    found = " ".join(complaints(page))
    for wrong in (
        "picture without words",
        "heading 3",
        "button without",
        "pale",
        "id twice",
        "positive",
        "language",
    ):
        assert wrong in found
    page.add_style_tag(content="* { outline: none !important }")
    assert len(without_ring(page, 2)) == 2
    page.close()
