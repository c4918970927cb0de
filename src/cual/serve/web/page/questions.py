"""The question page: a board of questions by suggested class, answered by keyboard. It decides nothing."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.data.labels import SKIP, Skip
from cual.errors import CualError
from cual.serve.rules.records import AdaptationRecord, QuestionRecord, Role
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.board import Act, Board, Keys, Tile
from cual.serve.web.page.class_panel import ClassPanel
from cual.serve.web.page.desks import Desks, fair_share, too_many
from cual.serve.web.page.elements import El, actions, armed_box
from cual.serve.web.page.guidelines import Guidelines
from cual.serve.web.page.help import confirmed, help_dialog
from cual.serve.web.page.keymap import ALSO, COMMANDS, TITLES
from cual.serve.web.page.recent import recent
from cual.serve.web.page.routes import page
from cual.serve.web.page.samples import Shown
from cual.serve.web.page.stages import Stage
from cual.serve.web.page.texts import told, tr, trn
from cual.serve.web.page.viewer import Viewer, asked, complain
from cual.serve.web.page.words import ZONES
from cual.types import Label

GRACE = 2.0
"""Seconds between the last answer of a round and the learner's start, in which it can still be undone."""
_LOOK_AGAIN = 5.0
"""Seconds after which the desk asks again what is lent to it: loans end, and others may have answered."""

desks = Desks()


def add_page() -> None:
    @page("/adaptations/{id}")
    async def questions_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        async with adaptation_frame(viewer, id, "") as adaptation_page:
            desk = QuestionDesk(adaptation_page)
            adaptation_page.poll(desk.refresh)
            ui.context.client.on_connect(desk.sit)
            ui.context.client.on_delete(desk.leave)


class QuestionDesk:
    """One person in front of the open questions of one adaptation."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._record, self._samples = page, page.record, page.samples
        self._viewer = viewer = page.viewer
        self._workspace, self.person = viewer.workspace, viewer.person
        self._one_at_a_time = asyncio.Lock()
        self._looked = 0.0
        self._numbers: dict[int, int] = {}
        self._together: list[int] = []
        self._suggestion_of: dict[int, Label | None] = {}
        self._round = -1
        self._answers = viewer.may(Role.annotator)
        verbs = {**COMMANDS, **ALSO} if self._answers else {"?": "help"}
        answers = ("answer", "accept", "unsure")
        self._keys = Keys(verbs, leaving=(*answers, "pass on"), asking=answers)
        self._keys.on_act(self._act)
        self._help = help_dialog()
        with El("div", classes="desk"):
            with El("div"):
                self._stage = Stage(viewer, page.record.id, self.refresh)
                self._board = Board(texts=self._samples.kind != "pictures")
            with El("aside", classes="panel", data_keys="", aria_label=tr("Answer")).set() as panel:
                self._panel = panel
                Guidelines(viewer, page.pool)
                self._classes = ClassPanel(
                    self._keys, self._workspace, page.record.agent, self.person, self._likely
                )
                armed_box()
                self._note = El("div", classes="note")
                actions(COMMANDS, TITLES)
        if not self._answers:
            self._note.say(tr("You can look, but not answer."))

    @property
    def on_desk(self) -> int:
        return len(self._board)

    def sit(self) -> None:
        if self._answers:
            desks.sit(self._workspace, self._record.id, self)

    async def leave(self) -> None:
        """Whoever closes the page leaves its questions to others, unless it is open elsewhere as well."""
        here = (self._workspace, self._record.id)
        desks.leave(*here, self)
        if self._answers and len(self._board) and self.person.id not in desks.on_desk(*here):
            await asked(self._workspace.pass_on, self._record.id, self.person, self._board.ids)

    async def refresh(self, record: AdaptationRecord) -> None:
        """Show what the workspace says now; asked again, for an answer may have come in while we waited."""
        async with self._one_at_a_time:
            await self._show(await recent.get(self._workspace, record.id))

    async def _show_now(self, record: AdaptationRecord | None = None) -> None:
        """Show what is true after a change of ours, without waiting for the next poll."""
        record = record or await asked(self._workspace.adaptation, self._record.id)
        recent.put(self._workspace, record)
        await self._show(record)

    async def _show(self, record: AdaptationRecord) -> None:
        if record.round != self._round:
            self._round, self._numbers = record.round, {}
            self._looked = (
                0.0  # somebody may have opened an earlier round again: what lies here is withdrawn then
            )
        self._record = record
        self._page.status.show(record)
        self._panel.set_visibility(record.state in ("asking", "thinking") and self._answers)
        if record.state != "asking":
            self._board.show([])
        elif not self._answers:
            await self._look_only()
        else:
            await self._fill()
        await self._offer(self._board.ids)
        self._stage.show(record, len(self._board))

    async def _fill(self) -> None:
        """Have a fair share of the open questions on the desk, and hand on what is too much."""
        record, now = self._record, time.monotonic()
        on_desk = {**desks.on_desk(self._workspace, record.id), self.person.id: len(self._board)}
        n = fair_share(record.open, on_desk, self.person.id)
        surplus = too_many(record.open, on_desk, self.person.id)
        if surplus:
            handed = self._board.ids[-surplus:]
            await asked(self._workspace.pass_on, record.id, self.person, handed)
            self._board.remove(handed)
            self._note.say(tr("{n} questions went to somebody else.", n=len(handed)))
        elif len(self._board) < min(n, record.open) or now - self._looked > _LOOK_AGAIN:
            self._looked = now
            await self._lay_out(
                await asked(self._workspace.lend, record.id, self.person, max(n, len(self._board)))
            )

    async def _look_only(self) -> None:
        if len(self._board) == self._record.open and time.monotonic() - self._looked < _LOOK_AGAIN:
            return
        self._looked = time.monotonic()
        everything = await asked(self._workspace.questions, self._record.id)
        here = [q for q in everything if q.round == self._record.round and not q.answered]
        await self._lay_out(here[:96])

    async def _lay_out(self, questions: Sequence[QuestionRecord]) -> None:
        self._suggestion_of |= {q.id: q.suggestion for q in questions}
        groups = {q.suggestion: None for q in questions}
        in_groups = [q for suggestion in groups for q in questions if q.suggestion == suggestion]
        shown = await self._samples.of_questions([q for q in questions if q.id not in self._board])
        await self._offer([q.id for q in questions])  # first: a digit pressed on a tile must mean its class
        self._board.show([self._tile(q, shown) for q in in_groups])

    def _likely(self, ids: Sequence[int]) -> list[Label]:
        """What these questions probably are, then what most others on the board probably are."""
        here = [label for id in ids if (label := self._suggestion_of.get(id)) is not None]
        return list(dict.fromkeys([*here, *self._often(self._board.ids)]))

    def _often(self, ids: Sequence[int]) -> list[Label]:
        """What these questions probably are, the most frequent first."""
        suggested = (self._suggestion_of.get(id) for id in ids)
        return [label for label, _ in Counter(label for label in suggested if label is not None).most_common()]

    async def _offer(self, ids: Sequence[int]) -> None:
        """Offer the classes, those first that are likely for these questions."""
        record = self._record
        await self._classes.show(record.suggested_classes, record.new_classes, self._often(ids))

    def _tile(self, q: QuestionRecord, shown: Mapping[int, Shown]) -> Tile:
        sample = shown.get(q.row, Shown(str(q.sample)))
        number = self._numbers.setdefault(q.id, len(self._numbers) + 1)
        total = max(self._record.asked_in_round, number)
        if q.suggestion is None:
            group = tr("Looks new")
            name = tr("question {number} of {total}, no suggestion", number=number, total=total)
        else:
            group = tr("Looks like {label}", label=q.suggestion)
            name = tr(
                "question {number} of {total}, suggested {label}",
                number=number,
                total=total,
                label=q.suggestion,
            )
        return Tile(
            q.id,
            group,
            name,
            self._samples.picture(q.row),
            sample.words,
            told(ZONES[q.zone]),
            columns=sample.columns,
        )

    # -- what a person does ------------------------------------------------------------------------------------

    async def _act(self, event: GenericEventArguments) -> None:
        act = Act.read(event.args)
        if act is None:
            return
        if act.verb == "help":
            self._help.open()
            return
        async with self._one_at_a_time:
            try:
                self.person = await asked(self._viewer.now, Role.annotator)
                await self._do(act)
            except CualError as error:
                complain(error)
                self._keys.restore(act.ids)
                await self._show_now()
            except Exception:
                complain(tr("it could not be saved; try again"))
                self._keys.restore(act.ids)
                raise

    async def _do(self, act: Act) -> None:
        ids = [id for id in act.ids if id in self._board]
        if act.verb == "propose":
            self._classes.propose(act.name or "")
        elif act.verb == "correct":
            ui.navigate.to(f"/adaptations/{self._record.id}/answers")
        elif act.verb == "undo":
            await self._undo()
        elif not ids:
            self._say("Nothing is selected.")
        elif act.verb == "pass on":
            await asked(self._workspace.pass_on, self._record.id, self.person, ids)
            self._board.remove(ids)
            self._say(
                trn(
                    "{n} question left for later or for others.",
                    "{n} questions left for later or for others.",
                    len(ids),
                )
            )
            await self._show_now()
        elif act.verb == "unsure":
            await self._answer(dict.fromkeys(ids, SKIP), "Cannot tell")
        elif act.verb == "accept":
            await self._accept(ids)
        elif act.verb == "answer" and (label := self._classes.chosen(act)) is not None:
            await self._answer(dict.fromkeys(ids, label), str(label))
            self._classes.used(label)

    async def _accept(self, ids: Sequence[int]) -> None:
        """Answer each with the class that is suggested for it."""
        suggested = {id: label for id in ids if (label := self._suggestion_of.get(id)) is not None}
        left = [id for id in ids if id not in suggested]
        if left:
            self._keys.restore(left)
            self._say(
                trn(
                    "{n} question without a suggestion: type the name of the class.",
                    "{n} questions without a suggestion: type the name of the class.",
                    len(left),
                )
            )
        if suggested:
            await self._answer(suggested, ", ".join(str(label) for label in dict.fromkeys(suggested.values())))

    async def _answer(self, answers: Mapping[int, Label | Skip], words: str) -> None:
        ids = list(answers)
        record = await asked(self._workspace.answer, self._record.id, self.person, answers, GRACE, meant=True)
        self._board.remove(ids)
        self._together.append(len(ids))
        self._say(
            trn("{n} question: {words}. ⌫ undoes.", "{n} questions: {words}. ⌫ undoes.", len(ids), words=words)
        )
        await self._show_now(record)

    async def _undo(self) -> None:
        """Take back what was answered last; what was answered in one go is taken back in one go."""
        cost = await asked(self._workspace.undo_cost, self._record.id, self.person)
        if cost.used and not await confirmed(
            tr("{text} Take the answer back?", text=cost.text), tr("Take it back")
        ):
            self._say("Nothing was taken back. F2 corrects an answer without going back.")
            return
        undone = [await asked(self._workspace.undo, self._record.id, self.person, reopen=cost.used)]
        for _ in range((self._together.pop() if self._together else 1) - 1):
            undone.append(await asked(self._workspace.undo, self._record.id, self.person))
        self._looked = 0.0
        await self._show_now()
        shown = await self._samples.of_questions(undone)
        for question in undone:
            self._suggestion_of[question.id] = question.suggestion
            self._board.add(self._tile(question, shown))
        self._stage.show(self._record, len(self._board))
        self._keys.focus(undone[-1].id)
        self._say(trn("Undone: {n} question open again.", "Undone: {n} questions open again.", len(undone)))

    def _say(self, text: str) -> None:
        self._note.say(text)
        self._page.frame.announce(text)
