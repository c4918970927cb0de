"""The way from an empty workspace to the first question: four steps, each of which shows what is done."""

from collections.abc import Callable, Sequence

from cual.serve.rules.records import AgentRecord, PoolRecord, Role
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.forms import add_agent_form, add_pool_form, make_agent_form, new_adaptation_form
from cual.serve.web.page.status import Meter, stage_text
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, tried


class FirstRun:
    """Leads an administrator through the beginning. The form of the step that is due stands in it."""

    def __init__(self, viewer: Viewer, encoders: Sequence[str]) -> None:
        self._viewer, self._encoders = viewer, encoders
        self._drawn: object = None
        self._box = El("section", classes="card first-run", aria_label=tr("Getting started"))
        with self._box:
            El("h2", tr("Getting started"))
            El("p", tr("Four steps lead from here to the first question."), "soft")
            with El("ol", classes="steps"):
                self._agent = _Step(tr("An agent: what is known already"))
                self._pool = _Step(tr("A pool: what nobody has labelled yet"))
                self._budget = _Step(tr("A budget: how many questions people will answer"))
                self._people = _Step(tr("Invite people to answer"))
            with self._people.body:
                link(tr("Invite people"), "/people", "button")

    def hide(self) -> None:
        self._box.set_visibility(False)

    def show(self, agents: Sequence[AgentRecord], pools: Sequence[PoolRecord], people: int) -> None:
        """Say how far each step is, and draw the form of the one that is due."""
        self._box.set_visibility(True)
        known = [agent for agent in agents if agent.state == "ready"]
        ready = [pool for pool in pools if pool.state == "ready"]
        self._agent.show(agents, bool(known))
        self._pool.show(pools, bool(ready))
        self._budget.tell(tr("next") if known and ready else tr("later"), bool(known and ready))
        self._people.tell(tr("done") if people > 1 else tr("any time"), people > 1)
        due = "agent" if not known else "pool" if not ready else "budget"
        busy = any(thing.state == "preparing" for thing in (*agents, *pools))
        now = (due, busy, [(a.id, a.name) for a in known], [(p.id, p.name) for p in ready])
        if now == self._drawn:
            return
        self._drawn = now
        for step in (self._agent, self._pool, self._budget):
            step.body.clear()
        if due == "budget":
            with self._budget.body:
                new_adaptation_form(self._viewer, known, ready, None)
        elif not busy:
            with (self._agent if due == "agent" else self._pool).body:
                self._forms(due, known)

    def _forms(self, due: str, known: Sequence[AgentRecord]) -> None:
        if due == "pool":
            add_pool_form(self._viewer, known)
            return
        with El("section", classes="card", aria_label=tr("Built-in example")):
            El("h2", tr("Built-in example"))
            El("p", tr("Handwritten digits: an agent that knows 0 to 4, and a pool with all ten."), "soft")
            button(tr("Use the built-in example"), "main").on("click", self._example)
        make_agent_form(self._viewer, self._encoders)
        add_agent_form(self._viewer)

    async def _example(self) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._viewer.workspace.make_example, person)


class _Step:
    """One step: what it is about, how far it is, and what there is to do."""

    def __init__(self, title: str) -> None:
        with El("li", classes="step"):
            with El("div", classes="line apart"):
                El("h3", title)
                self._badge = El("span", classes="badge")
            self._about = El("p", classes="soft wrap")
            self._meter = Meter(title)
            self.body = El("div", classes="cards")
        self._meter.set_visibility(False)
        self._about.set_visibility(False)

    def tell(self, words: str, lit: bool) -> None:
        self._badge.say(words)
        self._badge.classes(**({"add": "lit"} if lit else {"remove": "lit"}))

    def show(self, things: Sequence[AgentRecord] | Sequence[PoolRecord], done: bool) -> None:
        """How far the things of this step are."""
        made = next((thing for thing in things if thing.state == "preparing"), None)
        failed = next((thing for thing in things if thing.state == "failed"), None)
        self._meter.set_visibility(made is not None)
        if made is not None:
            self._meter.follow(made.progress)
        about = ""
        if made is not None:
            about = tr("{name} is being made {stage}", name=made.name, stage=stage_text(made.progress))
        elif failed is not None and not done:
            about = tr("{name} could not be made: {why}", name=failed.name, why=failed.error or "")
        self._about.say(about)
        self._about.set_visibility(bool(about))
        self.tell(tr("done") if done else tr("under way") if made is not None else tr("to do"), done)


def nothing_yet(viewer: Viewer) -> Callable[[bool], object]:
    """A sentence for those who cannot begin; call it with whether there is nothing to see."""
    box = El("div", classes="empty stack")
    with box:
        El("h2", tr("Nothing to label yet"))
        El("p", tr("An administrator is setting things up. Questions appear here by themselves."))
    if viewer.may(Role.admin):
        box.set_visibility(False)
        return lambda empty: None
    return box.set_visibility
