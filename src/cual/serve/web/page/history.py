"""The history of an agent: its versions, what each learned and at what cost, and the way back."""

from collections.abc import Sequence

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules import standing
from cual.serve.rules.records import AdaptationRecord, AgentRecord, Role, VersionRecord
from cual.serve.rules.sentences import said
from cual.serve.web.page.candidate import CandidateCard
from cual.serve.web.page.class_repair import change_in_words
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.export import available_formats, export_card
from cual.serve.web.page.false_alarms import false_alarms_card
from cual.serve.web.page.frame import frame
from cual.serve.web.page.inbox import InboxCard
from cual.serve.web.page.rollout import BADGES, accuracy_in_words, reason_for, rollout_card
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import told, tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import STATES, day, percent, some

_COLUMNS = (
    (said("Version"), ""),
    (said("Made"), ""),
    (said("Learned"), ""),
    (said("Labels used"), "number"),
    (said("Without asking"), "number"),
    (said("Accuracy"), "number"),
    (said("Suggestions right"), "number"),
)
"""Names and kinds."""


def add_page() -> None:
    @page("/agents/{id}")
    async def history_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        agent = await asked(viewer.workspace.agent, id)
        with frame(viewer, tr("History · {name}", name=agent.name)):
            history = History(viewer, id)
            await history.draw(agent)
            ui.timer(2.0, history.refresh, immediate=False)


class History:
    """The versions of one agent."""

    def __init__(self, viewer: Viewer, id: int) -> None:
        self._viewer, self._id = viewer, id
        self._box = El("div", classes="stack")
        self._drawn: tuple[object, ...] = ()
        self._candidate = CandidateCard(viewer, id, self.refresh)
        self._inbox: InboxCard | None = None

    async def refresh(self) -> None:
        await self.draw(await asked(self._viewer.workspace.agent, self._id))

    async def draw(self, agent: AgentRecord) -> None:
        """Draw again if anything has changed."""
        workspace = self._viewer.workspace
        versions = await asked(workspace.versions, self._id)
        going = [a for a in await asked(workspace.adaptations) if a.agent == self._id and a.state != "finished"]
        changes = await asked(workspace.stage_changes, self._id)
        stages = tuple((v.number, v.stage) for v in versions)
        now = (agent, stages, tuple((a.id, a.state) for a in going), len(changes))
        if now == self._drawn:
            await self._candidate.draw(agent)
            if self._inbox is not None:
                await self._inbox.refresh()
            return
        self._drawn = now
        columns = any(pool.columns for pool in await asked(workspace.pools) if pool.agent == self._id)
        inbox = await asked(workspace.inbox, self._id)
        self._box.clear()
        with self._box:
            with El("div"):
                El("h1", agent.name, "wrap")
                El(
                    "p",
                    tr(
                        "Version {version} predicts now. Method {method}, {width} features.",
                        version=agent.version,
                        method=agent.method,
                        width=agent.width,
                    ),
                    "soft",
                )
            self._candidate.place()
            with El("section", classes="card", aria_label=tr("Classes")):
                El("h2", trn("{n} class", "{n} classes", len(agent.classes)))
                El("p", some(agent.classes, 60), "wrap")
                link(tr("What each of them is"), f"/agents/{self._id}/classes")
                if self._viewer.may(Role.admin):
                    link(tr("Teach and repair"), f"/agents/{self._id}/repair")
            with El("section", classes="card", aria_label=tr("Watching")):
                El("h2", tr("Watching"))
                link(tr("What its predictions say: novelty, drift, groups"), f"/agents/{self._id}/watching")
            with El("section", classes="card", aria_label=tr("Versions")):
                El("h2", tr("Versions"))
                self._table(versions, agent.version)
            rollout_card(self._viewer, agent, changes, self.refresh)
            false_alarms_card(self._viewer, agent)
            self._inbox = InboxCard(self._viewer, agent, inbox)
            if len(versions) > 1 or going:
                export_card(f"/api/agents/{self._id}/labels", available_formats(), columns)
            if going:
                with El("section", classes="card", aria_label=tr("Adaptations")):
                    El("h2", tr("Under way"))
                    _going(going)
        await self._candidate.draw(agent)

    def _table(self, versions: Sequence[VersionRecord], live: int) -> None:
        box = El("div", classes="scroll", tabindex="0", role="region", aria_label=tr("Table of versions"))
        with box, El("table", classes="table"):
            with El("thead"), El("tr"):
                for name, kind in _COLUMNS:
                    El("th", told(name), kind, scope="col")
                with El("th", scope="col"):
                    El("span", tr("Actions"), "hidden-text")
            with El("tbody"):
                for version in sorted(versions, key=lambda v: -v.number):
                    self._row(version, live)

    def _row(self, version: VersionRecord, live: int) -> None:
        first = version.parent is None
        with El("tr", data_version=str(version.number)):
            with El("td"), El("div", classes="line"):
                El("b", str(version.number))
                if version.stage in BADGES:
                    El("span", told(BADGES[version.stage]), "badge lit" if version.current else "badge")
                if not first:
                    El("span", tr("from {parent}", parent=version.parent), "soft")
            El("td", day(version.created_at))
            El("td", _learned(version), "wrap")
            asked_for = not first and version.change is None
            El("td", str(version.labels_used) if asked_for else "", "number")
            El("td", str(version.pseudo_labels) if asked_for else "", "number")
            El("td", accuracy_in_words(version), "number wrap")
            El("td", percent(version.suggestions_right), "number")
            with El("td"), El("div", classes="line"):
                if version.adaptation is not None:
                    link(tr("Report"), f"/api/adaptations/{version.adaptation}/report", target="_blank")
                if version.stage == "retired" and self._viewer.may(Role.admin):
                    button(
                        tr("Roll back"), aria_label=tr("Roll back to version {number}", number=version.number)
                    ).on("click", lambda: self._roll_back(version.number, live))

    async def _roll_back(self, number: int, live: int) -> None:
        sure = tr(
            "Make version {number} the one that predicts? Nothing is deleted, and you can come back.",
            number=number,
        )
        why = await reason_for(sure, tr("Roll back"), needed=False)
        if why is None:
            return
        person = await tried(self._viewer.now, Role.admin)
        if person is None:
            return
        await tried(self._viewer.workspace.roll_back, self._id, number, person, why, live)
        await self.refresh()


def _learned(version: VersionRecord) -> str:
    if version.change is not None:
        return change_in_words(version.change)
    return some(version.classes if version.parent is None else version.new_classes, 12) or tr("no new class")


def _going(adaptations: Sequence[AdaptationRecord]) -> None:
    for adaptation in adaptations:
        with El("div", classes="line"):
            link(tr("Adaptation {id}", id=adaptation.id), f"/adaptations/{adaptation.id}")
            El("span", told(STATES[adaptation.state]), "badge")
            El("span", told(standing.following(adaptation)), "soft wrap")
