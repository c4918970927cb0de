"""A whole adaptation in Chromium, by keyboard alone: from the printed address to a version that predicts."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from page.keyboard import FOCUSED, answer, gone, key_of, label_everything, next_tile, tab_to

pytestmark = pytest.mark.page


def test_a_whole_adaptation_by_keyboard_alone(
    own_service: Any, window: Callable[..., Any], truth: Sequence[str]
) -> None:
    seen = window(own_service.address)
    tab_to(seen, "Answer questions")
    seen.page.keyboard.press("Enter")
    assert next_tile(seen) is not None
    seen.picture("questions")

    # two new classes by name; the first is taken back, and comes again
    while key_of(seen, truth[seen.row]) is not None:
        seen.page.keyboard.press("ArrowRight")
    first = seen.page.evaluate(FOCUSED)
    answer(seen, truth[seen.row])
    gone(seen, first)
    created = seen.wait("() => document.querySelector('.class .new')?.parentElement.dataset.name")
    seen.page.keyboard.press("Control+z")
    seen.wait("(id) => document.activeElement?.dataset?.tile === id", first)
    seen.wait("(name) => !document.querySelector(`[data-class][data-name='${name}']`)", created)
    answer(seen, truth[seen.row])
    gone(seen, first)
    answers = 1 + label_everything(seen, truth)
    seen.picture("no_more_questions")

    tab_to(seen, "Finish")
    seen.page.keyboard.press("Enter")
    seen.wait("() => document.activeElement?.closest('[role=dialog]')")
    tab_to(seen, "Make the new version")
    seen.page.keyboard.press("Enter")
    seen.wait("() => [...document.querySelectorAll('h2')].some((h) => h.innerText === 'Finished: version 1')")
    seen.picture("finished")
    tab_to(seen, "See the history")
    seen.page.keyboard.press("Enter")
    seen.wait("() => document.querySelector('[data-version=\"1\"]')")
    row = seen.page.inner_text("[data-version='1']")
    assert "current" in row
    assert str(answers) in row.split()
    new = sorted(set(truth) - set("01234"))
    assert sum(name in row for name in new) >= 2
    seen.picture("history")
    assert seen.errors == []
    assert seen.strangers == []

    predicted = predictions(own_service, truth)
    right = sum(said == truth[i] for i, said in enumerate(predicted)) / len(predicted)
    assert right > 0.75
    assert set(predicted) >= set(new)


def predictions(service: Any, truth: Sequence[str]) -> list[str]:
    """What the current version says of the pool, asked over HTTP."""
    from cual.serve.jobs.example import demo_data

    data = demo_data()
    said = service.call("POST", "/agents/1/predict", {"features": data.X[data.pool].tolist()})
    assert said["version"] == 1
    assert len(said["labels"]) == len(truth)
    return said["labels"]


def test_many_at_once_unsure_pass_on_and_correct(service: Any, admin: Any, truth: Sequence[str]) -> None:
    seen, id = admin, service.begin()
    board, asked = f"/adaptations/{id}", service.call("GET", f"/adaptations/{id}")["asked_in_round"]
    seen.open(board)
    keys = seen.page.keyboard
    assert next_tile(seen)

    # Space and Shift with an arrow select; a key and Enter answer all of them, and ⌫ takes all of them back
    keys.press(" ")
    keys.press("Shift+ArrowRight")
    keys.press("Shift+ArrowRight")
    chosen = seen.page.eval_on_selector_all(
        "[aria-selected=true][data-tile]", "all => all.map(t => t.dataset.tile)"
    )
    assert len(chosen) == 3
    seen.picture("selected")
    keys.press("3")
    seen.wait("() => document.querySelector('[data-armed]').innerText.includes('3 selected: 3?')")
    seen.picture("answer_many")
    keys.press("Escape")
    assert seen.page.locator("[data-armed]").is_hidden()
    assert seen.page.locator(".tile[aria-selected=true]").count() == 3
    keys.press("3")
    keys.press("Enter")
    for tile in chosen:
        gone(seen, tile)
    seen.wait("() => document.querySelector('.status')?.innerText.includes('3 of 30 labels spent')")
    keys.press("Backspace")
    seen.wait("(ids) => ids.every((id) => document.querySelector(`[data-tile='${id}']`))", chosen)
    seen.wait("() => document.querySelector('.status')?.innerText.includes('0 of 30 labels spent')")

    # Ctrl+A selects the group, Escape lets go
    keys.press("Control+a")
    group = "document.activeElement.closest('[data-group]').querySelectorAll('[data-tile]').length"
    assert seen.page.locator(".tile[aria-selected=true]").count() == seen.page.evaluate(group)
    keys.press("Escape")
    assert seen.page.locator(".tile[aria-selected=true]").count() == 0

    # unsure costs nothing; passing on leaves the question open but not here
    unsure = seen.page.evaluate(FOCUSED)
    keys.press("-")
    gone(seen, unsure)
    passed_on = next_tile(seen)
    keys.press(".")
    gone(seen, passed_on)
    wrong = next_tile(seen)
    right = truth[seen.row]
    keys.press("2" if right != "2" else "1")
    gone(seen, wrong)
    seen.wait("() => document.querySelector('.status')?.innerText.includes('1 of 30 labels spent')")
    seen.wait("(text) => document.querySelector('.status')?.innerText.includes(text)", f"2 of {asked} answered")

    # F2 shows what was answered; the wrong one is corrected there, by name
    keys.press("F2")
    seen.wait("(id) => document.querySelector(`.tile[data-tile='${id}']`)", wrong)
    seen.page.focus(f"[data-tile='{wrong}']")
    answer(seen, right)
    seen.wait(
        "([id, name]) => document.querySelector(`[data-tile='${id}'] b`)?.innerText.trim() === name",
        [wrong, right],
    )
    seen.picture("answers")
    keys.press("F2")
    seen.wait("(path) => location.pathname === path", board)
    assert next_tile(seen)
    assert seen.errors == []


def test_keys_do_nothing_while_somebody_types(service: Any, admin: Any) -> None:
    seen, board = admin, f"/adaptations/{service.begin()}"
    seen.open(board)
    assert next_tile(seen)
    keys = seen.page.keyboard
    tiles = seen.page.locator("[data-tile]").count()
    keys.press("/")
    keys.type("-.=123")  # unsure, pass on, accept and three classes, if they were keys
    assert seen.page.input_value("[data-find]") == "-.=123"
    keys.type(" puz")
    seen.wait("() => document.querySelector('[data-create=ask]').innerText.includes('“-.=123 puz” …')")
    seen.picture("type_ahead")
    keys.press("Escape")
    assert seen.page.input_value("[data-find]") == ""
    assert seen.page.evaluate(FOCUSED)
    assert seen.page.locator("[data-tile]:not(.leaving)").count() == tiles
    keys.down("1")  # held down: the keyboard repeats it, and one question is answered
    keys.down("1")
    keys.down("1")
    keys.up("1")
    seen.wait("() => document.querySelector('.status')?.innerText.includes('1 of 30 labels spent')")
    keys.press("?")
    seen.page.wait_for_selector(".q-dialog .keys-list")
    seen.picture("help")
    keys.press("1")  # while the help lies over the board
    keys.press("Escape")
    seen.page.wait_for_selector(".q-dialog", state="detached")
    assert "1 of 30 labels spent" in seen.page.inner_text(".status")
