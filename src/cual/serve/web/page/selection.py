"""What is selected on the map: how much of what, and a board on which it gets classes or is reviewed."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from cual.serve.rules.records import AdaptationRecord, Person, QuestionRecord
from cual.serve.web.page.adaptation_frame import AdaptationPage
from cual.serve.web.page.answers import latest_answers
from cual.serve.web.page.board import Act, Tile
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.judging import Judging
from cual.serve.web.page.questions import GRACE
from cual.serve.web.page.samples import Shown
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import asked
from cual.types import Label

PER_PAGE = 60


class Selection:
    """Any rows of the pool, and what can be done with them."""

    def __init__(self, page: AdaptationPage, again: Callable[[], Awaitable[None]]) -> None:
        """`again` draws the page anew, after what was said is written down."""
        self._page, self._viewer = page, page.viewer
        self.rows: frozenset[int] = frozenset()
        self._how = ""
        self._shown = PER_PAGE
        self._mine: list[dict[str, Any]] = []
        self.judging = _Judging(page, again)
        with El("section", classes="card stack tight"):
            El("h2", tr("Selection"))
            self._words = El("p", classes="wrap", data_selection="")
        with El("div", classes="desk below") as self._desk:
            with El("div", classes="stack"):
                self.judging.board()
                with El("div", classes="line"):
                    self._more = button(tr("Show more")).on("click", self._show_more)
                    self._count = El("span", classes="soft")
            with El("aside", classes="panel", data_keys="", aria_label=tr("Label or review the selection")):
                El("h2", tr("Label or review"))
                El(
                    "p",
                    tr("Ctrl A takes a whole group. A class labels it; Confirm takes the class shown."),
                    "soft wrap",
                )
                self.judging.panel()
        self._desk.set_visibility(False)
        self._words.say(tr("Nothing is selected."))

    @property
    def words(self) -> str:
        """What is selected, in words."""
        return self._words.text

    def choose(self, rows: Collection[int], how: str) -> None:
        """Have these rows; `how` says of what they are a choice, where that needs saying."""
        self.rows, self._how, self._shown = frozenset(rows), how, PER_PAGE
        self.judging.clear()

    async def show(
        self, record: AdaptationRecord, believed: Sequence[dict[str, Any]], open_: Sequence[QuestionRecord]
    ) -> None:
        """Say what is selected, and put what can be worked on on the board."""
        person = self._viewer.person.name
        questions = [q for q in open_ if q.row in self.rows]
        free = [q for q in questions if is_free(q, person)]
        beliefs = [row for row in believed if row["row"] in self.rows]
        self._words.say(self._said(len(questions), len(questions) - len(free), beliefs))
        self._mine = [_as_row(q) for q in free] + beliefs
        self._desk.set_visibility(bool(self._mine))
        await self._draw()
        often = Counter(row["label"] for row in self._mine if row["label"] is not None).most_common()
        if self._mine:
            await self.judging.offer(record, [label for label, _ in often])

    def _said(self, questions: int, lent: int, beliefs: Sequence[dict[str, Any]]) -> str:
        if not self.rows:
            return tr("Nothing is selected.")
        so_far = any(row["provisional"] for row in beliefs)
        without = tr("{n} labelled without asking", n=f"{len(beliefs):,}")
        if so_far:
            without = tr("{n} that would be labelled without asking by now", n=f"{len(beliefs):,}")
        parts = [
            trn("{n} open question", "{n} open questions", questions),
            without,
            trn("{n} other", "{n} others", len(self.rows) - questions - len(beliefs)),
        ]
        words = tr("Selected: {counts}.", counts=", ".join(parts))
        if lent:
            words += " " + trn(
                "{n} question is with somebody else at the moment, or has your answer already.",
                "{n} questions are with somebody else at the moment, or have your answer already.",
                lent,
            )
        return f"{words} {self._how}".strip()

    async def _draw(self) -> None:
        here = self._mine[: self._shown]
        await self.judging.show(here, len(self._mine), tr("Labelled without asking"))
        self._more.set_visibility(len(self._mine) > len(here))
        counts = {"shown": f"{len(here):,}", "total": f"{len(self._mine):,}"}
        self._count.say(tr("{shown} of {total} shown", **counts))

    async def _show_more(self) -> None:
        self._shown += PER_PAGE
        await self._draw()


class _Judging(Judging):
    """Open questions beside beliefs: a class answers them, and confirming takes the class suggested."""

    def __init__(self, page: AdaptationPage, again: Callable[[], Awaitable[None]]) -> None:
        super().__init__(page, again, asking=("answer", "confirm", "reject"))
        self._asked: set[int] = set()

    async def show(self, rows: Sequence[dict[str, Any]], total: int, group: str) -> None:
        self._asked |= {row["row"] for row in rows if "question" in row}
        await super().show(rows, total, group)

    def _tile(self, row: dict[str, Any], number: int, total: int, group: str, shown: Shown) -> Tile:
        if "question" not in row:
            return super()._tile(row, number, total, group, shown)
        looks = tr("looks new") if row["label"] is None else tr("looks like {label}", label=row["label"])
        return Tile(
            row["row"],
            tr("Open questions"),
            tr("{number} of {total}, open question, {looks}", number=number, total=total, looks=looks),
            self._page.samples.picture(row["row"]),
            shown.words,
            looks,
            columns=shown.columns,
        )

    def _meant(self, act: Act) -> list[int]:
        rows = super()._meant(act)
        return [
            row
            for row in rows
            if "question" not in self._rows[row]
            or act.verb == "answer"
            or (act.verb == "confirm" and self._rows[row]["label"] is not None)
        ]

    def _nothing(self, act: Act) -> str:
        if any(id in self._rows for id in act.ids):
            return tr("An open question needs a class: press its key, or type its name.")
        return super()._nothing(act)

    async def _say(self, act: Act, person: Person, rows: list[int]) -> str:
        questions = [row for row in rows if "question" in self._rows[row]]
        beliefs = [row for row in rows if row not in questions]
        said: list[str] = []
        if questions:
            said.append(await self._answer(act, person, questions))
        if beliefs:
            said.append(await super()._say(act, person, beliefs))
        return " ".join(said)

    async def _answer(self, act: Act, person: Person, rows: Sequence[int]) -> str:
        label = self._classes.chosen(act) if act.verb == "answer" else None
        answers: dict[int, Label] = {
            self._rows[row]["question"]: self._rows[row]["label"] if label is None else label for row in rows
        }
        await asked(self._viewer.workspace.answer, self._page.record.id, person, answers, GRACE, meant=True)
        if label is not None:
            self._classes.used(label)
        return trn("{n} question answered. ⌫ undoes.", "{n} questions answered. ⌫ undoes.", len(rows))

    async def _undo(self, person: Person) -> tuple[str, list[int]]:
        answered = [row for row in self._said[-1] if row in self._asked] if self._said else []
        for _ in answered:
            await asked(self._viewer.workspace.undo, self._page.record.id, person)
        if not answered:
            return await super()._undo(person)
        rest = {row: before for row, before in self._said.pop().items() if row not in answered}
        words = trn("Undone: {n}.", "Undone: {n}.", len(answered) + len(rest))
        if rest:
            self._said.append(rest)
            await super()._undo(person)
        return words, [*answered, *rest]


def is_free(question: QuestionRecord, person: str) -> bool:
    """Whether somebody may answer a question now: it has no answer of theirs, and others leave room."""
    holders = question.lent_to.split(", ") if question.lent_to else []
    return person not in latest_answers(question) and (person in holders or len(holders) < question.missing)


def _as_row(question: QuestionRecord) -> dict[str, Any]:
    """A question as the board takes it."""
    return {
        "row": question.row,
        "sample": question.sample,
        "label": question.suggestion,
        "question": question.id,
        "verdict": None,
        "instead": None,
        "provisional": False,
    }
