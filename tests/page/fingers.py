"""Fingers on a screen: taps that take their time, and fingers that move. Short taps are Playwright's own."""

from typing import Any

HELD = 900
"""Milliseconds that a finger stays where nothing on the page tells that it was long enough."""
SELECTED = "all => all.filter(t => t.ariaSelected === 'true').map(t => t.dataset.tile)"


def middle(window: Any, selector: str) -> tuple[float, float]:
    window.page.locator(selector).scroll_into_view_if_needed()
    box = window.page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


class Finger:
    """One finger, put down at a point of the screen."""

    def __init__(self, window: Any, x: float, y: float) -> None:
        self._session = window.page.context.new_cdp_session(window.page)
        self._touch("touchStart", [{"x": x, "y": y}])

    def move(self, x: float, y: float) -> None:
        self._touch("touchMove", [{"x": x, "y": y}])

    def lift(self) -> None:
        self._touch("touchEnd", [])
        self._session.detach()

    def _touch(self, kind: str, points: list[dict[str, float]]) -> None:
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def hold(window: Any, tile: str) -> None:
    """Hold a finger on a tile until the page shows that it has changed."""
    place = f"[data-tile='{tile}']"
    before = window.page.get_attribute(place, "aria-selected")
    finger = Finger(window, *middle(window, place))
    window.wait("([place, was]) => document.querySelector(place).ariaSelected !== was", [place, before])
    finger.lift()


def selected(window: Any) -> list[str]:
    """The tiles that are selected."""
    return window.page.eval_on_selector_all(".tile", SELECTED)
