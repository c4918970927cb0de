"""Which key stands for which class. Keys only: what a key does is the board's business."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cual.types import Label


@dataclass(frozen=True)
class Command:
    """What a key of the board does: its name, what its button says, and what the list of keys says."""

    verb: str
    title: str
    help: str


BOARD: Mapping[str, Command] = {
    "p": Command(
        "pass on", "Leave it for later or for somebody else", "pass on: leave it for later or for somebody else"
    ),
    "u": Command(
        "unsure",
        "Nobody can tell from this: costs nothing, is not asked again",
        "unsure: cannot tell; costs no label and is not asked again",
    ),
    "z": Command("undo", "Take back the last answer", "undo the last answer"),
    "c": Command("correct", "See and correct earlier answers", "correct earlier answers; c again comes back"),
    "a": Command("all", "Select all of this group", "select the whole group"),
    "?": Command("help", "All keys", "this list"),
}
"""Everything that is said of a key, once: bindings, buttons and the list of keys come from here."""
COMMANDS: Mapping[str, str] = {key: command.verb for key, command in BOARD.items()}
TITLES: Mapping[str, str] = {command.verb: command.title for command in BOARD.values()}
CLASS_KEYS = "1234567890" + "".join(k for k in "bdefghijklmnopqrstvwxy" if k not in COMMANDS)


def assigned(labels: Iterable[Label], known: Mapping[str, Label]) -> dict[str, Label]:
    """A key for each class as long as there are keys; a class keeps the key that it has.

    A class whose name is a key gets that one, the others get the rest in order.

    >>> assigned(["cat", "2", "dog"], {})
    {'2': '2', '1': 'cat', '3': 'dog'}
    >>> assigned(["cat", "2", "dog", "b"], {"1": "dog"})
    {'1': 'dog', '2': '2', 'b': 'b', '3': 'cat'}
    """
    keys = dict(known)
    waiting = [label for label in dict.fromkeys(labels) if label not in keys.values()]
    for label in waiting:
        if str(label) in CLASS_KEYS and str(label) not in keys and len(str(label)) == 1:
            keys[str(label)] = label
    free = (key for key in CLASS_KEYS if key not in keys)
    for label in waiting:
        if label not in keys.values() and (key := next(free, None)) is not None:
            keys[key] = label
    return keys
