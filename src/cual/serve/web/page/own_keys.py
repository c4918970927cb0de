"""A person's own keys of classes, each to be taken away. Which class gets which, `rules.class_keys` says."""

from collections.abc import Awaitable, Callable, Mapping

from nicegui import ui

from cual.serve.rules.class_keys import KEYS
from cual.serve.rules.records import Role
from cual.serve.web.page.elements import El, button, key_cap
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, tried
from cual.types import Label


class OwnKeys:
    """The nine digits: the classes that have one, and which are free."""

    def __init__(self, viewer: Viewer, agent: int, again: Callable[[], Awaitable[None]]) -> None:
        """`again` draws the page anew, after a key was taken away."""
        self._viewer, self._agent, self._again = viewer, agent, again
        with El("section", classes="card") as card:
            El("h2", tr("My keys"))
            El(
                "p",
                tr(
                    "A class keeps its key, on every screen, until you take it away here or give it to another "
                    "class. A class whose key you take away gets none until you give it one. A free key goes "
                    "to the next class that is likely or used."
                ),
                "soft wrap",
            )
            self._line = El("div", classes="line", role="group", aria_label=tr("Take a key away"))
            self._free = El("p", classes="soft wrap", tabindex="-1", data_free_keys="")
        card.set_visibility(viewer.may(Role.annotator))

    def show(self, keys: Mapping[str, Label]) -> None:
        """Show these keys, by digit."""
        self._line.clear()
        with self._line:
            for key, label in sorted(keys.items()):
                self._choice(key, label)
        free = ", ".join(key for key in KEYS if key not in keys)
        self._free.say(tr("Free: {keys}", keys=free) if free else tr("No key is free."))

    def _choice(self, key: str, label: Label) -> None:
        async def take() -> None:
            await self.take(key)
            # What had the focus is gone: the words that have changed get it.
            ui.run_javascript("document.querySelector('[data-free-keys]')?.focus()")

        name = tr("Take key {key} away from {label}", key=key, label=label)
        with button("", "wrap", aria_label=name, title=name, data_own_key=key) as choice:
            key_cap(key)
            El("span", str(label), "wrap")
            El("span", "✕", aria_hidden="true")
        choice.on("click", take)

    async def take(self, key: str) -> None:
        """Take a key away from its class."""
        person = await tried(self._viewer.now, Role.annotator)
        if person is not None:
            await tried(self._viewer.workspace.take_key, self._agent, person, key)
            await self._again()

    async def give(self, key: str, label: Label) -> None:
        """Give a key to a class."""
        person = await tried(self._viewer.now, Role.annotator)
        if person is not None:
            await tried(self._viewer.workspace.give_key, self._agent, person, key, label)
            await self._again()
