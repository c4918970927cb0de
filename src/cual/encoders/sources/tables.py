"""Tables of text: CSV, TSV, JSONL and parquet, also compressed. What a row means is said in `items`."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from cual.data import columns as usual
from cual.data.columns import column
from cual.encoders.sources.items import LONGEST_TEXT, Columns, Source, text_items
from cual.errors import BadFile, DamagedFile

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".pq")
MOST_BYTES = 4 * 2**30
"""Of a table after decompression."""


@dataclass(frozen=True)
class Found:
    """The columns of a table, and which of them hold what."""

    names: list[str]
    text: str
    label: str | None
    id: str | None


def text_table(path: Path, columns: Columns | None = None) -> Source:
    """Rows of a CSV, TSV, JSONL or parquet file with a column of text, and of labels and ids if it has them."""
    rows = list(_rows(path))
    found = _found(path, rows, columns or Columns())
    return Source(path, "text", text_items(path, rows, found.text, found.label, found.id))


def table_columns(path: Path, columns: Columns | None = None) -> Found:
    """The columns of a CSV or TSV file; only its first row is read."""
    return _found(path, list(islice(_rows(path), 1)), columns or Columns())


def _found(path: Path, rows: Sequence[dict[str, Any]], columns: Columns) -> Found:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = column(path, names, columns.text, usual.TEXTS)
    if text is None:
        has = f"it has {', '.join(names)}" if names else "it has no rows"
        raise BadFile(f"{path} has no column of text ({', '.join(usual.TEXTS)}); {has}")
    label = column(path, names, columns.label, usual.LABELS)
    return Found(names, text, label, column(path, names, columns.id, usual.IDS))


def holds_text(path: Path) -> bool:
    """Whether a parquet file is a table of text, and not one of features."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema: Any = cast(Any, pq).read_schema(path)
    except (pa.ArrowInvalid, OSError):
        return False
    vectors = any(pa.types.is_nested(f.type) for f in schema)
    return not vectors and any(n in usual.TEXTS for n in schema.names)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        yield from _parquet_rows(path)
        return
    try:
        with gzip.open(path, "rb") if name.endswith(".gz") else path.open("rb") as raw:
            text = io.TextIOWrapper(cast(IO[bytes], _Limited(raw, path)), encoding="utf-8-sig", newline="")
            if ".jsonl" in name:
                yield from _json_rows(path, text)
            else:
                yield from _csv_rows(path, text, "\t" if ".tsv" in name else ",")
    except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedFile(f"{path} is not a whole table in UTF-8: {error}") from error


def _csv_rows(path: Path, text: IO[str], mark: str) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(LONGEST_TEXT)
    for row in csv.DictReader(text, delimiter=mark, skipinitialspace=True):
        if None in row or None in row.values():
            raise BadFile(f"{path}: a row has more or fewer columns than the first line: {str(row)[:200]}")
        yield row


def _json_rows(path: Path, text: IO[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DamagedFile(f"{path}, line {number}: {error}") from error
        if not isinstance(row, dict):
            raise BadFile(f'{path}, line {number}: expected an object like {{"text": …}}, not {line[:60]!r}')
        yield cast(dict[str, Any], row)


class _Limited(io.RawIOBase):
    """A file that refuses to give more than `MOST_BYTES`: a small archive may unpack to anything."""

    def __init__(self, raw: Any, path: Path) -> None:
        self._raw, self._path, self._left = raw, path, MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise BadFile(f"{self._path} unpacks to more than {MOST_BYTES:,} bytes")
        buffer[: len(data)] = data
        return len(data)


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = cast(Any, pq).ParquetFile(path)
        simple = [f.name for f in table.schema_arrow if not pa.types.is_nested(f.type)]
        for batch in table.iter_batches(columns=simple):
            yield from batch.to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedFile(f"{path} is not a whole parquet file: {error}") from error
