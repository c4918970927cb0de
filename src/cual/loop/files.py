"""The files of an adaptation: agent and pool, the journal, and a cache of what was computed. No computing.

The journal is all that counts. The cache may be deleted; one that is damaged or of other events is left alone.
"""

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cual import storage
from cual.data.pool import Pool
from cual.errors import BadFile
from cual.loop import earlier
from cual.loop.journal import Journal
from cual.loop.machine import Machine
from cual.loop.state import State

AGENT = "agent.safetensors"
POOL = "pool.safetensors"
JOURNAL = "journal.jsonl"
CACHE = "cache.safetensors"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Where an adaptation lies, and how much of what was computed lies there."""

    folder: Path | None = None
    cached: tuple[Path, int, int, int] | None = None
    """The cache's file, and how many rounds were opened, closed and opened again when it was written."""


def is_saved(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder holds an adaptation, of this release or an earlier one.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / JOURNAL).touch()
    >>> is_saved(folder), is_saved(folder / "elsewhere")
    (True, False)
    """
    return any((Path(folder) / name).exists() for name in (JOURNAL, earlier.STATE))


def begin(folder: Path, agent: Any, pool: Pool) -> None:
    """Write what never changes, and make room for the rest."""
    for name in (JOURNAL, CACHE, earlier.STATE):
        (folder / name).unlink(missing_ok=True)
    agent.save(folder / AGENT)
    pool.save(folder / POOL)


def read_journal(folder: Path, agent: Any, pool: Pool) -> tuple[Journal, bool]:
    """The journal of a folder, and whether it goes on there: that of an earlier release does not."""
    if (folder / JOURNAL).exists() or not (folder / earlier.STATE).exists():
        return Journal.open(folder / JOURNAL), True
    with storage.rebuilding(folder / earlier.STATE):
        return Journal(earlier.events_of(folder / earlier.STATE, agent, pool.ids)), False


def write_cache(place: Place, folder: Path, machine: Machine, state: State) -> Place:
    """Write what was computed, unless it lies there."""
    current = (folder / CACHE, state.opened, state.closed, state.reopened)
    if place.cached == current:
        return place
    body = {"rounds": state.opened, "closed": state.closed, "reopened": state.reopened}
    storage.write(folder / CACHE, "cache", body, machine.tensors())
    return replace(place, cached=current)


def read_cache(place: Place, folder: Path, machine: Machine, state: State) -> Place:
    """Take over what was computed, if it is there, whole, and of the same events."""
    file, kind = folder / CACHE, "cache"
    if not file.exists() and (folder / earlier.STATE).exists():
        file, kind = folder / earlier.STATE, "adaptation"
    if not file.exists():
        return place
    try:
        body, tensors = storage.read(file, kind)
        steps = (body["rounds"], body["closed"], body.get("reopened", 0))  # earlier versions opened none again
        if steps != (state.opened, state.closed, state.reopened):
            return place
        with storage.rebuilding(file):
            machine.restore(body["rounds"], tensors)
    except BadFile as error:
        log.warning("%s; it is computed again", error)
        return place
    return replace(place, cached=(file, state.opened, state.closed, state.reopened))
