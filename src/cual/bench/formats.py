"""How a table is written: terminal text, Markdown, LaTeX (booktabs), CSV, HTML. What is in it: `tables`."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cual.bench.results import Amount, Value
from cual.html import page

Cell = str | float | Value | None
"""Shares (floats and Values) are shown in percent, Amounts as they are."""


@dataclass(frozen=True)
class Table:
    """A table with a title; the first column names its rows.

    >>> rows = ("cual-plus", Value(0.961, 0.013, 5)), ("mine", None)
    >>> Table("Accuracy", ("method", "EuroSAT"), rows).cells()
    [['cual-plus', '96.1 ± 1.3'], ['mine', '–']]
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def cells(self) -> list[list[str]]:
        """The rows as they are shown."""
        return [[text_of(cell) for cell in row] for row in self.rows]


def count(value: Value | None) -> Amount | None:
    """A number that is not a share, with its deviation.

    >>> text_of(Value(0.5, 0.1, 3)), text_of(count(Value(44.0, 1.0, 3)))
    ('50.0 ± 10.0', '44.0 ± 1.0')
    """
    return None if value is None else Amount(value.mean, value.std, value.n)


def text_of(cell: Cell) -> str:
    """
    >>> text_of(Value(0.8451, 0.11, 3)), text_of(Amount(7.5, 0.26, 3)), text_of(0.958), text_of(None)
    ('84.5 ± 11.0', '7.5 ± 0.3', '95.8', '–')
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Value):
        mean, std = (scale(cell) * part for part in (cell.mean, cell.std))
        return f"{mean:.1f}" + (f" ± {std:.1f}" if cell.n > 1 else "")
    return f"{100 * cell:.1f}"


def scale(value: Value) -> int:
    return 1 if isinstance(value, Amount) else 100


def to_text(table: Table) -> str:
    """For a terminal: aligned columns.

    >>> rows = ("cual-plus", 0.979), ("cual", 0.964)
    >>> print(to_text(Table("Accuracy", ("method", "digits"), rows)), end="")
    Accuracy
    <BLANKLINE>
    method     digits
    ─────────  ──────
    cual-plus    97.9
    cual         96.4
    """
    cells = [list(table.columns), *table.cells()]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    rule = "  ".join("─" * w for w in widths)
    return (
        "\n".join([table.title, "", lines[0], rule, *lines[1:], *([table.note] if table.note else [])]) + "\n"
    )


def to_markdown(table: Table) -> str:
    """For a page in Markdown, such as docs/results.md.

    >>> rows = (("cual-plus", Value(0.979, 0.006, 3)),)
    >>> print(to_markdown(Table("Accuracy", ("method", "digits"), rows)), end="")
    **Accuracy**
    <BLANKLINE>
    | method | digits |
    | --- | ---: |
    | cual-plus | 97.9 ± 0.6 |
    """

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    rule = line(["---", *("---:" for _ in table.columns[1:])])
    body = [line(text_of(c) for c in row) for row in table.rows]
    note = ["", table.note] if table.note else []
    return "\n".join([f"**{table.title}**", "", line(table.columns), rule, *body, *note]) + "\n"


def to_latex(table: Table) -> str:
    """A table for booktabs and graphicx, made smaller where it is wider than the line."""

    def line(cells: Iterable[Cell]) -> str:
        return " & ".join(_latex(text_of(c)) for c in cells) + r" \\"

    return (
        "\n".join(
            [
                r"\begin{table}",
                r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
                r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
                rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
                r"\toprule",
                line(table.columns),
                r"\midrule",
                *(line(row) for row in table.rows),
                r"\bottomrule",
                r"\end{tabular}}",
                rf"\caption{{{_latex(' '.join([table.title + '.', table.note]).strip())}}}",
                r"\end{table}",
            ]
        )
        + "\n"
    )


def to_csv(table: Table) -> str:
    """Numbers in full (shares in percent), with deviation and number of seeds in columns of their own.

    >>> rows = ("cual", Value(0.5, 0.25, 3)), ("mine", None)
    >>> print(to_csv(Table("Accuracy", ("method", "digits"), rows)), end="")
    method,digits,digits std,digits seeds
    cual,50.0,25.0,3
    mine,,,
    """
    spread = [any(isinstance(row[i], Value) for row in table.rows) for i in range(len(table.columns))]
    head = [
        n
        for c, wide in zip(_told_apart(table.columns), spread, strict=True)
        for n in ((c, f"{c} std", f"{c} seeds") if wide else (c,))
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in table.rows:
        cells: list[object] = []
        for cell, wide in zip(row, spread, strict=True):
            if isinstance(cell, Value):
                cells += [scale(cell) * cell.mean, scale(cell) * cell.std, cell.n]
            else:
                cells += [100 * cell if isinstance(cell, float) else cell, *(["", ""] if wide else [])]
        writer.writerow(cells)
    return out.getvalue()


def _told_apart(columns: Sequence[str]) -> list[str]:
    """Names that appear twice get the name of the column before them.

    >>> _told_apart(["method", "a", "paper", "b", "paper"])
    ['method', 'a', 'a paper', 'b', 'b paper']
    """
    return [
        f"{columns[i - 1]} {name}" if i and columns.count(name) > 1 else name for i, name in enumerate(columns)
    ]


_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "–": "--",
    "≥": r"$\geq$",
} | {"⁰": "$^0$", "¹": "$^1$", "ⁱ": "$^i$"}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def to_html(table: Table) -> str:
    return str(page.part("table", table.columns, table.cells(), table.note))
