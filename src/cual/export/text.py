"""Labels as text: CSV for spreadsheets, and JSON lines, which hold everything as it is."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cual.export.base import Labels, formats
from cual.storage import write_pieces

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")


def harmless(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that could be one begins with an apostrophe.

    So does text that begins with an apostrophe, so that taking away the first one gives what it was.

    >>> harmless("=HYPERLINK(1)"), harmless("cat"), harmless(-3), harmless("'tis")
    ("'=HYPERLINK(1)", 'cat', -3, "''tis")
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell


def unmarked(cell: str) -> str:
    """What `harmless` made a cell of.

    >>> [unmarked(harmless(cell)) for cell in ("=1", "'tis", "cat")], unmarked("'90s")
    (['=1', "'tis", 'cat'], "'90s")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULAS) else cell


def csv_lines(rows: Sequence[Sequence[Any]]) -> str:
    r"""Lines of a CSV table; nothing in them is a formula.

    >>> csv_lines([["a", 1, None, True], ["x,y", "=1", "", False]]).splitlines()
    ['a,1,,1', '"x,y",\'=1,,0']
    """
    text = io.StringIO()
    cells = ([int(cell) if isinstance(cell, bool) else harmless(cell) for cell in row] for row in rows)
    csv.writer(text).writerows(cells)
    return text.getvalue()


def json_lines(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A JSON object for each row.

    >>> print(json_lines(["sample", "label"], [["a.jpg", "owl"], ["b.jpg", None]]), end="")
    {"sample": "a.jpg", "label": "owl"}
    {"sample": "b.jpg", "label": null}
    """
    objects = (dict(zip(names, row, strict=True)) for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects)


class _Csv:
    suffix = ".csv"
    media_type = "text/csv; charset=utf-8"
    about = "CSV: a table for spreadsheets"

    def check(self) -> None: ...

    def write(self, labels: Labels, path: Path) -> int:
        return _write(labels, path, csv_lines, head=csv_lines([labels.names]))


class _JsonLines:
    suffix = ".jsonl"
    media_type = "application/x-ndjson"
    about = "JSON lines: one object a line, for programs"

    def check(self) -> None: ...

    def write(self, labels: Labels, path: Path) -> int:
        return _write(labels, path, partial(json_lines, labels.names))


formats.add("csv")(_Csv())
formats.add("jsonl")(_JsonLines())


def _write(labels: Labels, path: Path, lines: Callable[[Any], str], head: str = "") -> int:
    written = 0

    def pieces() -> Iterator[bytes]:
        nonlocal written
        yield head.encode()
        for part in labels.parts():
            written += len(part)
            yield lines(labels.cells(part)).encode("utf-8", "backslashreplace")

    write_pieces(path, pieces())
    return written
