"""One result row per task: what a finished adaptation is worth, measured with labels the agent never saw."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cual.agent import Agent
from cual.bench.annotators import Recorded, second_names
from cual.bench.measures import aupr, auroc, class_accuracy, confusion
from cual.bench.streams import Stream, Task
from cual.data.table import Table
from cual.loop.adaptation import Adaptation
from cual.types import AnyArray, BoolArray, Label, Row

ZONES = ("novel", "ambiguous", "old")


@dataclass(frozen=True)
class Truth:
    """The labels of a features file, by row and by class number of the stream.

    >>> truth = Truth.of(Table(np.zeros((3, 2)), y=np.array(["fox", "cat", "fox"])))
    >>> truth.codes.tolist(), truth.classes([1]), truth.first_names(["cat", "owl"])
    ([1, 0, 1], ['fox'], ['cat', 'owl'])
    """

    labels: AnyArray
    names: AnyArray
    codes: AnyArray

    @classmethod
    def of(cls, features: Table) -> "Truth":
        labels = features.labels()
        names, codes = np.unique(labels, return_inverse=True)
        return cls(labels, names, codes)

    def classes(self, codes: Sequence[int]) -> list[Label]:
        return self.names[list(codes)].tolist()

    def first_names(self, labels: Iterable[Label]) -> list[Label]:
        """What an agent calls classes, with second names replaced: both mean the same class."""
        return [self._first_names.get(label, label) for label in labels]

    @cached_property
    def _first_names(self) -> dict[Label, Label]:
        return {second: name for name, second in second_names(self.names.tolist()).items()}


def novel_samples(task: Task, before: Agent, truth: Truth) -> BoolArray:
    """Which samples of a pool are novel: the agent did not know their class before the task.

    A method that names classes itself (incdfm) knows none of the true ones: there, novel is what is new in the
    task.
    """
    labels = truth.labels[task.rows]
    if before.method.learner.unnamed:
        return np.isin(labels, truth.classes(task.new))
    return ~np.isin(labels, truth.first_names(before.classes_.tolist()))


def learning_row(task: Task, before: Agent, adaptation: Adaptation, annotator: Recorded, truth: Truth) -> Row:
    """What was asked and believed.

    Of a method that names classes itself (incdfm) a pseudo-label is right if its sample is novel.
    """
    labels = truth.labels[task.rows]
    unnamed = before.method.learner.unnamed
    novel = novel_samples(task, before, truth)
    true_label = dict(zip(task.rows.tolist(), labels.tolist(), strict=True))
    unknown = set(task.rows[novel].tolist())
    answered = [row["sample"] for row in adaptation.ledger if row["charged"]]
    pseudo_labels = adaptation.pseudo_labels
    believed = dict(zip(pseudo_labels, truth.first_names(pseudo_labels.values()), strict=True))
    if unnamed:
        believed = {sample: true_label[int(sample)] if sample in unknown else None for sample in believed}
    right = [true_label[int(sample)] == label for sample, label in believed.items()]
    zones = [row["zone"] for row in adaptation.ledger if row["charged"]]
    return {
        "pool_size": len(task.rows),
        "labels_used": annotator.paid,
        "novel_queried": sum(sample in unknown for sample in answered),
        "pseudo_labels": len(right),
        "pseudo_label_accuracy": float(np.mean(right)) if right else None,
        "labels_budgeted": adaptation.budget,
        "labels_skipped": annotator.skipped,
        "labels_by_zone": {zone: zones.count(zone) for zone in ZONES},
        "novel_in_pool": int(novel.sum()),
        "iterations": round_rows(adaptation, task.rows, labels, novel, believed),
        "timings": {stage: round(s, 4) for stage, s in adaptation.timings.items()},
    }


def round_rows(
    adaptation: Adaptation,
    rows: AnyArray,
    labels: AnyArray,
    novel: AnyArray,
    believed: Mapping[Label, Label | None],
) -> list[Row]:
    """Per round: AUROC and AUPR of its score over the samples still in the pool; the pseudo-labels so far.

    Precision: share of them that are right. Recall: share of the pool's novel samples that got a right one.
    """
    out: list[Row] = []
    total = 0
    right = 0
    right_and_novel = 0
    for r in adaptation.rounds:
        for position in r.pseudo_rows.tolist():
            ok = believed.get(int(rows[position])) == labels[position].item()
            total += 1
            right += ok
            right_and_novel += ok and bool(novel[position])
        out.append(
            {
                "auroc": auroc(r.scores, novel[r.rows]),
                "aupr": aupr(r.scores, novel[r.rows]),
                "threshold": float(r.threshold.value),
                "asked": len(r.asked),
                "pseudo_labels": total,
                "precision": right / total if total else None,
                "recall": right_and_novel / int(novel.sum()) if novel.any() else None,
            }
        )
    return out


def evaluation_row(agent: Agent, features: Table, stream: Stream, task: int, truth: Truth, last: bool) -> Row:
    """How the agent does on the test rows of all classes introduced so far; an undiscovered class counts 0.

    A class that goes by two names is one class, and either name is right. Test rows are of the task's look,
    which need not have every class.
    """
    rows = stream.test_rows(task)
    classes = truth.classes(stream.introduced(task))
    tested = truth.classes(stream.tested(task))
    known = set(truth.first_names(agent.classes_.tolist()))
    predicted = np.array(truth.first_names(agent.predict(features.X[rows]).tolist()))
    per_class = class_accuracy(truth.labels[rows], predicted, tested)
    row: dict[str, Any] = {
        "accuracy": float(np.mean(list(per_class.values()))),
        "classes_known": sum(c in known for c in classes),
        "classes_missed": sum(c not in known for c in classes),
        "missed": [str(c) for c in classes if c not in known],
        "per_class": per_class,
    }
    if last:
        row["confusion"] = confusion(truth.labels[rows], predicted, tested)
    return row
