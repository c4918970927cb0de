"""The list of keys, on top of the page."""

from nicegui import ui

from cual.serve.web.page.elements import El, button
from cual.serve.web.page.keymap import BOARD

KEYS = {
    "← → ↑ ↓": "move from tile to tile",
    "Space": "select or deselect; Shift with arrows selects more",
    "Esc": "deselect everything",
    "1 … 9 0": "answer with the class that has this key; further classes have letters",
    "/ or Enter": "find a class by typing, or create a new one: its name, then Enter",
    **{key: command.help for key, command in BOARD.items()},
}
REVIEW_KEYS = {
    "← → ↑ ↓": "move from tile to tile",
    "Space": "select or deselect; Shift with arrows selects more",
    "a": "select the whole group",
    "y or Enter": "confirm: the guess is right",
    "x": "reject: it goes back to the pool",
    "?": "this list",
}


def help_dialog(keys: dict[str, str] = KEYS) -> ui.dialog:
    with ui.dialog() as dialog, El("div", classes="card", role="document"):
        El("h2", "Keys")
        with El("dl", classes="keys-list"):
            for key, meaning in keys.items():
                with El("dt"):
                    El("kbd", key)
                El("dd", meaning)
        button("Close", autofocus="").on("click", dialog.close)
    dialog.props["aria-label"] = "Keys"
    return dialog


async def confirmed(question: str, yes: str) -> bool:
    """Whether a person says yes to `question`."""
    with ui.dialog() as dialog, El("div", classes="card"):
        El("p", question, "wrap")
        with El("div", classes="line"):
            button(yes, "main").on("click", lambda: dialog.submit(True))
            button("Cancel", autofocus="").on("click", lambda: dialog.submit(False))
    dialog.props["aria-label"] = question
    answer = await dialog
    dialog.clear()
    return bool(answer)
