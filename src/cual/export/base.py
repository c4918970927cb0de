"""What all formats share: the rows to be written, their names, and how a folder gets to its place."""

import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from cual.data.plain import Value
from cual.errors import BadOption
from cual.loop.labels import LabelRow
from cual.registry import Registry

COLUMNS = LabelRow._fields
PREFIX = "columns."
"""So that no column of somebody's table is taken for one of ours."""


@dataclass(frozen=True)
class Labels:
    """Label rows on their way to a file; they can be gone through once."""

    rows: Iterable[LabelRow]
    numbers: frozenset[str] = frozenset()
    """Which of the columns ``sample`` and ``label`` hold whole numbers; else they hold names."""
    more: tuple[str, ...] = ()
    """Further columns, which came with the samples; in a file their names begin with `PREFIX`."""
    beside: Callable[[Sequence[LabelRow]], Iterable[Sequence[Value]]] | None = None
    """The values of further columns, of some rows at a time."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a file of them."""
        return (*COLUMNS, *(f"{PREFIX}{name}" for name in self.more))

    def cells(self, rows: Sequence[LabelRow]) -> list[tuple[Any, ...]]:
        """What stands in these columns, of some of the rows."""
        if self.beside is None:
            return list(rows)
        return [(*row, *more) for row, more in zip(rows, self.beside(rows), strict=True)]

    def parts(self, n: int = 1000) -> Iterator[list[LabelRow]]:
        """The rows, `n` at a time: so many are in memory together."""
        rows = iter(self.rows)
        while part := list(islice(rows, n)):
            yield part


class Format(Protocol):
    """A kind of file."""

    suffix: str
    """How its names end; nothing for a folder."""
    media_type: str
    about: str
    """For people: what it is good for."""

    def check(self) -> None:
        """Raise `Unavailable` where a package is missing: before the work, not after it."""
        ...

    def write(self, labels: Labels, path: Path) -> int:
        """Write a new file or folder, whole or not at all; how many rows it has."""
        ...


formats = Registry[Format]("export format")


def format_of(path: Path) -> str:
    """The format that a file's name says.

    >>> format_of(Path("labels.jsonl"))
    'jsonl'
    """
    for name in formats:
        if formats[name].suffix and path.name.lower().endswith(formats[name].suffix):
            return name
    known = ", ".join(formats[name].suffix for name in formats if formats[name].suffix)
    raise BadOption(f"{path}: say the format, or end the name in one of {known}")


def check_folder(path: Path) -> None:
    """Refuse to write into a folder that holds anything."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise BadOption(f"{path} is no folder; give a new or an empty one")
    if path.exists() and any(path.iterdir()):
        raise BadOption(f"{path} is not empty; give a new or an empty folder")


@contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """A folder beside `path` to be filled, which takes its place when all went well."""
    check_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=path.parent, prefix=f".{path.name}.", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name) / "new"
        folder.mkdir()
        yield folder
        check_folder(path)  # somebody may have put something there meanwhile
        if path.is_dir():
            path.rmdir()  # Windows puts no folder in the place of another, not even of an empty one
        os.replace(folder, path)
