"""The audit trail as a table, for administrators. It only shows; what is written down is in `rules.audit`."""

import asyncio
import json
from datetime import date, datetime, tzinfo
from typing import Any
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.serve.rules.records import OPERATOR, AuditRecord, Role, ThingKind
from cual.serve.web.page.days import FIRST, LAST, day_of, span, zone_of
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.frame import frame
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, asked, tried

_PER_PAGE = 100
_ZONE = "return Intl.DateTimeFormat().resolvedOptions().timeZone"
_PAGES: dict[ThingKind, str] = {"agent": "agents", "adaptation": "adaptations", "person": "people"}


def add_page() -> None:
    @page("/audit")
    async def audit_page(request: Request) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        await asked(viewer.now, Role.admin)
        people = {person.id: person.name for person in await asked(viewer.accounts.people)}
        actions = await asked(viewer.workspace.audit_actions)
        with frame(viewer, tr("Audit")), El("div", classes="stack"):
            El("h1", tr("Who did what"))
            audit = Audit(viewer, people, actions)
            await ui.context.client.connected()  # only then there is a browser that knows its time zone
            name: Any = await ui.run_javascript(_ZONE, timeout=10)
            await audit.show(zone_of(name))


class Audit:
    def __init__(self, viewer: Viewer, people: dict[int, str], actions: list[str]) -> None:
        self._viewer = viewer
        self._last: int | None = None
        self._zone = zone_of("UTC")
        self._one_at_a_time = asyncio.Lock()
        self._days: dict[str, date | None] = {"first": None, "last": None}
        with El("section", classes="card", aria_label=tr("What to show")):
            with El("div", classes="line ends"):
                self._choices(people, actions)
            self._words = El("p", classes="soft wrap")
        with El("section", classes="card", aria_label=tr("Audit trail")):
            with El("div", classes="scroll"), El("table", classes="table"):
                with El("thead"), El("tr"):
                    self._when = El("th", scope="col")
                    for name in (tr("Who"), tr("What"), tr("To"), tr("Details")):
                        El("th", name, scope="col")
                self._body = El("tbody")
            self._none = El("p", tr("Nothing was done that fits."), "soft")
            self._older = button(tr("Older")).on("click", self._more)
            for later in (self._none, self._older):
                later.set_visibility(False)

    def _choices(self, people: dict[int, str], actions: list[str]) -> None:
        who = {-1: tr("Everybody"), OPERATOR.id: OPERATOR.name, **people}
        self._who = ui.select(who, label=tr("Who"), value=-1, on_change=self.draw).props("outlined dense")
        what = {"": tr("Everything"), **{action: action for action in actions}}
        self._what = ui.select(what, label=tr("What"), value="", on_change=self.draw).props("outlined dense")
        self._day("first", tr("From"))
        self._day("last", tr("To and including"))
        self._export = link(tr("All of it as CSV"), "/api/audit.csv", "button")

    def _day(self, which: str, text: str) -> None:
        async def choose(event: GenericEventArguments) -> None:
            self._days[which] = day_of(event.args)
            await self.draw()

        with El("label", classes="field"):
            El("span", text)
            field = El("input", classes="find", type_="date", min=str(FIRST), max=str(LAST), data_day=which)
        field.on("change", choose, js_handler="(event) => emit(event.target.value)")

    async def show(self, zone: tzinfo) -> None:
        """Show it to somebody who lives in this time zone."""
        self._zone = zone
        self._when.say(tr("When ({zone})", zone=zone))
        self._words.say(
            tr(
                "Days and times are in your time zone, {zone}; both days are included. The CSV has the same "
                "rows, with times in UTC.",
                zone=zone,
            )
        )
        await self.draw()

    async def draw(self) -> None:
        async with self._one_at_a_time:
            self._last = None
            self._body.clear()
            chosen = {name: str(value) for name, value in self._filters().items()}
            self._export.set(href=f"/api/audit.csv?{urlencode(chosen)}")
            await self._add()

    async def _more(self) -> None:
        async with self._one_at_a_time:
            await self._add()

    def _filters(self) -> dict[str, int | str]:
        since, until = self._span()
        wanted: dict[str, int | str] = {} if self._who.value == -1 else {"by": int(self._who.value)}
        wanted |= {} if not self._what.value else {"action": str(self._what.value)}
        wanted |= {} if since is None else {"since": since.isoformat()}
        return wanted | ({} if until is None else {"until": until.isoformat()})

    def _span(self) -> tuple[datetime | None, datetime | None]:
        return span(self._days["first"], self._days["last"], self._zone)

    async def _add(self) -> None:
        """Add the rows that come next."""
        admin = await tried(self._viewer.now, Role.admin)
        if admin is None:
            return
        by = None if self._who.value == -1 else int(self._who.value)
        action = str(self._what.value) or None
        wanted = (by, action, *self._span(), self._last, _PER_PAGE)
        rows = await tried(self._viewer.workspace.audit, admin, *wanted)
        with self._body:
            for row in rows or ():
                _row(row, self._zone)
        self._last = rows[-1].id if rows else self._last
        self._none.set_visibility(self._last is None)
        self._older.set_visibility(rows is not None and len(rows) == _PER_PAGE)


def _row(row: AuditRecord, zone: tzinfo) -> None:
    with El("tr", data_audit=str(row.id)):
        with El("td"):
            El("time", f"{row.at.astimezone(zone):%Y-%m-%d %H:%M:%S}", datetime=row.at.isoformat())
        El("td", row.person, "wrap")
        El("td", row.action)
        with El("td"):
            _thing(row)
        El("td", ", ".join(f"{name}: {_shown(value)}" for name, value in row.details.items()), "wrap")


def _thing(row: AuditRecord) -> None:
    """What it was done to, with the way there where it has a page."""
    name = row.kind if row.thing is None else f"{row.kind} {row.thing}"
    place = _PAGES.get(row.kind)
    if place is None or row.thing is None:
        El("span", name)
    else:
        link(name, f"/{place}/{row.thing}")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
