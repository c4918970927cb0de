"""What the pages of one adaptation share: their links, the status strip, and the poll that keeps it fresh."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nicegui import ui

from cual.serve.rules.records import AdaptationRecord, PoolRecord, Role
from cual.serve.rules.sentences import said
from cual.serve.web.page.elements import El
from cual.serve.web.page.frame import Frame, frame
from cual.serve.web.page.recent import recent
from cual.serve.web.page.samples import Samples
from cual.serve.web.page.stages import budget_button, stop_button
from cual.serve.web.page.status import Status
from cual.serve.web.page.texts import told, tr
from cual.serve.web.page.viewer import Viewer, asked

Refresh = Callable[[AdaptationRecord], Awaitable[None]]


@dataclass(frozen=True)
class AdaptationPage:
    viewer: Viewer
    frame: Frame
    status: Status
    record: AdaptationRecord
    pool: PoolRecord
    samples: Samples

    def poll(self, refresh: Refresh | None = None) -> None:
        """Look again every second, and tell `refresh`."""

        async def look() -> None:
            record = await recent.get(self.viewer.workspace, self.record.id)
            self.status.show(record)
            if refresh is not None:
                await refresh(record)

        ui.timer(1.0, look)


TABS = {
    "": said("Questions"),
    "/map": said("Map"),
    "/review": said("Review"),
    "/answers": said("Answers"),
    "/disputes": said("Disputes"),
    "/people": said("Team"),
    "/export": said("Export"),
}
"""The pages of an adaptation, by the end of their address."""


@asynccontextmanager
async def adaptation_frame(viewer: Viewer, id: int, here: str) -> AsyncGenerator[AdaptationPage]:
    """The frame of the page of one adaptation whose address ends in `here`."""
    record = await asked(viewer.workspace.adaptation, id)
    pool = await asked(viewer.workspace.pool, record.pool)
    base, title = f"/adaptations/{id}", told(TABS[here])
    tabs = {told(text): f"{base}{end}" for end, text in TABS.items()}
    tabs[tr("History")] = f"/agents/{record.agent}"
    with frame(viewer, f"{title} · {pool.name}", tabs, f"{base}{here}") as page:
        El("h1", f"{title}: {pool.name}", "hidden-text")
        status = Status(page)
        if viewer.may(Role.admin):
            with status.buttons:
                budget_button(viewer, id)
                stop_button(viewer, id)
        status.show(record)
        if pool.state == "removed":
            gone = tr("The pool was deleted: what people answered about its samples is here, they are not.")
            El("p", gone, "note")
        yield AdaptationPage(viewer, page, status, record, pool, Samples(viewer.workspace, pool))
