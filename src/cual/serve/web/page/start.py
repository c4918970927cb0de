"""The start page: what there is in the workspace, what waits for answers, and forms to begin more."""

from collections.abc import Sequence

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules.records import AdaptationRecord, AgentRecord, PoolRecord, Role
from cual.serve.web.page.cards import AdaptationCard, AgentCard, Cards, PoolCard
from cual.serve.web.page.elements import El, link
from cual.serve.web.page.forms import add_agent_form, add_pool_form, new_adaptation_form
from cual.serve.web.page.frame import frame
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.routes import page
from cual.serve.web.page.viewer import Viewer, asked, tried

_OVER = ("finished", "dropped")
_NO_AGENT = "There are none yet. Make one with “cual fit” and add it here."
Everything = tuple[list[AgentRecord], list[PoolRecord], list[AdaptationRecord]]


def add_page() -> None:
    @page("/")
    async def start_page(request: Request) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        with frame(viewer, "Start"):
            await Start(viewer).refresh()


class Start:
    """Cards that follow the workspace, above forms that must not be redrawn while somebody types."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer, self._workspace = viewer, viewer.workspace
        self._agent_names: dict[int, str] = {}
        self._pool_names: dict[int, str] = {}
        self._over_drawn: object = None
        self._forms_drawn: object = None
        drop = self._drop if viewer.may(Role.admin) else None
        with El("div", classes="stack"):
            El("h1", "Workspace", "hidden-text")
            self._adaptations = Cards("Adaptations", "", lambda: AdaptationCard(self._names, drop))
            self._over = El("details")
            with El("div", classes="halves"):
                self._agents = Cards("Agents", _NO_AGENT, AgentCard)
                self._pools = Cards("Pools", "There are none yet.", PoolCard)
            self._forms = El("div", classes="cards")
        ui.timer(1.0, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Show what has changed."""
        agents, pools, adaptations = await asked(self._everything)
        self._agent_names, self._pool_names = {a.id: a.name for a in agents}, {p.id: p.name for p in pools}
        going = [a for a in adaptations if a.state not in _OVER]
        nothing = "Nothing is under way. " + _how_to_begin(agents, pools)
        self._adaptations.show(going, nothing)
        self._agents.show(agents)
        self._pools.show(pools)
        self._show_over([a for a in adaptations if a.state in _OVER])
        if self._viewer.may(Role.admin):
            self._show_forms(agents, [pool for pool in pools if pool.state == "ready"])

    def _everything(self) -> Everything:
        return self._workspace.agents(), self._workspace.pools(), self._workspace.adaptations()

    def _names(self, record: AdaptationRecord) -> tuple[str, str]:
        return self._agent_names.get(record.agent, "?"), self._pool_names.get(record.pool, "?")

    def _show_over(self, over: Sequence[AdaptationRecord]) -> None:
        now = [(a.id, a.state) for a in over]
        if now == self._over_drawn:
            return
        self._over_drawn = now
        self._over.clear()
        self._over.set_visibility(bool(over))
        with self._over:
            El("summary", f"{len(over)} finished or dropped", "soft")
            with El("ul"):
                for a in over:
                    agent, pool = self._names(a)
                    with El("li"):
                        link(f"{pool} · {agent}", f"/adaptations/{a.id}", "wrap")
                        result = f"version {a.result_version}" if a.state == "finished" else a.state
                        El("span", f" {result}, {a.spent} labels", "soft")

    def _show_forms(self, agents: Sequence[AgentRecord], ready: Sequence[PoolRecord]) -> None:
        now = ([(a.id, a.name) for a in agents], [(p.id, p.name) for p in ready])
        if now == self._forms_drawn:
            return
        self._forms_drawn = now
        self._forms.clear()
        with self._forms:
            new_adaptation_form(self._viewer, agents, ready)
            add_pool_form(self._viewer, agents)
            add_agent_form(self._viewer)

    async def _drop(self, id: int) -> None:
        sure = "Give this adaptation up? Its answers stay in the database, but no version comes of it."
        if not await confirmed(sure, "Drop it"):
            return
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._workspace.drop, id, person)
            await self.refresh()


def _how_to_begin(agents: Sequence[AgentRecord], pools: Sequence[PoolRecord]) -> str:
    if not agents:
        return "An administrator adds an agent and a pool first."
    return "An administrator adds a pool first." if not pools else "An administrator can start something."
