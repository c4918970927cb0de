"""Questions as a file to be filled in: CSV, JSON lines, or a folder of links. Answers are read in `answers`.

In a folder a link is moved into the folder of its class. Only names are looked at: no link is ever followed.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cual.cli.answers import CANNOT_TELL, Line
from cual.cli.contents import Contents
from cual.cli.output import check_free, check_parent
from cual.data.labels import ClassNames
from cual.errors import BadFile, BadImage, BadLabels, BadOption
from cual.export.base import check_folder, new_folder
from cual.export.links import Names, make_link
from cual.export.text import csv_lines, json_lines, unmarked
from cual.loop.adaptation import Query
from cual.storage import write_bytes
from cual.types import Label

COLUMNS = ("id", "label", "suggestion", "zone", "score", "round")
LIST = "questions.csv"
"""In a folder of links: which link is which sample."""
UNKNOWN = "_cannot tell"
"""The folder of samples of which nobody can tell the class."""
MOST_FOLDERS = 200
"""Classes that get a folder to move links into; people make the others themselves."""


def check_output(path: Path, force: bool) -> None:
    """Refuse what cannot be written, before the work; what is filled in already is not replaced by mistake."""
    if _is_folder(path):
        check_parent(path)
        check_folder(path)
    else:
        check_free(path, force)


def write_questions(path: Path, query: Query, names: ClassNames, contents: Contents) -> None:
    """Write the open questions of a round; what the name ends in says how."""
    if _is_folder(path):
        return _write_folder(path, query, names, contents)
    text = [_text(contents, sample) for sample in query.ids]
    file = [contents.file(sample) for sample in query.ids]
    more = {"text": text, "file": [None if f is None else str(f) for f in file]}
    kept = {name: values for name, values in more.items() if any(v is not None for v in values)}
    rows = [(*row, *beside) for row, *beside in zip(_rows(query), *kept.values(), strict=True)]
    columns = (*COLUMNS, *kept)
    if path.suffix.lower() == ".csv":
        # Excel takes a CSV for UTF-8 only where it begins with this mark.
        write_bytes(path, ("\ufeff" + csv_lines([columns, *rows])).encode("utf-8", "backslashreplace"))
    else:
        write_bytes(path, json_lines(columns, rows).encode("utf-8", "backslashreplace"))
    return None


def _is_folder(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix and suffix not in (".csv", ".jsonl"):
        raise BadOption(f"{path}: questions are written as .csv, as .jsonl, or as a folder without a suffix")
    return not suffix


def _rows(query: Query) -> list[tuple[Any, ...]]:
    columns = zip(query.ids, query.suggestions, query.zones, query.scores, strict=True)
    return [
        (sample, None, guess, zone, round(score, 6), query.round + 1) for sample, guess, zone, score in columns
    ]


def _text(contents: Contents, sample: Label) -> str | None:
    content = contents.of(sample)
    try:
        return None if content is None or content.text is None else content.text()
    except BadImage:
        return None


def _write_folder(path: Path, query: Query, names: ClassNames, contents: Contents) -> None:
    files = {sample: contents.file(sample) for sample in query.ids}
    missing = [sample for sample, file in files.items() if file is None]
    if missing:
        raise BadOption(
            f"{path}: the sample {missing[0]!r} has no file that a link could lead to; write .csv or .jsonl"
        )
    with new_folder(path) as folder:
        called = Names({LIST.casefold(), UNKNOWN.casefold()})
        rows: list[tuple[Any, ...]] = []
        for sample, file, row in zip(files, files.values(), _rows(query), strict=True):
            assert file is not None
            text = str(sample)
            link = called.new(text if text.lower().endswith(file.suffix.lower()) else f"{text}{file.suffix}")
            make_link(folder / link, file.resolve())
            rows.append((link, *row))
        (folder / LIST).write_text(
            csv_lines([("link", *COLUMNS), *rows]), encoding="utf-8", errors="backslashreplace", newline=""
        )
        for name in [UNKNOWN, *list(_folders(names))[:MOST_FOLDERS]]:
            if not (folder / name).exists():  # a link that is called as a class is
                (folder / name).mkdir()


def _folders(names: ClassNames) -> dict[str, Label]:
    """What the folder of each class is called, and the class."""
    called = Names({LIST.casefold(), UNKNOWN.casefold()})
    return {called.new(str(name)): name for name in names.names}


def read_folder(path: Path, names: ClassNames) -> list[Line]:
    """What people said by moving links into folders, as lines of answers; what was not moved is none."""
    listed = _links(path)
    class_of = {**{folder: str(label) for folder, label in _folders(names).items()}, UNKNOWN: CANNOT_TELL}
    lines: dict[str, Line] = {}
    for folder in sorted(p for p in path.iterdir() if p.is_dir() and not p.is_symlink()):
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.name not in listed:
                raise BadFile(f"{entry}: no question was written under this name; {LIST} lists them")
            sample, number = listed[entry.name]
            label = class_of.get(folder.name, folder.name)
            line = Line(number, sample, label, skipped=folder.name == UNKNOWN)
            if lines.setdefault(sample, line) != line:
                raise BadLabels(f"{entry}: {sample!r} lies in another folder as well")
    return list(lines.values())


def _links(path: Path) -> dict[str, tuple[str, int]]:
    """The sample of each link, and its line in the list."""
    file = path / LIST
    if not file.is_file():
        raise BadFile(f"{path} is no folder of questions: it has no {LIST}")
    with file.open(encoding="utf-8-sig", newline="") as text:
        reader: csv.DictReader[str] = csv.DictReader(text)
        wanted: Sequence[str] = reader.fieldnames or ()
        if not {"link", "id"} <= set(wanted):
            raise BadFile(f"{file} has no columns link and id")
        return {unmarked(row["link"]): (row["id"], reader.line_num) for row in reader}
