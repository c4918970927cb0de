"""Hands on a keyboard: what a person does to label, without a mouse."""

from collections.abc import Sequence
from typing import Any

FOCUSED = "() => document.activeElement?.dataset?.tile"


def key_of(window: Any, label: str) -> str | None:
    """The key that the page shows next to a class; None where it shows none."""
    option = f"[data-class][data-name='{label}'] kbd"
    found = window.page.query_selector(option)
    return None if found is None else found.inner_text().strip()


def answer(window: Any, label: str) -> None:
    """Answer the tile that has the focus: with the class's key, or by typing its name, which may be new."""
    key = key_of(window, label)
    if key is not None:
        window.page.keyboard.press(key)
        return
    known = window.page.query_selector(f"[data-class].class[data-name='{label}']") is not None
    window.page.keyboard.type(label)
    window.page.keyboard.press("Enter")
    if not known:
        create(window)


def create(window: Any) -> None:
    """Say that the name which was typed is a new class."""
    window.wait("() => document.activeElement?.closest('[data-proposal]')")
    while window.page.evaluate("document.activeElement.dataset.create") != "now":
        window.page.keyboard.press("ArrowDown")
    window.page.keyboard.press("Enter")


def next_tile(window: Any) -> str | None:
    """The question that has the focus, as soon as there is one; None when the loop is over."""
    over = "[...document.querySelectorAll('h2')].some((h) => h.innerText === 'No more questions') && 'over'"
    found = window.wait(f"() => document.activeElement?.dataset?.tile ?? ({over})")
    return None if found == "over" else found


def gone(window: Any, tile: str) -> None:
    """Until the service has taken the answer."""
    window.wait("(id) => !document.querySelector(`[data-tile='${id}']`)", tile)


def label_everything(window: Any, truth: Sequence[str]) -> int:
    """Answer whatever has the focus until nothing is asked any more; how many answers that took."""
    answers = 0
    while (tile := next_tile(window)) is not None:
        answer(window, truth[window.row])
        gone(window, tile)
        answers += 1
    return answers


def tab_to(window: Any, text: str) -> None:
    """Press Tab until the control with this text has the focus."""
    window.wait("(text) => document.body?.innerText.includes(text)", text)
    passed: list[str] = []
    for _ in range(60):
        passed.append(
            window.page.evaluate(
                "document.activeElement === document.body ? '' : document.activeElement.innerText"
            )
        )
        if text in passed[-1]:
            return
        window.page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {text!r}, only {passed}")
