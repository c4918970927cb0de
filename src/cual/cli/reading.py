"""From what people type to what the library takes: budgets, options of a method, devices, answers."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cual import options
from cual.data import columns
from cual.data.labels import SKIP, Answer, ClassNames, read_label
from cual.errors import BadBudget, BadFile, BadLabels, BadOption
from cual.export.text import unmarked
from cual.types import Label


def read_budget(text: str) -> float | int:
    """A whole number is a number of labels, anything with a point or an exponent a share of the pool.

    >>> read_budget("20"), read_budget("0.0125"), read_budget("1.0")
    (20, 0.0125, 1.0)
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise BadBudget(f"--budget takes a number of labels (20) or a share of the pool (0.0125), not {text!r}")


def check_device(device: str) -> str:
    """The device, if this machine has it."""
    return str(options.device(device))


def read_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options of a method from ``name=value`` texts; each dot reaches into a part.

    >>> read_options(["rounds=4", "then=top", "believe.alpha=0.1", "learner.uncertainty.variance=0.9"])
    {'rounds': 4, 'then': 'top', 'believe': {'alpha': 0.1}, 'learner': {'uncertainty': {'variance': 0.9}}}

    A part may be named and changed, in any order:

    >>> read_options(["head.shrink=1", "head=ridge"])
    {'head': {'shrink': 1, 'name': 'ridge'}}
    """
    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        *parts, name = key.split(".")
        if not equals or not all([*parts, name]):
            raise BadOption(f"--option takes name=value, for example believe.alpha=0.1, not {text!r}")
        inner = given
        for part in parts:
            inner[part] = _part_options(part, inner.get(part, {}))
            inner = inner[part]
        read = _read_value(value)
        before = inner.get(name)
        inner[name] = {**before, **_part_options(name, read)} if isinstance(before, dict) else read
    return given


def _read_value(text: str) -> Any:
    """JSON where it is that, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _part_options(part: str, given: Any) -> dict[str, Any]:
    """What is given for a part, as options by name: a plain name is one of them."""
    return {"name": given} if isinstance(given, str) else options.named(part, given)


class Recorded(NamedTuple):
    """The answers of a file, and the lines of it that cannot be used."""

    answers: dict[Label, Answer]
    unknown: list[int]
    """Lines whose id the pool does not have: one file may serve many pools."""
    invalid: dict[int, str]
    """What is wrong with others."""


def read_answers(path: Path, names: ClassNames, ids: Sequence[Label]) -> Recorded:
    """Recorded answers: a CSV with columns of ids and of labels; an empty label means "cannot tell".

    What `cual predict` and `cual export` wrote is read back as it was: of names that a spreadsheet would take
    for formulas the apostrophe in front is taken away. Lines that cannot be used are told. That none can be, or
    that two contradict each other, is an error.
    """
    of_pool = {str(sample): sample for sample in ids}
    recorded = Recorded({}, [], {})
    for line, sample_text, label_text in _rows(path):
        sample = of_pool.get(sample_text, of_pool.get(unmarked(sample_text)))
        if sample is None:
            recorded.unknown.append(line)
            continue
        if label_text is None:
            recorded.invalid[line] = "no label column; leave it empty (id,) to skip"
            continue
        try:
            text = label_text if label_text in names else unmarked(label_text)
            answer = read_label(text, names) if text else SKIP
        except BadLabels as error:
            recorded.invalid[line] = str(error)
            continue
        if recorded.answers.setdefault(sample, answer) != answer:
            raise BadLabels(f"{path}, line {line}: id {sample_text!r} has another label further up")
    if not recorded.answers and recorded.invalid:
        line, why = next(iter(recorded.invalid.items()))
        raise BadLabels(f"{path}, line {line}: {why}")
    if not recorded.answers:
        raise BadLabels(f"{path} names no sample of the pool, whose ids are like {ids[0]!r}")
    return recorded


def _rows(path: Path) -> Iterable[tuple[int, str, str | None]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        try:
            names = list(reader.fieldnames or ())
            ids = columns.column(path, names, None, columns.IDS)
            labels = columns.column(path, names, None, columns.LABELS)
            if ids is None or labels is None:
                missing = [name for name, there in (("id", ids), ("label", labels)) if there is None]
                raise BadFile(f"{path} has no column {' and no column '.join(missing)}; it needs id,label")
            for row in reader:
                label = row[labels]
                yield reader.line_num, row[ids], None if label is None else label.strip()
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadFile(f"{path} is not a CSV file in UTF-8: {error}") from error
