"""Which key stands for which class. Keys only: what a key does is the board's business."""

from collections.abc import Iterable, Mapping

from cual.types import Label

COMMANDS: Mapping[str, str] = {
    "p": "pass on",
    "u": "unsure",
    "z": "undo",
    "c": "correct",
    "a": "all",
    "?": "help",
}
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
