"""What a row says beside the usual where classes drift: present look against first, novel against drifted."""

import math
from dataclasses import dataclass

import numpy as np

from cual.agent import Agent
from cual.bench.drift import NOVELTY
from cual.bench.measures import auroc, class_accuracy
from cual.bench.rows import Truth, novel_samples
from cual.bench.streams import Protocol, Stream, Task
from cual.data.table import Table
from cual.loop.adaptation import Adaptation
from cual.types import BoolArray, IntArray, Row


@dataclass(frozen=True)
class Views:
    """A task, and the features as they were first and as they look in it."""

    stream: Stream
    task: Task
    truth: Truth
    first: Table
    present: Table

    def present_accuracy(self, agent: Agent) -> float:
        """Mean over the classes introduced so far on test rows of the present look; unknown ones count 0."""
        number = self.task.number
        return self._accuracy(agent, self.present, self.stream.test_rows(number), self.stream.tested(number))

    def first_accuracy(self, agent: Agent) -> float:
        """Mean over the first classes on test rows of the first look, in which no others were shown."""
        return self._accuracy(agent, self.first, self.stream.test_rows(0), self.stream.tested(0))

    def _accuracy(self, agent: Agent, table: Table, rows: IntArray, classes: tuple[int, ...]) -> float:
        predicted = np.array(self.truth.first_names(agent.predict(table.X[rows]).tolist()))
        accuracies = class_accuracy(self.truth.labels[rows], predicted, self.truth.classes(classes))
        return float(np.mean(list(accuracies.values())))


def drift_row(
    views: Views, protocol: Protocol, frozen: Agent, before: Agent, after: Agent, adaptation: Adaptation
) -> Row:
    """The columns of a task in a stream with drift.

    ``accuracy`` of the row is that on the present look.

    Parameters
    ----------
    frozen, before, after
        The agent before all tasks, before this one and after it.
    """
    novel = novel_samples(views.task, before, views.truth)
    old = set(views.task.rows[~novel].tolist())
    asked_old = [row["sample"] for row in adaptation.ledger if row["charged"] and row["sample"] in old]
    return {
        **_look(views, protocol),
        "frozen_accuracy": views.present_accuracy(frozen),
        "accuracy_before": views.present_accuracy(before),
        "first_look_accuracy": views.first_accuracy(after),
        "first_look_frozen_accuracy": views.first_accuracy(frozen),
        "novel_share": float(novel.mean()),
        **_told_apart(adaptation, novel),
        "drifted_queried": len(asked_old) if _drifted(views, protocol) else 0,
    }


def _told_apart(adaptation: Adaptation, novel: BoolArray) -> Row:
    """How well scores tell novel from old samples, and which share of the pool is taken for novel.

    First: before any answer. Last: among what was still in the pool in the last round; the share, by the
    outlook at the end.
    """
    rounds = adaptation.rounds
    scored = {"first": rounds[:1], "last": rounds[-1:]}
    aurocs = {when: [auroc(r.scores, novel[r.rows]) for r in some] for when, some in scored.items()}
    row: Row = {f"novelty_auroc_{when}": next(iter(some), None) for when, some in aurocs.items()}
    shares = {
        "first": rounds[0].novel / len(novel) if rounds else math.nan,
        "last": math.nan if (estimated := adaptation.outlook.novel) is None else estimated / len(novel),
    }
    return row | {f"novel_share_{when}": None if math.isnan(s) else s for when, s in shares.items()}


def _look(views: Views, protocol: Protocol) -> Row:
    """Which look it was, or how strong the change."""
    drift, task = protocol.drift, views.task
    if drift is None or drift.named:
        return {"look": task.look}
    return {"look": f"{drift.kind} {drift.amount(task.number):g}"}


def _drifted(views: Views, protocol: Protocol) -> bool:
    """Whether the task's pool looks other than the first samples."""
    drift = protocol.drift
    if drift is None or drift.pools == NOVELTY:
        return False
    return not drift.named or views.task.look != views.stream.look
