"""Answers that people wrote into a file: CSV, JSON lines, a ledger, exported labels. Asking is elsewhere."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cual.cli.options import Named
from cual.data import columns
from cual.data.labels import SKIP, Answer, ClassNames, near_name, read_label
from cual.errors import BadFile, BadLabels, DamagedFile
from cual.export.text import unmarked
from cual.types import Label

ANSWERS = ("answer", *columns.LABELS)
"""Columns of what was answered: a ledger has `answer`, and `label` is what a person fills in."""
CANNOT_TELL = "?"


class Recorded(NamedTuple):
    """The answers of a file, and the lines of it that cannot be used."""

    answers: dict[Label, Answer]
    unknown: list[int]
    """Lines whose id the pool does not have: one file may serve many pools."""
    invalid: dict[int, str]
    """What is wrong with others."""
    believed: list[int]
    """Lines of exported labels that nobody answered: a belief is not told to the learner as an answer."""
    near: dict[Label, Label]
    """Classes that are new, and the known ones that may be meant."""


class Line(NamedTuple):
    """One line of a file of answers."""

    number: int
    sample: str
    label: str | None
    """As it is written; None where the line is too short to have one."""
    skipped: bool = False
    """Whether it says by itself that somebody could not tell."""
    believed: bool = False


Reading = Callable[[Line], str | None]
"""What a line says: the text of a label, "" for "cannot tell", None for nothing at all."""


def all_said(line: Line) -> str | None:
    """An empty label means "cannot tell": the file is all that there is to say.

    >>> all_said(Line(2, "a.jpg", "owl")), all_said(Line(3, "b.jpg", ""))
    ('owl', '')
    """
    return "" if line.skipped or line.label in ("", CANNOT_TELL) else line.label


def filled_in(line: Line) -> str | None:
    """An empty label means that nobody has answered yet; ? means "cannot tell".

    >>> [filled_in(Line(2, "a.jpg", label)) for label in ("owl", "?", "")]
    ['owl', '', None]
    """
    if line.skipped or line.label == CANNOT_TELL:
        return ""
    return line.label or None


def read_answers(
    path: Path,
    names: ClassNames,
    ids: Iterable[Label],
    given: Named | None = None,
    reading: Reading = all_said,
) -> Recorded:
    """Recorded answers. That none can be used, or that two contradict each other, is an error.

    Parameters
    ----------
    path
        CSV with columns of ids and of labels, or JSON lines: a filled-in file of questions, a ledger (of each
        sample its last answer), exported labels.
    names, ids
        The known classes, and the samples of the pool.
    given
        Columns, where they are not called as usual.
    reading
        What an empty label means.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = file.write_text("id,label\\na.jpg,owl\\nb.jpg,\\nz.jpg,owl\\n")
    >>> recorded = read_answers(file, ClassNames(("Owl",)), ["a.jpg", "b.jpg"])
    >>> recorded.answers, recorded.unknown, recorded.near
    ({'a.jpg': 'owl', 'b.jpg': SKIP}, [4], {'owl': 'Owl'})
    """
    recorded = recorded_of(path, lines_of(path, given or Named()), names, ids, reading)
    if not recorded.answers and reading is all_said:
        like = next(iter(ids), "")
        raise BadLabels(f"{path} names no sample of the pool, whose ids are like {like!r}")
    return recorded


def recorded_of(
    path: Path, lines: Iterable[Line], names: ClassNames, ids: Iterable[Label], reading: Reading
) -> Recorded:
    """What lines come to; `path` is where they are from, for errors."""
    of_pool = {str(sample): sample for sample in ids}
    recorded = Recorded({}, [], {}, [], {})
    for line in lines:
        sample = of_pool.get(line.sample, of_pool.get(unmarked(line.sample)))
        if sample is None:
            recorded.unknown.append(line.number)
        elif line.believed:
            recorded.believed.append(line.number)
        elif line.label is None and not line.skipped:
            recorded.invalid[line.number] = "no label column; leave it empty (id,) to skip"
        else:
            _take(path, line, sample, reading(line), names, recorded)
    if not recorded.answers and recorded.invalid:
        number, why = next(iter(recorded.invalid.items()))
        raise BadLabels(f"{path}, line {number}: {why}")
    return recorded


def _take(
    path: Path, line: Line, sample: Label, text: str | None, names: ClassNames, recorded: Recorded
) -> None:
    if text is None:
        return
    try:
        answer = read_label(text if text in names else unmarked(text), names) if text else SKIP
    except BadLabels as error:
        recorded.invalid[line.number] = str(error)
        return
    if recorded.answers.setdefault(sample, answer) != answer:
        raise BadLabels(f"{path}, line {line.number}: id {line.sample!r} has another label further up")
    near = None if answer is SKIP or answer in names else near_name(str(answer), names)
    if near is not None and answer is not SKIP:
        recorded.near[answer] = near


def lines_of(path: Path, given: Named) -> Iterator[Line]:
    """The lines of a file of answers, whatever its format."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        yield from _json_lines(path, given)
    else:
        yield from _csv_lines(path, given)


def _csv_lines(path: Path, given: Named) -> Iterator[Line]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        try:
            names = list(reader.fieldnames or ())
            ids = columns.column(path, names, _there(given.id, names), columns.IDS)
            labels = columns.column(path, names, _there(given.label, names), columns.LABELS)
            if ids is None or labels is None:
                missing = [name for name, there in (("id", ids), ("label", labels)) if there is None]
                raise BadFile(f"{path} has no column {' and no column '.join(missing)}; it needs id,label")
            for row in reader:
                if row.get("counts") != "0":
                    label = row[labels]
                    text = None if label is None else label.strip()
                    yield Line(reader.line_num, row[ids], text, believed=_is_believed(row))
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadFile(f"{path} is not a CSV file in UTF-8: {error}") from error


def _json_lines(path: Path, given: Named) -> Iterator[Line]:
    try:
        texts = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not a file of JSON lines in UTF-8: {error}") from error
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            row: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DamagedFile(f"{path}, line {number}: {error}") from error
        if not isinstance(row, dict):
            raise BadFile(f'{path}, line {number}: expected an object like {{"id": …, "label": …}}')
        yield from _json_line(path, number, row, given)


def _json_line(path: Path, number: int, row: dict[str, Any], given: Named) -> Iterator[Line]:
    names = list(row)
    ids = columns.column(path, names, _there(given.id, names), columns.IDS)
    labels = columns.column(path, names, _there(given.label, names), ANSWERS)
    if ids is None:
        raise BadFile(f"{path}, line {number}: there is no id")
    label = None if labels is None else row[labels]
    skipped = row.get("skipped") is True
    if row.get("counts") is False or (labels == "answer" and label is None and not skipped):
        return  # overruled, or a question of a ledger that nobody has answered yet
    text = "" if label is None else str(label).strip()
    yield Line(number, str(row[ids]), text if labels or skipped else None, skipped, _is_believed(row))


def _there(name: str | None, names: Sequence[str]) -> str | None:
    """A column that was named for the pool's table, if the file of answers has it, too."""
    return name if name in names else None


def _is_believed(row: dict[str, Any]) -> bool:
    return row.get("source") == "pseudo-label"
