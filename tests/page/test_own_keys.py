"""A person's own keys: taken away and given to others by keyboard and touch; else kept on every screen."""

from collections.abc import Callable
from typing import Any

import pytest

from page.accessibility import axe, complaints
from page.keyboard import gone, next_tile
from page.test_many_classes import keys_shown

pytestmark = pytest.mark.page
SHAPES: dict[str, dict[str, Any]] = {
    "desk": {},
    "tablet": {"viewport": {"width": 768, "height": 1024}, "is_mobile": True, "has_touch": True},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
OWN = "() => [...document.querySelectorAll('[data-own-key]')].map((b) => b.dataset.ownKey)"


@pytest.fixture
def keyed(zoo: Any, window: Callable[..., Any]) -> Any:
    """Somebody who has answered with two classes, which have a key by then."""
    seen = window(zoo.person("Keira", "annotator"))
    seen.adaptation = zoo.begin(budget=60)
    for name in ("otter", "golf cart"):
        seen.open(f"/adaptations/{seen.adaptation}")
        tile = next_tile(seen)
        seen.page.keyboard.type(name)
        seen.page.keyboard.press("Enter")
        gone(seen, tile)
    return seen


def shown(window: Any, id: int) -> dict[str, str]:
    """The class of each key on the board."""
    window.open(f"/adaptations/{id}")
    next_tile(window)
    window.page.wait_for_selector(".class kbd")
    return keys_shown(window)


def test_a_key_is_taken_away_and_given_to_another_by_keyboard(zoo: Any, keyed: Any) -> None:
    page = keyed.page
    before = shown(keyed, keyed.adaptation)
    key = {label: key for key, label in before.items()}["otter"]
    keyed.open("/agents/1/classes")
    taken = page.locator(f"[data-own-key='{key}']")
    assert taken.get_attribute("aria-label") == f"Take key {key} away from otter"
    keyed.picture("own_keys")
    taken.focus()
    page.keyboard.press("Enter")
    keyed.wait(f"() => !({OWN})().includes('{key}')")
    keyed.wait("() => document.activeElement.dataset.freeKeys !== undefined")
    assert f"{key}" in page.inner_text("[data-free-keys]")
    assert complaints(page) + axe(page) == []
    after = shown(keyed, keyed.adaptation)
    assert "otter" not in after.values(), "it is used and likely, and gets none by itself"
    assert {k: v for k, v in before.items() if k != key}.items() <= after.items(), "all others keep theirs"
    assert shown(keyed, zoo.begin(budget=60)).items() >= {k: v for k, v in before.items() if k != key}.items()

    # given to it again, by keyboard too: the one who has it now is told
    other = {label: k for k, label in after.items()}["golf cart"]
    keyed.open("/agents/1/classes")
    page.get_by_label("Find a class").fill("otter")
    keyed.wait("() => document.querySelector('[data-classes] article')?.ariaLabel === 'otter'")
    page.get_by_role("button", name="Edit otter").press("Enter")
    choice = page.get_by_role("combobox", name="My key")
    choice.press("Enter")
    option = page.get_by_role("option", name=f"{other} (now: golf cart)")
    option.wait_for()
    for _ in range(12):
        if choice.get_attribute("aria-activedescendant") == option.get_attribute("id"):
            break
        choice.press("ArrowDown")
    choice.press("Enter")
    page.get_by_role("button", name="Save").press("Enter")
    keyed.wait(
        "(name) => document.querySelector(`[aria-label='${name}']`)", f"Take key {other} away from otter"
    )
    assert shown(keyed, keyed.adaptation)[other] == "otter"
    assert keyed.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_every_shape(zoo: Any, keyed: Any, window: Callable[..., Any], shape: str, scheme: str) -> None:
    seen = window(zoo.person("Keira", "annotator"), **SHAPES[shape], color_scheme=scheme)
    shown(keyed, keyed.adaptation)
    seen.open("/agents/1/classes")
    seen.page.wait_for_selector("[data-own-key]")
    seen.picture(f"own_keys_{shape}_{scheme}")
    assert complaints(seen.page) + axe(seen.page) == []


def test_no_key_in_the_dialog_takes_it_away_and_readers_have_none(
    zoo: Any, keyed: Any, window: Callable[..., Any]
) -> None:
    before = shown(keyed, keyed.adaptation)
    label = before[min(before)]
    phone = window(zoo.person("Keira", "annotator"), **SHAPES["phone"])
    phone.open("/agents/1/classes")
    phone.page.get_by_label("Find a class").fill(label)
    phone.wait("(label) => document.querySelector('[data-classes] article')?.ariaLabel === label", label)
    phone.page.get_by_role("button", name=f"Edit {label}", exact=True).tap()
    phone.page.get_by_label("My key").tap()
    phone.page.get_by_role("option", name="no key").tap()
    phone.page.get_by_role("button", name="Save").tap()
    phone.wait(f"() => !({OWN})().includes('{min(before)}')")
    reader = window(zoo.person("Rhea", "reader"))
    reader.open("/agents/1/classes")
    reader.page.wait_for_selector("[data-classes] article")
    assert reader.page.get_by_text("My keys").is_visible() is False
