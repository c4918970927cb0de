"""What the question page says when there is nothing to ask, and what can be done then."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from cual.serve.rules import standing
from cual.serve.rules.records import AdaptationRecord, Role
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.texts import told, tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import some

Refresh = Callable[[AdaptationRecord], Awaitable[None]]


class Stage:
    """A card in the place of the board."""

    def __init__(self, viewer: Viewer, id: int, refresh: Refresh) -> None:
        self._viewer, self._id, self._refresh = viewer, id, refresh
        self._record: AdaptationRecord | None = None
        self._shown: tuple[Any, ...] = ()
        self._card = El("div", classes="empty stack")

    def show(self, record: AdaptationRecord, tiles: int) -> None:
        """Draw what fits the state; nothing while there are tiles."""
        key = (record.state, record.result_version, record.error, tiles > 0, record.next, record.status)
        if key == self._shown:
            return
        self._shown, self._record = key, record
        self._card.clear()
        self._card.set_visibility(not tiles)
        if not tiles:
            with self._card:
                getattr(self, f"_{record.state}")(record)

    def _asking(self, record: AdaptationRecord) -> None:
        El("h2", tr("All open questions are with other people"))
        El("p", tr("They come here if they are not answered in a while."))

    def _thinking(self, record: AdaptationRecord) -> None:
        El("h2", tr("The learner is thinking"))
        El("p", tr("Questions appear here by themselves. You can close this page."))
        with _line():
            self._undo_button()

    def _review(self, record: AdaptationRecord) -> None:
        El("h2", tr("No more questions"))
        El("p", told(standing.status(record)))
        with _line():
            self._undo_button()
            if self._viewer.may(Role.annotator):
                link(tr("Review what it believes"), f"/adaptations/{self._id}/review", "button")
            if self._viewer.may(Role.admin):
                budget_button(self._viewer, self._id, self._refresh)
                button(tr("Finish: make the new version"), "main").on("click", self._finish)
            else:
                El("p", tr("An administrator then makes the new version."))

    def _finished(self, record: AdaptationRecord) -> None:
        El("h2", tr("Finished: version {number}", number=record.result_version))
        learned = some(record.new_classes, 12)
        El("p", tr("Learned {classes}.", classes=learned) if learned else tr("No new class was found."), "wrap")
        if record.result_stage == "candidate":
            El("p", told(standing.following(record)), "wrap")
        with _line():
            link(tr("See the history"), f"/agents/{record.agent}", "button main")
            link(tr("Report"), f"/api/adaptations/{self._id}/report", "button", target="_blank")
            if self._viewer.may(Role.admin) and record.result_stage not in ("candidate", "discarded"):
                back = tr("Take it back: version {number}", number=record.base_version)
                button(back).on("click", self._roll_back)

    def _failed(self, record: AdaptationRecord) -> None:
        El("h2", tr("The learner failed"))
        El("p", record.error or "", "wrap bad")
        if self._viewer.may(Role.admin):
            button(tr("Try again"), "main").on("click", self._retry)

    def _dropped(self, record: AdaptationRecord) -> None:
        El("h2", tr("This adaptation was dropped"))
        link(tr("Start page"), "/", "button")

    def _undo_button(self) -> None:
        """Undo reaches back beyond the end of a round; the board's own button is not there then."""
        if self._viewer.may(Role.annotator):
            button(tr("Undo my last answer"), data_verb="undo", aria_keyshortcuts="Backspace")

    async def _finish(self) -> None:
        assert self._record is not None
        believed = len(await asked(self._viewer.workspace.pseudo_labels, self._id))
        agent = await asked(self._viewer.workspace.agent, self._record.agent)
        at_once = agent.new_versions == "live"
        if await confirmed(_what_finishing_does(self._record, believed, at_once), tr("Make the new version")):
            await self._do(self._viewer.workspace.finish)

    async def _roll_back(self) -> None:
        assert self._record is not None
        agent, version = self._record.agent, self._record.base_version
        sure = tr(
            "Make version {number} the one that predicts? Nothing is deleted, and you can come back.",
            number=version,
        )
        person = await tried(self._viewer.now, Role.admin) if await confirmed(sure, tr("Roll back")) else None
        if person is None:
            return
        if await tried(self._viewer.workspace.roll_back, agent, version, person) is not None:
            ui.notify(tr("Version {number} predicts now.", number=version))

    async def _retry(self) -> None:
        await self._do(self._viewer.workspace.retry)

    async def _do(self, step: Callable[..., AdaptationRecord]) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(step, self._id, person)
            await self._refresh(await asked(self._viewer.workspace.adaptation, self._id))


def stop_button(viewer: Viewer, id: int) -> El:
    """Ask no more: for when the rest of the budget is not worth anybody's time."""

    async def stop() -> None:
        sure = tr("Ask no more questions? Open ones stay unanswered; the learner goes on with what it has.")
        if not await confirmed(sure, tr("Ask no more")):
            return
        person = await tried(viewer.now, Role.admin)
        if person is not None and await tried(viewer.workspace.stop, id, person) is not None:
            ui.notify(tr("No more questions will be asked."))

    return button(tr("Stop asking"), "plain").on("click", stop)


def budget_button(viewer: Viewer, id: int, refresh: Refresh | None = None) -> El:
    """Allow more labels, also after the questions have ended."""

    async def more() -> None:
        record = await asked(viewer.workspace.adaptation, id)
        labels = await _wanted_labels(record)
        person = None if labels is None else await tried(viewer.now, Role.admin)
        if person is None or labels is None:
            return
        after = await tried(viewer.workspace.raise_budget, id, labels, person)
        if after is not None:
            ui.notify(told(standing.status(after)))
            if refresh is not None:
                await refresh(after)

    return button(tr("More labels"), "plain").on("click", more)


async def _wanted_labels(record: AdaptationRecord) -> int | None:
    """How many labels somebody wants in all; None if they would rather not say."""
    title = tr("More labels")
    with ui.dialog() as dialog, El("div", classes="card stack"):
        El("p", told(standing.status(record)), "wrap")
        labels = ui.number(tr("Labels in all"), value=2 * record.budget, min=record.budget + 1, step=1)
        labels.props("outlined dense autofocus")
        if record.ended is not None:
            El(
                "p",
                tr("The learner asks on; what it labelled since the last question is decided anew."),
                "soft",
            )
        with El("div", classes="line"):
            button(tr("Raise the budget"), "main").on("click", lambda: dialog.submit(labels.value))
            button(tr("Cancel")).on("click", lambda: dialog.submit(None))
        labels.on("keydown.enter", lambda: dialog.submit(labels.value))
    dialog.props["aria-label"] = title
    value = await dialog
    dialog.clear()
    return int(value) if isinstance(value, int | float) else None


def _what_finishing_does(record: AdaptationRecord, believed: int, at_once: bool) -> str:
    """What is made of what, and that it can be taken back."""
    known = some(record.new_classes, 6)
    parts = (
        tr(
            "A new version learns from {answers} and {believed}.",
            answers=_answers(record.spent),
            believed=_given(believed),
        ),
        tr("It knows these new classes: {classes}.", classes=known) if known else tr("It knows no new class."),
        tr(
            "It predicts from then on; you can go back to version {number} at any time.",
            number=record.base_version,
        )
        if at_once
        else tr("It begins as a candidate: an administrator promotes or discards it."),
    )
    return " ".join(parts)


def _answers(n: int) -> str:
    return trn("{n} answer", "{n} answers", n)


def _given(n: int) -> str:
    return trn("{n} label that the learner gave by itself", "{n} labels that the learner gave by itself", n)


def _line() -> El:
    return El("div", classes="line", style="justify-content: center")
