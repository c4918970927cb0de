"""The disputes page: questions on which people disagree, settled one after the other by keyboard."""

import asyncio
from collections.abc import Mapping

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.data.labels import SKIP, Skip
from cual.errors import CualError
from cual.serve.rules.records import AdaptationRecord, Person, QuestionRecord, Role
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.answers import answer_words, latest_answers
from cual.serve.web.page.board import Act, Board, Keys, Tile
from cual.serve.web.page.class_panel import ClassPanel
from cual.serve.web.page.elements import El, actions, armed_box
from cual.serve.web.page.guidelines import Guidelines
from cual.serve.web.page.help import help_dialog
from cual.serve.web.page.recent import recent
from cual.serve.web.page.routes import page
from cual.serve.web.page.samples import Shown
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, complain
from cual.types import Label

SETTLING: Mapping[str, str] = {"=": "accept", "-": "unsure", "F2": "back", "?": "help"}
SHOWN = 96


def add_page() -> None:
    @page("/adaptations/{id}/disputes")
    async def disputes_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "/disputes") as adaptation_page:
            adaptation_page.poll(Disputes(adaptation_page).refresh)


class Disputes:
    """Questions of one adaptation on which people disagree, the oldest first."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._viewer, self._samples = page, page.viewer, page.samples
        self._questions: dict[int, QuestionRecord] = {}
        self._seen: tuple[object, ...] = ()
        self._one_at_a_time = asyncio.Lock()
        may = self._viewer.may(Role.annotator)
        verdicts = ("answer", "accept", "unsure")
        self._keys = Keys(SETTLING if may else {"?": "help", "F2": "back"}, leaving=verdicts, asking=verdicts)
        self._keys.on_act(self._act)
        self._help = help_dialog()
        with El("div", classes="desk"):
            with El("div", classes="stack"):
                self._empty = El("div", classes="empty stack")
                with self._empty:
                    El("h2", tr("Nobody disagrees"))
                    El("p", tr("Where people answer differently, it comes here."))
                self._board = Board(texts=self._samples.kind != "pictures")
            with El("aside", classes="panel", data_keys="", aria_label=tr("Settle")) as panel:
                Guidelines(self._viewer, page.pool)
                self._classes = ClassPanel(
                    self._keys, self._viewer.workspace, page.record.agent, self._viewer.person, self._likely
                )
                armed_box()
                self._note = El("div", classes="note")
                self._note.say(tr("Choose what counts. What people said together is accepted with =."))
                actions(SETTLING)
            panel.set_visibility(may)

    async def refresh(self, record: AdaptationRecord) -> None:
        """Look again when something was answered."""
        now = (record.round, record.state, record.answered_in_round, record.spent, record.own_disputes)
        if now != self._seen:
            self._seen = now
            async with self._one_at_a_time:
                await self._load(record)

    async def _load(self, record: AdaptationRecord) -> None:
        disputed = await asked(self._viewer.workspace.questions, record.id, disagreement=True)
        mine = [q for q in disputed if self._is_party(q) and not record.own_disputes]
        questions = [*(q for q in disputed if q not in mine), *mine][:SHOWN]
        self._questions = {q.id: q for q in questions}
        shown = await self._samples.of_questions(questions)
        named = [label for q in questions for label in _said(q).values() if label is not None]
        offered = dict.fromkeys([*record.suggested_classes, *named])
        new = [label for label in offered if label not in record.suggested_classes]
        await self._classes.show(list(offered), [*record.new_classes, *new], list(dict.fromkeys(named)))
        self._board.show([self._tile(q, q in mine, shown[q.row]) for q in questions])
        self._empty.set_visibility(not questions)

    def _is_party(self, q: QuestionRecord) -> bool:
        return self._viewer.person.name in _said(q)

    def _likely(self, ids: object) -> list[Label]:
        said = (label for q in self._questions.values() for label in _said(q).values())
        return list(dict.fromkeys(label for label in said if label is not None))

    def _tile(self, q: QuestionRecord, mine: bool, shown: Shown) -> Tile:
        words = ", ".join(f"{who}: {answer_words(answer)}" for who, answer in latest_answers(q).items())
        group = tr("You answered these: somebody else settles them") if mine else tr("What counts?")
        together = _suggested(q)
        name = tr("People disagree. {words}.", words=words)
        if together is not None:
            name += " " + tr("Together: {label}.", label=together)
        return Tile(
            q.id,
            group,
            name,
            self._samples.picture(q.row),
            shown.words,
            words,
            together or "",
            shown.columns,
        )

    # -- what a person does ------------------------------------------------------------------------------------

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
        else:
            async with self._one_at_a_time:
                await self._settle(act)

    async def _settle(self, act: Act) -> None:
        ids = [id for id in act.ids if id in self._questions]
        try:
            labels = {id: self._verdict(act, self._questions[id]) for id in ids}
            told = {id: label for id, label in labels.items() if label is not None}
            person = await asked(self._viewer.now, Role.annotator)
            await asked(self._write, person, told)
        except CualError as error:
            complain(error)
            self._keys.restore(ids)
            return
        record = await asked(self._viewer.workspace.adaptation, self._page.record.id)
        recent.put(self._viewer.workspace, record)
        self._page.status.show(record)
        self._classes.close()
        await self._load(record)
        text = trn("{n} question is settled.", "{n} questions are settled.", len(told))
        self._note.say(text)
        self._page.frame.announce(text)

    def _verdict(self, act: Act, q: QuestionRecord) -> Label | Skip | None:
        if act.verb == "unsure":
            return SKIP
        return q.effective if act.verb == "accept" else self._classes.chosen(act)

    def _write(self, person: Person, labels: Mapping[int, Label | Skip]) -> None:
        for question, label in labels.items():
            self._viewer.workspace.settle(question, person, label, meant=True)


def _said(q: QuestionRecord) -> dict[str, Label | None]:
    return {who: answer.label for who, answer in latest_answers(q).items()}


def _suggested(q: QuestionRecord) -> str | None:
    """What the answers come to together, and how sure that is."""
    if q.effective is None:
        return None
    return str(q.effective) if q.weight is None else f"{q.effective} ({100 * q.weight:.0f} %)"
