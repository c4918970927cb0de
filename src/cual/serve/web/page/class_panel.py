"""The list of classes beside a board, found by typing, with what is known of each; and whether one is new."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from cual.data.labels import ClassNames, alike, read_label, tidy
from cual.serve.rules.finding import Match, find
from cual.serve.rules.records import ClassRecord, Person
from cual.serve.web.page.board import Act, Keys, Search
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import asked
from cual.types import Label

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace

SHOWN = 60
"""Classes in the list while somebody types."""
NEAREST = 3
"""Existing names that are shown before a new class is made."""


class ClassList(Element, component="classes.js"):
    """What classes.js draws: rows of index, name, key, whether it is new, description, picture and colour."""

    def show(self, rows: list[list[object]]) -> None:
        if self.props.get("options") != rows:
            self.props["options"] = rows


class ClassPanel:
    """The classes that can be answered with, likely and recent ones first.

    A class keeps its index, and the list its order, while the page is open: nothing moves under a finger.
    """

    def __init__(
        self,
        keys: Keys,
        workspace: "Workspace",
        agent: int,
        person: Person,
        likely: Callable[[Sequence[int]], list[Label]] = lambda ids: [],
    ) -> None:
        self._keys, self._workspace, self._agent, self._person = keys, workspace, agent, person
        self._likely = likely
        self._index: dict[Label, int] = {}
        self._labels: list[Label] = []
        self._offered: list[Label] = []
        self._new: set[Label] = set()
        self._recent: list[Label] = []
        self._records: dict[Label, ClassRecord] = {}
        self._pictured: dict[int, bool] = {}
        self._known: tuple[object, ...] | None = None
        with El("div", classes="line apart"):
            El("h2", tr("Classes"))
            link(tr("What they are"), f"/agents/{agent}/classes")
        self._find = El(
            "input",
            classes="find",
            type_="text",
            placeholder=tr("Type to find a class"),
            aria_label=tr("Find or create a class"),
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
        self._find.set(aria_controls=self._list.html_id)
        self._proposal = El(
            "div", classes="proposal", role="group", aria_label=tr("Which class?"), data_proposal=""
        )
        self._proposal.set_visibility(False)
        keys.on_search(self._search)

    async def show(self, labels: Sequence[Label], new: Sequence[Label], likely: Sequence[Label] = ()) -> None:
        """Offer these classes.

        Parameters
        ----------
        new
            Those among them that came up in this adaptation.
        likely
            Those that come first, and get a key where there are more classes than keys; the likeliest first.
        """
        known = (tuple(labels), tuple(new), tuple(dict.fromkeys(likely)))
        if known == self._known:
            return
        first_time, self._known = self._known is None, known
        if first_time:
            self._recent = await asked(self._workspace.recent_classes, self._agent, self._person)
        first = list(dict.fromkeys([*likely, *self._recent]))
        self._records = await asked(self._read, labels)
        keys = await asked(self._workspace.class_keys, self._agent, self._person, labels, first)
        there = set(labels)
        if first_time:
            ordered = [*keys.values(), *(label for label in first if label in there), *sorted(labels, key=str)]
        else:
            ordered = [*keys.values(), *(label for label in self._offered if label in there), *labels]
        self._offered, self._new = list(dict.fromkeys(ordered)), set(new)
        for label in self._offered:
            if label not in self._index:
                self._index[label] = len(self._labels)
                self._labels.append(label)
        key_of = {label: key for key, label in keys.items()}
        self._list.show([self._row(label, key_of.get(label)) for label in self._offered])
        self._keys.set_classes({key: self._index[label] for key, label in keys.items()})

    def used(self, label: Label) -> None:
        """Remember that the person has just answered with a class, and close what was asked about it."""
        self._recent = [label, *(other for other in self._recent if other != label)]
        self.close()

    def chosen(self, act: Act) -> Label | None:
        """The label that an act means, None where it means none; a new name becomes a label."""
        if act.index is not None:
            return self._labels[act.index] if 0 <= act.index < len(self._labels) else None
        if act.name is None:
            return None
        return read_label(act.name, ClassNames(tuple(self._labels)))

    def propose(self, name: str) -> None:
        """Show the names that are nearest to one that no class has, and offer to make it a new class."""
        near = find(name, self._offered, self._recent)[:NEAREST]
        same = alike(tidy(name), ClassNames(tuple(self._labels)))
        near = sorted(near, key=lambda match: match.label != same)
        self._proposal.clear()
        self._proposal.set_visibility(True)
        self._list.set_visibility(False)
        with self._proposal:
            known = tr("Is it one of these?") if near else tr("No name is like it.")
            if same is not None:
                known = tr("Did you mean “{known}”? It differs only in case or form.", known=same)
            El(
                "p",
                tr("There is no class “{name}” yet. {known}", name=name, known=known),
                "wrap",
                tabindex="-1",
                data_proposal_text="",
            )
            for place, match in enumerate(near):
                self._choice(match, first=place == 0 and (match.typo or match.label == same))
            new = button("", "wrap", data_create="now", data_name=name, data_first=None if near else "")
            with new:
                El("span", tr("Create new class “{name}”", name=name))
            button(tr("Back to the list"), "plain", data_verb="find")
        self._keys.proposed()

    def close(self) -> None:
        """Show the list again."""
        self._proposal.set_visibility(False)
        self._list.set_visibility(True)

    def _choice(self, match: Match, first: bool) -> None:
        label, record = match.label, self._records.get(match.label)
        with button("", "wrap", data_class=str(self._index[label]), data_name=str(label)) as choice:
            if record is not None and (picture := self._picture(record)) is not None:
                El("img", src=picture, alt=tr("Example of {label}", label=label))
            with El("span", classes="name"):
                El("span", str(label))
                if record is not None and record.description:
                    El("span", record.description, "about")
        if first:
            choice.set(data_first="")

    def _row(self, label: Label, key: str | None) -> list[object]:
        record = self._records[label]
        picture = self._picture(record)
        name, about = str(label), record.description
        return [self._index[label], name, key, label in self._new, about, picture, record.colour]

    def _picture(self, record: ClassRecord) -> str | None:
        for example in record.examples:
            if self._pictured[example.pool]:
                return f"/api/pools/{example.pool}/pictures/{example.row}"
        return None

    def _read(self, labels: Sequence[Label]) -> dict[Label, ClassRecord]:
        """What is known of classes, and which of the pools that their examples are of have pictures."""
        records = {record.label: record for record in self._workspace.classes(self._agent, labels)}
        pools = {example.pool for record in records.values() for example in record.examples}
        for pool in pools - set(self._pictured):
            self._pictured[pool] = self._workspace.pool(pool).kind == "pictures"
        return records

    async def _search(self, event: GenericEventArguments) -> None:
        search = Search.read(event.args)
        if search is None:
            return
        self.close()
        if not search.text.strip():
            return
        first = list(dict.fromkeys([*self._likely(search.ids), *self._recent]))
        matches = await asyncio.to_thread(find, search.text, self._offered, first)
        rows = [(self._index[match.label], match.literal) for match in matches[:SHOWN]]
        self._keys.found(search.serial, rows)
