"""Forms for administrators: a new adaptation, a new pool, a new agent. Files go straight to the API."""

import json
from collections.abc import Sequence

from nicegui import ui

from cual.errors import CualError
from cual.loop.budget import count_labels
from cual.methods import methods
from cual.serve.rules.records import AgentRecord, PoolRecord, Role
from cual.serve.web.page.elements import El
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, complain, tried

# The browser sends files itself, with the CSRF token: the API knows the limits and what to refuse.
_SEND = """(event) => {
  event.preventDefault();
  const form = event.target, note = form.querySelector("[data-note]"), words = %(words)s;
  const send = form.querySelector("[type=submit]"), data = new FormData(form);
  const path = (data.get("path") || "").trim(), files = data.getAll("files").filter((file) => file.size);
  const shown = (data.get("columns") || "").trim();
  const columns = shown === "-" ? [] : shown.split(",").map((name) => name.trim()).filter(Boolean);
  data.delete("path");
  data.delete("columns");
  if (shown) data.set("columns", JSON.stringify(columns));
  if (!path && !files.length) { note.textContent = words.nothing; return; }
  const request = new XMLHttpRequest();
  let body = data, url = form.dataset.url;
  if (form.dataset.whole) { body = files[0]; url += "?name=" + encodeURIComponent(data.get("name")); }
  request.open("POST", url);
  request.setRequestHeader("X-CSRF-Token", "%(csrf)s");
  if (path) {
    const said = {path};
    for (const [name, value] of data) if (name !== "files" && value) said[name] = value;
    if (said.agent) said.agent = Number(said.agent);
    if (shown) said.columns = columns;
    body = JSON.stringify(said);
    request.setRequestHeader("Content-Type", "application/json");
  }
  const over = (text) => { note.textContent = text; send.disabled = false; };
  request.upload.onprogress = (sent) => {
    if (sent.total) note.textContent = words.sending + " " + Math.round(100 * sent.loaded / sent.total) + " %%";
  };
  request.onload = () => {
    if (request.status < 300) { form.reset(); return over(words.done); }
    try { over(JSON.parse(request.responseText).detail); } catch { over(words.failed); }
  };
  request.onerror = () => over(words.failed);
  send.disabled = true;
  note.textContent = words.sending;
  request.send(body);
}"""
# Names of the columns of a table that was chosen, offered where they are asked for.
COLUMNS = """async (event) => {
  const file = event.target.files[0], form = event.target.form, list = form.querySelector("datalist");
  list.replaceChildren();
  if (!file || !/\\.(csv|tsv)$/i.test(file.name)) return;
  form.querySelector("details").open = true;
  const line = (await file.slice(0, 65536).text()).split(/\\r?\\n/)[0].replace(/^\\ufeff/, "");
  for (const name of line.split(/\\.tsv$/i.test(file.name) ? "\\t" : ",")) {
    const option = document.createElement("option");
    option.value = name.trim().replace(/^"|"$/g, "");
    list.append(option);
  }
}"""


def new_adaptation_form(
    viewer: Viewer, agents: Sequence[AgentRecord], pools: Sequence[PoolRecord], pace: float | None
) -> None:
    """An agent, a pool (the newest first) and a budget, whose cost is told as it is typed.

    `pace` is how many seconds people take for an answer, where that is known.
    """
    with El("section", classes="card", aria_label=tr("New adaptation")):
        El("h2", tr("New adaptation"))
        if not agents or not pools:
            El("p", tr("It takes an agent and a pool that are ready."), "soft")
            return
        newest = pools[0]
        by_id, pool_by_id = {a.id: a for a in agents}, {p.id: p for p in pools}
        first = newest.agent if newest.agent in by_id else agents[-1].id
        agent = ui.select({a.id: a.name for a in agents}, label=tr("Agent"), value=first)
        names = {p.id: f"{p.name} ({p.size:,})" for p in pools}
        pool = ui.select(names, label=tr("Pool"), value=newest.id)
        for field in (agent, pool):
            field.props("outlined dense").style("width: 100%")
        with El("div", classes="line"):
            budget = ui.number(tr("Budget"), value=30, min=0).props("outlined dense").style("width: 110px")
            units = {"labels": tr("labels"), "share": tr("% of the pool")}
            unit = ui.select(units, label=tr("Unit"), value="labels").props("outlined dense")
            overlap = ui.number(tr("People per question"), value=1, min=1, max=100, precision=0)
            overlap.props("outlined dense").style("width: 160px")
        cost = El("p", classes="soft", role="status", data_cost="")

        def amount() -> float | int:
            value = budget.value or 0
            return value / 100 if unit.value == "share" else int(value)

        def tell() -> None:
            people = int(overlap.value or 1)
            cost.say(_cost(amount(), by_id[agent.value], pool_by_id[pool.value], people, pace))

        async def start() -> None:
            if not budget.value or budget.value <= 0:
                complain(tr("Say how many labels people will be asked for."))
                return
            person = await tried(viewer.now, Role.admin)
            if person is None:
                return
            people = int(overlap.value or 1)
            started = await tried(viewer.workspace.start, agent.value, pool.value, amount(), person, people)
            if started is not None:
                ui.navigate.to(f"/adaptations/{started.id}")

        for field in (agent, pool, budget, unit, overlap):
            field.on_value_change(tell)
        tell()
        El("button", tr("Start"), "button main", type_="button").on("click", start)


def _cost(
    amount: float | int, agent: AgentRecord, pool: PoolRecord, people: int = 1, pace: float | None = None
) -> str:
    """What a budget comes to in answers and, if that is known, in time."""
    try:
        labels = count_labels(amount, pool.size, methods[agent.method].budget_factor)
    except CualError as error:
        return str(error)[:1].upper() + str(error)[1:] + "."
    share = 100 * labels / people / max(1, pool.size)
    told = trn(
        "At most {n} answer, for {share} % of {size} samples.",
        "At most {n} answers, for {share} % of {size} samples.",
        labels,
        share=f"{share:.2g}" if share < 100 else "100",
        size=f"{pool.size:,}",
    )
    if pace is not None:
        told += " " + trn(
            "At the pace of this workspace that takes {n} minute.",
            "At the pace of this workspace that takes {n} minutes.",
            max(1, round(labels * pace / 60)),
        )
    return told


def add_pool_form(viewer: Viewer, agents: Sequence[AgentRecord]) -> None:
    """Pictures, a zip of them, a table of texts, features; sent, or on the service's machine."""
    with El("section", classes="card", aria_label=tr("New pool")):
        El("h2", tr("New pool"))
        if not agents:
            El("p", tr("It takes an agent that is ready: its encoder reads the pool."), "soft")
            return
        with file_form(viewer, "/api/pools", tr("Received; it is prepared now.")):
            field(tr("Name"), name="name", required="", maxlength="100")
            with El("label", classes="field"):
                El("span", tr("For the agent"))
                with El("select", classes="find", name="agent"):
                    for agent in reversed(agents):
                        El("option", agent.name, value=str(agent.id))
            field(
                tr("Pictures, a zip of pictures, a table of texts (.csv), or features (.npz)"),
                type_="file",
                name="files",
                multiple="",
            ).on("change", js_handler=COLUMNS)
            server_path(viewer)
            names = {"text": tr("Column of the text"), "id": tr("Column of the ids")}
            columns_of_table(
                "pool", names, tr("Columns that people see, with commas; empty: all but labels; -: none")
            )
            El("button", tr("Make the pool"), "button main", type_="submit")


def make_agent_form(viewer: Viewer, encoders: Sequence[str]) -> None:
    """Labelled data: a zip with a folder per class, a table, features; sent, or on the service's machine."""
    with El("section", classes="card", aria_label=tr("New agent from your own data")):
        El("h2", tr("New agent from your own data"))
        El("p", tr("It learns the classes that you know already, from a few labelled samples of each."), "soft")
        with file_form(viewer, "/api/agents/from-data", tr("Received; the agent is made now.")):
            field(tr("Name"), name="name", required="", maxlength="100")
            field(
                tr("A zip with one folder of pictures per class, a table with text and label (.csv), or .npz"),
                type_="file",
                name="files",
                accept=".zip,.csv,.tsv,.jsonl,.npz",
            ).on("change", js_handler=COLUMNS)
            server_path(viewer)
            with El("label", classes="field"):
                El("span", tr("Encoder: what turns pictures or texts into numbers"))
                with El("select", classes="find", name="encoder"):
                    El("option", tr("the usual one for pictures or for texts"), value="")
                    for name in encoders:
                        El("option", name, value=name)
            names = {
                "text": tr("Column of the text"),
                "label": tr("Column of the label"),
                "id": tr("Column of the ids"),
            }
            columns_of_table("agent", names)
            El("button", tr("Make the agent"), "button main", type_="submit")


def add_agent_form(viewer: Viewer) -> None:
    """An agent that exists already, as a file."""
    with El("section", classes="card", aria_label=tr("New agent from a file")):
        El("h2", tr("New agent from a file"))
        with file_form(viewer, "/api/agents", tr("Added."), whole=True):
            field(tr("Name"), name="name", required="", maxlength="100")
            field(tr("File that “cual fit” wrote"), type_="file", name="files", required="", accept=".agent")
            El("button", tr("Send"), "button main", type_="submit")


def file_form(viewer: Viewer, url: str, done: str, whole: bool = False) -> El:
    """A form whose files are sent with their progress; with `whole`, the one file is the body."""
    form = El("form", classes="stack tight", data_url=url, data_whole="yes" if whole else None)
    with form:
        note = El("div", classes="note", role="status", data_note="")
    note.style("order: 9")
    words = {
        "sending": tr("Sending …"),
        "done": done,
        "failed": tr("It could not be sent; try again."),
        "nothing": tr("Choose a file first, or name a folder on the server."),
    }
    handler = _SEND % {"words": json.dumps(words), "csrf": viewer.csrf}
    return form.on("submit", js_handler=handler)


def server_path(viewer: Viewer) -> None:
    """A folder on the service's machine in place of a file, where it was started with some."""
    roots = viewer.workspace.home.roots
    if roots:
        below = ", ".join(str(root) for root in roots)
        field(tr("Or a file or folder on the server, below {roots}", roots=below), name="path")


def columns_of_table(of: str, names: dict[str, str], shown: str | None = None) -> None:
    """Columns of a table, for those that are not called as usual; `shown` asks which people are to see."""
    offered = f"columns-of-{of}"
    with El("details"):
        El("summary", tr("Columns of a table"), "soft")
        with El("div", classes="stack tight"):
            El("p", tr("Left empty: text, label and id, or the other usual names."), "soft")
            for name, words in names.items():
                field(words, name=name, list=offered, maxlength="200")
            if shown is not None:
                field(shown, name="columns", maxlength="4000")
    El("datalist", id_=offered)


def field(label: str, **attributes: str) -> El:
    with El("label", classes="field"):
        El("span", label)
        return El("input", classes="find", autocomplete="off", **attributes)
