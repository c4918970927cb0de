"""What the keys of a board do. Letters do nothing by themselves: typing finds a class, so no slip answers one.

Which digit stands for which class, `cual.serve.rules.class_keys` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cual.serve.rules.sentences import Sentence, said


@dataclass(frozen=True)
class Command:
    """What a key of the board does: its name, what its button says, and what the list of keys says."""

    verb: str
    title: Sentence
    help: Sentence


BOARD: Mapping[str, Command] = {
    "=": Command(
        "accept",
        said("Answer with the class that the learner suggests"),
        said("accept: answer with the class that the learner suggests"),
    ),
    "-": Command(
        "unsure",
        said("Nobody can tell from this: costs nothing, is not asked again"),
        said("unsure: cannot tell; costs no label and is not asked again"),
    ),
    ".": Command(
        "pass on",
        said("Leave it for later or for somebody else"),
        said("pass on: leave it for later or for somebody else"),
    ),
    "Backspace": Command(
        "undo",
        said("Take back the last answer"),
        said("undo the last answer, as Ctrl+Z does; beyond the end of a round it says first what that costs"),
    ),
    "F2": Command(
        "correct", said("See and correct earlier answers"), said("correct earlier answers; F2 again comes back")
    ),
    "Control+a": Command("all", said("Select all of this group"), said("select the whole group")),
    "F4": Command(
        "look",
        said("See it large"),
        said(
            "see it large, as a double click does: + - 0 zoom, arrows move, PageUp and PageDown scroll a text"
        ),
    ),
    "?": Command("help", said("All keys"), said("this list")),
}
"""Everything that is said of a key, once: bindings, buttons and the list of keys come from here."""
COMMANDS: Mapping[str, str] = {key: command.verb for key, command in BOARD.items()}
TITLES: Mapping[str, Sentence] = {command.verb: command.title for command in BOARD.values()}
VERBS: Mapping[str, Sentence] = {
    "accept": said("Accept"),
    "unsure": said("Unsure"),
    "pass on": said("Pass on"),
    "undo": said("Undo"),
    "correct": said("Correct"),
    "back": said("Back"),
    "all": said("Group"),
    "look": said("Large"),
    "help": said("Help"),
    "confirm": said("Confirm"),
    "reject": said("Reject"),
}
"""What the buttons say."""
LOOK: Mapping[str, str] = {"F4": "look"}
"""A key of every board, also of those on which one may only look."""
ALSO: Mapping[str, str] = {"Control+z": "undo"}
"""Second keys, which have no button of their own."""
CORRECTING: Mapping[str, str] = {"-": "unsure", "F2": "back", "Control+a": "all", "?": "help"}
"""Keys of the page on which earlier answers are corrected."""
REVIEWING: Mapping[str, str] = {
    "=": "confirm",
    "-": "reject",
    "Backspace": "undo",
    "Control+a": "all",
    "F4": "look",
    "?": "help",
}
"""Keys of the page on which beliefs are reviewed; digits and typing give the right class, as on questions."""
CAPS: Mapping[str, str] = {"Backspace": "⌫", "Control+a": "Ctrl A"}
"""How a key is drawn whose name is not what stands on it."""
