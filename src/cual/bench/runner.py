"""Running streams: fit on the first classes, then adapt task after task through `ask` and `tell`. Resumable.

What a row measures is in `rows`, where it goes in `folder`, many processes in `jobs`.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from cual.agent import Agent
from cual.bench import PROTOCOL
from cual.bench.annotators import Recorded
from cual.bench.drift import GIVEN, Change
from cual.bench.drift_rows import Views, drift_row
from cual.bench.folder import RunFolder
from cual.bench.looks import look_stream
from cual.bench.rows import Truth, evaluation_row, learning_row
from cual.bench.settings import Setting, load_features
from cual.bench.streams import Protocol, Stream, Task, make_stream
from cual.data.table import Table
from cual.errors import BadFile, BadOption
from cual.heads import LearnsOnce
from cual.loop.adaptation import Adaptation
from cual.methods.oracle_ridge import ORACLE_NOVEL
from cual.types import AnyArray, Row


@dataclass(frozen=True)
class Data:
    """A setting's features and true labels.

    Attributes
    ----------
    changed
        For drift "given": features of the same rows as they look in task 1, 2, …
    """

    features: Table
    truth: Truth
    changed: Sequence[AnyArray] = ()

    def stream(self, setting: Setting, seed: int) -> Stream:
        protocol = setting.protocol
        if protocol.drift is None or not protocol.drift.named:
            return self._enough(make_stream(self.truth.codes, protocol, seed), protocol)
        if self.features.domain is None:
            raise BadFile(
                f"{setting.features} does not say of which look its rows are; drift looks needs an .npz with "
                "an array `domain`"
            )
        return look_stream(self.truth.codes, self.features.domain.astype(np.str_), protocol, seed)

    def _enough(self, stream: Stream, protocol: Protocol) -> Stream:
        given = protocol.drift is not None and protocol.drift.kind == GIVEN
        if given and len(self.changed) < len(stream.tasks):
            raise BadOption(
                f"drift {GIVEN}: the data has features for {len(self.changed)} tasks, not {len(stream.tasks)}"
            )
        return stream

    def seen(self, setting: Setting, seed: int, stream: Stream, task: int) -> Table:
        """The features as they look in a task; as they are before all tasks (0) and without a smooth change."""
        drift = setting.protocol.drift
        if drift is None or drift.named or not drift.amount(task):
            return self.features
        if drift.kind != GIVEN:
            change = Change.of(self.features.X[stream.first], drift.kind, seed)
            return replace(self.features, X=change.at(self.features.X, drift.amount(task)))
        return replace(self.features, X=self.changed[task - 1])


@dataclass(frozen=True)
class Step:
    """One finished task of a stream: the agent after it, the adaptation that led there, and its result row."""

    task: Task
    agent: Agent
    adaptation: Adaptation
    row: Row


@dataclass(frozen=True)
class Unit:
    """One stream to run: a method and a seed of a setting, into a folder."""

    setting: Setting
    folder: Path
    method: str
    seed: int


Report = Callable[[Unit, Row], None]
"""Called after each finished task, with the unit and its row."""


@lru_cache(maxsize=1)
def load(features: str, label: str | None = None) -> Data:
    """The data of a setting's `features`; the last file stays in memory for the next stream on it."""
    table = load_features(features, label)
    return Data(table, Truth.of(table))


def fit_first(setting: Setting, method: str, seed: int, data: Data, stream: Stream) -> Agent:
    """The agent before deployment: it knows the first classes."""
    return Agent.fit(
        data.features.X[stream.first],
        data.truth.labels[stream.first],
        method=method,
        seed=seed,
        device=setting.device,
        **setting.method_options,
    )


def walk(setting: Setting, method: str, seed: int, data: Data, agent: Agent, done: int = 0) -> Iterator[Step]:
    """Go through a stream's tasks, from the one after `done` on, with `agent` as it was after `done`."""
    stream = data.stream(setting, seed)
    frozen = None
    if setting.drift is not None:
        frozen = fit_first(setting, method, seed, data, stream) if done else agent
    for task in stream.tasks[done:]:
        seen = data.seen(setting, seed, stream, task.number)
        annotator = annotator_for(agent, setting, seed, task, stream, data.truth)
        began = time.perf_counter()
        adaptation = agent.adapt(seen.X[task.rows], setting.budget, ids=task.rows)
        while query := adaptation.ask():
            adaptation.tell(query.id, annotator.answer(query.ids))
        after = adaptation.finish()
        seconds = time.perf_counter() - began
        row: Row = {"dataset": setting.dataset, "method": method, "seed": seed, "task": task.number}
        last = task.number == len(stream.tasks)
        row |= evaluation_row(after, seen, stream, task.number, data.truth, last)
        row |= learning_row(task, agent, adaptation, annotator, data.truth)
        row |= {"seconds": round(seconds, 3), **setting.varied(), "protocol": PROTOCOL}
        if task.number == 1:
            row["per_class_before"] = evaluation_row(agent, data.features, stream, 0, data.truth, False)[
                "per_class"
            ]
        if frozen is not None:
            views = Views(stream, task, data.truth, data.features, seen)
            row |= drift_row(views, setting.protocol, frozen, agent, after, adaptation)
        yield Step(task, after, adaptation, row)
        agent = after


def run_unit(unit: Unit, report: Report | None = None) -> None:
    """Run a stream from where its folder says it stands, saving the agent and a row after each task."""
    folder, setting, method, seed = RunFolder(unit.folder), unit.setting, unit.method, unit.seed
    done = folder.tasks_done(method, seed)
    data = load(setting.features, setting.label)
    stream = data.stream(setting, seed)
    if done == len(stream.tasks):
        return
    if done:
        agent = folder.load_agent(method, seed, done, setting.device)
    else:
        agent = fit_first(setting, method, seed, data, stream)
    for step in walk(setting, method, seed, data, agent, done):
        number = step.task.number
        last = number == len(stream.tasks)
        if not last:
            folder.save_agent(step.agent, method, seed, number)
        folder.finish_task(step.row, last)
        if report is not None:
            report(unit, step.row)


def count_tasks(setting: Setting, data: Data) -> int:
    """Tasks of one stream of the setting."""
    return len(data.stream(setting, setting.seeds[0]).tasks)


def annotator_for(
    agent: Agent, setting: Setting, seed: int, task: Task, stream: Stream, truth: Truth
) -> Recorded:
    """Who answers an agent's questions in a task.

    A method with a budget asks people, who err as the setting says. A bound, whose budget is infinite, is told
    the truth. `oracle-novel` is told of classes that it does not know, and of nothing else. A head that learns
    each sample once is told of each once, in however many pools the protocol shows it, unless it has drifted.
    """
    classes = truth.classes(stream.introduced(task.number))
    drift = setting.protocol.drift
    if math.isinf(agent.method.budget_factor):
        untold = np.empty(0, np.int64)
        if agent.method.name == ORACLE_NOVEL.name:
            untold = task.rows[np.isin(truth.labels[task.rows], agent.classes_)]
        elif isinstance(agent.head, LearnsOnce) and (drift is None or not drift.amount(task.number)):
            untold = stream.met_before(task.number)
        return Recorded(truth.labels, classes, seed, task.number, untold=untold.tolist())
    return Recorded(
        truth.labels,
        classes,
        seed,
        task.number,
        wrong=setting.wrong,
        skip=setting.skip,
        confused=truth.classes(task.new) if setting.wrong_among_new else (),
        synonyms=setting.synonyms,
    )
