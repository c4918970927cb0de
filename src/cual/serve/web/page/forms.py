"""Forms for administrators: a new adaptation, a new pool, a new agent. Files go straight to the API."""

from collections.abc import Sequence

from nicegui import ui

from cual.serve.rules.records import AgentRecord, PoolRecord, Role
from cual.serve.web.page.elements import El
from cual.serve.web.page.viewer import Viewer, complain, tried

# The browser sends files itself, with the CSRF token: the API knows the limits and what to refuse.
_SEND = """async (event) => {
  event.preventDefault();
  const form = event.target, note = form.querySelector("[data-note]");
  const send = form.querySelector("[type=submit]");
  send.disabled = true;
  note.textContent = "Sending …";
  try {
    const files = new FormData(form);
    const body = %(body)s;
    const answer = await fetch(%(url)s, {method: "POST", body, headers: {"X-CSRF-Token": "%(csrf)s"}});
    if (answer.ok) { form.reset(); note.textContent = "%(done)s"; }
    else note.textContent = (await answer.json()).detail;
  } catch (error) {
    note.textContent = "It could not be sent: " + error.message;
  }
  send.disabled = false;
}"""


def new_adaptation_form(viewer: Viewer, agents: Sequence[AgentRecord], pools: Sequence[PoolRecord]) -> None:
    with El("section", classes="card", aria_label="New adaptation"):
        El("h2", "New adaptation")
        if not agents or not pools:
            El("p", "It takes an agent and a pool that is ready.", "soft")
            return
        agent = ui.select({a.id: a.name for a in agents}, label="Agent", value=agents[0].id)
        pool = ui.select({p.id: f"{p.name} ({p.size})" for p in pools}, label="Pool", value=pools[-1].id)
        for field in (agent, pool):
            field.props("outlined dense").style("width: 100%")
        with El("div", classes="line"):
            budget = ui.number("Budget", value=30, min=0).props("outlined dense").style("width: 110px")
            unit = ui.select(["labels", "% of the pool"], label="Unit", value="labels").props("outlined dense")

        async def start() -> None:
            if not budget.value or budget.value <= 0:
                complain("say how many labels people will be asked for")
                return
            person = await tried(viewer.now, Role.admin)
            if person is None:
                return
            amount = int(budget.value) if unit.value == "labels" else budget.value / 100
            started = await tried(viewer.workspace.start, agent.value, pool.value, amount, person)
            if started is not None:
                ui.navigate.to(f"/adaptations/{started.id}")

        El("button", "Start", "button main", type_="button").on("click", start)


def add_pool_form(viewer: Viewer, agents: Sequence[AgentRecord]) -> None:
    """Pictures, or a table of features or texts."""
    with El("section", classes="card", aria_label="New pool"):
        El("h2", "New pool")
        if not agents:
            El("p", "Add an agent first: its encoder reads the pool.", "soft")
            return
        with _form(viewer, "files", '"/api/pools"', "Received; it is prepared now."):
            _field("Name", name="name", required="", maxlength="100")
            with El("label", classes="field"):
                El("span", "For the agent")
                with El("select", classes="find", name="agent"):
                    for agent in agents:
                        El("option", agent.name, value=str(agent.id))
            _field("Pictures, or one .npz or .csv file", type_="file", name="files", multiple="", required="")
            El("button", "Send", "button main", type_="submit")


def add_agent_form(viewer: Viewer) -> None:
    with El("section", classes="card", aria_label="New agent"):
        El("h2", "New agent")
        url = '"/api/agents?name=" + encodeURIComponent(files.get("name"))'
        with _form(viewer, 'files.get("file")', url, "Added."):
            _field("Name", name="name", required="", maxlength="100")
            _field("File that “cual fit” wrote", type_="file", name="file", required="", accept=".agent")
            El("button", "Send", "button main", type_="submit")


def _form(viewer: Viewer, body: str, url: str, done: str) -> El:
    form = El("form", classes="stack tight")
    with form:
        note = El("div", classes="note", role="status", data_note="")
    note.style("order: 9")
    return form.on("submit", js_handler=_SEND % {"body": body, "url": url, "done": done, "csrf": viewer.csrf})


def _field(label: str, **attributes: str) -> None:
    with El("label", classes="field"):
        El("span", label)
        El("input", classes="find", autocomplete="off", **attributes)
