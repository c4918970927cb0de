"""The answers page: what was answered, by whom; corrections, and disagreements that somebody settles."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.data.labels import SKIP, Skip
from cual.errors import CualError
from cual.serve.rules.records import AdaptationRecord, AnswerRecord, Person, QuestionRecord, Role
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.board import Act, Board, Keys, Tile
from cual.serve.web.page.class_panel import ClassPanel
from cual.serve.web.page.elements import El, actions, armed_box, button
from cual.serve.web.page.guidelines import Guidelines
from cual.serve.web.page.help import help_dialog
from cual.serve.web.page.keymap import CORRECTING
from cual.serve.web.page.recent import recent
from cual.serve.web.page.routes import page
from cual.serve.web.page.samples import Shown
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, asked, complain
from cual.types import Label

PER_PAGE = 96


def _groups() -> tuple[str, str, str]:
    """What is in dispute, one's own answers, those of others."""
    return tr("People disagree: choose what counts"), tr("My answers"), tr("Answers of others")


def add_page() -> None:
    @page("/adaptations/{id}/answers")
    async def answers_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "/answers") as adaptation_page:
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
        verbs = CORRECTING if may else {"?": "help", "F2": "back"}
        self._keys = Keys(verbs, asking=("answer", "unsure"))
        self._keys.on_act(self._act)
        self._help = help_dialog()
        with El("div", classes="desk"):
            with El("div", classes="stack"):
                self._empty = El("div", classes="empty stack")
                with self._empty:
                    El("h2", tr("No answers yet"))
                self._board = Board(texts=self._samples.kind != "pictures")
                self._more = button(tr("Show more")).on("click", self._show_more)
            with El("aside", classes="panel", data_keys="", aria_label=tr("Correct")) as panel:
                Guidelines(self._viewer, page.pool)
                self._classes = ClassPanel(
                    self._keys, self._viewer.workspace, page.record.agent, self._viewer.person
                )
                armed_box()
                self._note = El("div", classes="note")
                self._note.say(tr("Choose a tile, then its right class."))
                actions(CORRECTING)
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
        shown = await self._samples.of_questions(questions)
        me = self._viewer.person
        tiles = [answer_tile(q, i + 1, len(questions), me) for i, q in enumerate(questions)]
        tiles = [tile for group in _groups() for tile in tiles if tile.group == group]
        self._board.show(
            [self._with_sample(tile, self._questions[tile.id], shown) for tile in tiles],
        )
        self._empty.set_visibility(not tiles)
        await self._classes.show(record.suggested_classes, record.new_classes)

    def _with_sample(self, tile: Tile, q: QuestionRecord, shown: Mapping[int, Shown]) -> Tile:
        sample = shown[q.row]
        picture = self._samples.picture(q.row)
        return replace(tile, picture=picture, words=sample.words, columns=sample.columns)

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
        elif act.verb == "propose":
            self._classes.propose(act.name or "")
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
        if not isinstance(label, Skip):
            self._classes.used(label)
        await self._load(record)
        words = tr("Cannot tell") if isinstance(label, Skip) else str(label)
        text = tr("{n} changed to: {words}", n=len(ids), words=words)
        self._note.say(text)
        self._page.frame.announce(text)
        recent.put(self._viewer.workspace, record)
        self._page.status.show(record)
        self._keys.focus(ids[-1])

    def _write(self, person: Person, ids: Sequence[int], label: Label | Skip) -> AdaptationRecord:
        """What others dispute is settled; the rest, and what one answered oneself, is answered anew."""
        workspace, id = self._viewer.workspace, self._page.record.id
        own = workspace.adaptation(id).own_disputes
        disputed = [
            k
            for k in ids
            if self._questions[k].disagreement
            and (own or person.name not in latest_answers(self._questions[k]))
        ]
        for question in disputed:
            workspace.settle(question, person, label, meant=True)
        corrected = {k: label for k in ids if k not in disputed}
        return workspace.answer(id, person, corrected, meant=True) if corrected else workspace.adaptation(id)


def answer_tile(q: QuestionRecord, number: int, total: int, me: Person) -> Tile:
    """An answered question, in words; its sample is added by the page."""
    latest = latest_answers(q)
    disputed, own, others = _groups()
    counts = tr("cannot tell") if q.unsure else str(q.effective)
    place = {"number": number, "total": total, "counts": counts}
    if q.disagreement:
        words = ", ".join(f"{person}: {answer_words(answer)}" for person, answer in latest.items())
        said = tr("{number} of {total}, people disagree. {words}. Counts: {counts}", words=words, **place)
        return Tile(q.id, disputed, said, None, "", words)
    group = own if me.name in latest else others
    who = ", ".join(tr("me") if person == me.name else person for person in latest)
    if any(answer.settles for answer in latest.values()):
        who = tr("{who} (settled)", who=who)
    name = tr("{number} of {total}, answered {counts} by {who}", who=who, **place)
    return Tile(q.id, group, name, None, "", who, counts)


def latest_answers(q: QuestionRecord) -> dict[str, AnswerRecord]:
    """Each person's last word."""
    return {answer.person: answer for answer in q.answers if not answer.undone}


def answer_words(answer: AnswerRecord) -> str:
    return tr("cannot tell") if answer.label is None else str(answer.label)
