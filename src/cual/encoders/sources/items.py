"""What a source consists of: items that are not yet loaded, with their ids, labels and stamps."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cual.encoders.base import Kind
from cual.errors import BadFile, BadImage
from cual.types import Label

TEXT_COLUMNS = ("text", "sentence", "utterance")
LABEL_COLUMNS = ("label", "class", "y")
ID_COLUMNS = ("id", "ids")
LONGEST_TEXT = 10**6


@runtime_checkable
class Undecoded(Protocol):
    """How an image is loaded that can also be had as it lies there, for whoever decodes it elsewhere."""

    def __call__(self, shorter: int) -> Any: ...

    def raw(self) -> Path | bytes: ...


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


def column(path: Path, names: Sequence[str], given: str | None, usual: Sequence[str]) -> str | None:
    """The column that was asked for, or the first that has a usual name."""
    if given is not None and given not in names:
        raise BadFile(f"{path} has no column {given!r}; it has {', '.join(names)}")
    return given or next((n for n in usual if n in names), None)


def text_items(
    path: Path, rows: Sequence[Mapping[str, Any]], text: str, label: str | None, key: str | None
) -> list[Item]:
    """One item for each row of a table."""
    ids = row_ids(path, rows, key)
    labels = [as_label(row.get(label)) if label else None for row in rows]
    return [
        Item(sample, Text(row.get(text)), said, stamp=_stamp(row.get(text), said))
        for sample, row, said in zip(ids, rows, labels, strict=True)
    ]


@dataclass(frozen=True)
class Text:
    """The text of a row, if it is one."""

    said: Any

    def __call__(self, shorter: int) -> str:
        if not isinstance(self.said, str):
            raise BadImage(f"there is no text but {self.said!r}"[:200])
        if len(self.said) > LONGEST_TEXT:
            raise BadImage(f"its {len(self.said):,} characters are more than the {LONGEST_TEXT:,} allowed")
        # Half a surrogate pair, which JSON can hold, is no character that a tokenizer takes.
        return self.said.encode(errors="replace").decode()


def _stamp(said: Any, label: Label | None) -> str:
    """Of text and label: a row whose label was corrected must not be taken from the cache with the old one."""
    return hashlib.sha256(f"{label!r} {said}".encode(errors="replace")).hexdigest()[:16]


def row_ids(path: Path, rows: Sequence[Mapping[str, Any]], key: str | None) -> list[Label]:
    """The ids of a table's rows: their numbers, or what a column says, all as numbers or all as names."""
    if key is None:
        return list(range(len(rows)))
    values = [row.get(key) for row in rows]
    bare = next((i for i, value in enumerate(values) if value is None or value == ""), None)
    if bare is not None:
        raise BadFile(f"{path}: row {bare} has no id (column {key!r})")
    if all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in values):
        return [int(v) for v in values if v is not None]
    return [readable(str(v)) for v in values]


def as_label(value: Any) -> Label | None:
    """A label as a whole number or a name; None where there is none.

    >>> as_label(3), as_label(3.0), as_label("cat"), as_label(""), as_label(float("nan"))
    (3, 3, 'cat', None, None)
    """
    if value is None or value == "" or value != value:  # only NaN is not itself
        return None
    if isinstance(value, float) and value.is_integer():  # what pandas makes of numbers with gaps
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return readable(str(value))


def readable(text: str) -> str:
    r"""Text that every file can hold: bytes of a name that are no UTF-8 are written out.

    >>> readable(b"caf\xe9.jpg".decode(errors="surrogateescape"))
    'caf\\xe9.jpg'
    """
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return text.encode(errors="replace").decode()
