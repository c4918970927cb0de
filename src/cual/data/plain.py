"""Plain columns: what a user's table says of each row beside features or text, for people to read.

Learners never see them. Which columns those are, and how long a value may be, is said here and nowhere else.
Files are read by `plain_files` and by `cual.encoders.sources`.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cual.data.columns import LABELS
from cual.data.labels import unreadable
from cual.errors import BadFile, BadOption

MOST = 20
"""Columns that are kept: more, nobody reads beside a question."""
LONGEST = 500
"""Characters of a value."""
LONGEST_NAME = 100
MOST_NOTES = 100
MOST_NAMES = 1000
"""Names of columns that are looked at: a file of JSON lines may have new ones in every line."""

Value: TypeAlias = str | int | float | bool | None
Why: TypeAlias = Literal["labels", "many", "shape", "name", "cut"]
REASONS: Mapping[Why, str] = {
    "labels": "left out: it seems to hold labels, and those of a pool are shown to nobody",
    "many": f"left out: at most {MOST} columns are kept",
    "shape": "left out: it does not hold one number or text for each row",
    "name": f"left out: its name cannot be read, or has more than {LONGEST_NAME} characters",
    "cut": f"cut: values of more than {LONGEST} characters end in an ellipsis",
}


class Note(NamedTuple):
    """What became of a column that is not shown as it is."""

    column: str
    why: Why


class PlainColumns:
    """Columns that are kept, and their values row by row. What was cut is known once all were gone through.

    Parameters
    ----------
    names
        As `chosen` gives them.
    notes
        What is known of other columns.
    read
        Begins to go through the rows: the values of `names`, as they are in the file.

    Examples
    --------
    >>> rows = [("red", "x" * 501), (np.float32(2), None)]
    >>> columns = PlainColumns(("colour", "said"), [], lambda: iter(rows))
    >>> [[str(value)[-3:] for value in row] for row in columns]
    [['red', 'xx…'], ['2.0', 'one']]
    >>> columns.notes
    [Note(column='said', why='cut')]
    """

    def __init__(
        self, names: Sequence[str], notes: Sequence[Note], read: Callable[[], Iterator[Sequence[Any]]]
    ) -> None:
        self.names, self.notes, self._read = tuple(names), list(notes), read

    def __iter__(self) -> Iterator[list[Value]]:
        for values in self._read():
            yield [self._plain(name, value) for name, value in zip(self.names, values, strict=True)]

    def _plain(self, name: str, value: Any) -> Value:
        shown, why = plain(value)
        if why is not None and Note(name, why) not in self.notes:
            self.notes.append(Note(name, why))
        return shown


def plain(value: Any) -> tuple[Value, Why | None]:
    """A value as JSON has it and people read it, and what was done to it.

    >>> plain(np.int8(3)), plain(float("nan")), plain({"a": 1})
    ((3, None), (None, None), (None, 'shape'))
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value), None
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value, None
    if isinstance(value, int):
        return (value if abs(value) < 2**63 else _text(str(value))[0]), None
    if isinstance(value, float):
        return (value if math.isfinite(value) else None if math.isnan(value) else str(value)), None
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, date | time | Decimal):
        return str(value), None
    if isinstance(value, bytes):
        return _text(value[: 4 * LONGEST + 4].decode(errors="replace"))
    return None, "shape"


def _text(text: str) -> tuple[str, Why | None]:
    """Text that is not too long; half a surrogate pair, which JSON can hold, becomes a question mark."""
    cut = len(text) > LONGEST
    text = f"{text[: LONGEST - 1]}…" if cut else text
    return text.encode(errors="replace").decode(), "cut" if cut else None


def chosen(
    what: str,
    candidates: Mapping[str, bool],
    wanted: Sequence[str] | None = None,
    taken: Collection[str] = (),
    labels: Collection[str] = (),
) -> tuple[list[str], list[Note]]:
    """Which columns are kept, in the order of the file or as wanted; and why others are not.

    Parameters
    ----------
    what
        The file, for errors.
    candidates
        All columns, and whether each holds one number or text for each row.
    wanted
        Those that somebody named; by default all that can be kept.
    taken
        Columns of features, text and ids, which are kept elsewhere.
    labels
        Columns of labels, beside those that are called so.

    Examples
    --------
    >>> chosen("t.csv", {"text": True, "Label": True, "colour": True, "box": False}, taken=["text"])
    (['colour'], [Note(column='Label', why='labels'), Note(column='box', why='shape')])
    """
    if wanted is not None:
        return _named(what, candidates, wanted, taken, labels), []
    names: list[str] = []
    notes: list[Note] = []
    for name, fits in candidates.items():
        why = None if name in taken else _why_not(name, fits, labels, len(names))
        if why is not None:
            notes.append(Note(_short(name), why))
        elif name not in taken:
            names.append(name)
    return names, notes[:MOST_NOTES]


def _named(
    what: str,
    candidates: Mapping[str, bool],
    wanted: Sequence[str],
    taken: Collection[str],
    labels: Collection[str],
) -> list[str]:
    check_names(wanted)
    for name in wanted:
        if name not in candidates:
            others = [_short(other) for other in candidates if other not in taken][:MOST]
            raise BadFile(f"{what} has no column {name!r}; it has {', '.join(others) or 'none to show'}")
        if name in taken:
            raise BadOption(f"{what}: {name!r} holds features, text or ids; name other columns to be shown")
        why = _why_not(name, candidates[name], labels, 0)
        if why is not None:
            raise BadOption(f"{what}: the column {name!r} cannot be shown. It is {REASONS[why]}")
    return list(wanted)


def check_names(wanted: Sequence[str]) -> None:
    """Refuse too many columns, or one twice, before any file is looked at.

    >>> check_names(["colour", "colour"])
    Traceback (most recent call last):
    cual.errors.BadOption: a column is named twice
    """
    if len(wanted) > MOST:
        raise BadOption(f"{len(wanted)} columns are to be shown; at most {MOST} are kept")
    if len(set(wanted)) < len(wanted):
        raise BadOption("a column is named twice")


def is_label(name: str) -> bool:
    """Whether a column is called as columns of labels usually are.

    >>> is_label(" Class"), is_label("classic")
    (True, False)
    """
    return name.strip().casefold() in LABELS


def _why_not(name: str, fits: bool, labels: Collection[str], before: int) -> Why | None:
    if name in labels or is_label(name):
        return "labels"
    if unreadable(name, LONGEST_NAME):
        return "name"
    if not fits:
        return "shape"
    return "many" if before >= MOST else None


def _short(name: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in name[:LONGEST_NAME])
