"""How many known samples an agent may take for unlike anything known: the setting, on the agent's page."""

from nicegui import ui

from cual.serve.rules.agents import LEAST_RATE, MOST_RATE
from cual.serve.rules.records import AgentRecord, Role
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, tried

USUAL = 0.05
"""What is offered where nothing is set: the method's own threshold is meant to be there."""


def false_alarms_card(viewer: Viewer, agent: AgentRecord) -> None:
    """What the rate is; administrators change it."""
    with El("section", classes="card", aria_label=tr("False alarms"), data_false_alarms=""):
        El("h2", tr("False alarms"))
        El("p", _set(agent.false_alarms))
        if viewer.may(Role.admin):
            _form(viewer, agent)


def _set(share: float | None) -> str:
    if share is None:
        return tr(
            "Predictions call a sample unlike anything known by the method's own threshold; "
            "with cual-plus that happens to 5 % of known samples."
        )
    return tr(
        "Predictions may call {percent} % of known samples unlike anything known.", percent=f"{100 * share:g}"
    )


def _form(viewer: Viewer, agent: AgentRecord) -> None:
    share = ui.number(
        tr("Known samples taken for unknown, %"),
        value=100 * (USUAL if agent.false_alarms is None else agent.false_alarms),
        min=100 * LEAST_RATE,
        max=100 * MOST_RATE,
    )
    share.props("outlined dense").style("width: 260px; max-width: 100%")

    async def save(to: float | None) -> None:
        person = await tried(viewer.now, Role.admin)
        if person is None:
            return
        if await tried(viewer.workspace.set_false_alarms, agent.id, to, person) is not None:
            ui.notify(tr("Saved."))

    async def save_share() -> None:
        await save(round(float(share.value or 0) / 100, 6))

    async def save_own() -> None:
        await save(None)

    with El("div", classes="line"):
        button(tr("Save"), "main").on("click", save_share)
        if agent.false_alarms is not None:
            button(tr("Back to the method's own")).on("click", save_own)
