"""Streams of the bench on a Ray cluster. What a task of a stream is, and what is written, is the bench's.

A stream is a chain of calls, one for each of its tasks: features and the agent go there, the row and the next
agent come back, and the driver writes them down as a run on one machine does. So nodes need no shared storage,
a lost node costs one task, and nobody but the driver, which holds the folder's lock, ever writes into it.
"""

import tempfile
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cual.agent import Agent
from cual.bench.folder import RunFolder
from cual.bench.jobs import Failures
from cual.bench.jobs import run as run_bench
from cual.bench.progress import Meter, Progress
from cual.bench.runner import Data, Unit, fit_first, load, walk
from cual.bench.settings import Setting
from cual.bridges.ray.cluster import Cluster, Need, Place
from cual.storage import write_bytes
from cual.types import Row


def run(
    cluster: Cluster,
    settings: Setting | Mapping[str, Setting],
    out: str | Path,
    share: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> list[Path]:
    """Run settings as `cual.bench.jobs.run` does, with the streams on a cluster. Results and resuming are its.

    Parameters
    ----------
    cluster
        From `connected`.
    settings, out, progress
        As on one machine. Features are read here and sent along.
    share
        Streams that share a GPU, where the device is "cuda".
    """
    chosen = [settings] if isinstance(settings, Setting) else list(settings.values())
    for setting in chosen:
        Need.of(setting.device, share=share)  # refused before anything is written
    return run_bench(settings, out, progress=progress, run_units=partial(_run_units, cluster, share))


@dataclass
class _Stream:
    """A stream under way: its data in the cluster, and how far it is."""

    unit: Unit
    data: Any
    total: int
    done: int

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.unit.folder)

    @property
    def over(self) -> bool:
        return self.done == self.total

    def saved_agent(self) -> bytes | None:
        """The agent that an earlier run left, to go on from."""
        return (
            self.folder.agent_file(self.unit.method, self.unit.seed, self.done).read_bytes()
            if self.done
            else None
        )

    def keep(self, row: Row, agent: bytes | None) -> None:
        """Write down a finished task, the agent first: as soon as the row is there, it is needed."""
        self.done += 1
        if agent is not None:
            write_bytes(self.folder.agent_file(self.unit.method, self.unit.seed, self.done), agent)
        self.folder.finish_task(row, self.over)


def _run_units(
    cluster: Cluster, share: int, units: list[Unit], meter: Meter, finished: Callable[[Unit], None]
) -> Failures:
    if not units:
        return []
    need = Need.of(units[0].setting.device, share=share)
    task = cluster.task(_advance, need)
    place = Place.here()
    features = _Features(cluster)
    waiting = deque(units)
    under_way: dict[Any, _Stream] = {}
    failed: Failures = []

    def go_on(stream: _Stream, agent: bytes | None) -> None:
        if stream.over:
            finished(stream.unit)
        else:
            under_way[task(place, stream.unit, stream.data, agent, stream.done)] = stream

    while waiting or under_way:
        while waiting and len(under_way) < cluster.at_once(need):
            stream = features.open(waiting.popleft())
            go_on(stream, None if stream.over else stream.saved_agent())
        for call in cluster.any_of(under_way) if under_way else ():
            stream = under_way.pop(call)
            try:
                row, agent = cluster.get(call)
            except Exception as error:  # whatever a stream ends in, the others go on
                failed.append((stream.unit, "".join(traceback.format_exception(error)).strip()))
                continue
            stream.keep(row, agent)
            meter.step(row)
            go_on(stream, agent)
    return failed


class _Features:
    """Data in the cluster; that of the last file is kept there for the next stream on it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._name: tuple[str, str | None] | None = None
        self._data: Any = None

    def open(self, unit: Unit) -> _Stream:
        data = load(unit.setting.features, unit.setting.label)
        name = (unit.setting.features, unit.setting.label)
        if self._name != name:
            table = replace(data.features, X=np.asarray(data.features.X))  # of a folder, the rows themselves
            self._data = self._cluster.put(Data(table, data.truth))
            self._name = name
        total = len(data.stream(unit.setting, unit.seed).tasks)
        return _Stream(unit, self._data, total, RunFolder(unit.folder).tasks_done(unit.method, unit.seed))


# -- on the nodes ----------------------------------------------------------------------------------------------


def _advance(place: Place, unit: Unit, data: Data, agent: bytes | None, done: int) -> tuple[Row, bytes | None]:
    """One task of a stream: its row, and the agent after it unless that was the last."""
    place.enter(cpus=1)
    setting, method, seed = unit.setting, unit.method, unit.seed
    stream = data.stream(setting, seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent"
        if agent is None:
            before = fit_first(setting, method, seed, data, stream)
        else:
            file.write_bytes(agent)
            before = Agent.load(file, device=setting.device)
        step = next(walk(setting, method, seed, data, before, done))
        if step.task.number == len(stream.tasks):
            return step.row, None
        step.agent.save(file)
        return step.row, file.read_bytes()
