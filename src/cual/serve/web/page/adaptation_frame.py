"""What the pages of one adaptation share: their links, the status strip, and the poll that keeps it fresh."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nicegui import ui

from cual.serve.rules.records import AdaptationRecord, Role
from cual.serve.web.page.elements import El
from cual.serve.web.page.frame import Frame, frame
from cual.serve.web.page.recent import recent
from cual.serve.web.page.samples import Samples
from cual.serve.web.page.stages import stop_button
from cual.serve.web.page.status import Status
from cual.serve.web.page.viewer import Viewer, asked

Refresh = Callable[[AdaptationRecord], Awaitable[None]]


@dataclass(frozen=True)
class AdaptationPage:
    viewer: Viewer
    frame: Frame
    status: Status
    record: AdaptationRecord
    samples: Samples

    def poll(self, refresh: Refresh | None = None) -> None:
        """Look again every second, and tell `refresh`."""

        async def look() -> None:
            record = await recent.get(self.viewer.workspace, self.record.id)
            self.status.show(record)
            if refresh is not None:
                await refresh(record)

        ui.timer(1.0, look)


def tabs_of(id: int, agent: int) -> dict[str, str]:
    base = f"/adaptations/{id}"
    return {
        "Questions": base,
        "Map": f"{base}/map",
        "Review": f"{base}/review",
        "Answers": f"{base}/answers",
        "History": f"/agents/{agent}",
    }


@asynccontextmanager
async def adaptation_frame(viewer: Viewer, id: int, here: str) -> AsyncGenerator[AdaptationPage]:
    """The frame of one adaptation's page called `here`."""
    record = await asked(viewer.workspace.adaptation, id)
    pool = await asked(viewer.workspace.pool, record.pool)
    tabs = tabs_of(id, record.agent)
    with frame(viewer, f"{here} · {pool.name}", tabs, tabs[here]) as page:
        El("h1", f"{here}: {pool.name}", "hidden-text")
        status = Status(page)
        if viewer.may(Role.admin):
            with status.buttons:
                stop_button(viewer, id)
        status.show(record)
        yield AdaptationPage(viewer, page, status, record, Samples(viewer.workspace, pool))
