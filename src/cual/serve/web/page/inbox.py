"""What was sent to an agent and waits, on the agent's page: counts, what is kept, and a pool made of it."""

from nicegui import ui

from cual.errors import CualError
from cual.serve.rules.inbox.records import (
    LEAST_NEAR,
    MOST_DAYS,
    MOST_MEGABYTES,
    MOST_SAMPLES,
    InboxRecord,
    Policy,
)
from cual.serve.rules.records import AgentRecord, Role
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, complain, tried
from cual.serve.web.page.words import day

LEAST_BELOW_ONE = 0.9999


class InboxCard:
    """The inbox of one agent; its numbers follow what comes while forms stay as they are."""

    def __init__(self, viewer: Viewer, agent: AgentRecord, inbox: InboxRecord) -> None:
        self._viewer, self._agent = viewer, agent
        with El("section", classes="card", aria_label=tr("Inbox"), data_inbox=""):
            El("h2", tr("Inbox"))
            self._waiting = El("p", data_waiting="")
            self._came = El("p", classes="soft")
            if viewer.may(Role.admin):
                self._close_form()
                self._policy_form(inbox.policy)
        self._say(inbox)

    async def refresh(self) -> None:
        self._say(await asked(self._viewer.workspace.inbox, self._agent.id))

    def _say(self, inbox: InboxRecord) -> None:
        self._waiting.say(_waiting(inbox))
        self._came.say(_came(inbox))

    # -- a pool of it ------------------------------------------------------------------------------------------

    def _close_form(self) -> None:
        with El("div", classes="line"):
            name = ui.input(tr("Name of the pool")).props("outlined dense maxlength=100")

            async def close() -> None:
                person = await tried(self._viewer.now, Role.admin)
                if person is None:
                    return
                wanted = str(name.value or "")
                workspace = self._viewer.workspace
                if await tried(workspace.close_inbox, self._agent.id, wanted, person) is not None:
                    name.value = ""
                    ui.notify(tr("The pool is being made; it is on the start page."))
                    await self.refresh()

            button(tr("Make a pool of what waits"), "main").on("click", close)

    # -- what is kept ------------------------------------------------------------------------------------------

    def _policy_form(self, policy: Policy) -> None:
        with El("details"):
            El("summary", tr("What is kept"))
            originals = ui.checkbox(tr("Keep pictures and texts, not only features"), value=policy.originals)
            share = _number(tr("Known-looking samples that are kept, %"), 100 * policy.known_share, 0, 100)
            near = _number(
                tr("Kept once where the cosine of features is above (empty: exact duplicates only)"),
                policy.near,
                LEAST_NEAR,
                LEAST_BELOW_ONE,
            )
            samples = _number(tr("Samples at most"), policy.most_samples, 1, MOST_SAMPLES)
            megabytes = _number(tr("Megabytes at most"), policy.most_megabytes, 1, MOST_MEGABYTES)
            days = _number(tr("Days at most"), policy.most_days, 1, MOST_DAYS)

            async def save() -> None:
                person = await tried(self._viewer.now, Role.admin)
                if person is None:
                    return
                try:
                    new = Policy(
                        bool(originals.value),
                        round(float(share.value or 0) / 100, 6),
                        None if near.value is None else float(near.value),
                        int(samples.value or 0),
                        int(megabytes.value or 0),
                        int(days.value or 0),
                    )
                except CualError as error:
                    complain(str(error))
                    return
                workspace = self._viewer.workspace
                if await tried(workspace.set_inbox_policy, self._agent.id, new, person) is not None:
                    ui.notify(tr("Saved."))

            with El("div", classes="line"):
                button(tr("Save"), "main").on("click", save)


def _waiting(inbox: InboxRecord) -> str:
    if not inbox.waiting:
        return tr("Nothing waits. What programs send to this agent is collected here (docs/ingest.md).")
    return trn(
        "{n} sample waits: {unlike} unlike anything known, {unsure} unsure, {known} known.",
        "{n} samples wait: {unlike} unlike anything known, {unsure} unsure, {known} known.",
        inbox.waiting,
        unlike=inbox.by_verdict["unlike anything known"],
        unsure=inbox.by_verdict["unsure"],
        known=inbox.by_verdict["known"],
    )


def _came(inbox: InboxRecord) -> str:
    if inbox.since is None:
        return ""
    return tr(
        "{arrived} came since {day}; {again} were there already, {passed} known ones were passed over, "
        "{dropped} were dropped by the limits.",
        arrived=inbox.arrived,
        day=day(inbox.since),
        again=sum(count.again for count in inbox.counts),
        passed=sum(count.passed_over for count in inbox.counts),
        dropped=inbox.dropped,
    )


def _number(label: str, value: float | None, least: float, most: float) -> ui.number:
    field = ui.number(label, value=value, min=least, max=most)
    return field.props("outlined dense").style("width: 320px; max-width: 100%")
