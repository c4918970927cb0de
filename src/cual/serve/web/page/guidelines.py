"""What people should know who label a pool, beside the board; administrators write it here. Plain text only."""

from nicegui import ui

from cual.serve.rules.pools import LONGEST_GUIDELINES
from cual.serve.rules.records import PoolRecord, Role
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, tried


class Guidelines:
    """A part of the panel that can be folded away; not there where there are none to read."""

    def __init__(self, viewer: Viewer, pool: PoolRecord) -> None:
        self._viewer, self._pool = viewer, pool
        self._may = viewer.may(Role.admin)
        self._box = El("details", classes="guidelines", open_="")
        with self._box:
            El("summary", tr("Guidelines"))
            self._text = El(
                "div", classes="guidelines-text", tabindex="0", role="region", aria_label=tr("Guidelines")
            )
            if self._may:
                button(tr("Edit guidelines"), "plain").on("click", self._edit)
        self._show(pool.guidelines)

    def _show(self, text: str) -> None:
        self._text.say(text)
        self._text.set_visibility(bool(text))
        self._box.set_visibility(bool(text) or self._may)

    async def _edit(self) -> None:
        with ui.dialog() as dialog, El("div", classes="card"):
            El("h2", tr("Guidelines for {name}", name=self._pool.name), "wrap")
            El("p", tr("Plain text, shown to everybody who labels this pool."), "soft")
            field = ui.textarea(tr("Guidelines"), value=self._text.text).props("outlined autogrow")
            field.props["maxlength"] = LONGEST_GUIDELINES
            with El("div", classes="line"):
                button(tr("Save"), "main").on("click", lambda: dialog.submit(field.value))
                button(tr("Cancel")).on("click", lambda: dialog.submit(None))
        dialog.props["aria-label"] = tr("Guidelines")
        text: str | None = await dialog
        dialog.clear()
        if text is None:
            return
        person = await tried(self._viewer.now, Role.admin)
        if person is None:
            return
        written = await tried(self._viewer.workspace.set_guidelines, self._pool.id, text, person)
        if written is not None:
            self._show(written.guidelines)
