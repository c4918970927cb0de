"""A board of what is believed: confirm, reject or give the right class, by keyboard; all of it can be undone.

Which samples lie on it, its page says. What a class costs that nobody asked for, `cual.loop.reviewing` says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nicegui.events import GenericEventArguments

from cual.errors import CualError
from cual.serve.rules.records import AdaptationRecord, NamingRecord, Person, Role
from cual.serve.web.page.adaptation_frame import AdaptationPage
from cual.serve.web.page.board import Act, Board, Keys, Tile
from cual.serve.web.page.class_panel import ClassPanel
from cual.serve.web.page.elements import El, actions, armed_box
from cual.serve.web.page.help import REVIEW_KEYS, help_dialog
from cual.serve.web.page.keymap import ALSO, REVIEWING
from cual.serve.web.page.samples import Shown
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import asked, complain
from cual.types import Label

Before = dict[int, tuple[str | None, Any]]
"""What was said of rows: a verdict, and the class instead."""


class Judging:
    """The keyboard, the board and the classes of a page on which beliefs are reviewed."""

    def __init__(
        self, page: AdaptationPage, again: Callable[[], Awaitable[None]], asking: Sequence[str] = ("answer",)
    ) -> None:
        """`again` draws the page anew, after what was said is written down; verbs of `asking` ask for Enter."""
        self._page, self._viewer, self._again = page, page.viewer, again
        self._rows: dict[int, dict[str, Any]] = {}
        self._said: list[Before] = []
        self._one_at_a_time = asyncio.Lock()
        self.may = self._viewer.may(Role.annotator)
        self.keys = Keys(
            {**REVIEWING, **ALSO} if self.may else {"?": "help"},
            onward=("confirm", "reject", "answer"),
            asking=asking,
        )
        self.keys.on_act(self._act)
        self._help = help_dialog(REVIEW_KEYS)

    def board(self) -> None:
        """Put the board here."""
        self._board = Board(texts=self._page.samples.kind != "pictures")

    def panel(self) -> None:
        """Put the classes, and what can be done, here."""
        if self.may:
            self._classes = ClassPanel(
                self.keys, self._viewer.workspace, self._page.record.agent, self._viewer.person, self._likely
            )
            armed_box()
        self._note = El("div", classes="note")
        self._note.say("" if self.may else tr("You can look, but not review."))
        actions(REVIEWING if self.may else {"?": "help"}, classes="six")

    async def offer(self, record: AdaptationRecord, often: Sequence[Label]) -> None:
        """Offer the classes that there are, those first that are believed often."""
        if self.may:
            await self._classes.show(record.suggested_classes, record.new_classes, often)

    def clear(self) -> None:
        """Have nothing on the board: what comes next has another order."""
        self._board.show([])

    async def show(self, rows: Sequence[dict[str, Any]], total: int, group: str) -> None:
        """Have these on the board, of `total` in all."""
        self._rows = {row["row"]: row for row in rows}
        samples = {row["row"]: row["sample"] for row in rows}
        shown = await self._page.samples.of_rows(self._page.record.id, samples)
        self._board.show(
            [self._tile(row, i + 1, total, group, shown[row["row"]]) for i, row in enumerate(rows)]
        )

    def _tile(self, row: dict[str, Any], number: int, total: int, group: str, shown: Shown) -> Tile:
        mark = mark_of(row)
        name = tr("{number} of {total}, believed {label}", number=number, total=total, label=row["label"])
        return Tile(
            row["row"],
            group,
            f"{name}, {mark}" if mark else name,
            self._page.samples.picture(row["row"]),
            shown.words,
            "" if mark else str(row["label"]),
            mark,
            shown.columns,
        )

    def _likely(self, ids: Sequence[int]) -> list[Any]:
        return list(dict.fromkeys(self._rows[id]["label"] for id in ids if id in self._rows))

    # -- what a person does ------------------------------------------------------------------------------------

    async def _act(self, event: GenericEventArguments) -> None:
        act = Act.read(event.args)
        if act is None:
            return
        if act.verb == "help":
            self._help.open()
        elif act.verb == "propose":
            self._classes.propose(act.name or "")
        elif act.verb in ("confirm", "reject", "answer", "undo"):
            async with self._one_at_a_time:
                await self._do(act)

    async def _do(self, act: Act) -> None:
        rows = self._meant(act)
        try:
            person = await asked(self._viewer.now, Role.annotator)
            if act.verb == "undo":
                words, rows = await self._undo(person)
            elif not rows:
                words = self._nothing(act)
            else:
                before = {row: (self._rows[row]["verdict"], self._rows[row]["instead"]) for row in rows}
                words = await self._say(act, person, rows)
                self._said.append(before)
        except CualError as error:
            complain(error)
            self.keys.restore(rows)
            return
        await self._again()
        self._note.say(words)
        self._page.frame.announce(words)
        if act.verb == "undo" and rows:
            self.keys.focus(rows[0])

    def _meant(self, act: Act) -> list[int]:
        """Rows that it can be done to."""
        return [id for id in act.ids if id in self._rows]

    def _nothing(self, act: Act) -> str:
        """Why there are none."""
        return tr("Nothing is selected.")

    async def _say(self, act: Act, person: Person, rows: list[int]) -> str:
        workspace, id = self._viewer.workspace, self._page.record.id
        if act.verb != "answer":
            await asked(workspace.review, id, person, dict.fromkeys(rows, act.verb))
            if act.verb == "confirm":
                return trn("{n} confirmed. ⌫ undoes.", "{n} confirmed. ⌫ undoes.", len(rows))
            return trn("{n} rejected. ⌫ undoes.", "{n} rejected. ⌫ undoes.", len(rows))
        label = self._classes.chosen(act)
        if label is None:
            return tr("Nothing is selected.")
        told = await asked(workspace.name_classes, id, person, dict.fromkeys(rows, label), meant=True)
        self._classes.used(label)
        return naming_words(told, str(label))

    async def _undo(self, person: Person) -> tuple[str, list[int]]:
        """Take back what was said last; what was said in one go is taken back in one go."""
        if not self._said:
            return tr("Nothing was said here that could be taken back."), []
        before, workspace, id = self._said.pop(), self._viewer.workspace, self._page.record.id
        now = {row["row"]: row["verdict"] for row in await asked(workspace.pseudo_labels, id)}
        named = [r for r, (verdict, _) in before.items() if now.get(r) == "correct" and verdict != "correct"]
        if named:
            await asked(workspace.withdraw_classes, id, person, named)
        renamed = {row: instead for row, (verdict, instead) in before.items() if verdict == "correct"}
        if renamed:
            await asked(workspace.name_classes, id, person, renamed, meant=True)
        verdicts = {row: verdict for row, (verdict, _) in before.items() if verdict != "correct"}
        await asked(workspace.review, id, person, {r: v for r, v in verdicts.items() if r not in named})
        return trn("Undone: {n}.", "Undone: {n}.", len(before)), list(before)


def mark_of(row: dict[str, Any]) -> str:
    """What was said of it, in words; nothing where nobody has looked.

    >>> mark_of({"verdict": "reject", "instead": "fox"}), mark_of({"verdict": None, "instead": None})
    ('✗ rejected, noted: fox', '')
    """
    instead = row["instead"]
    if row["verdict"] == "correct":
        return tr("✓ {label} instead", label=instead)
    if row["verdict"] == "reject":
        return tr("✗ rejected") if instead is None else tr("✗ rejected, noted: {label}", label=instead)
    return tr("✓ confirmed") if row["verdict"] == "confirm" else ""


def naming_words(told: NamingRecord, label: str) -> str:
    """What came of naming a class, and what it cost."""
    parts = [
        trn("{n} label charged.", "{n} labels charged.", told.charged) if told.charged else "",
        trn("{n} confirmed.", "{n} confirmed.", told.confirmed) if told.confirmed else "",
        trn(
            "{n} rejected and noted, not learned: the budget has no room.",
            "{n} rejected and noted, not learned: the budget has no room.",
            told.noted,
        )
        if told.noted
        else "",
    ]
    return f"{label}: {' '.join(part for part in parts if part)} {tr('⌫ undoes.')}"
