"""The list of classes beside a board: a key for each, type-ahead, and "create new class" as its last entry."""

from collections.abc import Sequence

from nicegui.element import Element

from cual.data.labels import ClassNames, read_label
from cual.serve.web.page.board import Act, Keys
from cual.serve.web.page.elements import El
from cual.serve.web.page.keymap import CLASS_KEYS, assigned
from cual.types import Label


class ClassList(Element, component="classes.js"):
    """What classes.js draws: rows of index, name, key and whether it is new."""

    def show(self, rows: list[list[object]]) -> None:
        if self.props.get("options") != rows:
            self.props["options"] = rows


class ClassPanel:
    """The classes that can be answered. A class keeps its key and its index for as long as the page is open."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._index: dict[Label, int] = {}
        self._labels: list[Label] = []
        self._key_of: dict[str, Label] = {}
        El("h2", "Classes")
        find = El(
            "input",
            classes="find",
            type_="text",
            placeholder="/  find or create a class",
            aria_label="Find or create a class",
            aria_keyshortcuts="/",
            autocomplete="off",
            spellcheck="false",
            maxlength="100",
            role="combobox",
            aria_expanded="true",
            aria_autocomplete="list",
            data_find="",
        )
        self._list = ClassList()
        find.set(aria_controls=self._list.html_id)

    def show(self, labels: Sequence[Label], new: Sequence[Label], first: Sequence[Label] = ()) -> None:
        """Offer these classes.

        Parameters
        ----------
        new
            Those among them that came up in this adaptation.
        first
            Those that get a key before the others, where there are more classes than keys.
        """
        known = set(labels)
        self._key_of = {key: label for key, label in self._key_of.items() if label in known}
        wanted = labels if len(labels) <= len(CLASS_KEYS) else [*new, *first, *labels]
        self._key_of = assigned(wanted, self._key_of)
        for label in labels:
            if label not in self._index:
                self._index[label] = len(self._labels)
                self._labels.append(label)
        keys, fresh = {label: key for key, label in self._key_of.items()}, set(new)
        self._list.show([[self._index[c], str(c), keys.get(c), c in fresh] for c in labels])
        self._keys.set_classes({key: self._index[label] for key, label in self._key_of.items()})

    def chosen(self, act: Act) -> Label | None:
        """The label that an act means, None where it means none; a new name becomes a label."""
        if act.index is not None:
            return self._labels[act.index] if 0 <= act.index < len(self._labels) else None
        if act.name is None:
            return None
        return read_label(act.name, ClassNames(tuple(self._labels)))
