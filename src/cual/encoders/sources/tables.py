"""Tables of text: CSV, TSV, JSONL and parquet, also compressed. What a row means is said in `items`."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from cual.data import columns as usual
from cual.data.columns import column
from cual.data.plain import MOST_NAMES, PlainColumns, chosen
from cual.data.plain_files import arrow_rows, is_plain
from cual.encoders.sources.items import LONGEST_TEXT, Columns, Most, Source, text_items
from cual.errors import BadFile, DamagedFile

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".pq")
MOST_BYTES = 4 * 2**30
"""Of a table after decompression."""
_AT_ONCE = 256  # rows of a parquet file: each may be a long text that is written down once


@dataclass(frozen=True)
class Found:
    """The columns of a table, and which of them hold what."""

    names: list[str]
    text: str
    label: str | None
    id: str | None


def text_table(path: Path, columns: Columns | None = None, most: Most | None = None) -> Source:
    """Rows of a CSV, TSV, JSONL or parquet file with a column of text, and of labels and ids if it has them.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "intents.csv"
    >>> _ = file.write_text("text,label\\nturn it up,louder\\n")
    >>> source = text_table(file)
    >>> [(item.id, item.label) for item in source.items]
    [(0, 'louder')]
    """
    names = _names(_rows(path) if _is_json(path) else islice(_rows(path), 1))
    found = _found(path, names, columns or Columns())
    return Source(path, "text", text_items(path, _rows(path), found.text, found.label, found.id, most))


def table_columns(path: Path, columns: Columns | None = None) -> Found:
    """The columns of a CSV or TSV file; only its first row is read.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "intents.csv"
    >>> _ = file.write_text("utterance,intent,colour\\nturn it up,louder,red\\n")
    >>> table_columns(file, Columns(label="intent"))
    Found(names=['utterance', 'intent', 'colour'], text='utterance', label='intent', id=None)
    """
    return _found(path, _names(islice(_rows(path), 1)), columns or Columns())


def plain_text_columns(
    path: Path, columns: Columns | None = None, wanted: Sequence[str] | None = None
) -> PlainColumns:
    """The columns of a table of text beside text, label and id; rows are read a few at a time.

    Parameters
    ----------
    wanted
        Columns that somebody named; by default all.
    """
    fits: dict[str, bool] = {}
    if _is_parquet(path):
        fits = {field.name: is_plain(field.type) for field in _parquet_schema(path)}
    names = list(fits) or _names(_rows(path) if _is_json(path) else islice(_rows(path), 1))
    found = _found(path, names, columns or Columns())
    own = [name for name in (found.text, found.id) if name is not None]
    candidates = {name: fits.get(name, True) for name in names[:MOST_NAMES]}
    labels = [] if found.label is None else [found.label]
    kept, notes = chosen(path.name, candidates, wanted, taken=own, labels=labels)
    if _is_parquet(path):
        return PlainColumns(kept, notes, lambda: arrow_rows(path, kept))
    return PlainColumns(kept, notes, lambda: ([row.get(name) for name in kept] for row in _rows(path)))


def _names(rows: Iterable[dict[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return list(names)


def _found(path: Path, names: list[str], columns: Columns) -> Found:
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


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith((".parquet", ".pq"))


def _is_json(path: Path) -> bool:
    return ".jsonl" in path.name.lower()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    name = path.name.lower()
    if _is_parquet(path):
        yield from _parquet_rows(path)
        return
    try:
        with gzip.open(path, "rb") if name.endswith(".gz") else path.open("rb") as raw:
            text = io.TextIOWrapper(cast(IO[bytes], _Limited(raw, path)), encoding="utf-8-sig", newline="")
            if _is_json(path):
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


def _parquet_schema(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return cast(Any, pq).read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedFile(f"{path} is not a whole parquet file: {error}") from error


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = cast(Any, pq).ParquetFile(path)
        simple = [f.name for f in table.schema_arrow if not pa.types.is_nested(f.type)]
        for batch in table.iter_batches(columns=simple, batch_size=_AT_ONCE):
            yield from batch.to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedFile(f"{path} is not a whole parquet file: {error}") from error
