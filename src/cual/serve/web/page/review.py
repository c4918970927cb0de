"""The review page: what the learner believes without asking, most doubtful first, to confirm or reject."""

import asyncio
from collections import Counter
from typing import Any

from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.errors import CualError
from cual.serve.rules.records import AdaptationRecord, Role
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.board import Act, Board, Keys, Tile
from cual.serve.web.page.elements import El, actions, button
from cual.serve.web.page.help import REVIEW_KEYS, help_dialog
from cual.serve.web.page.routes import page
from cual.serve.web.page.viewer import Viewer, asked, complain
from cual.types import Label

PER_PAGE = 60
_VERBS = {"x": "reject", "y": "confirm", "Enter": "confirm", "a": "all", "?": "help"}
_MARKS = {"confirm": "✓ confirmed", "reject": "✗ rejected", None: ""}


def add_page() -> None:
    @page("/adaptations/{id}/review")
    async def review_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "Review") as adaptation_page:
            adaptation_page.poll(Review(adaptation_page).refresh)


class Review:
    """Pseudo-labels of one adaptation, one class at a time."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._viewer, self._samples = page, page.viewer, page.samples
        self._rows: list[dict[str, Any]] = []
        self._label: Label | None = None
        self._shown, self._seen = PER_PAGE, ()
        self._one_at_a_time = asyncio.Lock()
        self._buttons: dict[Label, tuple[El, El]] = {}
        may = self._viewer.may(Role.annotator)
        self._keys = Keys(_VERBS if may else {"?": "help"}, onward=("confirm", "reject"))
        self._keys.on_act(self._act)
        self._help = help_dialog(REVIEW_KEYS)
        with El("div", classes="desk"):
            with El("div", classes="stack"):
                self._empty = El("div", classes="empty stack")
                self._board = Board(texts=self._samples.kind != "pictures")
                self._more = button("Show more").on("click", self._show_more)
            with El("aside", classes="panel", data_keys="", aria_label="Review"):
                El("h2", "Believed without asking")
                self._list = El("div", classes="classes", role="group", aria_label="Classes")
                self._note = El("div", classes="note")
                self._note.say("Most doubtful first." if may else "You can look, but not review.")
                actions({"y": "confirm", "x": "reject", "a": "all", "?": "help"}, classes="four")

    async def refresh(self, record: AdaptationRecord) -> None:
        """Look again when the learner has moved."""
        now = (record.round, record.state, record.result_version)
        if now != self._seen:
            self._seen = now
            async with self._one_at_a_time:
                await self._load(record)

    async def _load(self, record: AdaptationRecord) -> None:
        self._rows = await asked(self._viewer.workspace.pseudo_labels, record.id)
        counts = Counter(row["label"] for row in self._rows)
        for gone in [label for label in self._buttons if label not in counts]:
            self._buttons.pop(gone)[0].delete()
        for label, n in sorted(counts.items(), key=lambda item: str(item[0])):
            if label not in self._buttons:
                with self._list:
                    self._buttons[label] = self._class_button(label)
            self._buttons[label][1].say(str(n))
        if self._label not in counts:
            self._label = min(counts, key=str, default=None)
        self._empty.clear()
        self._empty.set_visibility(not counts)
        if not counts:
            with self._empty:
                El("h2", "Nothing is believed yet")
                El(
                    "p",
                    "After the first answers the learner labels what it is sure of; it can be checked here.",
                )
        await self._draw()

    def _class_button(self, label: Label) -> tuple[El, El]:
        async def choose() -> None:
            self._label, self._shown = label, PER_PAGE
            await self._draw()

        with El("button", classes="class plain-button", type_="button") as choice:
            El("span", str(label), "name")
            count = El("span", classes="badge new")
        choice.on("click", choose)
        return choice, count

    async def _draw(self) -> None:
        mine = [row for row in self._rows if row["label"] == self._label]
        here = mine[: self._shown]
        texts = await self._samples.words([row["row"] for row in here])
        for label, (choice, _) in self._buttons.items():
            choice.set(aria_pressed=str(label == self._label).lower())
        self._board.show([self._tile(row, i + 1, len(mine), texts) for i, row in enumerate(here)])
        self._more.set_visibility(len(mine) > len(here))

    def _tile(self, row: dict[str, Any], number: int, total: int, texts: dict[int, str]) -> Tile:
        doubt, mark = round(100 * row["doubt"]), _MARKS[row["verdict"]]
        name = f"{number} of {total}, believed {row['label']}, doubt {doubt} percent"
        picture = self._samples.picture(row["row"])
        words = texts.get(row["row"], str(row["sample"]))
        return Tile(
            row["row"],
            f"Believed to be {row['label']}",
            f"{name}, {mark[2:]}" if mark else name,
            picture,
            words,
            "" if mark else f"doubt {doubt} %" if doubt else "sure",
            mark,
        )

    async def _show_more(self) -> None:
        self._shown += PER_PAGE
        await self._draw()

    async def _act(self, event: GenericEventArguments) -> None:
        act = Act.read(event.args)
        if act is None:
            return
        if act.verb == "help":
            self._help.open()
        elif act.verb in ("confirm", "reject"):
            async with self._one_at_a_time:
                await self._judge(act)

    async def _judge(self, act: Act) -> None:
        rows = [id for id in act.ids if id in self._board]
        if not rows:
            return
        try:
            person = await asked(self._viewer.now, Role.annotator)
            verdicts = dict.fromkeys(rows, act.verb)
            await asked(self._viewer.workspace.review, self._page.record.id, person, verdicts)
        except CualError as error:
            complain(error)
            self._keys.focus(rows[0])
            return
        for row in self._rows:
            if row["row"] in verdicts:
                row["verdict"] = act.verb
        await self._draw()
        words = f"{len(rows)} {'confirmed' if act.verb == 'confirm' else 'rejected'}."
        self._note.say(words)
        self._page.frame.announce(words)
