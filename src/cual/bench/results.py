"""From result rows to numbers: reading folders, grouping, means and deviations over seeds. Writes nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.bench.folder import accuracies_from_0, read_rows
from cual.bench.settings import DEFAULTS, VARIED
from cual.errors import BadFile
from cual.types import Row

Measure = Callable[[Row], float | None]
"""Reads one number out of a row; None where there is none."""


@dataclass(frozen=True)
class Value:
    """A mean over seeds with its sample deviation (0 for one seed).

    >>> Value.of([0.97, 0.98, 0.99]).mean, Value.of([0.97]).std
    (0.98, 0.0)
    """

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Value":
        """
        >>> Value.of([0.5, 0.7])
        Value(mean=0.6, std=0.14142135623730948, n=2)
        """
        std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), std, len(values))


class Amount(Value):
    """A Value that is no share: labels, classes, seconds."""


@dataclass(frozen=True)
class Group:
    """Results on the same streams: one dataset and one protocol, whatever the method and seed.

    >>> results = {(0, 1): 0.9, (0, 2): 0.6, (1, 1): 0.7}  # by seed and task; seed 1 has not ended
    >>> rows = [{"method": "cual", "seed": s, "task": t, "accuracy": a} for (s, t), a in results.items()]
    >>> group = Group("digits", {}, tuple(rows))
    >>> group.tasks, list(group.streams("cual")), group.common_seeds(), group.accuracy("cual")
    ((1, 2), [0], (0,), Value(mean=0.75, std=0.0, n=1))
    >>> len(group.of("cual", task=1)), group.per_task("cual", lambda row: row["accuracy"])[1].n
    (2, 2)
    """

    dataset: str
    varied: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row["method"] for row in self.rows))

    @property
    def tasks(self) -> tuple[int, ...]:
        return tuple(sorted({row["task"] for row in self.rows}))

    def of(self, method: str, task: int | None = None) -> list[Row]:
        return [r for r in self.rows if r["method"] == method and task in (None, r["task"])]

    def accuracy(self, method: str, seeds: Collection[int] | None = None) -> Value | None:
        """Mean over seeds of the average accuracy over tasks t ≥ 1; unfinished streams do not count."""
        return self.per_stream(method, lambda row: row["accuracy"], seeds)

    def accuracy_from_0(self, method: str) -> Value | None:
        """As `accuracy`, with the accuracy before all tasks counted as that of a task, t = 0."""
        streams = [accuracies_from_0(rows) for rows in self.streams(method).values()]
        averages = [float(np.mean(accuracies)) for accuracies in streams if accuracies]
        return Value.of(averages) if averages else None

    def per_stream(self, method: str, measure: Measure, seeds: Collection[int] | None = None) -> Value | None:
        """Mean over (these) seeds of a measure's average over tasks; tasks where it is None are left out."""
        streams = {s: [measure(row) for row in rows] for s, rows in self.streams(method).items()}
        known = [[v for v in s if v is not None] for n, s in streams.items() if seeds is None or n in seeds]
        averages = [float(np.mean(s)) for s in known if s]
        return Value.of(averages) if averages else None

    def streams(self, method: str) -> dict[int, list[Row]]:
        """The rows of each seed that has all of its tasks."""
        by_seed: dict[int, list[Row]] = {}
        for row in self.of(method):
            by_seed.setdefault(row["seed"], []).append(row)
        return {seed: rows for seed, rows in by_seed.items() if len(rows) == len(self.tasks)}

    def common_seeds(self) -> tuple[int, ...]:
        """Seeds that every method has finished."""
        seeds = [set(self.streams(m)) for m in self.methods]
        return tuple(sorted(set.intersection(*seeds)))

    def per_task(self, method: str, measure: Measure) -> dict[int, Value]:
        """A measure's mean over seeds for each task; tasks where it is None for all seeds are left out."""
        values = {t: [measure(r) for r in self.of(method, t)] for t in self.tasks}
        known = {t: [v for v in vs if v is not None] for t, vs in values.items()}
        return {t: Value.of(vs) for t, vs in known.items() if vs}


def read_folder(folder: str | Path) -> list[Row]:
    """All result rows in a folder and its subfolders."""
    files = sorted(Path(folder).rglob("results.jsonl"))
    if not files:
        raise BadFile(f"{folder} holds no results.jsonl; make some with `cual bench run --out {folder} …`")
    return [row for path in files for row in read_rows(path)]


def grouped(rows: Iterable[Row]) -> list[Group]:
    """Rows by dataset and protocol, in order of appearance.

    >>> rows = [{"dataset": "digits", "budget": b, "method": "cual"} for b in (0.005, 0.02, 0.02)]
    >>> [(group.varied["budget"], len(group.rows)) for group in grouped(rows)]
    [(0.005, 1), (0.02, 2)]
    """
    groups: dict[tuple[str, tuple[tuple[str, Any], ...]], list[Row]] = {}
    for row in rows:
        key = row["dataset"], tuple((name, _plain(row.get(name, DEFAULTS[name]))) for name in VARIED)
        groups.setdefault(key, []).append(row)
    return [Group(dataset, dict(varied), tuple(mine)) for (dataset, varied), mine in groups.items()]


def _plain(value: Any) -> Any:
    """A value of the protocol by which rows can be grouped: JSON knows lists only."""
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


def differing(groups: Sequence[Group]) -> tuple[str, ...]:
    """Which fields of the protocol differ between groups of one dataset, so that a title must name them.

    >>> groups = grouped([{"dataset": "digits", "budget": b} for b in (0.005, 0.02)])
    >>> differing(groups)
    ('budget',)
    """
    by_dataset: dict[str, list[Mapping[str, Any]]] = {}
    for group in groups:
        by_dataset.setdefault(group.dataset, []).append(group.varied)
    return tuple(n for n in VARIED if any(len({v[n] for v in values}) > 1 for values in by_dataset.values()))


def of_round(name: str, i: int) -> Measure:
    """Reads a measure of the i-th round (negative: from the end, of tasks with more than one).

    >>> row = {"iterations": [{"auroc": 0.9}, {"auroc": 0.95}]}
    >>> of_round("auroc", 0)(row), of_round("auroc", -1)(row), of_round("auroc", 2)(row)
    (0.9, 0.95, None)
    """

    def measure(row: Row) -> float | None:
        rounds = row["iterations"]
        return rounds[i][name] if (i < len(rounds) if i >= 0 else len(rounds) > 1) else None

    return measure
