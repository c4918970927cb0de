"""What every page has around it: the bar at the top, links, colours, and what is read aloud."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nicegui import ui

from cual.serve.rules.records import Role
from cual.serve.rules.sentences import said
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.texts import COOKIE, LANGUAGES, here, told, tr
from cual.serve.web.page.viewer import Viewer
from cual.serve.web.page.words import ROLES

_THEMES = {"auto": said("◐ Auto"), "dark": said("● Dark"), "light": said("○ Light")}
_NEXT = {"auto": "dark", "dark": "light", "light": "auto"}


@dataclass(frozen=True)
class Frame:
    """The parts of the frame that a page fills."""

    strip: El
    """Below the links, always visible."""
    main: El
    spoken: El
    """Read aloud by screen readers when its text changes."""
    on_theme: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """Called after the colours have changed, for what does not follow by itself."""

    def announce(self, text: str) -> None:
        self.spoken.say(text)


@contextmanager
def frame(viewer: Viewer, title: str, tabs: dict[str, str] | None = None, here: str = "") -> Generator[Frame]:
    """A page with `title`; inside the block, elements go to its main part.

    Parameters
    ----------
    tabs
        Text of each link to its address.
    here
        The address among them that this page is.
    """
    ui.page_title(f"{title} · cual")
    dark = ui.dark_mode(viewer.theme)
    changed: list[Callable[[], object]] = []
    with ui.header(wrap=False).classes("bar"):
        with El("div", classes="top"):
            link("cual", "/", "brand", aria_label=tr("cual, start page"))
            if tabs:
                with El("nav", classes="tabs", aria_label=tr("Parts of this adaptation")):
                    for text, href in tabs.items():
                        link(text, href, aria_current="page" if href == here else None)
            with El("div", classes="who"):
                if viewer.may(Role.admin):
                    link(tr("People"), "/people", "soft")
                    link(tr("Audit"), "/audit", "soft")
                El(
                    "span",
                    viewer.person.name,
                    "wrap",
                    title=tr("Role: {role}", role=told(ROLES[viewer.person.role])),
                )
                _theme_button(dark, viewer, changed)
                _language_choice()
                _sign_out(viewer)
        strip = El("div", aria_label=tr("Where the adaptation stands"), role="region").set(hidden=True)
    main = El("div", classes="content", tabindex="-1")  # NiceGUI's own page is the main element
    spoken = El("div", classes="hidden-text", role="status", aria_live="polite")
    El("div", classes="hidden-text", data_said="", role="status", aria_live="polite")
    ui.skip_link(tr("Skip to the content"), target=main)
    with main:
        yield Frame(strip, main, spoken, changed)


def _theme_button(dark: ui.dark_mode, viewer: Viewer, changed: list[Callable[[], object]]) -> None:
    """Auto follows the system; the choice lives in a cookie, so that the next page is drawn in it at once."""
    state = {None: "auto", True: "dark", False: "light"}[viewer.theme]
    toggle = button("", "plain")

    def show() -> None:
        name = told(_THEMES[state])
        toggle.say(name)
        toggle.set(aria_label=tr("Colours: {name}. Change", name=name[2:]))

    def turn() -> None:
        nonlocal state
        state = _NEXT[state]
        dark.value = {"auto": None, "dark": True, "light": False}[state]
        show()
        ui.run_javascript(f"document.cookie = 'cual_theme={state}; path=/; max-age=31536000; samesite=strict'")
        for follow in changed:
            follow()

    show()
    toggle.on("click", turn)


def _language_choice() -> None:
    """Languages as each calls itself; the choice lives in a cookie, and the page is drawn again in it."""
    choice = El("select", classes="language", aria_label=tr("Language"))
    current = here()
    with choice:
        for code, name in LANGUAGES.items():
            El("option", name, value=code, lang=code, selected="" if code == current else None)
    keep = f"document.cookie = '{COOKIE}=' + event.target.value + '; path=/; max-age=31536000; samesite=strict'"
    choice.on("change", js_handler=f"(event) => {{ {keep}; location.reload(); }}")
    ui.run_javascript(f"document.documentElement.lang = '{current}'")


def _sign_out(viewer: Viewer) -> None:
    """Through the API, which ends the session and its cookie."""
    send = f"fetch('/api/sign-out', {{method: 'POST', headers: {{'X-CSRF-Token': '{viewer.csrf}'}}}})"
    leave = f"() => {send}.then(() => location.assign('/sign-in'))"
    button(tr("Sign out"), "plain").on("click", js_handler=leave)
