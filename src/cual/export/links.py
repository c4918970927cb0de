"""Labels as a folder of links: one folder per class, with links to the files of its samples. Nothing is copied.

Names of classes and samples come from people and files, so none of them is trusted: a link is always made in
the folder of its class, and leads to a file of the sources or nowhere.
"""

import errno
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cual.errors import BadOption, Unavailable
from cual.export.base import Labels, new_folder
from cual.export.text import csv_lines
from cual.loop.labels import LabelRow

FILE = "labels.csv"
"""Beside the folders: every label, with the link that was made for it."""
LONGEST = 100
"""Bytes of a name."""
_NO_PRIVILEGE = 1314
"""What Windows answers whoever may not make symbolic links."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP)
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def safe_name(text: str) -> str:
    """A name that is one on every file system, and none but that.

    >>> safe_name("../../etc/passwd"), safe_name("Sea, Lake"), safe_name(".."), safe_name("nul.jpg")
    ('_.._etc_passwd', 'Sea, Lake', '_', '_nul.jpg')
    """
    printable = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    name = _UNSAFE.sub("_", printable).lstrip(". ").rstrip(". ")
    stem, dot, suffix = name.rpartition(".")
    if len(name.encode()) > LONGEST:
        keep = f"{dot}{suffix}" if stem and len(suffix.encode()) <= 10 else ""
        name = name.encode()[: LONGEST - len(keep.encode())].decode(errors="ignore").rstrip(". ") + keep
    return f"_{name}" if not name or _RESERVED.fullmatch(name) else name


def under(folder: Path) -> Callable[[LabelRow], Path | None]:
    """Where the file of a sample is whose id is its path below `folder`; none where that leads out of it.

    Links in the folder that lead out of it are not followed either.
    """
    root = folder.resolve(strict=True)

    def find(row: LabelRow) -> Path | None:
        try:
            file = (root / str(row.sample)).resolve(strict=True)
            return file if file.is_relative_to(root) and file.is_file() else None
        except (OSError, RuntimeError, ValueError):
            return None

    return find


@dataclass
class Names:
    """Names in one folder, no two alike, also where upper and lower case are one."""

    taken: set[str] = field(default_factory=set[str])

    def new(self, text: str) -> str:
        """
        >>> names = Names()
        >>> names.new("a/1.jpg"), names.new("a:1.jpg"), names.new("A_1.jpg")
        ('a_1.jpg', 'a_1 2.jpg', 'A_1 3.jpg')
        """
        name = safe_name(text)
        stem, suffix = os.path.splitext(name)
        number = 1
        while _key(name) in self.taken:
            number += 1
            name = f"{stem} {number}{suffix}"
        self.taken.add(_key(name))
        return name


def _key(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


@dataclass(frozen=True)
class Written:
    """What a folder of links holds."""

    links: int
    without_file: int
    """Samples whose files were not found; they are in `FILE` all the same."""


def write_links(labels: Labels, path: Path, file_of: Callable[[LabelRow], Path | None]) -> Written:
    """Make the folder, which must be new or empty; whole or not at all.

    Parameters
    ----------
    file_of
        The file of a row's sample; None where there is none.
    """
    counted = {"links": 0, "missing": 0}
    with new_folder(path) as folder:
        with (folder / FILE).open("w", encoding="utf-8", errors="backslashreplace", newline="") as table:
            table.write(csv_lines([("link", *labels.names)]))
            classes = _Classes(folder)
            for part in labels.parts():
                links = _linked(part, classes, file_of, counted)
                lines = zip(links, labels.cells(part), strict=True)
                table.write(csv_lines([(link, *cells) for link, cells in lines]))
        if counted["missing"] and not counted["links"]:
            raise BadOption(
                f"none of the {counted['missing']} samples has a file there: sample ids are paths below the "
                "folder of the files"
            )
    return Written(counted["links"], counted["missing"])


def _linked(
    rows: list[LabelRow],
    classes: "_Classes",
    file_of: Callable[[LabelRow], Path | None],
    counted: dict[str, int],
) -> Iterator[str | None]:
    """Make the links of some rows; what they are called."""
    for row in rows:
        link = None
        if row.counts and row.label is not None:
            file = file_of(row)
            link = None if file is None else classes.link(row, file)
            counted["missing" if link is None else "links"] += 1
        yield link


class _Classes:
    """The folders of classes, and what lies in each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = Names({_key(FILE)})
        self._folder_of: dict[object, tuple[str, Names, dict[Path, str]]] = {}

    def link(self, row: LabelRow, file: Path) -> str:
        """Link to a file from the folder of a class, once; the link, as a path below the whole folder."""
        if row.label not in self._folder_of:
            name = self._names.new(str(row.label))
            (self._folder / name).mkdir()
            self._folder_of[row.label] = (name, Names(), {})
        name, inside, linked = self._folder_of[row.label]
        if file not in linked:
            linked[file] = inside.new(_called(row, file))
            make_link(self._folder / name / linked[file], file)
        return f"{name}/{linked[file]}"


def make_link(link: Path, file: Path) -> None:
    """A symbolic link; an error to act on where the system makes none."""
    try:
        link.symlink_to(file)
    except OSError as error:
        if getattr(error, "winerror", None) == _NO_PRIVILEGE or error.errno in _NO_LINKS:
            raise Unavailable(
                f"{link.name}: links cannot be made here ({error.strerror}). On Windows, turn on the developer "
                "mode; or write .csv or .jsonl, which need none"
            ) from error
        raise


def _called(row: LabelRow, file: Path) -> str:
    """A sample's id, with the suffix of its file, by which programs know what it holds."""
    text = str(row.sample)
    return text if text.lower().endswith(file.suffix.lower()) else f"{text}{file.suffix}"
