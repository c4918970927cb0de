"""A leaderboard of result folders, ours or others': what can be compared stands together, the best first.

Folders are checked by `submissions`; running is `jobs`' business. What a folder says is shown as text only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cual.bench import PROTOCOL, tables
from cual.bench.formats import Table, text_of
from cual.bench.results import Amount, Value
from cual.bench.settings import DEFAULTS, VARIED
from cual.bench.submissions import Submission, read_submissions
from cual.html import page
from cual.html.markdown import line, plain
from cual.storage import write_bytes
from cual.types import Row

LONGEST_OPTIONS = 300
"""Characters of changed options in a table; all of them are below it."""
ENOUGH_SEEDS = 3
"""Fewer do not tell a method from its luck with the order of classes; such rows are marked."""
COLUMNS = (
    "method",
    "accuracy (%)",
    "seeds",
    "labels",
    "of the pools (%)",
    "classes missed",
    "options",
    "from",
    "cual",
    "results",
)
TEXTS = ("method", "options", "from", "cual", "results")
NOTE = (
    "Accuracy: mean ± deviation over seeds of the accuracy averaged over tasks t ≥ 1; a class never found "
    "counts 0. Labels: paid for in a whole stream, and as a share of its pools. Classes missed: not known "
    f"after the last task. † Fewer than {ENOUGH_SEEDS} seeds. ‡ A bound: it has more labels than the budget."
)


@dataclass(frozen=True)
class Entry:
    """What one folder says of one method."""

    method: str
    accuracy: Value
    labels: Amount
    """Of a whole stream."""
    label_share: float
    """Of the samples of all pools."""
    missed: Amount
    """Classes that are not known after the last task."""
    changed: Row
    """Options that the run changed, for all of its methods."""
    options: Row | None
    """All options; None where the folder is from before they were written down."""
    packages: Mapping[str, str]
    cual: str
    folder: str

    @property
    def few(self) -> bool:
        return self.accuracy.n < ENOUGH_SEEDS

    @property
    def bound(self) -> bool:
        """Whether the method has a budget of its own, larger than the one of the run; None is infinite."""
        factor = (self.options or {}).get("budget_factor", 1.0)
        return factor is None or (isinstance(factor, int | float) and factor > 1)

    def cells(self, place: int) -> tuple[str, ...]:
        """The row of the table, in the order of `COLUMNS`."""
        marks = "†" * self.few + "‡" * self.bound
        packages = ", ".join(f"{name} {version}".strip() for name, version in self.packages.items())
        changed = ", ".join(f"{name}={value}" for name, value in _flat(self.changed))[:LONGEST_OPTIONS]
        return (
            f"{place}. {self.method} {marks}".strip(),
            text_of(self.accuracy),
            str(self.accuracy.n),
            text_of(self.labels),
            text_of(self.label_share),
            text_of(self.missed),
            "".join(c if c.isprintable() else "�" for c in changed) or "–",
            packages or "not recorded",
            self.cual,
            self.folder,
        )


@dataclass(frozen=True)
class Board:
    """Entries that can be compared: one version of the protocol, one features file, one stream."""

    protocol: str
    datasets: tuple[str, ...]
    features_sha256: str
    varied: Mapping[str, Any]
    entries: tuple[Entry, ...]
    """Best first."""

    @property
    def title(self) -> str:
        """What tells it from other boards, in words.

        >>> Board("1", ("eurosat",), "0" * 64, {"first": 2, "increment": 1, "budget": 0.005}, ()).title
        'eurosat: 2 classes first, 1 new per task, budget 0.5 %'
        """
        also = [tables.shown(name, value) for name, value in self.varied.items() if value != DEFAULTS[name]]
        named = {tables.shown(name, self.varied[name]) for name in ("first", "increment", "budget")}
        words = [
            f"{self.varied['first']} classes first",
            f"{self.varied['increment']} new per task",
            f"budget {tables.shown('budget', self.varied['budget'])}",
            *(text for text in also if text not in named),
        ]
        return f"{' / '.join(self.datasets)}: {', '.join(words)}"

    @property
    def lead(self) -> str:
        return f"Protocol {self.protocol}. Features with the SHA-256 {self.features_sha256[:16]}…"

    def table(self) -> Table:
        rows = tuple(entry.cells(place) for place, entry in enumerate(self.entries, 1))
        return Table(self.title, COLUMNS, rows, NOTE)


def boards(submissions: Iterable[Submission]) -> list[Board]:
    """Submissions side by side where they can be compared, in order of appearance."""
    grouped: dict[tuple[Any, ...], list[Submission]] = {}
    for submission in submissions:
        grouped.setdefault(_comparable(submission), []).append(submission)
    return [_board(alike) for alike in grouped.values()]


def leaderboard(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Write `index.html` and `leaderboard.md` into the folder `out`; the path of the page.

    Parameters
    ----------
    folders
        Where `cual bench run` wrote, with their subfolders. One whose figures do not follow from its rows is
        refused, by name.
    """
    made = boards(read_submissions(folders))
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    write_bytes(out / "leaderboard.md", to_markdown(made).encode())
    write_bytes(out / "index.html", to_html(made).encode())
    return out / "index.html"


def to_html(made: Sequence[Board]) -> str:
    """One page that stands alone; nothing in it is run."""
    return page.render(
        "cual.bench/leaderboard.jinja",
        title="Continual active learning: leaderboard",
        lead=_lead(made),
        boards=made,
        columns=COLUMNS,
        note=NOTE,
    )


def to_markdown(made: Sequence[Board]) -> str:
    lines = ["# Continual active learning: leaderboard", "", _lead(made), ""]
    for board in made:
        lines += [f"## {plain(board.title)}", "", plain(board.lead), ""]
        lines += [line(COLUMNS), line("---" if name in TEXTS else "---:" for name in COLUMNS)]
        lines += [line(map(plain, row)) for row in board.table().cells()]
        lines += ["", NOTE, ""]
    return "\n".join(lines)


def _lead(made: Sequence[Board]) -> str:
    entries = sum(len(board.entries) for board in made)
    counts = (
        f"{entries} entr{'ies' if entries != 1 else 'y'} on {len(made)} board{'s' if len(made) != 1 else ''}"
    )
    return (
        f"{counts}. "
        "Entries stand on one board where protocol, features, budget and all else of the stream are the same. "
        f"The bench that made this page has protocol {PROTOCOL}."
    )


def _comparable(submission: Submission) -> tuple[Any, ...]:
    """What must be the same; a budget of 1 is one label, of 1.0 the whole pool."""
    varied = submission.varied
    return (
        submission.protocol,
        submission.features_sha256,
        type(varied["budget"]).__name__,
        *(varied[name] for name in VARIED),
    )


def _board(alike: Sequence[Submission]) -> Board:
    first = alike[0]
    entries = [_entry(submission, method) for submission in alike for method in submission.streams]
    return Board(
        first.protocol,
        tuple(dict.fromkeys(submission.dataset for submission in alike)),
        first.features_sha256,
        first.varied,
        tuple(sorted(entries, key=lambda e: (-e.accuracy.mean, e.method, e.folder))),
    )


def _entry(submission: Submission, method: str) -> Entry:
    streams = list(submission.streams[method].values())
    labels = [sum(row["labels_used"] for row in rows) for rows in streams]
    pools = [sum(row["pool_size"] for row in rows) for rows in streams]
    origin = submission.origins.get(method)
    return Entry(
        method,
        Value.of([float(np.mean([row["accuracy"] for row in rows])) for rows in streams]),
        _amount(labels),
        sum(labels) / max(1, sum(pools)),
        _amount([rows[-1]["classes_missed"] for rows in streams]),
        submission.changed,
        None if origin is None else origin["options"],
        {} if origin is None else origin["packages"],
        submission.cual,
        submission.name,
    )


def _amount(values: Sequence[float]) -> Amount:
    value = Value.of(values)
    return Amount(value.mean, value.std, value.n)


def _flat(options: Row, before: str = "") -> list[tuple[str, Any]]:
    """
    >>> _flat({"head": {"epochs": 3}, "rounds": 2})
    [('head.epochs', 3), ('rounds', 2)]
    """
    pairs: list[tuple[str, Any]] = []
    for name, value in options.items():
        inside = isinstance(value, dict)
        pairs += _flat(value, f"{before}{name}.") if inside else [(f"{before}{name}", value)]
    return pairs
