"""Fifty-four classes: no slip of the finger answers, any class is found, nothing is created by a typo."""

from collections.abc import Callable
from typing import Any

import pytest

from many_classes import NEW, names
from page.accessibility import axe, complaints
from page.conftest import CLASSES, Service
from page.keyboard import FOCUSED, create, gone, next_tile

pytestmark = pytest.mark.page
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
ACTIVE = "() => document.querySelector('.class[aria-selected=true]')?.dataset.name"


@pytest.fixture
def begin(zoo: Service) -> Callable[[], int]:
    """A new adaptation of the zoo that asks."""

    def begun() -> int:
        return zoo.begin(budget=60)

    return begun


@pytest.fixture
def seen(zoo: Service, begin: Callable[[], int], window: Callable[..., Any]) -> Any:
    """A window on the questions of a new adaptation, by an administrator."""
    opened = window(zoo.person("Ada", "admin"))
    opened.adaptation = begin()
    opened.open(f"/adaptations/{opened.adaptation}")
    assert next_tile(opened)
    return opened


def spent(zoo: Service, seen: Any) -> int:
    record = zoo.call("GET", f"/adaptations/{seen.adaptation}")
    return record["answered_in_round"]


def classes(zoo: Service, seen: Any) -> set[str]:
    return set(zoo.call("GET", f"/adaptations/{seen.adaptation}")["suggested_classes"])


# -- no slip of the finger -------------------------------------------------------------------------------------


def test_typing_a_word_answers_nothing(zoo: Service, seen: Any) -> None:
    for word in ("weather", "unicorn", "cap", "zoo", "apuz"):
        seen.page.keyboard.type(word)
        assert seen.page.input_value("[data-find]") == word
        seen.page.keyboard.press("Escape")
        seen.wait(FOCUSED)
    assert spent(zoo, seen) == 0
    assert seen.page.locator(".tile.leaving").count() == 0


def test_at_most_nine_classes_have_a_key_and_keep_it_on_every_screen(
    zoo: Service, seen: Any, window: Callable[..., Any], begin: Callable[[], int]
) -> None:
    for name in names(CLASSES)[:3]:  # used classes get a key
        tile = next_tile(seen)
        seen.page.keyboard.type(name)
        seen.page.keyboard.press("Enter")
        gone(seen, tile)
    seen.page.reload()
    next_tile(seen)
    seen.page.wait_for_selector(".class kbd")
    shown = keys_shown(seen)
    assert 3 <= len(shown) <= 9
    assert set(shown) <= set("123456789")
    assert set(names(CLASSES)[:3]) <= set(shown.values())
    seen.open(f"/adaptations/{seen.adaptation}/answers")
    seen.page.wait_for_selector(".class kbd")
    assert shown.items() <= keys_shown(seen).items()
    seen.open(f"/adaptations/{begin()}")
    next_tile(seen)
    seen.page.wait_for_selector(".class kbd")
    assert shown.items() <= keys_shown(seen).items()
    key, name = next(iter(shown.items()))
    tile = seen.page.evaluate(FOCUSED)
    seen.page.keyboard.press(key)
    gone(seen, tile)
    seen.wait("(name) => document.querySelector('.note').innerText.includes(`1 question: ${name}`)", name)


def keys_shown(seen: Any) -> dict[str, str]:
    script = "all => all.map(k => [k.innerText.trim(), k.closest('.class').dataset.name])"
    return dict(seen.page.eval_on_selector_all(".class kbd", script))


def test_an_answer_for_a_group_asks_for_enter_by_touch_too(
    zoo: Service, begin: Callable[[], int], window: Callable[..., Any]
) -> None:
    seen = window(zoo.person("Tom", "annotator"), **PHONE)
    seen.adaptation = begin()
    seen.open(f"/adaptations/{seen.adaptation}")
    next_tile(seen)
    for place in (0, 1):
        seen.page.locator(".tile").nth(place).tap()
    seen.page.locator(".class").first.tap()
    seen.page.wait_for_selector("[data-armed]:has-text('2 selected')")
    seen.picture("armed_phone")
    assert axe(seen.page) == []
    assert spent(zoo, seen) == 0
    seen.page.get_by_role("button", name="Cancel").tap()
    assert spent(zoo, seen) == 0
    seen.page.locator(".class").first.tap()
    seen.page.get_by_role("button", name="Answer all").tap()
    seen.wait("() => document.querySelector('.note').innerText.startsWith('2 questions')")
    assert spent(zoo, seen) == 2


# -- undo ------------------------------------------------------------------------------------------------------


def test_undo_beyond_the_end_of_a_round_says_what_it_costs(zoo: Service, seen: Any) -> None:
    last = answer_round(zoo, seen)
    seen.wait("() => document.querySelector('.status')?.innerText.includes('round 2') || "
              "document.querySelector('.status')?.innerText.includes('Round 2')")  # fmt: skip
    next_tile(seen)
    before = zoo.call("GET", f"/adaptations/{seen.adaptation}")
    seen.page.keyboard.press("Backspace")
    seen.page.wait_for_selector(".q-dialog")
    text = seen.page.inner_text(".q-dialog")
    assert f"{before['open']} open questions asked since are withdrawn" in text
    assert axe(seen.page) == []
    seen.picture("undo_cost")
    seen.page.keyboard.press("Escape")
    seen.page.wait_for_selector(".q-dialog", state="detached")
    assert zoo.call("GET", f"/adaptations/{seen.adaptation}") == before
    next_tile(seen)
    seen.page.keyboard.press("Backspace")
    seen.page.get_by_role("button", name="Take it back").press("Enter")
    seen.wait("(id) => document.querySelector(`[data-tile='${id}']`)", last)
    after = zoo.call("GET", f"/adaptations/{seen.adaptation}")
    assert (after["round"], after["open"], after["spent"]) == (0, 1, before["spent"] - 1)


def answer_round(zoo: Service, seen: Any) -> str:
    """Answer all but one over the API, and that one by hand, by its name; which one it is."""
    questions = zoo.call("GET", f"/adaptations/{seen.adaptation}/questions")
    last = seen.page.evaluate(FOCUSED)
    answers = {str(q["id"]): names(CLASSES)[0] for q in questions if str(q["id"]) != last}
    zoo.call("POST", f"/adaptations/{seen.adaptation}/answers", {"answers": answers})
    seen.wait("() => document.querySelectorAll('[data-tile]').length === 1")
    seen.page.focus(f"[data-tile='{last}']")
    seen.page.keyboard.type("airplane")
    seen.page.keyboard.press("Enter")
    gone(seen, last)
    return last


# -- finding and creating --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "name"), [("GOLF c", "golf cart"), ("tree ma", "maple tree"), ("Pines trees", "pine tree")]
)
def test_a_class_is_found_in_any_order_case_and_number(zoo: Service, seen: Any, typed: str, name: str) -> None:
    before = classes(zoo, seen)
    tile = next_tile(seen)
    seen.page.keyboard.type(typed)
    seen.wait(f"(name) => ({ACTIVE})() === name", name)  # after the first letters it was another one
    seen.page.keyboard.press("Enter")
    gone(seen, tile)
    assert classes(zoo, seen) == before


def test_a_typo_creates_nothing_and_a_new_class_is_a_second_step(zoo: Service, seen: Any) -> None:
    before = classes(zoo, seen)
    zoo.call(
        "PUT", "/agents/1/classes", {"label": "airplane", "description": "Has wings <b>and</b> an engine."}
    )
    tile = next_tile(seen)
    seen.page.keyboard.type("aiprlane")
    seen.page.keyboard.press("Enter")
    assert seen.wait(
        "() => document.activeElement?.closest('[data-proposal]') && document.activeElement.dataset.name"
    )
    assert seen.page.evaluate("document.activeElement.dataset.name") == "airplane"
    assert "There is no class “aiprlane” yet" in seen.page.inner_text("[data-proposal]")
    assert axe(seen.page) == []
    assert complaints(seen.page) == []
    seen.picture("proposal")
    seen.page.keyboard.press("Enter")
    gone(seen, tile)
    assert classes(zoo, seen) == before

    tile = next_tile(seen)
    seen.page.keyboard.type("weather balloon")
    seen.page.keyboard.press("Enter")
    seen.wait("() => document.activeElement?.closest('[data-proposal]')")
    assert classes(zoo, seen) == before, "the first Enter only asks"
    create(seen)
    gone(seen, tile)
    seen.wait("() => document.querySelector(\"[data-class][data-name='weather balloon'] .new\")")
    assert classes(zoo, seen) == before | {"weather balloon"}

    # it has an example picture now, and the description of the other is there as text
    seen.wait(
        "() => document.querySelector(\"[data-class][data-name='weather balloon'] img\")?.naturalWidth > 0"
    )
    seen.page.reload()
    next_tile(seen)
    assert "Has wings <b>and</b> an engine." in seen.page.inner_text("[data-class][data-name='airplane']")


def test_enter_never_takes_what_was_marked_a_letter_earlier(zoo: Service, seen: Any) -> None:
    """Typed and entered in one go: the answer is that of the whole word, however slow the network is."""
    tile = next_tile(seen)
    name = names(CLASSES)[-1]
    seen.page.keyboard.insert_text(name[0])
    seen.page.keyboard.press("/")
    seen.page.keyboard.insert_text(name)
    seen.page.keyboard.press("Enter")
    gone(seen, tile)
    answers = zoo.call("GET", f"/adaptations/{seen.adaptation}/questions")
    assert {q["effective"] for q in answers if q["answers"]} == {name}


def test_a_name_is_found_and_created_by_touch(
    zoo: Service, begin: Callable[[], int], window: Callable[..., Any]
) -> None:
    seen = window(zoo.person("Tom", "annotator"), **PHONE)
    seen.adaptation = begin()
    seen.open(f"/adaptations/{seen.adaptation}")
    next_tile(seen)
    tile = seen.page.locator(".tile").first.get_attribute("data-tile")
    seen.page.locator(".tile").first.tap()
    seen.page.locator("[data-find]").tap()
    seen.page.keyboard.insert_text(NEW[1])
    seen.page.locator("[data-create=ask]").tap()
    seen.page.wait_for_selector("[data-proposal]:has-text('no class')")
    seen.picture("proposal_phone")
    seen.page.locator("[data-create=now]").tap()
    gone(seen, tile)
    assert NEW[1] in classes(zoo, seen)


# -- what is told while labelling ------------------------------------------------------------------------------


def test_guidelines_are_written_by_the_lead_and_read_by_all(
    zoo: Service, seen: Any, window: Callable[..., Any]
) -> None:
    seen.page.get_by_role("button", name="Edit guidelines").click()
    seen.page.locator(".q-dialog textarea").fill("One animal per picture.\n<script>window.hacked=1</script>")
    seen.page.get_by_role("button", name="Save").click()
    seen.wait("() => document.querySelector('.guidelines-text').innerText.includes('One animal')")
    assert axe(seen.page) == []
    reader = window(zoo.person("Rea", "reader"))
    reader.open(f"/adaptations/{seen.adaptation}/answers")
    reader.wait("() => document.querySelector('.guidelines-text')?.textContent.includes('<script>window')")
    assert reader.page.evaluate("window.hacked") is None
    assert reader.page.get_by_role("button", name="Edit guidelines").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_board_of_many_classes_has_no_axe_violation(
    zoo: Service, seen: Any, window: Callable[..., Any], theme: str
) -> None:
    other = window(zoo.person("Ada", "admin"), color_scheme=theme)
    for path in ("", "/answers"):
        other.open(f"/adaptations/{seen.adaptation}{path}")
        other.page.wait_for_selector(".class .name" if not path else "h2")
        assert axe(other.page) == []
        other.picture(f"many_{theme}{path.replace('/', '_')}")


def test_the_lead_says_what_a_class_is_and_everybody_chooses_keys(
    zoo: Service, seen: Any, window: Callable[..., Any]
) -> None:
    tile = next_tile(seen)
    seen.page.keyboard.type("otter")
    seen.page.keyboard.press("Enter")
    gone(seen, tile)
    seen.open("/agents/1/classes")
    seen.page.get_by_label("Find a class").fill("oter")
    seen.wait("() => document.querySelector('[data-classes] article')?.ariaLabel === 'otter'")
    seen.page.get_by_role("button", name="Edit otter").press("Enter")
    seen.page.wait_for_selector(".q-dialog textarea")
    assert axe(seen.page) == []
    seen.picture("class_dialog")
    seen.page.locator(".q-dialog textarea").fill("Swims on its back.")
    seen.page.get_by_label("Colour, as").fill("#123456")
    seen.page.locator(".q-dialog .choice").first.press("Enter")
    seen.page.get_by_role("button", name="Save").press("Enter")
    seen.wait("() => document.querySelector('[data-classes]').innerText.includes('Swims on its back.')")
    told = {record["label"]: record for record in zoo.call("GET", "/agents/1/classes")}["otter"]
    assert (told["colour"], told["examples"][0]["chosen"]) == ("#123456", True)
    assert axe(seen.page) == []
    seen.picture("classes")
    other = window(zoo.person("Kit", "annotator"), **PHONE)
    other.open("/agents/1/classes")
    other.page.get_by_role("button", name="Edit otter").tap()
    other.page.wait_for_selector(".q-dialog")
    assert other.page.locator(".q-dialog textarea").count() == 0, "who only answers says nothing of classes"
    other.page.get_by_label("My key").tap()
    other.page.get_by_role("option", name="7").tap()
    other.page.get_by_role("button", name="Save").tap()
    other.wait("() => [...document.querySelectorAll('article kbd')].some((k) => k.innerText === '7')")
    assert axe(other.page) == []
