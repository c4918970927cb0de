"""The answers page: what was answered, by whom; corrections, and disagreements that somebody settles."""

import asyncio
from collections.abc import Sequence

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.data.labels import SKIP, Skip
from cual.errors import CualError
from cual.serve.rules.records import AdaptationRecord, AnswerRecord, Person, QuestionRecord, Role
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.board import Act, Board, Keys, Tile
from cual.serve.web.page.class_panel import ClassPanel
from cual.serve.web.page.elements import El, actions, button
from cual.serve.web.page.help import help_dialog
from cual.serve.web.page.recent import recent
from cual.serve.web.page.routes import page
from cual.serve.web.page.viewer import Viewer, asked, complain
from cual.types import Label

PER_PAGE = 96
_DISPUTED, _MINE, _OTHERS = "People disagree: choose what counts", "My answers", "Answers of others"
_VERBS = {"u": "unsure", "c": "back", "a": "all", "?": "help"}


def add_page() -> None:
    @page("/adaptations/{id}/answers")
    async def answers_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "Answers") as adaptation_page:
            adaptation_page.poll(Answers(adaptation_page).refresh)


class Answers:
    """Answered questions of one adaptation; the latest first, those in dispute before all."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._viewer, self._samples = page, page.viewer, page.samples
        self._questions: dict[int, QuestionRecord] = {}
        self._seen: tuple[object, ...] = ()
        self._shown = PER_PAGE
        self._one_at_a_time = asyncio.Lock()
        may = self._viewer.may(Role.annotator)
        self._keys = Keys(_VERBS if may else {"?": "help", "c": "back"})
        self._keys.on_act(self._act)
        self._help = help_dialog()
        with El("div", classes="desk"):
            with El("div", classes="stack"):
                self._empty = El("div", classes="empty stack")
                with self._empty:
                    El("h2", "No answers yet")
                self._board = Board(texts=self._samples.kind != "pictures")
                self._more = button("Show more").on("click", self._show_more)
            with El("aside", classes="panel", data_keys="", aria_label="Correct") as panel:
                self._classes = ClassPanel(self._keys)
                self._note = El("div", classes="note")
                self._note.say("Choose a tile, then its right class.")
                actions({"u": "unsure", "a": "all", "c": "back", "?": "help"}, classes="four")
            panel.set_visibility(may)

    async def refresh(self, record: AdaptationRecord) -> None:
        """Look again when something was answered."""
        now = (record.round, record.state, record.answered_in_round, record.spent)
        if now != self._seen:
            self._seen = now
            async with self._one_at_a_time:
                await self._load(record)

    async def _load(self, record: AdaptationRecord) -> None:
        questions = await asked(self._viewer.workspace.questions, record.id, answered=True)
        questions = sorted(questions, key=lambda q: (not q.disagreement, -max(a.id for a in q.answers)))
        self._more.set_visibility(len(questions) > self._shown)
        questions = questions[: self._shown]
        self._questions = {q.id: q for q in questions}
        texts = await self._samples.words([q.row for q in questions])
        me = self._viewer.person
        tiles = [answer_tile(q, i + 1, len(questions), me) for i, q in enumerate(questions)]
        order = (_DISPUTED, _MINE, _OTHERS)
        tiles = [tile for group in order for tile in tiles if tile.group == group]
        self._board.show(
            [self._with_sample(tile, self._questions[tile.id], texts) for tile in tiles],
        )
        self._empty.set_visibility(not tiles)
        self._classes.show(record.suggested_classes, record.new_classes)

    def _with_sample(self, tile: Tile, q: QuestionRecord, texts: dict[int, str]) -> Tile:
        words = texts.get(q.row, str(q.sample))
        return Tile(
            tile.id, tile.group, tile.name, self._samples.picture(q.row), words, tile.caption, tile.strong
        )

    async def _show_more(self) -> None:
        self._shown += PER_PAGE
        async with self._one_at_a_time:
            await self._load(await asked(self._viewer.workspace.adaptation, self._page.record.id))

    async def _act(self, event: GenericEventArguments) -> None:
        act = Act.read(event.args)
        if act is None:
            return
        if act.verb == "help":
            self._help.open()
        elif act.verb == "back":
            ui.navigate.to(f"/adaptations/{self._page.record.id}")
        elif act.verb in ("answer", "unsure"):
            async with self._one_at_a_time:
                await self._correct(act)

    async def _correct(self, act: Act) -> None:
        ids = [id for id in act.ids if id in self._questions]
        try:
            label = SKIP if act.verb == "unsure" else self._classes.chosen(act)
            if not ids or label is None:
                return
            person = await asked(self._viewer.now, Role.annotator)
            record = await asked(self._write, person, ids, label)
        except CualError as error:
            complain(error)
            return
        await self._load(record)
        words = "Cannot tell" if isinstance(label, Skip) else str(label)
        self._note.say(f"{len(ids)} changed to: {words}")
        self._page.frame.announce(f"{len(ids)} changed to {words}")
        recent.put(self._viewer.workspace, record)
        self._page.status.show(record)
        self._keys.focus(ids[-1])

    def _write(self, person: Person, ids: Sequence[int], label: Label | Skip) -> AdaptationRecord:
        """What is in dispute is settled; the rest is answered anew."""
        workspace, id = self._viewer.workspace, self._page.record.id
        for question in (k for k in ids if self._questions[k].disagreement):
            workspace.settle(question, person, label)
        corrected = {k: label for k in ids if not self._questions[k].disagreement}
        return workspace.answer(id, person, corrected) if corrected else workspace.adaptation(id)


def answer_tile(q: QuestionRecord, number: int, total: int, me: Person) -> Tile:
    """An answered question, in words; its sample is added by the page."""
    latest = latest_answers(q)
    counts = "cannot tell" if q.unsure else str(q.effective)
    if q.disagreement:
        words = ", ".join(f"{person}: {answer_words(answer)}" for person, answer in latest.items())
        name = f"{number} of {total}, people disagree. {words}. Counts: {counts}"
        return Tile(q.id, _DISPUTED, name, None, "", words)
    group = _MINE if me.name in latest else _OTHERS
    who = ", ".join("me" if person == me.name else person for person in latest)
    settled = " (settled)" if any(answer.settles for answer in latest.values()) else ""
    return Tile(
        q.id,
        group,
        f"{number} of {total}, answered {counts} by {who}{settled}",
        None,
        "",
        who + settled,
        counts,
    )


def latest_answers(q: QuestionRecord) -> dict[str, AnswerRecord]:
    """Each person's last word."""
    return {answer.person: answer for answer in q.answers if not answer.undone}


def answer_words(answer: AnswerRecord) -> str:
    return "cannot tell" if answer.label is None else str(answer.label)
