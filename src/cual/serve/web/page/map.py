"""The map of the pool and the histogram of scores, drawn again whenever the learner has moved."""

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments, ValueChangeEventArguments
from starlette.requests import Request

from cual.serve.rules.records import AdaptationRecord, QuestionRecord
from cual.serve.web.page import charts
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.routes import page
from cual.serve.web.page.selection import Selection
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked
from cual.types import Label

OPEN = "open"
"""The choice of all open questions; those of what is believed are the classes' places in a list."""


def add_page() -> None:
    @page("/adaptations/{id}/map")
    async def map_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "/map") as adaptation_page:
            adaptation_page.poll(Map(adaptation_page).refresh)


class Map:
    """The map of one adaptation, what is selected on it, and the histogram."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._workspace = page, page.viewer.workspace
        self._record = page.record
        self._drawn: tuple[object, ...] = ()
        self._points: dict[str, list[Any]] = {"x": [], "y": [], "row": [], "state": [], "label": []}
        self._believed: list[dict[str, Any]] = []
        self._open: list[QuestionRecord] = []
        self._by: charts.Colours = "state"
        self._lasso = False
        self._labels: list[Label] = []
        self._offered: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()
        with El("div", classes="stack"):
            with El("section", classes="card stack tight"):
                self._head()
                box = El("div", classes="chart-box", tabindex="0", role="img", aria_label=tr("Map of the pool"))
                with box:
                    self._chart = ui.echart({"series": []}).classes("chart")
                box.on("keydown", js_handler=charts.WALK % self._chart.id)
                self._chart.on("chart:brushEnd", self._lassoed, js_handler=charts.LASSOED)
                self._box = box
            self._selection = Selection(page, self._load)
            self._scores = Scores(page)
        page.frame.on_theme.append(self._chart.update)

    def _head(self) -> None:
        with El("div", classes="line apart"):
            El("h2", tr("Map of the pool"))
            self._shown = El("span", classes="soft", data_shown="")
        El(
            "p",
            tr(
                "What is alike lies close together. Hover or use the arrow keys to see samples; scroll to zoom."
            ),
            "soft",
        )
        with El("div", classes="line"):
            with El("div", classes="line", role="group", aria_label=tr("Colours of the map")):
                self._buttons: dict[charts.Colours, El] = {
                    "state": button(tr("Colour by state"), aria_pressed="true"),
                    "class": button(tr("Colour by class"), aria_pressed="false"),
                }
            self._buttons["state"].on("click", lambda: self._colour("state"))
            self._buttons["class"].on("click", lambda: self._colour("class"))
            self._lasso_button = button(tr("Lasso"), aria_pressed="false", title=tr("Draw around samples"))
            self._lasso_button.on("click", self._turn_lasso)
            with El("label", classes="line"):
                El("span", tr("Select"), "soft")
                self._choices = El("select", classes="find narrow", data_choices="")
            button(tr("Select these")).on(
                "click",
                self._choose,
                js_handler="() => emit(document.querySelector('[data-choices]').value)",
            )
            button(tr("Select nothing")).on("click", lambda: self._select([], ""))

    # -- drawing -----------------------------------------------------------------------------------------------

    async def refresh(self, record: AdaptationRecord) -> None:
        """Draw again if the learner has moved or somebody has answered."""
        now = (record.round, record.state, record.answered_in_round, record.spent)
        if now == self._drawn:
            return
        self._drawn, self._record = now, record
        await self._load()
        await self._scores.draw()

    async def _load(self) -> None:
        async with self._one_at_a_time:
            id = self._record.id
            points = await asked(self._workspace.map, id)
            self._believed = await asked(self._workspace.pseudo_labels, id)
            going = self._record.state == "asking"
            self._open = await asked(self._workspace.questions, id, answered=False) if going else []
            label_of = {row["row"]: row["label"] for row in self._believed}
            labels = [
                label_of.get(row) if label is None else label
                for row, label in zip(points["row"], points["label"], strict=True)
            ]
            self._points = {**points, "label": labels}
            self._offer()
            await self._draw()

    def _offer(self) -> None:
        """What can be selected without a mouse."""
        counts = Counter(row["label"] for row in self._believed)
        self._labels = sorted(counts, key=str)
        words = {OPEN: trn("{n} open question", "{n} open questions", len(self._open))}
        for i, label in enumerate(self._labels):
            words[str(i)] = tr("labelled without asking: {label} ({n})", label=label, n=f"{counts[label]:,}")
        if words == self._offered:
            return
        self._offered = words
        self._choices.clear()
        with self._choices:
            for value, text in words.items():
                El("option", text, value=value)

    async def _draw(self) -> None:
        colours = None
        if self._by == "class":
            wanted = charts.frequent(self._points)
            known = await asked(self._workspace.classes, self._record.agent, wanted)
            colours = {record.label: record.colour for record in known}
        samples, pool = self._page.samples, self._page.pool
        address = samples.address if samples.kind == "pictures" else f"/api/pools/{pool.id}/texts/"
        options = charts.map_options(self._points, samples.kind, address, self._selection.rows, colours)
        replace(self._chart, options)
        self._chart.run_chart_method("dispatchAction", charts.LASSO[self._lasso])
        self._box.set(aria_label=charts.map_summary(self._points, pool.size, self._by))
        self._shown.say(charts.shown_of(len(self._points["row"]), pool.size) + self._of_a_sample())
        await self._selection.show(self._record, self._believed, self._open)

    def _of_a_sample(self) -> str:
        """What counts on the map are of, where it does not show all."""
        if len(self._points["row"]) >= self._page.pool.size:
            return ""
        return "; " + tr("the counts below are of these")

    # -- what a person does ------------------------------------------------------------------------------------

    async def _colour(self, by: charts.Colours) -> None:
        self._by = by
        for name, choice in self._buttons.items():
            choice.set(aria_pressed=str(name == by).lower())
        async with self._one_at_a_time:
            await self._draw()

    def _turn_lasso(self) -> None:
        self._lasso = not self._lasso
        self._lasso_button.set(aria_pressed=str(self._lasso).lower())
        self._box.classes(toggle="lasso")
        self._chart.run_chart_method("dispatchAction", charts.LASSO[self._lasso])
        if self._lasso:
            self._page.frame.announce(tr("Draw around samples with the mouse or a finger."))

    async def _lassoed(self, event: GenericEventArguments) -> None:
        how = tr("Only samples that the map shows can be in a lasso.") if self._of_a_sample() else ""
        await self._select(charts.inside(self._points, event.args), how, clear=False)

    async def _choose(self, event: GenericEventArguments) -> None:
        if event.args == OPEN:
            await self._select([q.row for q in self._open], "")
            return
        labels = dict(zip(map(str, range(len(self._labels))), self._labels, strict=True))
        if event.args in labels:
            label = labels[event.args]
            await self._select([row["row"] for row in self._believed if row["label"] == label], "")

    async def _select(self, rows: Collection[int], how: str, clear: bool = True) -> None:
        if clear:
            self._chart.run_chart_method("dispatchAction", charts.NO_LASSO)
        async with self._one_at_a_time:
            self._selection.choose(rows, how)
            await self._draw()
        self._page.frame.announce(self._selection.words)


class Scores:
    """How unlike everything known what is left is, in a round."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._workspace = page, page.viewer.workspace
        self._round: int | None = None
        with El("section", classes="card"):
            with El("div", classes="line apart"):
                El("h2", tr("How new the rest looks"))
                self._rounds = ui.select([], label=tr("Round"), on_change=self._choose)
                self._rounds.props("outlined dense options-dense").style("min-width: 130px")
            self._box = El("div", role="img", aria_label=tr("How new the rest looks"))
            with self._box:
                self._chart = ui.echart({"series": []}).classes("chart low")
            self._words = El("p", classes="soft")
        page.frame.on_theme.append(self._chart.update)

    async def draw(self) -> None:
        scores = await asked(self._workspace.scores, self._page.record.id, self._round)
        numbers = range(int(scores["rounds"]))
        rounds = {None: tr("Latest"), **{i: tr("Round {number}", number=i + 1) for i in numbers}}
        if self._rounds.options != rounds:
            self._rounds.set_options(rounds, value=self._round)
        replace(self._chart, charts.histogram_options(scores))
        words = charts.histogram_summary(scores)
        self._box.set(aria_label=words)
        self._words.say(f"{words} {tr('Grey bars look known, blue ones new.')}")

    async def _choose(self, event: ValueChangeEventArguments[Any]) -> None:
        if event.value != self._round:
            self._round = event.value
            await self.draw()


def replace(chart: ui.echart, options: dict[str, object]) -> None:
    """Draw other options on a chart."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()
