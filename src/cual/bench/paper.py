"""The paper's own figures, from `paper.json`: every cell with its dataset, backbone, increment and budget."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column of one of the paper's tables.

    >>> column = Column("Eurosat", "R50", increment=1, budget=0.005)
    >>> column.matches("eurosat-r50", 1, 0.005), column.matches("eurosat-r50", 1, 0.0125)
    (True, False)
    """

    dataset: str
    backbone: str
    increment: int
    budget: float

    def matches(self, features: str, increment: int, budget: float) -> bool:
        """Whether results on these features (by name) belong beside this column."""
        known: dict[str, list[str]] = _held()["datasets"][self.dataset]["features"]
        return features in known[self.backbone] and (increment, budget) == (self.increment, self.budget)


@dataclass(frozen=True)
class PaperTable:
    """One of the paper's tables; accuracies in percent, None where the paper has a dash."""

    title: str
    source: str
    columns: tuple[Column, ...]
    rows: dict[str, tuple[float | None, ...]]


@cache
def _held() -> dict[str, Any]:
    return json.loads(files("cual.bench").joinpath("paper.json").read_text(encoding="utf-8"))


def paper_tables() -> dict[str, PaperTable]:
    """The paper's tables: "table1", "ablations" and "increments".

    >>> table = paper_tables()["table1"]
    >>> table.columns[4].dataset, table.rows["cual"][4]
    ('Eurosat', 95.8)
    """
    return {
        name: PaperTable(
            t["title"],
            t["source"],
            tuple(Column(**c) for c in t["columns"]),
            {m: tuple(v) for m, v in t["rows"].items()},
        )
        for name, t in _held()["tables"].items()
    }


def source() -> str:
    return _held()["source"]


def notes() -> list[str]:
    return _held()["notes"]
