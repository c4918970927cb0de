"""From what people type to what the library takes: budgets, options of a method, devices, labels, answers."""

import csv
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cual.errors import BadBudget, BadFile, BadLabels, BadOption
from cual.heads import heads
from cual.labels import SKIP, Answer, ClassNames
from cual.methods import Method, methods
from cual.types import Label
from cual.uncertainty import uncertainties


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
    """The device, if torch has it."""
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind == "cpu" or (kind == "cuda" and torch.cuda.is_available()):
        return device
    raise BadOption(
        f"there is no device {device!r} here; use cpu" + (" or cuda" if torch.cuda.is_available() else "")
    )


def read_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options of a method from ``name=value`` texts; a dot reaches into options that hold several.

    >>> read_options(["alpha=0.1", "then=top", "head_options.hidden=256"])
    {'alpha': 0.1, 'then': 'top', 'head_options': {'hidden': 256}}
    """
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name, dot, inner = key.partition(".")
        if not equals or not name or (dot and not inner):
            raise BadOption(f"--option takes name=value, for example alpha=0.1, not {text!r}")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        if dot:
            read = {**options.get(name, {}), inner: read}
        _check_type(name, read)
        options[name] = read
    return options


def _check_type(name: str, value: Any) -> None:
    default = getattr(methods["cual"], name, None)  # a name that no method has is `Method.but`'s to refuse
    if default is None or name not in Method.__dataclass_fields__:
        return
    kinds = {float: (float, int), int: int, bool: bool, str: str}.get(type(default), Mapping)
    right = isinstance(value, kinds) and (isinstance(default, bool) or not isinstance(value, bool))
    if not right:
        raise BadOption(f"option {name} is {value!r}, but takes a value like {default!r}")


def read_method(name: str, options: Mapping[str, Any]) -> Method:
    """A named method with some options changed, all of which its parts know."""
    method = methods[name].but(**options)
    parts = (
        ("head_options", f"head {method.head!r}", heads[method.head], method.head_options),
        (
            "uncertainty_options",
            f"uncertainty {method.uncertainty!r}",
            uncertainties[method.uncertainty],
            method.uncertainty_options,
        ),
    )
    for option, owner, part, given in parts:
        known = [p for p in inspect.signature(part).parameters if p not in ("width", "self")]
        unknown = [key for key in given if key not in known]
        if unknown:
            raise BadOption(f"{option}: the {owner} has no {', '.join(unknown)}; it has {', '.join(known)}")
    return method


def read_label(text: str, names: ClassNames) -> Label:
    """A typed label in the type that the known classes have.

    >>> read_label("3", ClassNames((0, 1))), read_label("3", ClassNames(("0", "1")))
    (3, '3')
    """
    if names.names and isinstance(names.names[0], int):
        try:
            return names.check(int(text))
        except ValueError:
            raise BadLabels(
                f"{text!r} is not a whole number, but the known classes are, for example {names.names[0]}"
            ) from None
    return names.check(text)


def read_answers(path: Path, names: ClassNames, ids: Sequence[Label]) -> dict[Label, Answer]:
    """Recorded answers: a CSV with the columns id and label; an empty label means "cannot tell".

    Ids that the pool does not have are left out: one file may serve many pools. That none is known is an error.
    """
    of_pool = {str(sample): sample for sample in ids}
    answers: dict[Label, Answer] = {}
    for line, sample_text, label_text in _rows(path):
        sample = of_pool.get(sample_text)
        if sample is None:
            continue
        try:
            answer = read_label(label_text, names) if label_text else SKIP
        except BadLabels as error:
            raise BadLabels(f"{path}, line {line}: {error}") from None
        if answers.setdefault(sample, answer) != answer:
            raise BadLabels(f"{path}, line {line}: id {sample_text!r} has another label further up")
    if not answers:
        raise BadLabels(f"{path} names no sample of the pool, whose ids are like {ids[0]!r}")
    return answers


def _rows(path: Path) -> Iterable[tuple[int, str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        try:
            missing = {"id", "label"} - set(reader.fieldnames or ())
            if missing:
                raise BadFile(
                    f"{path} has no column {' and no column '.join(sorted(missing))}; it needs id,label"
                )
            for row in reader:
                if row["label"] is None:
                    raise BadFile(
                        f"{path}, line {reader.line_num}: no label column; leave it empty (id,) to skip"
                    )
                yield reader.line_num, row["id"], row["label"].strip()
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadFile(f"{path} is not a CSV file in UTF-8: {error}") from error
