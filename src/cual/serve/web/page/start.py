"""The start page: what there is in the workspace, what waits for answers, and forms to begin more."""

from collections.abc import Sequence

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules.records import AdaptationRecord, AgentRecord, PoolRecord, Role
from cual.serve.web.page.cards import AdaptationCard, AgentCard, Cards, PoolCard
from cual.serve.web.page.elements import El, link
from cual.serve.web.page.first_run import FirstRun, nothing_yet
from cual.serve.web.page.forms import add_agent_form, add_pool_form, make_agent_form, new_adaptation_form
from cual.serve.web.page.frame import frame
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.managing import Managing
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import told, tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import STATES

_OVER = ("finished", "dropped")
Everything = tuple[list[AgentRecord], list[PoolRecord], list[AdaptationRecord], int]


def add_page() -> None:
    @page("/")
    async def start_page(request: Request) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        encoders = await asked(viewer.workspace.encoders) if viewer.may(Role.admin) else []
        pace = await asked(viewer.workspace.pace) if viewer.may(Role.admin) else None
        with frame(viewer, tr("Start")):
            await Start(viewer, encoders, pace).refresh()


class Start:
    """Cards that follow the workspace, above forms that must not be redrawn while somebody types."""

    def __init__(self, viewer: Viewer, encoders: Sequence[str], pace: float | None) -> None:
        self._viewer, self._workspace, self._encoders = viewer, viewer.workspace, encoders
        self._pace = pace
        self._agent_names: dict[int, str] = {}
        self._pool_names: dict[int, str] = {}
        self._over_drawn: object = None
        self._forms_drawn: dict[str, object] = {}
        admin = viewer.may(Role.admin)
        drop = self._drop if admin else None
        managing = Managing(viewer, self.refresh) if admin else None
        with El("div", classes="stack"):
            El("h1", tr("Workspace"), "hidden-text")
            self._first_run = FirstRun(viewer, encoders) if admin else None
            self._nothing = nothing_yet(viewer)
            self._adaptations = Cards(tr("Adaptations"), "", lambda: AdaptationCard(self._names, drop))
            self._over = El("details")
            with El("div", classes="halves"):
                none = tr("There are none yet.")
                self._agents = Cards(tr("Agents"), none, lambda: AgentCard(managing))
                self._pools = Cards(tr("Pools"), none, lambda: PoolCard(managing))
            with El("div", classes="cards") as forms:
                self._forms = {name: El("div") for name in ("adaptation", "pool", "agent", "file")}
            self._all_forms = forms
        ui.timer(1.0, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Show what has changed."""
        agents, pools, adaptations, people = await asked(self._everything)
        self._agent_names, self._pool_names = {a.id: a.name for a in agents}, {p.id: p.name for p in pools}
        agents = [a for a in agents if a.state != "removed"]
        pools = [p for p in pools if p.state != "removed"]
        going = [a for a in adaptations if a.state not in _OVER]
        self._adaptations.show(going, tr("Nothing is under way."))
        self._agents.show(agents)
        self._pools.show(pools)
        self._show_over([a for a in adaptations if a.state in _OVER])
        self._nothing(not adaptations)
        if self._first_run is None:
            return
        self._all_forms.set_visibility(bool(adaptations))
        if not adaptations:
            self._first_run.show(agents, pools, people)
        else:
            self._first_run.hide()
            known = [agent for agent in agents if agent.state == "ready"]
            self._show_forms(known, [pool for pool in pools if pool.state == "ready"])

    def _everything(self) -> Everything:
        workspace = self._workspace
        people = sum(person.active for person in self._viewer.accounts.people())
        return workspace.agents(), workspace.pools(), workspace.adaptations(), people

    def _names(self, record: AdaptationRecord) -> tuple[str, str]:
        return self._agent_names.get(record.agent, "?"), self._pool_names.get(record.pool, "?")

    def _show_over(self, over: Sequence[AdaptationRecord]) -> None:
        now = [(a.id, a.state, self._names(a)) for a in over]
        if now == self._over_drawn:
            return
        self._over_drawn = now
        self._over.clear()
        self._over.set_visibility(bool(over))
        with self._over:
            El("summary", trn("{n} finished or dropped", "{n} finished or dropped", len(over)), "soft")
            with El("ul"):
                for a in over:
                    agent, pool = self._names(a)
                    with El("li"):
                        link(f"{pool} · {agent}", f"/adaptations/{a.id}", "wrap")
                        result = told(STATES[a.state])
                        if a.state == "finished":
                            result = tr("version {version}", version=a.result_version)
                        labels = trn("{n} label", "{n} labels", a.spent)
                        El("span", f" {result}, {labels}", "soft")

    def _show_forms(self, agents: Sequence[AgentRecord], pools: Sequence[PoolRecord]) -> None:
        """Draw those forms whose choices have changed, and no others: somebody may be typing."""
        known, ready = [(a.id, a.name) for a in agents], [(p.id, p.name) for p in pools]
        keys: dict[str, object] = {"adaptation": (known, ready), "pool": known, "agent": True, "file": True}
        for name, box in self._forms.items():
            if self._forms_drawn.get(name) == keys[name]:
                continue
            self._forms_drawn[name] = keys[name]
            box.clear()
            with box:
                if name == "adaptation":
                    new_adaptation_form(self._viewer, agents, pools, self._pace)
                elif name == "pool":
                    add_pool_form(self._viewer, agents)
                elif name == "agent":
                    make_agent_form(self._viewer, self._encoders)
                else:
                    add_agent_form(self._viewer)

    async def _drop(self, id: int) -> None:
        sure = tr("Give this adaptation up? Its answers stay in the database, but no version comes of it.")
        if not await confirmed(sure, tr("Drop it")):
            return
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._workspace.drop, id, person)
            await self.refresh()
