"""Hugging Face datasets on disk, as `save_to_disk` writes them. The package `datasets` is not needed."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cual.data import columns as usual
from cual.data.columns import column
from cual.data.dataset_folder import class_names, open_dataset
from cual.data.labels import recorded_label
from cual.data.plain import MOST_NAMES, PlainColumns, chosen
from cual.data.plain_files import AT_ONCE, batch_rows, is_plain
from cual.encoders.images import open_image
from cual.encoders.sources.items import Columns, Item, Source, row_ids, text_items
from cual.errors import BadFile, BadImage, DamagedFile


def split_names(path: Path) -> list[str]:
    """The splits of a folder that holds several datasets; none where it is no such folder."""
    try:
        splits = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        return [str(name) for name in splits]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def hugging_face_dataset(path: Path, columns: Columns | None = None) -> Source:
    """A dataset that `datasets.Dataset.save_to_disk` wrote: a column of text or images, and of labels."""
    columns = columns or Columns()
    table, features = open_dataset(path)
    names: list[str] = table.column_names
    label = column(path, names, columns.label, usual.LABELS)
    key = column(path, names, columns.id, usual.IDS)
    text = column(path, names, columns.text, usual.TEXTS)
    image = None if columns.text else next((n for n in usual.IMAGES if n in names), None)
    few = table.select([n for n in (label, key, text) if n is not None])
    rows: list[dict[str, Any]] = few.to_pylist() if few.num_columns else [{}] * table.num_rows
    if label is not None:
        _name_classes(rows, label, features)
    if image is not None:
        return Source(path, "image", _images(path, table.column(image), rows, label, key))
    if text is None:
        raise BadFile(f"{path} has no column of text or images; it has {', '.join(names)}")
    return Source(path, "text", text_items(path, rows, text, label, key))


def plain_dataset_columns(
    path: Path, columns: Columns | None = None, wanted: Sequence[str] | None = None
) -> PlainColumns:
    """The columns of a dataset beside text, images, labels (whatever they are called) and ids."""
    columns = columns or Columns()
    table, features = open_dataset(path)
    names: list[str] = table.column_names
    given = ((columns.id, usual.IDS), (columns.text, usual.TEXTS))
    own = [found for said, usually in given if (found := column(path, names, said, usually)) is not None]
    labels = [name for name in names if class_names(features, name) is not None or name == columns.label]
    candidates = {name: is_plain(table.schema.field(name).type) for name in names[:MOST_NAMES]}
    kept, notes = chosen(path.name, candidates, wanted, taken=[*own, *usual.IMAGES], labels=labels)

    def rows() -> Iterator[Any]:
        for batch in table.to_batches(max_chunksize=AT_ONCE):
            yield from batch_rows(batch, kept)

    return PlainColumns(kept, notes, rows)


def _images(
    path: Path, cells: Any, rows: list[dict[str, Any]], label: str | None, key: str | None
) -> list[Item]:
    stamp = f"{(path / 'state.json').stat().st_mtime_ns}"
    ids = row_ids(path, [row.get(key) if key else None for row in rows], key)
    return [
        Item(
            sample,
            _Cell(cells, i),
            recorded_label(row[label]) if label else None,
            f"{path}, row {i}",
            stamp,
        )
        for i, (sample, row) in enumerate(zip(ids, rows, strict=True))
    ]


def _name_classes(rows: list[dict[str, Any]], label: str, features: dict[str, Any]) -> None:
    """Put names in place of class numbers; −1, as such datasets have it, is no class."""
    known = class_names(features, label)
    if known is None:
        return
    for i, row in enumerate(rows):
        number = row[label]
        if number is not None and not (isinstance(number, int) and -1 <= number < len(known)):
            raise DamagedFile(f"row {i} is of class {number!r}, but there are {len(known)} classes")
        row[label] = None if number in (None, -1) else known[number]


@dataclass(frozen=True)
class _Image:
    """An image as the cell of a table holds it, in memory."""

    cell: Any

    def __call__(self, shorter: int) -> Any:
        return open_image(io.BytesIO(self.raw()), shorter)

    def raw(self) -> bytes:
        data = self.cell.get("bytes") if isinstance(self.cell, dict) else self.cell
        if not isinstance(data, bytes):
            raise BadImage("the table holds no bytes of it")
        return data


@dataclass(frozen=True)
class _Cell:
    """An image inside a table that stays on disk."""

    column: Any
    row: int

    def __call__(self, shorter: int) -> Any:
        return self.alone()(shorter)

    def raw(self) -> bytes:
        return self.alone().raw()

    def alone(self) -> _Image:
        return _Image(self.column[self.row].as_py())
