"""The list of keys, on top of the page."""

from collections.abc import Mapping

from nicegui import ui

from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.keymap import BOARD, CAPS
from cual.serve.web.page.texts import told, tr

KEYS: Mapping[str, Sentence] = {
    "← → ↑ ↓": said("move from tile to tile"),
    "Space": said("select or deselect; Shift with arrows selects more"),
    "Esc": said("deselect everything"),
    "1 … 9": said("answer with the class that has this key; a class keeps its key for you, on every screen"),
    "a … z": said("find a class by typing its name, in any order and with typos; / and Enter begin it too"),
    "Enter": said("in the list: answer with what is marked; a name that is not there asks first what you mean"),
    **{CAPS.get(key, key): command.help for key, command in BOARD.items()},
    "Shift": said("with several selected, an answer asks for Enter"),
}
REVIEW_KEYS: Mapping[str, Sentence] = {
    "← → ↑ ↓": said("move from tile to tile"),
    "Space": said("select or deselect; Shift with arrows selects more"),
    "Ctrl A": said("select the whole group"),
    "=": said("confirm: the guess is right"),
    "-": said("reject: it goes back to the pool"),
    "1 … 9": said("it is the class that has this key: an answer, charged like any other"),
    "a … z": said("find the right class by typing its name"),
    "⌫": said("undo what you said last on this page, as Ctrl+Z does"),
    "F4": BOARD["F4"].help,
    "?": said("this list"),
}
TOUCH = said(
    "By touch: a tap selects or deselects, and so does a finger held on a tile, as Space does; further taps "
    "add or remove. Then tap a class or a button; an answer for several asks first. Scrolling selects nothing."
)


def help_dialog(keys: Mapping[str, Sentence] = KEYS) -> ui.dialog:
    with ui.dialog() as dialog, El("div", classes="card", role="document"):
        El("h2", tr("Keys"))
        with El("dl", classes="keys-list"):
            for key, meaning in keys.items():
                with El("dt"):
                    El("kbd", key)
                El("dd", told(meaning))
        El("p", told(TOUCH), "wrap")
        button(tr("Close"), autofocus="").on("click", dialog.close)
    dialog.props["aria-label"] = tr("Keys")
    return dialog


async def confirmed(question: str, yes: str) -> bool:
    """Whether a person says yes to `question`."""
    with ui.dialog() as dialog, El("div", classes="card"):
        El("p", question, "wrap")
        with El("div", classes="line"):
            # The first has the focus, and Tab goes on to the other: behind the last it would leave the dialog.
            button(tr("Cancel"), autofocus="").on("click", lambda: dialog.submit(False))
            button(yes, "main").on("click", lambda: dialog.submit(True))
    dialog.props["aria-label"] = question
    answer = await dialog
    dialog.clear()
    return bool(answer)
