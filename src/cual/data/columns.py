"""What the columns of users' tables are usually called. The only list of such names."""

from collections.abc import Sequence
from pathlib import Path

from cual.errors import BadFile

IDS = ("id", "ids", "sample")
LABELS = ("label", "labels", "y", "class")
TEXTS = ("text", "sentence", "utterance")
IMAGES = ("image", "img")
FEATURES = ("features", "X", "embedding", "embeddings", "vector")


def column(path: Path, names: Sequence[str], given: str | None, usual: Sequence[str]) -> str | None:
    """The column that was asked for, or the first of the usual names that the table has.

    >>> column(Path("t.csv"), ["text", "class"], None, LABELS)
    'class'
    """
    if given is not None and given not in names:
        raise BadFile(f"{path} has no column {given!r}; it has {', '.join(names)}")
    return given or next((name for name in usual if name in names), None)
