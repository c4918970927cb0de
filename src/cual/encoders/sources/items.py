"""What a source consists of: items that are not yet loaded, with their ids, labels and stamps."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cual.data.labels import as_text, recorded_label
from cual.encoders.base import Kind
from cual.errors import BadFile, BadImage, TooLarge
from cual.types import Label

LONGEST_TEXT = 10**6


@runtime_checkable
class Undecoded(Protocol):
    """How an image is loaded that can also be had as it lies there, for whoever decodes it elsewhere."""

    def __call__(self, shorter: int) -> Any: ...

    def raw(self) -> Path | bytes: ...


@runtime_checkable
class Inside(Protocol):
    """How an item is loaded that lies in a larger thing; `alone`, it can be sent to another process."""

    def alone(self) -> Callable[[int], Any]: ...


@dataclass(frozen=True, slots=True)  # there may be a million
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


@dataclass(frozen=True)
class Most:
    """How much of a table is taken, where it is of strangers: a small file may hold very many rows."""

    rows: int = 1_000_000
    """About 400 bytes each, and the text."""
    characters: int = 2**29
    """Of all texts together."""


def text_items(
    path: Path,
    rows: Iterable[Mapping[str, Any]],
    text: str,
    label_column: str | None,
    key: str | None,
    most: Most | None = None,
) -> list[Item]:
    """One item for each row of a table, which is gone through once."""
    cells: list[Any] = []
    labels: list[Label | None] = []
    keys: list[Any] = []
    for row in rows if most is None else _limited(path, rows, text, most):
        cells.append(row.get(text))
        labels.append(recorded_label(row.get(label_column)) if label_column else None)
        keys.append(row.get(key) if key else None)
    return [
        Item(sample, Text(cell), label, stamp=_stamp(cell, label))
        for sample, cell, label in zip(row_ids(path, keys, key), cells, labels, strict=True)
    ]


def _limited(
    path: Path, rows: Iterable[Mapping[str, Any]], text: str, most: Most
) -> Iterable[Mapping[str, Any]]:
    characters = 0
    for number, row in enumerate(rows, 1):
        cell = row.get(text)
        characters += len(cell) if isinstance(cell, str) else 0
        if number > most.rows:
            raise TooLarge(f"{path} has more than {most.rows:,} rows; send it in parts")
        if characters > most.characters:
            raise TooLarge(
                f"the texts of {path} have more than {most.characters:,} characters; send it in parts"
            )
        yield row


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a row, if it is one."""

    cell: Any

    def __call__(self, shorter: int) -> str:
        if not isinstance(self.cell, str):
            raise BadImage(f"there is no text but {self.cell!r}"[:200])
        if len(self.cell) > LONGEST_TEXT:
            raise BadImage(f"its {len(self.cell):,} characters are more than the {LONGEST_TEXT:,} allowed")
        # Half a surrogate pair, which JSON can hold, is no character that a tokenizer takes.
        return self.cell.encode(errors="replace").decode()


def _stamp(text: Any, label: Label | None) -> str:
    """Of text and label: a row whose label was corrected must not be taken from the cache with the old one."""
    return hashlib.sha256(f"{label!r} {text}".encode(errors="replace")).hexdigest()[:16]


def row_ids(path: Path, values: Sequence[Any], key: str | None) -> list[Label]:
    """The ids of a table's rows: their numbers, or what column `key` says, all as numbers or all as names.

    >>> row_ids(Path("pool.csv"), ["7", "8"], "id"), row_ids(Path("pool.csv"), [None, None], None)
    (['7', '8'], [0, 1])
    """
    if key is None:
        return list(range(len(values)))
    bare = next((i for i, value in enumerate(values) if value is None or value == ""), None)
    if bare is not None:
        raise BadFile(f"{path}: row {bare} has no id (column {key!r})")
    if all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in values):
        return [int(v) for v in values if v is not None]
    return [as_text(str(v)) for v in values]
