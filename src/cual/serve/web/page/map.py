"""The map of the pool and the histogram of scores, drawn again whenever the learner has moved."""

from typing import Any

from nicegui import ui
from nicegui.events import ValueChangeEventArguments
from starlette.requests import Request

from cual.serve.rules.records import AdaptationRecord
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.charts import WALK, histogram_options, histogram_summary, map_options, map_summary
from cual.serve.web.page.elements import El
from cual.serve.web.page.routes import page
from cual.serve.web.page.viewer import Viewer, asked


def add_page() -> None:
    @page("/adaptations/{id}/map")
    async def map_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "Map") as adaptation_page:
            adaptation_page.poll(Charts(adaptation_page).refresh)


class Charts:
    """Both charts of one adaptation."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._workspace = page, page.viewer.workspace
        self._drawn: tuple[object, ...] = ()
        self._round: int | None = None
        with El("div", classes="stack"):
            with El("section", classes="card"):
                with El("div", classes="line apart"):
                    El("h2", "Map of the pool")
                    El("span", "Hover or use the arrow keys to see samples; scroll to zoom.", "soft")
                box = El("div", classes="chart-box", tabindex="0", role="img", aria_label="Map of the pool")
                with box:
                    self._map = ui.echart({"series": []}).classes("chart")
                box.on("keydown", js_handler=WALK % self._map.id)
                self._map_box = box
            with El("section", classes="card"):
                with El("div", classes="line apart"):
                    El("h2", "Scores of what is left")
                    self._rounds = ui.select([], label="Round", on_change=self._choose)
                    self._rounds.props("outlined dense options-dense").style("min-width: 130px")
                self._score_box = El("div", role="img", aria_label="Scores")
                with self._score_box:
                    self._scores = ui.echart({"series": []}).classes("chart low")
                self._words = El("p", classes="soft")
        page.frame.on_theme.extend((self._map.update, self._scores.update))

    async def refresh(self, record: AdaptationRecord) -> None:
        """Draw again if the learner has moved or somebody has answered."""
        now = (record.round, record.state, record.answered_in_round)
        if now == self._drawn:
            return
        self._drawn = now
        points = await asked(self._workspace.map, record.id)
        samples = self._page.samples
        address = samples.address if samples.kind == "pictures" else f"/api/pools/{record.pool}/texts/"
        self._replace(self._map, map_options(points, samples.kind, address))
        self._map_box.set(aria_label=map_summary(points))
        await self._draw_scores()

    async def _draw_scores(self) -> None:
        scores = await asked(self._workspace.scores, self._page.record.id, self._round)
        rounds = {None: "Latest", **{i: f"Round {i + 1}" for i in range(int(scores["rounds"]))}}
        if self._rounds.options != rounds:
            self._rounds.set_options(rounds, value=self._round)
        self._replace(self._scores, histogram_options(scores))
        self._score_box.set(aria_label=histogram_summary(scores))
        self._words.say(histogram_summary(scores) + " Grey bars look old, blue ones novel.")

    async def _choose(self, event: ValueChangeEventArguments[Any]) -> None:
        if event.value != self._round:
            self._round = event.value
            await self._draw_scores()

    @staticmethod
    def _replace(chart: ui.echart, options: dict[str, object]) -> None:
        chart.options.clear()
        chart.options.update(options)
        chart.update()
