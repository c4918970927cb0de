"""What users have: folders of images, tables of text, Hugging Face datasets on disk. No encoding here."""

import csv
import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from cual.encoders.base import Kind
from cual.encoders.images import SUFFIXES, open_image
from cual.errors import BadFile, BadImage, DamagedFile
from cual.types import Label

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".pq")
TEXT_COLUMNS, LABEL_COLUMNS, ID_COLUMNS = (
    ("text", "sentence", "utterance"),
    ("label", "class", "y"),
    ("id", "ids"),
)
IMAGE_COLUMNS = ("image", "img")
LONGEST_TEXT = 10**6
MOST_BYTES = 4 * 2**30
"""Of a table after decompression."""


@dataclass(frozen=True)
class Item:
    """One image or text, not yet loaded."""

    id: Label
    load: Callable[[int], Any]
    """Called with the shorter side that an image needs; raises `BadImage`."""
    label: Label | None = None
    source: str | None = None
    stamp: str | None = None
    """Changes when the source changes."""


@dataclass(frozen=True)
class Source:
    """All items of a folder or file."""

    path: Path
    kind: Kind
    items: Sequence[Item]

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Columns:
    """Columns of a table; looked for under their usual names when not given."""

    text: str | None = None
    label: str | None = None
    id: str | None = None


def open_source(path: str | Path, columns: Columns | None = None) -> Source:
    """The items of a folder of images, a table of text, or a Hugging Face dataset on disk."""
    path, columns = Path(path), columns or Columns()
    if not path.exists():
        raise BadFile(f"{path}: no such file or folder")
    if path.is_dir():
        if (path / "state.json").is_file() and (path / "dataset_info.json").is_file():
            return hugging_face_dataset(path, columns)
        return image_folder(path)
    if path.name.lower().endswith(TABLES):
        return text_table(path, columns)
    raise BadFile(f"{path} is neither a folder of images nor a table of text ({', '.join(TABLES)})")


def image_folder(path: Path) -> Source:
    """Images below a folder, in order of their names. The first folder below it is the label: DIR/cat/1.jpg."""
    items: list[Item] = []
    for folder, inside, files in os.walk(path):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for name in sorted(files):
            if name.startswith(".") or Path(name).suffix.lower() not in SUFFIXES:
                continue
            file = Path(folder) / name
            relative = file.relative_to(path)
            label = relative.parts[0] if len(relative.parts) > 1 else None
            try:
                found = file.stat()
                stamp = f"{found.st_size}:{found.st_mtime_ns}"
            except OSError:  # a link into nowhere: whoever loads it is told
                stamp = None
            items.append(Item(relative.as_posix(), _Opened(file), label, str(file), stamp))
    if not items:
        raise BadFile(f"{path} holds no images ({', '.join(sorted(SUFFIXES))})")
    return Source(path, "image", items)


@dataclass(frozen=True)
class _Opened:
    file: Path

    def __call__(self, shorter: int) -> Any:
        return open_image(self.file, shorter)


@dataclass(frozen=True)
class _Said:
    text: str

    def __call__(self, shorter: int) -> str:
        return self.text


def text_table(path: Path, columns: Columns | None = None) -> Source:
    """Rows of a CSV, TSV, JSONL or parquet file with a column of text, and of labels and ids if it has them."""
    columns = columns or Columns()
    rows = list(_rows(path))
    names = list(rows[0]) if rows else []
    text = _column(path, names, columns.text, TEXT_COLUMNS)
    if text is None:
        raise BadFile(f"{path} has no column of text ({', '.join(TEXT_COLUMNS)}); it has {', '.join(names)}")
    label = _column(path, names, columns.label, LABEL_COLUMNS)
    key = _column(path, names, columns.id, ID_COLUMNS)
    return Source(path, "text", [_text_item(path, i, row, text, label, key) for i, row in enumerate(rows)])


def _text_item(path: Path, i: int, row: dict[str, Any], text: str, label: str | None, key: str | None) -> Item:
    said = row[text]
    if not isinstance(said, str) or len(said) > LONGEST_TEXT:
        told = f"{len(said):,} characters" if isinstance(said, str) else repr(said)
        raise BadFile(f"{path}, row {i}: the text is {told}; expected up to {LONGEST_TEXT:,} characters")
    stamp = hashlib.sha256(said.encode(errors="replace")).hexdigest()[:16]
    return Item(i if key is None else row[key], _Said(said), _label(row[label]) if label else None, None, stamp)


def _label(value: Any) -> Label | None:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool)
        else str(value)
        if value not in (None, "")
        else None
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        yield from _parquet_rows(path)
        return
    try:
        with gzip.open(path, "rb") if name.endswith(".gz") else path.open("rb") as raw:
            text = io.TextIOWrapper(cast(IO[bytes], _Limited(raw, path)), encoding="utf-8-sig", newline="")
            if ".jsonl" in name:
                yield from (json.loads(line) for line in text if line.strip())
                return
            csv.field_size_limit(LONGEST_TEXT)
            for row in csv.DictReader(text, delimiter="\t" if ".tsv" in name else ","):
                if None in row or None in row.values():
                    raise BadFile(
                        f"{path}: a row has more or fewer columns than the first line: {str(row)[:200]}"
                    )
                yield row
    except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile, EOFError, json.JSONDecodeError) as error:
        raise DamagedFile(f"{path} is not a whole table in UTF-8: {error}") from error


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


def _column(path: Path, names: Sequence[str], given: str | None, usual: Sequence[str]) -> str | None:
    if given is not None and given not in names:
        raise BadFile(f"{path} has no column {given!r}; it has {', '.join(names)}")
    return given or next((n for n in usual if n in names), None)


def holds_text(path: Path) -> bool:
    """Whether a parquet file is a table of text, and not one of features."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema: Any = cast(Any, pq).read_schema(path)
    except (pa.ArrowInvalid, OSError):
        return False
    vectors = any(pa.types.is_nested(f.type) for f in schema)
    return not vectors and any(n in TEXT_COLUMNS for n in schema.names)


def hugging_face_dataset(path: Path, columns: Columns | None = None) -> Source:
    """A dataset that `datasets.Dataset.save_to_disk` wrote: a column of text or images, and of labels."""
    columns = columns or Columns()
    table, told = _arrow(path)
    names: list[str] = table.column_names
    label = _column(path, names, columns.label, LABEL_COLUMNS)
    key = _column(path, names, columns.id, ID_COLUMNS)
    text = _column(path, names, columns.text, TEXT_COLUMNS)
    image = None if columns.text else next((n for n in IMAGE_COLUMNS if n in names), None)
    few = table.select([n for n in (label, key, text) if n is not None])
    rows: list[dict[str, Any]] = few.to_pylist() if few.num_columns else [{}] * table.num_rows
    classes = (told.get(label or "") or {}).get("names")
    if label is not None and classes:
        rows = [{**row, label: classes[row[label]]} for row in rows]
    if image is not None:
        stamp = f"{(path / 'state.json').stat().st_mtime_ns}"
        column = table.column(image)
        return Source(
            path,
            "image",
            [
                Item(
                    i if key is None else row[key],
                    _Cell(column, i),
                    _label(row[label]) if label else None,
                    f"{path}, row {i}",
                    stamp,
                )
                for i, row in enumerate(rows)
            ],
        )
    if text is None:
        raise BadFile(f"{path} has no column of text or images; it has {', '.join(names)}")
    return Source(path, "text", [_text_item(path, i, row, text, label, key) for i, row in enumerate(rows)])


@dataclass(frozen=True)
class _Cell:
    """An image inside a table that stays on disk."""

    column: Any
    row: int

    def __call__(self, shorter: int) -> Any:
        held = self.column[self.row].as_py()
        data = held.get("bytes") if isinstance(held, dict) else held
        if not isinstance(data, bytes):
            raise BadImage("the table holds no bytes of it")
        return open_image(io.BytesIO(data), shorter)


def _arrow(path: Path) -> tuple[Any, dict[str, Any]]:
    """The table of a Hugging Face dataset, memory-mapped, and what is told of its columns."""
    import pyarrow as pa

    try:
        told = json.loads((path / "dataset_info.json").read_text(encoding="utf-8"))
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        files = [str(f["filename"]) for f in state["_data_files"]]
        tables: list[Any] = []
        for name in files:
            if Path(name).name != name:
                raise DamagedFile(f"{path} names a file outside of it: {name}")
            tables.append(pa.ipc.open_stream(pa.memory_map(str(path / name))).read_all())
        return pa.concat_tables(tables), told.get("features") or {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowInvalid) as error:
        if isinstance(error, BadFile):
            raise
        raise DamagedFile(f"{path} is not a whole Hugging Face dataset: {error!r}") from error
