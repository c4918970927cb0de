"""What a split of a class asks: what each group is, and what its doubtful samples are. The rest follows."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from nicegui import ui

from cual.errors import CualError
from cual.serve.rules.records import RepairRecord, Role, SplitRecord, SplitSample
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, complain, tried
from cual.types import Label


class SplitQuestions(El):
    """The card of one split; it stays as it is until it is answered or dropped."""

    def __init__(self, viewer: Viewer, record: RepairRecord, refresh: Callable[[], Awaitable[None]]) -> None:
        assert record.split is not None
        name = tr("Split of {name}", name=record.split.label)
        super().__init__("section", classes="card stack tight", aria_label=name)
        self._viewer, self._record, self._refresh = viewer, record, refresh
        self._split: SplitRecord = record.split
        self._names: list[ui.input] = []
        self._answers: dict[int, ui.input] = {}
        self._leave: ui.checkbox | None = None
        self._kinds: dict[int, str] = {}

    async def draw(self) -> None:
        pools = await asked(self._viewer.workspace.pools)
        self._kinds = {pool.id: pool.kind for pool in pools if pool.state == "ready"}
        split = self._split
        with self:
            El("h2", tr("Split of {name}", name=split.label), "wrap")
            El(
                "p",
                tr(
                    "Its {n} samples lie in these groups. Say what each group is, a known class or a new one, "
                    "and what the doubtful samples are; leave empty what you cannot tell. The rest follows.",
                    n=split.size,
                ),
                "soft wrap",
            )
            for number, group in enumerate(split.groups, start=1):
                title = trn(
                    "Group {number}: {n} sample", "Group {number}: {n} samples", group.size, number=number
                )
                with El("div", classes="stack tight", role="group", aria_label=title):
                    El("h3", title)
                    with El("div", classes="line examples"):
                        for sample in group.examples:
                            await self._show(sample)
                    self._names.append(_field(tr("Name of group {number}", number=number)))
            if split.questions:
                El("h3", tr("Doubtful samples"))
            for number, sample in enumerate(split.questions, start=1):
                with El("div", classes="line examples"):
                    await self._show(sample)
                    label = tr(
                        "Doubtful sample {number}, of group {group}", number=number, group=sample.group + 1
                    )
                    self._answers[sample.sample] = _field(label)
            if split.missing:
                self._leave = ui.checkbox(
                    trn(
                        "Leave {n} sample in the class: its features are kept nowhere",
                        "Leave {n} samples in the class: their features are kept nowhere",
                        split.missing,
                    )
                )
            with El("div", classes="line"):
                button(tr("Split the class"), "main").on("click", self._send)
                button(tr("Drop")).on("click", self._drop)

    async def _show(self, sample: SplitSample) -> None:
        """The picture or text of a sample; of others, where they are."""
        kind = self._kinds.get(sample.pool or 0)
        if sample.pool is None or sample.row is None or kind is None:
            El("span", tr("sample {number}, in memory only", number=sample.sample), "soft")
            return
        words = tr("Row {row} of pool {pool}", row=sample.row, pool=sample.pool)
        if kind == "pictures":
            El("img", src=f"/api/pools/{sample.pool}/pictures/{sample.row}", alt=words, loading="lazy")
            return
        if kind == "text":
            with suppress(CualError):  # a row without a text is called by its number
                words = (await asked(self._viewer.workspace.text, sample.pool, sample.row))[:300]
        El("span", words, "soft wrap")

    async def _send(self) -> None:
        workspace, agent = self._viewer.workspace, self._record.agent
        known = (await asked(workspace.agent, agent)).classes
        names = [_typed(known, str(name.value or "")) for name in self._names]
        if any(name == "" for name in names):
            complain(tr("Every group needs a name; two groups may have the same."))
            return
        answers = {
            sample: _typed(known, str(field.value))
            for sample, field in self._answers.items()
            if str(field.value or "").strip()
        }
        person = await tried(self._viewer.now, Role.admin)
        if person is None:
            return
        leave = self._leave is not None and bool(self._leave.value)
        await tried(workspace.answer_split, agent, self._record.id, names, answers, person, leave)
        await self._refresh()

    async def _drop(self) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._viewer.workspace.drop_repair, self._record.agent, self._record.id, person)
        await self._refresh()


def _field(label: str) -> ui.input:
    return ui.input(label).props("outlined dense maxlength=100").style("width: 320px; max-width: 100%")


def _typed(known: list[Label], text: str) -> Label:
    """A class as somebody typed it: a number where classes are numbers."""
    plain = text.strip()
    numbers = bool(known) and isinstance(known[0], int)
    return int(plain) if numbers and plain.lstrip("-").isdigit() else plain
