"""What a row of an agent's history says of a change without questions, in words."""

from collections.abc import Callable
from typing import NamedTuple

from cual.cli.output import counted, listed
from cual.types import Row

HOW = {
    "exact": "",
    "trained with replay": "the head was trained with replay, not in closed form",
    "trained again": "the head, or models of classes, were made again from the samples that are kept",
    "but for its spread": "what it said of how classes spread is left in the head",
}


class Told(NamedTuple):
    """A change: the classes that it brought, the labels that it took, and what it was."""

    new: str
    labels: str
    what: str


def told_of(row: Row) -> Told:
    """
    >>> told_of({"change": "merged", "into": "owl", "classes": ["Eule"], "how": "exact", "person": "ada"}).what
    'Eule became part of owl, by ada'
    """
    what = _WORDS[row["change"]](row)
    if row.get("removed_classes"):
        what += f"; nothing is left of {listed([str(name) for name in row['removed_classes']])}"
    if HOW.get(row["how"]):
        what += f"; {HOW[row['how']]}"
    what += f", by {row['person']}" if "person" in row else ""
    what += f": {row['why']}" if "why" in row else ""
    new = listed([str(name) for name in row.get("new_classes", ())])
    return Told(new, str(row["samples"]) if row["change"] == "taught" else "", what)


def _taught(row: Row) -> str:
    parts = [f"taught {counted(row['samples'], 'sample')}"]
    parts += [f"{row['held_out']} of them held out"] if row["held_out"] else []
    parts += [f"{row['replaced']} got another label"] if row["replaced"] else []
    parts += [f"{row['known_before']} were known before"] if row["known_before"] else []
    return ", ".join(parts)


def _forgot(row: Row) -> str:
    whose = " that one person had answered" if row.get("answers_of") else ""
    otherwise = row.get("learned_otherwise", 0)
    stayed = f", {otherwise} learned as others say" if otherwise else ""
    return f"took back {counted(row['samples'], 'sample')}{whose}{stayed}"


def _split(row: Row) -> str:
    parts = listed([f"{name} ({n})" for name, n in row["into"].items()])
    left = f", {counted(row['left'], 'sample')} without a label left in it" if row["left"] else ""
    return f"{row['class']} was split into {parts}, {counted(row['answered'], 'label')} of people{left}"


_WORDS: dict[str, Callable[[Row], str]] = {
    "taught": _taught,
    "forgot": _forgot,
    "split": _split,
    "renamed": lambda row: f"{row['class']} was renamed to {row['to']}",
    "merged": lambda row: f"{listed([str(name) for name in row['classes']])} became part of {row['into']}",
    "removed": lambda row: f"{row['class']} was removed",
}
