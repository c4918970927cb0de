"""Teach and repair, the page: what is taught or taken back, how far that is, and splits that ask something.

For administrators. Classes are changed in a dialog of the page of classes (`class_repair`); what takes a
worker is followed here.
"""

from collections.abc import Mapping

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules.records import RepairRecord, Role
from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.class_repair import change_in_words, quoted
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.frame import frame
from cual.serve.web.page.repair_forms import forget_answers_card, forget_samples_card, teach_card
from cual.serve.web.page.routes import page
from cual.serve.web.page.splitting import SplitQuestions
from cual.serve.web.page.status import Meter, stage_text
from cual.serve.web.page.texts import told, tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import STATES, day

KINDS: Mapping[str, Sentence] = {
    "teach": said("Taught"),
    "forget": said("Taken back"),
    "split": said("Class split"),
    "merge": said("Classes merged"),
    "remove": said("Class removed"),
}
DONE = said("done")
SHOWN = 20


def add_page() -> None:
    @page("/agents/{id}/repair")
    async def repair_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        await asked(viewer.now, Role.admin)
        agent = await asked(viewer.workspace.agent, id)
        with frame(viewer, tr("Teach and repair · {name}", name=agent.name)), El("div", classes="stack"):
            El("h1", tr("Teach and repair {name}", name=agent.name), "wrap")
            El(
                "p",
                tr(
                    "Everything here makes a new version, which predicts from then on; the history says who "
                    "made it and why, and you can go back. Classes are renamed, merged, split and removed "
                    "where they are described."
                ),
                "soft wrap",
            )
            with El("div", classes="line"):
                link(tr("History"), f"/agents/{id}")
                link(tr("Classes"), f"/agents/{id}/classes")
            listed = Repairs(viewer, id)
            await listed.refresh()
            teach_card(viewer, id)
            await forget_samples_card(viewer, id, listed.refresh)
            await forget_answers_card(viewer, id, listed.refresh)
            ui.timer(1.0, listed.refresh, immediate=False)


class Repairs:
    """The repairs of one agent; those that are under way show how far they are."""

    def __init__(self, viewer: Viewer, agent: int) -> None:
        self._viewer, self._agent = viewer, agent
        self._asking = El("div", classes="stack")
        with El("section", classes="card", aria_label=tr("Repairs")):
            El("h2", tr("Repairs"))
            self._box = El("div", classes="stack tight", aria_live="polite")
        self._drawn: tuple[object, ...] | None = None
        self._questions: dict[int, SplitQuestions] = {}

    async def refresh(self) -> None:
        records = (await asked(self._viewer.workspace.repairs, self._agent))[:SHOWN]
        await self._ask([record for record in records if record.state == "asking"])
        now = tuple((record.id, record.state, record.progress, record.error) for record in records)
        if now == self._drawn:
            return
        self._drawn = now
        self._box.clear()
        with self._box:
            if not records:
                El("p", tr("Nothing was taught, taken back or split yet."), "soft")
            for record in records:
                self._row(record)

    async def _ask(self, asking: list[RepairRecord]) -> None:
        """Splits that ask something, each in a card that stays while somebody types."""
        wanted = {record.id for record in asking}
        for gone in [number for number in self._questions if number not in wanted]:
            self._questions.pop(gone).delete()
        for record in asking:
            if record.id not in self._questions:
                with self._asking:
                    self._questions[record.id] = SplitQuestions(self._viewer, record, self.refresh)
                await self._questions[record.id].draw()

    def _row(self, record: RepairRecord) -> None:
        name = f"{told(KINDS[record.kind])} {record.id}"
        with El("article", classes="stack tight", aria_label=name, data_repair=str(record.id)):
            with El("div", classes="line"):
                El("b", name)
                El("span", told(DONE) if record.state == "done" else told(STATES[record.state]), "badge")
                El("span", f"{record.by}, {day(record.created_at)}", "soft wrap")
                if record.why:
                    El("span", record.why, "soft wrap")
            if record.classes:
                El("p", _aim(record), "wrap")
            if record.change is not None:
                El("p", change_in_words(record.change), "wrap")
            if record.version is not None:
                El("p", tr("It made version {number}.", number=record.version), "soft")
            if record.skipped:
                El("p", trn("{n} item could not be read.", "{n} items could not be read.", record.skipped))
            if record.error:
                El("p", record.error, "wrap", role="alert")
            if record.state == "preparing":
                El("p", stage_text(record.progress), "soft")
                Meter(tr("Progress of {name}", name=name)).follow(record.progress)
            with El("div", classes="line"):
                if record.state == "preparing":
                    button(tr("Cancel")).on("click", lambda: self._job(record, ("waiting", "running")))
                if record.state == "failed":
                    button(tr("Try again")).on("click", lambda: self._job(record, ("failed",)))
                    button(tr("Drop")).on("click", lambda: self._drop(record))

    async def _job(self, record: RepairRecord, states: tuple[str, ...]) -> None:
        """Cancel the job of a repair, or try again what failed."""
        workspace = self._viewer.workspace
        person = await tried(self._viewer.now, Role.admin)
        jobs = [job for job in await asked(workspace.jobs) if job.repair == record.id and job.state in states]
        if person is not None and jobs:
            act = workspace.retry_job if "failed" in states else workspace.cancel_job
            await tried(act, jobs[0].id, person)
        await self.refresh()

    async def _drop(self, record: RepairRecord) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._viewer.workspace.drop_repair, self._agent, record.id, person)
        await self.refresh()


def _aim(record: RepairRecord) -> str:
    """What is to become of classes."""
    first, *others = record.classes
    if record.kind == "merge":
        return tr("{names} shall be part of “{into}”", names=quoted(others), into=first)
    if record.kind == "remove":
        return tr("“{name}” shall be removed", name=first)
    return tr("“{name}” shall be split", name=first)
