"""Columns that came with a pool's samples, for people to read: kept by row, read by row.

No learner sees them. Which columns are kept, and how much of a value, `cual.data.plain` says.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

from cual.data.lines import Lines, starts_of, write_lines
from cual.data.plain import REASONS, PlainColumns, Value, chosen, plain
from cual.errors import BadFile, BadOption, NotFound
from cual.serve.rules import lost
from cual.serve.rules.records import ColumnNote, QuestionRecord
from cual.serve.storage import sums
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Progress
from cual.types import Row as Shown

FILE = "columns.jsonl"
"""A list of values for each row; where the lines begin is in a file beside it."""
Given = Mapping[str, Sequence[Any]]
"""Values by column, one for each row."""
_TOLD = 1000


# -- kept ------------------------------------------------------------------------------------------------------


def given(columns: Given, n: int) -> PlainColumns:
    """Columns that came with a pool in memory, once they fit.

    >>> list(given({"colour": ["red", "blue"]}, 2).names)
    ['colour']
    >>> given({"colour": ["red"]}, 2)
    Traceback (most recent call last):
    cual.errors.BadOption: 2 samples came with 1 values of the column 'colour'
    """
    for name, values in columns.items():
        if len(values) != n:
            raise BadOption(f"{n} samples came with {len(values)} values of the column {name!r}")
    names, notes = chosen("the pool", dict.fromkeys(columns, True), list(columns))
    return PlainColumns(names, notes, lambda: zip(*(columns[name] for name in names), strict=True))


def keep(
    folder: Path,
    columns: PlainColumns,
    rows: Sequence[int | None],
    n: int,
    progress: Progress | None = None,
) -> Shown | None:
    """Write values into the folder of a pool of `n` rows; what the database is to know of them.

    Parameters
    ----------
    rows
        The row of the pool that each row of the columns is, None for those that are not in the pool.
    """
    if columns.names:
        write_lines(folder / FILE, _placed(columns, rows, progress), n)
    if not columns.names and not columns.notes:
        return None
    return {"names": list(columns.names), "notes": [list(note) for note in columns.notes]}


def _placed(
    columns: PlainColumns, rows: Sequence[int | None], progress: Progress | None
) -> Iterator[tuple[int, list[Value]]]:
    done = 0
    for values in columns:
        if done == len(rows):
            break
        if progress is not None and done % _TOLD == 0:
            progress("columns", done, len(rows))
        row, done = rows[done], done + 1
        if row is not None:
            yield row, values
    if done < len(rows):
        raise BadFile(f"only {done} of {len(rows)} rows have columns; the file has changed while it was read")


# -- read ------------------------------------------------------------------------------------------------------


def names(shown: Shown | None) -> list[str]:
    """The columns of a pool, by what the database knows of them."""
    return [] if shown is None else [str(name) for name in shown["names"]]


def notes(shown: Shown | None) -> list[ColumnNote]:
    told = [] if shown is None else shown["notes"]
    return [ColumnNote(str(column), why, REASONS[why]) for column, why in told if why in REASONS]


class Readers:
    """Columns of samples of any pools; what was opened stays open until the end."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._opened: dict[int, tuple[list[str], Lines | None]] = {}

    def __enter__(self) -> "Readers":
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._opened.values():
            if opened[1] is not None:
                opened[1].close()

    def names(self, pool: int) -> list[str]:
        return self._of(pool)[0]

    def get(self, pool: int, row: int) -> dict[str, Value]:
        """The columns of a row; nothing where there are none, or the pool was deleted."""
        known, opened = self._of(pool)
        with lost.reading(self._home):
            values = None if opened is None else opened.get(row)
        if not isinstance(values, list):
            return {}
        # Of a backup that anybody may have made: what is not plain there is not shown either.
        cells = zip(known, cast(list[Any], values), strict=False)
        return {name: plain(value)[0] for name, value in cells}

    def _of(self, pool: int) -> tuple[list[str], Lines | None]:
        if pool not in self._opened:
            with self._home.database.reading() as connection:
                wanted = sa.select(db.pools.c.shown).where(db.pools.c.id == pool)
                known = names(one_row(connection, wanted, f"pool {pool}").shown)
            self._opened[pool] = (known, lines(self._home, pool, FILE) if known else None)
        return self._opened[pool]


def lines(home: Home, pool: int, name: str) -> Lines | None:
    """A file of a pool with one value per row, compared with its checksum when it is opened first; or None."""
    folder = home.pool_folder(pool)
    if not (folder / name).exists():
        return None
    with lost.reading(home):
        for file in (name, starts_of(name)):
            sums.check(folder, file, least=0)
        return Lines(folder / name)


def of(home: Home, pool: int, rows: Iterable[int]) -> dict[int, dict[str, Value]]:
    """The columns of some rows of a pool."""
    with Readers(home) as readers:
        return {row: readers.get(pool, row) for row in rows}


def one(home: Home, pool: int, row: int) -> dict[str, Value]:
    """The columns of a row; `NotFound` where it has none."""
    columns = of(home, pool, [row])[row]
    if not columns:
        raise NotFound(f"row {row} of pool {pool} has no columns")
    return columns


def with_columns(home: Home, questions: Sequence[QuestionRecord]) -> list[QuestionRecord]:
    """Questions, all of one adaptation, with the columns of their samples."""
    if not questions:
        return []
    a = db.adaptations.c
    with home.database.reading() as connection:
        pool = connection.execute(sa.select(a.pool).where(a.id == questions[0].adaptation)).scalar_one()
    columns = of(home, pool, {question.row for question in questions})
    return [replace(question, columns=columns[question.row]) for question in questions]
