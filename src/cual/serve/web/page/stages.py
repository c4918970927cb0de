"""What the question page says when there is nothing to ask, and what can be done then."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from cual.serve.rules.records import AdaptationRecord, Role
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.viewer import Viewer, asked, tried

Refresh = Callable[[AdaptationRecord], Awaitable[None]]


class Stage:
    """A card in the place of the board."""

    def __init__(self, viewer: Viewer, id: int, refresh: Refresh) -> None:
        self._viewer, self._id, self._refresh = viewer, id, refresh
        self._shown: tuple[Any, ...] = ()
        self._card = El("div", classes="empty stack")

    def show(self, record: AdaptationRecord, tiles: int) -> None:
        """Draw what fits the state; nothing while there are tiles."""
        key = (record.state, record.result_version, record.error, tiles > 0, record.next)
        if key == self._shown:
            return
        self._shown = key
        self._card.clear()
        self._card.set_visibility(not tiles)
        if not tiles:
            with self._card:
                getattr(self, f"_{record.state}")(record)

    def _asking(self, record: AdaptationRecord) -> None:
        El("h2", "All open questions are with other people")
        El("p", "They come here if they are not answered in a while.")

    def _thinking(self, record: AdaptationRecord) -> None:
        El("h2", "The learner is thinking")
        El("p", "Questions appear here by themselves. You can close this page.")

    def _review(self, record: AdaptationRecord) -> None:
        El("h2", "No more questions")
        if record.ended:
            El("p", f"It ended because {record.ended}." if record.ended[:1].islower() else record.ended)
        with El("div", classes="line", style="justify-content: center"):
            if self._viewer.may(Role.annotator):
                link("Review what it believes", f"/adaptations/{self._id}/review", "button")
            if self._viewer.may(Role.admin):
                button("Finish: make the new version", "main").on("click", self._finish)
            else:
                El("p", "An administrator then makes the new version.")

    def _finished(self, record: AdaptationRecord) -> None:
        El("h2", f"Finished: version {record.result_version}")
        learned = ", ".join(str(c) for c in record.new_classes)
        El("p", f"Learned {learned}." if learned else "No new class was found.", "wrap")
        with El("div", classes="line", style="justify-content: center"):
            link("See the history", f"/agents/{record.agent}", "button main")
            link("Report", f"/api/adaptations/{self._id}/report", "button", target="_blank")

    def _failed(self, record: AdaptationRecord) -> None:
        El("h2", "The learner failed")
        El("p", record.error or "", "wrap bad")
        if self._viewer.may(Role.admin):
            button("Try again", "main").on("click", self._retry)

    def _dropped(self, record: AdaptationRecord) -> None:
        El("h2", "This adaptation was dropped")
        link("Start page", "/", "button")

    async def _finish(self) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._viewer.workspace.finish, self._id, person)
            await self._again()

    async def _retry(self) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._viewer.workspace.retry, self._id, person)
            await self._again()

    async def _again(self) -> None:
        await self._refresh(await asked(self._viewer.workspace.adaptation, self._id))


def stop_button(viewer: Viewer, id: int) -> El:
    """Ask no more: for when the rest of the budget is not worth anybody's time."""

    async def stop() -> None:
        sure = "Ask no more questions? Open ones stay unanswered; the learner goes on with what it has."
        if not await confirmed(sure, "Ask no more"):
            return
        person = await tried(viewer.now, Role.admin)
        if person is not None and await tried(viewer.workspace.stop, id, person) is not None:
            ui.notify("No more questions will be asked.")

    return button("Stop asking", "plain").on("click", stop)
