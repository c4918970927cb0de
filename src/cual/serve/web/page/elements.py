"""Plain HTML elements for the page. What a person typed goes in as text or attribute value, never as markup."""

from collections.abc import Mapping
from typing import Any

from nicegui.elements.mixins.text_element import TextElement

from cual.serve.rules.sentences import Sentence
from cual.serve.web.page.keymap import CAPS, VERBS
from cual.serve.web.page.texts import told, tr


class El(TextElement):
    """An element of any tag: ``El("p", "Hello", classes="soft", aria_live="polite")``.

    Attributes are set one by one, not parsed from a string as `Element.props` does: a class name with quotes
    and colons in it must not become an attribute of its own. None leaves an attribute out.
    """

    def __init__(self, tag: str, text: str = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=tag, text=text)
        self.classes(classes)
        self.set(**attributes)

    def set(self, **attributes: Any) -> "El":
        """Change attributes; what stays the same is not sent again."""
        for name, value in attributes.items():
            name = name.rstrip("_").replace("_", "-")
            if value is None:
                if name in self.props:
                    del self.props[name]
            elif self.props.get(name) != value:
                self.props[name] = value
        return self

    def say(self, text: str) -> None:
        """Change the text."""
        if self.text != text:
            self.text = text


def button(text: str, classes: str = "", **attributes: Any) -> El:
    return El("button", text, f"button {classes}", type_="button", **attributes)


def link(text: str, href: str, classes: str = "", **attributes: Any) -> El:
    return El("a", text, classes, href=href, **attributes)


def actions(verbs: Mapping[str, str], titles: Mapping[str, Sentence] | None = None, classes: str = "") -> None:
    """Buttons of what can be done, by key, each with its key drawn next to it."""
    with El("div", classes=f"actions {classes}"):
        for key, verb in verbs.items():
            shortcut = key.replace("+a", "+A")
            title = told(titles[verb]) if titles and verb in titles else None
            with button("", data_verb=verb, aria_keyshortcuts=shortcut, title=title):
                El("span", told(VERBS[verb]))
                key_cap(CAPS.get(key, key))


def armed_box() -> None:
    """The question whether to answer several at once; keys.js fills and shows it."""
    with El("div", classes="armed", role="group", aria_label=tr("Answer several?"), data_armed="", hidden=""):
        El("p", classes="wrap", data_armed_text="")
        with El("div", classes="line"):
            with button("", "main", data_verb="fire"):
                El("span", tr("Answer all"))
                key_cap("Enter")
            with button("", data_verb="disarm"):
                El("span", tr("Cancel"))
                key_cap("Esc")


def key_cap(key: str) -> El:
    """A key as it is drawn next to what it does; screen readers hear it from aria-keyshortcuts instead."""
    return El("kbd", key, aria_hidden="true")
