"""What became of the mutants of each room, as a table, with the survivors. Nothing is run here."""

import tomllib
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mutation.kept import Row

EXPLAINED = Path(__file__).parent / "survivors.toml"
SHARE = 0.9
COLUMNS = (
    "room",
    "mutants",
    "taken",
    "killed",
    "timed out",
    "survived",
    "equivalent",
    "share",
    "95 % interval",
)

Reasons = dict[tuple[str, str, str], str]


@dataclass(frozen=True)
class Share:
    """How many of those that can be noticed are, with the interval of Wilson if they are a sample.

    >>> print(Share(18, 20, 400), Share(18, 18, 20), Share(9, 10, 10), sep="\\n")
    90.0 %  69.9–97.2 %
    100.0 %  82.4–100.0 %
    90.0 %
    """

    noticed: int
    counted: int
    there_are: int

    @property
    def value(self) -> float:
        return self.noticed / max(self.counted, 1)

    @property
    def interval(self) -> tuple[float, float]:
        n, p, z = max(self.counted, 1), self.value, 1.959964
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
        return max(middle - half, 0.0), min(middle + half, 1.0)

    @property
    def said(self) -> tuple[str, str]:
        """Share and interval as words; no interval where all were taken."""
        low, high = self.interval
        sampled = self.counted < self.there_are
        return f"{100 * self.value:.1f} %", f"{100 * low:.1f}–{100 * high:.1f} %" if sampled else ""

    def __str__(self) -> str:
        return "  ".join(self.said).strip()


def explained() -> Reasons:
    """Reasons why a mutant need not be killed: by file, and lines before and after; no line after means any."""
    rows = tomllib.loads(EXPLAINED.read_text()).get("survivor", []) if EXPLAINED.exists() else []
    return {(row["file"], row["before"].strip(), row.get("after", "").strip()): row["reason"] for row in rows}


def reason(row: Row, reasons: Reasons) -> str:
    """Why this one need not be killed; nothing if it should be."""
    file, before, after = row["file"], row["before"], row["after"]
    return reasons.get((file, before, after), "") or reasons.get((file, before, ""), "")


def report(results: dict[str, list[Row]], there_are: dict[str, int], title: str) -> bool:
    """Prints survivors and the table; whether enough were killed in every room."""
    reasons = explained()
    table = Table(title=title)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "room" else "right", no_wrap=True)
    enough = True
    for room, rows in results.items():
        alive = sorted((row for row in rows if row["outcome"] == "survived"), key=_place)
        equivalent = sum(bool(reason(row, reasons)) for row in alive)
        outcomes = [row["outcome"] for row in rows]
        counted = len(rows) - equivalent
        left = len(alive) - equivalent
        all_taken = len(rows) == there_are[room]
        share = Share(counted - left, counted, counted if all_taken else there_are[room])
        enough &= share.value >= SHARE or not rows
        figures = (
            there_are[room],
            len(rows),
            outcomes.count("killed"),
            outcomes.count("timed out"),
            left,
            equivalent,
        )
        table.add_row(room, *map(str, figures), *share.said)
        for row in alive:
            _print(row, reason(row, reasons))
    Console(width=112).print(table)
    return enough


def _print(row: Row, why: str) -> None:
    print(f"{'equivalent' if why else 'SURVIVED'}  {row['file']}:{row['line']}  {row['by']}")
    print(f"    - {row['before']}\n    + {row['after']}")
    if why:
        print(f"    {why}")


def _place(row: Row) -> tuple[str, int, str]:
    return row["file"], row["line"], row["after"]
