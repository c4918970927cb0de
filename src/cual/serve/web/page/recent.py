"""The latest record of each adaptation, read once for all who look at it: fifty open pages ask like one."""

import time
from typing import TYPE_CHECKING

from cual.serve.rules.records import AdaptationRecord
from cual.serve.web.page.viewer import asked

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace

FRESH = 0.5
"""Seconds for which a record is good enough for those who only look."""


class Recent:
    """Records by workspace and adaptation, with the moment from which each is known."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[float, AdaptationRecord]] = {}

    async def get(self, workspace: "Workspace", adaptation: int) -> AdaptationRecord:
        key, now = (workspace.home.id, adaptation), time.monotonic()
        entry = self._kept.get(key)
        if entry is not None and now - entry[0] < FRESH:
            return entry[1]
        return self._keep(key, now, await asked(workspace.adaptation, adaptation))

    def put(self, workspace: "Workspace", record: AdaptationRecord) -> None:
        """Whoever has changed something knows it first."""
        self._keep((workspace.home.id, record.id), time.monotonic(), record)

    def _keep(self, key: tuple[str, int], since: float, record: AdaptationRecord) -> AdaptationRecord:
        """Keep what is newer: a reading that began before somebody's answer must not undo it on the page."""
        entry = self._kept.get(key)
        if entry is None or entry[0] <= since:
            self._kept[key] = (since, record)
        return self._kept[key][1]


recent = Recent()
