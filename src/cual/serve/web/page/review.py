"""The review page: what the learner believes, or would if it ended now, most doubtful first."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request

from cual.serve.rules.records import AdaptationRecord
from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.judging import Judging
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import told, tr
from cual.serve.web.page.viewer import Viewer, asked
from cual.types import Label

PER_PAGE = 60
STATES: Mapping[str, tuple[Sentence, Callable[[str | None], bool]]] = {
    "all": (said("All"), lambda verdict: True),
    "open": (said("Not looked at"), lambda verdict: verdict is None),
    "right": (said("Confirmed"), lambda verdict: verdict == "confirm"),
    "wrong": (said("Rejected or corrected"), lambda verdict: verdict in ("reject", "correct")),
}
"""What can be shown, by what was said of it."""


def add_page() -> None:
    @page("/adaptations/{id}/review")
    async def review_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "/review") as adaptation_page:
            adaptation_page.poll(Review(adaptation_page).refresh)


class Review:
    """Beliefs of one adaptation: all, or those of one class."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._viewer = page, page.viewer
        self._rows: list[dict[str, Any]] = []
        self._label: Label | None = None
        self._state = "all"
        self._shown, self._seen = PER_PAGE, ()
        self._one_at_a_time = asyncio.Lock()
        self._buttons: dict[Label | None, tuple[El, El]] = {}
        self._judging = Judging(page, self._load)
        with El("div", classes="desk"):
            with El("div", classes="stack"):
                self._provisional = El("p", classes="provisional wrap")
                with El("div", classes="line", role="group", aria_label=tr("Shown")) as self._filters:
                    self._states = {name: self._state_button(name) for name in STATES}
                self._empty = El("div", classes="empty stack")
                self._judging.board()
                with El("div", classes="line"):
                    self._more = button(tr("Show more")).on("click", self._show_more)
                    self._count = El("span", classes="soft")
            with El("aside", classes="panel", data_keys="", aria_label=tr("Review")):
                El("h2", tr("Believed without asking"))
                self._list = El("div", classes="classes", role="group", aria_label=tr("Classes"))
                self._judging.panel()

    async def refresh(self, record: AdaptationRecord) -> None:
        """Look again when the learner has moved, or somebody has answered."""
        now = (record.round, record.state, record.result_version, record.spent)
        if now != self._seen:
            self._seen = now
            await self._load()
            often = Counter(row["label"] for row in self._rows).most_common()
            await self._judging.offer(record, [label for label, _ in often])

    async def _load(self) -> None:
        async with self._one_at_a_time:
            self._rows = await asked(self._viewer.workspace.pseudo_labels, self._page.record.id)
            counts: dict[Label | None, int] = dict(Counter(row["label"] for row in self._rows))
            for gone in [label for label in self._buttons if label is not None and label not in counts]:
                self._buttons.pop(gone)[0].delete()
            for label in [None, *sorted(counts, key=str)] if counts else []:
                if label not in self._buttons:
                    with self._list:
                        self._buttons[label] = self._class_button(label)
                self._buttons[label][1].say(f"{len(self._rows) if label is None else counts[label]:,}")
            if self._label not in counts:
                self._label = None
            self._say_what_it_is()
            await self._draw()

    def _say_what_it_is(self) -> None:
        provisional = any(row["provisional"] for row in self._rows)
        self._provisional.set_visibility(provisional)
        self._provisional.say(
            tr(
                "Provisional: this is what would be believed if the questions ended now. "
                "It is worked out anew after every round; what you say of it stays."
            )
        )
        self._filters.set_visibility(bool(self._rows))
        self._empty.clear()
        self._empty.set_visibility(not self._rows)
        if not self._rows:
            with self._empty:
                El("h2", tr("Nothing is believed yet"))
                El(
                    "p",
                    tr(
                        "After the first answers the learner labels what it is sure of; it can be checked here."
                    ),
                )

    def _state_button(self, state: str) -> El:
        async def choose() -> None:
            self._state, self._shown = state, PER_PAGE
            self._judging.clear()
            await self._draw()

        return button(told(STATES[state][0])).on("click", choose)

    def _class_button(self, label: Label | None) -> tuple[El, El]:
        async def choose() -> None:
            self._label, self._shown = label, PER_PAGE
            await self._draw()

        with El("button", classes="class plain-button", type_="button") as choice:
            El("span", tr("All classes") if label is None else str(label), "name")
            count = El("span", classes="badge new")
        choice.on("click", choose)
        return choice, count

    async def _draw(self) -> None:
        fits = STATES[self._state][1]
        of_class = [row for row in self._rows if self._label is None or row["label"] == self._label]
        mine = [row for row in of_class if fits(row["verdict"])]
        for label, (choice, _) in self._buttons.items():
            choice.set(aria_pressed=str(label == self._label).lower())
        for state, choice in self._states.items():
            choice.set(aria_pressed=str(state == self._state).lower())
        here = mine[: self._shown]
        group = tr("Most doubtful first")
        if self._label is not None:
            group = tr("Believed to be {label}, most doubtful first", label=self._label)
        await self._judging.show(here, len(mine), group)
        self._more.set_visibility(len(mine) > len(here))
        self._count.say(
            tr("{shown} of {total} shown", shown=f"{len(here):,}", total=f"{len(mine):,}") if self._rows else ""
        )

    async def _show_more(self) -> None:
        self._shown += PER_PAGE
        await self._draw()
