"""Tables that grow, for `cual watch`: which rows are new, and what they hold. CSV by bytes, parquet by rows."""

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.cli.watch_memory import Part
from cual.data import columns as usual
from cual.errors import BadFile

MOST_ROWS = 64
_MOST_BYTES = 4 * 2**20
LINES = (".csv", ".tsv")
TABLES = (*LINES, ".parquet")


@dataclass(frozen=True)
class Rows:
    """New rows of a table, as they are sent."""

    samples: Any
    """A list of texts, or features (n, width)."""
    names: list[str] | None


def new_part(file: Path, name: str, before: Part | None) -> Part | None:
    """The next rows that were not sent; None where there are none. A file that is another one begins anew."""
    if file.suffix.lower() == ".parquet":
        return _new_rows(file, name, before)
    head, end = _header(file)
    if head is None:
        return None
    size = file.stat().st_size
    same = before is not None and before.head == head and before.stop <= size
    start = before.stop if before is not None and same else end
    stop = start + sum(len(record) for record in _records(file, start))
    return Part(name, head, start, stop) if stop > start else None


def rows_of(file: Path, part: Part, text: str | None, id: str | None) -> Rows | None:
    """What a part holds; None where the file is no longer the one that it is a part of."""
    if file.suffix.lower() == ".parquet":
        return _parquet_rows(file, part, text, id)
    head, _ = _header(file)
    if head != part.head or file.stat().st_size < part.stop:
        return None
    with file.open("rb") as opened:
        first = opened.readline()
        opened.seek(part.start)
        body = opened.read(part.stop - part.start)
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
    try:
        names = next(csv.reader([first.decode("utf-8-sig")], delimiter=delimiter))
        text_body = io.StringIO(body.decode(), newline="")
        records = [row for row in csv.reader(text_body, delimiter=delimiter) if row]
    except (UnicodeDecodeError, csv.Error, StopIteration) as error:
        raise BadFile(f"{file} is not a table in UTF-8: {error}") from error
    for row in records:
        if len(row) != len(names):
            raise BadFile(f"{file} has a row of {len(row)} cells under {len(names)} columns")
    return _as_samples(file, names, records, text, id)


def _as_samples(
    file: Path, names: Sequence[str], records: Sequence[Sequence[str]], text: str | None, id: str | None
) -> Rows:
    text_column = usual.column(file, names, text, usual.TEXTS)
    id_column = usual.column(file, names, id, usual.IDS)
    called = None if id_column is None else [row[names.index(id_column)] for row in records]
    if text_column is not None:
        return Rows([row[names.index(text_column)] for row in records], called)
    rest = [at for at, name in enumerate(names) if name != id_column and name not in usual.LABELS]
    try:
        numbers = [[float(row[at]) for at in rest] for row in records]
    except ValueError as error:
        has = f"it has {', '.join(names)}"
        raise BadFile(f"{file} has no column of text ({', '.join(usual.TEXTS)}); {has}: {error}") from None
    return Rows(np.array(numbers, np.float32).reshape(len(records), len(rest)), called)


def _header(file: Path) -> tuple[str | None, int]:
    """The digest of the first line and where it ends; None while it is not whole."""
    with file.open("rb") as opened:
        line = opened.readline(_MOST_BYTES)
    if not line.endswith(b"\n"):
        return None, 0
    return hashlib.sha256(line).hexdigest()[:16], len(line)


def _records(file: Path, start: int) -> list[bytes]:
    """Whole records from a place on, a few: cells in quotes may hold ends of lines; the last may be half."""
    records: list[bytes] = []
    size = 0
    with file.open("rb") as opened:
        opened.seek(start)
        record = b""
        while len(records) < MOST_ROWS and (line := opened.readline(_MOST_BYTES)).endswith(b"\n"):
            record += line
            if len(record) + size > _MOST_BYTES and records:
                break
            if record.count(b'"') % 2 == 0:
                records.append(record)
                size += len(record)
                record = b""
    return records


# -- parquet ---------------------------------------------------------------------------------------------------


def _parquet(file: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise BadFile(f"{file}: reading parquet needs pyarrow (pip install 'cual[parquet]')") from error
    try:
        return cast(Any, pq).ParquetFile(file)
    except (pa.ArrowInvalid, OSError):
        return None  # half written: it is looked at again


def _schema_digest(opened: Any) -> str:
    return hashlib.sha256(str(opened.schema_arrow.names).encode()).hexdigest()[:16]


def _new_rows(file: Path, name: str, before: Part | None) -> Part | None:
    opened = _parquet(file)
    if opened is None:
        return None
    head, n = _schema_digest(opened), int(opened.metadata.num_rows)
    start = before.stop if before is not None and before.head == head and before.stop <= n else 0
    stop = min(n, start + MOST_ROWS)
    return Part(name, head, start, stop) if stop > start else None


def _parquet_rows(file: Path, part: Part, text: str | None, id: str | None) -> Rows | None:
    opened = _parquet(file)
    if opened is None or _schema_digest(opened) != part.head or opened.metadata.num_rows < part.stop:
        return None
    names: list[str] = opened.schema_arrow.names
    text_column = usual.column(file, names, text, usual.TEXTS)
    id_column = usual.column(file, names, id, usual.IDS)
    rows = slice(part.start, part.stop)
    if text_column is None:
        from cual.data.parquet import read_parquet

        table = read_parquet(file, ids=id)
        called = None if table.ids is None else [str(table.ids[row]) for row in range(part.start, part.stop)]
        return Rows(np.asarray(table.X[rows], np.float32), called)
    wanted = [name for name in (text_column, id_column) if name is not None]
    part_table = opened.read(columns=wanted).slice(part.start, part.stop - part.start)
    texts = ["" if value is None else str(value) for value in part_table.column(text_column).to_pylist()]
    called = None
    if id_column is not None:
        called = [str(value) for value in part_table.column(id_column).to_pylist()]
    return Rows(texts, called)
