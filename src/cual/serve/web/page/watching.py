"""The page "Watching" of an agent: what its predictions say of the world, and what to do about it.

Charts are in `watching_charts`, webhooks in `webhooks_card`; what the figures mean, `rules.watching` decides.
"""

from datetime import timedelta

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules.records import AgentRecord, Role
from cual.serve.rules.watching.records import GroupRecord, GroupsRecord, ProposalRecord, WatchRecord
from cual.serve.storage.tables import now
from cual.serve.web.page import watching_charts as charts
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.frame import Frame, frame
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.webhooks_card import WebhooksCard
from cual.serve.web.page.words import day

SHOWN_GROUPS = 12
_SPANS = {1: timedelta(hours=1), 24: timedelta(days=1), 24 * 7: timedelta(days=7), 24 * 90: timedelta(days=90)}


def add_page() -> None:
    @page("/agents/{id}/watching")
    async def watching_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        agent = await asked(viewer.workspace.agent, id)
        with frame(viewer, tr("Watching · {name}", name=agent.name)) as outer, El("div", classes="stack"):
            with El("div"):
                El("h1", tr("Watching {name}", name=agent.name), "wrap")
                link(tr("History"), f"/agents/{id}")
            watching = Watching(viewer, agent, outer)
            await watching.refresh()
            if viewer.may(Role.admin):
                await WebhooksCard(viewer, id).draw()
            ui.timer(5.0, watching.refresh, immediate=False)


class Watching:
    """How the predictions of one agent go."""

    def __init__(self, viewer: Viewer, agent: AgentRecord, outer: Frame) -> None:
        self._viewer, self._id, self._outer = viewer, agent.id, outer
        self._hours = 24
        self._drawn: WatchRecord | None = None
        self._state = El("section", classes="card", aria_label=tr("Now"), aria_live="polite")
        with El("section", classes="card", aria_label=tr("Unlike anything known")):
            with El("div", classes="line apart"):
                El("h2", tr("Unlike anything known"))
                spans = {1: tr("an hour"), 24: tr("a day"), 24 * 7: tr("a week"), 24 * 90: tr("90 days")}
                span = ui.select(spans, value=24, label=tr("Time"), on_change=self._choose)
                span.props("outlined dense options-dense").style("min-width: 130px")
                self._span = span
            self._share_box = El("div", role="img")
            with self._share_box:
                self._share = ui.echart({"series": []}).classes("chart low")
            self._share_words = El("p", classes="soft", data_share="")
        self._groups = El("section", classes="card", aria_label=tr("Groups"))
        with El("section", classes="card", aria_label=tr("Drift of known classes")):
            El("h2", tr("Drift of known classes"))
            self._drift = El("div", classes="stack tight", data_drift="")
            self._mix_box = El("div", role="img")
            with self._mix_box:
                self._mix = ui.echart({"series": []}).classes("chart low")
            self._mix_words = El("p", classes="soft")
        if viewer.may(Role.admin):
            self._settings()
        outer.on_theme.extend([self._share.update, self._mix.update])

    async def refresh(self) -> None:
        """Draw again what has changed."""
        record = await asked(self._viewer.workspace.watching, self._id, now() - _SPANS[self._hours])
        before, self._drawn = self._drawn, record
        if record == before:
            return
        self._draw_state(record)
        _replace(self._share, charts.share_options(record.points, record.false_alarms_at_most))
        words = charts.share_summary(record)
        self._share_box.set(aria_label=words)
        self._share_words.say(words)
        if before is None or before.groups != record.groups:
            self._draw_groups(record.groups)
        self._drift.clear()
        with self._drift:
            for sentence in charts.drift_in_words(record):
                El("p", sentence)
        self._mix_box.set_visibility(bool(record.mix))
        _replace(self._mix, charts.mix_options(record.mix))
        mix = charts.mix_summary(record.mix) if record.mix else ""
        self._mix_box.set(aria_label=mix)
        self._mix_words.say(mix)

    async def _choose(self) -> None:
        self._hours = int(self._span.value)
        await self.refresh()

    # -- now ---------------------------------------------------------------------------------------------------

    def _draw_state(self, record: WatchRecord) -> None:
        self._state.clear()
        with self._state:
            with El("div", classes="line"):
                El("h2", tr("Now"))
                if record.novelty_since is not None:
                    El(
                        "span",
                        tr("novelty since {at}", at=day(record.novelty_since)),
                        "badge lit",
                        data_novelty="",
                    )
                if record.drift_since is not None:
                    El("span", tr("drift since {at}", at=day(record.drift_since)), "badge lit", data_drifted="")
                if record.novelty_since is None and record.drift_since is None:
                    El("span", tr("no alert"), "badge")
            El("p", charts.now_in_words(record), data_now="")
            if record.proposal is not None:
                self._draw_proposal(record.proposal)

    def _draw_proposal(self, proposal: ProposalRecord) -> None:
        El(
            "p",
            trn(
                "An adaptation is worth it: it would settle about {settled} samples of {n} group "
                "with {questions} questions.",
                "An adaptation is worth it: it would settle about {settled} samples of {n} groups "
                "with {questions} questions.",
                proposal.groups,
                settled=proposal.settled,
                questions=proposal.questions,
            ),
            data_proposal="",
        )
        if proposal.adaptation is not None:
            link(tr("Adaptation {id}", id=proposal.adaptation), f"/adaptations/{proposal.adaptation}")
        elif proposal.pool is not None:
            El("p", tr("It begins as soon as its pool is ready."), "soft")
        elif self._viewer.may(Role.admin):
            with El("div"):
                button(tr("Begin the adaptation"), "main").on("click", self._begin)

    async def _begin(self) -> None:
        sure = tr("Make a pool of all samples that wait, and ask people about it?")
        if not await confirmed(sure, tr("Begin the adaptation")):
            return
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._viewer.workspace.begin_proposed, self._id, person)
            await self.refresh()

    # -- groups ------------------------------------------------------------------------------------------------

    def _draw_groups(self, found: GroupsRecord | None) -> None:
        self._groups.clear()
        with self._groups:
            El("h2", tr("Groups"))
            if found is None or not found.waiting:
                El(
                    "p",
                    tr("No sample waits that is unlike anything known. Samples that are sent are kept."),
                    "soft",
                )
                return
            El(
                "p",
                trn(
                    "{waiting} samples wait that are unlike anything known. They form {n} group.",
                    "{waiting} samples wait that are unlike anything known. They form {n} groups.",
                    len(found.new),
                    waiting=found.waiting,
                ),
                data_groups="",
            )
            for number, group in enumerate(found.groups[:SHOWN_GROUPS], start=1):
                self._draw_group(number, group)

    def _draw_group(self, number: int, group: GroupRecord) -> None:
        name = tr("Group {number}", number=number)
        with El("section", classes="stack tight", aria_label=name, data_group=str(number)):
            size = trn("{n} sample", "{n} samples", group.size)
            rim = "" if group.like is None else tr("perhaps the rim of {name}", name=group.like)
            El("h3", " · ".join(part for part in (name, size, rim) if part), "wrap")
            with El("div", classes="line"):
                for example in group.examples:
                    if example.original == "picture":
                        source = f"/api/agents/{self._id}/watching/pictures/{example.sample}"
                        alt = tr("Sample {sample}", sample=example.sample)
                        El("img", classes="thumb", src=source, alt=alt, loading="lazy")
                    elif example.original == "text":
                        address = f"/api/agents/{self._id}/watching/texts/{example.sample}"
                        El("p", tr("Sample {sample}", sample=example.sample), "soft wrap", data_text=address)
                if all(example.original is None for example in group.examples):
                    El("p", tr("Only features were kept of these samples."), "soft")
        ui.run_javascript(_TEXTS)

    # -- settings ----------------------------------------------------------------------------------------------

    def _settings(self) -> None:
        with El("section", classes="card", aria_label=tr("When an adaptation is worth it")):
            El("h2", tr("When an adaptation is worth it"))
            questions = ui.number(
                tr("Questions it may cost, at most"), value=50, min=1, max=10_000, precision=0
            )
            gain = ui.number(tr("Samples that a question must settle"), value=5, min=1, max=1000)
            choices = {False: tr("It is proposed"), True: tr("It begins by itself, in my name")}
            starts = ui.select(choices, value=False, label=tr("What happens then"))
            for field in (questions, gain, starts):
                field.props("outlined dense").style("width: 320px; max-width: 100%")

            async def load() -> None:
                record = await asked(self._viewer.workspace.watching, self._id)
                questions.value, gain.value = record.most_questions, record.least_gain
                starts.value = record.starts

            async def save() -> None:
                person = await tried(self._viewer.now, Role.admin)
                if person is None:
                    return
                most, least = int(questions.value or 0), float(gain.value or 0)
                workspace = self._viewer.workspace
                saved = await tried(workspace.set_watching, self._id, person, bool(starts.value), most, least)
                if saved is not None:
                    ui.notify(tr("Saved."))

            with El("div"):
                button(tr("Save"), "main").on("click", save)
            ui.timer(0, load, once=True)


# Texts are fetched as text, and put in as text.
_TEXTS = """for (const box of document.querySelectorAll("[data-text]:not([data-told])")) {
  box.dataset.told = "";
  fetch(box.dataset.text).then((r) => r.json()).then((r) => box.textContent = r.text.slice(0, 400));
}"""


def _replace(chart: ui.echart, options: dict[str, object]) -> None:
    chart.options.clear()
    chart.options.update(options)
    chart.update()
