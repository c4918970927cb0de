"""A tile of a board, large, on top of the page: pictures are zoomed and moved, texts are scrolled."""

from nicegui.element import Element

from cual.serve.web.page.elements import El, button, key_cap
from cual.serve.web.page.texts import tr


class Looking(Element, component="looking.js"):
    """Opens when a tile is looked at: see looking.js, which runs in the browser and needs no server."""

    def __init__(self) -> None:
        super().__init__()
        self.props["zoomed"] = tr("Zoom {percent} %", percent="{percent}")
        with El("dialog", classes="looking", aria_label=tr("One sample, large"), data_looking=""):
            with El("div", classes="line apart"):
                El("p", classes="wrap", data_looking_name="", aria_live="polite")
                El("span", classes="soft", data_looking_zoom="", role="status", aria_live="polite")
            with El("div", classes="looking-at", tabindex="0", role="region", data_looking_at="") as shown:
                shown.set(aria_label=tr("The sample: arrows move it"))
                El("div", classes="looking-words", hidden="")
                El("dl", classes="looking-columns", hidden="")
            with El("div", classes="line"):
                _choice("before", tr("Previous"), "←", "ArrowLeft")
                _choice("after", tr("Next"), "→", "ArrowRight")
                _choice("out", tr("Smaller"), "-", "-")
                _choice("whole", tr("Whole"), "0", "0")
                _choice("in", tr("Larger"), "+", "+")
                _choice("close", tr("Close"), "Esc", "Escape F4")


def _choice(does: str, text: str, cap: str, keys: str) -> None:
    with button("", data_looking_does=does, aria_keyshortcuts=keys):
        El("span", text)
        key_cap(cap)
