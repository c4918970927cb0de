"""The audit trail as a table, for administrators. It only shows; what is written down is in `rules.audit`."""

import json
from urllib.parse import urlencode

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules.records import OPERATOR, AuditRecord, Role, ThingKind
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.frame import frame
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, asked, tried

_PER_PAGE = 100
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
            await Audit(viewer, people, actions).draw()


class Audit:
    def __init__(self, viewer: Viewer, people: dict[int, str], actions: list[str]) -> None:
        self._viewer = viewer
        self._last: int | None = None
        with El("section", classes="card", aria_label=tr("What to show")), El("div", classes="line"):
            who = {-1: tr("Everybody"), OPERATOR.id: OPERATOR.name, **people}
            self._who = ui.select(who, label=tr("Who"), value=-1, on_change=self.draw).props("outlined dense")
            what = {"": tr("Everything"), **{action: action for action in actions}}
            self._what = ui.select(what, label=tr("What"), value="", on_change=self.draw).props(
                "outlined dense"
            )
            self._export = link(tr("All of it as CSV"), "/api/audit.csv", "button")
        with El("section", classes="card", aria_label=tr("Audit trail")):
            with El("div", classes="scroll"), El("table", classes="table"):
                with El("thead"), El("tr"):
                    for name in (tr("When (UTC)"), tr("Who"), tr("What"), tr("To"), tr("Details")):
                        El("th", name, scope="col")
                self._body = El("tbody")
            self._older = button(tr("Older")).on("click", self._more)

    async def draw(self) -> None:
        self._last = None
        self._body.clear()
        chosen = {name: str(value) for name, value in self._filters().items()}
        self._export.set(href=f"/api/audit.csv?{urlencode(chosen)}")
        await self._more()

    def _filters(self) -> dict[str, int | str]:
        by = {} if self._who.value == -1 else {"by": int(self._who.value)}
        return by | ({} if not self._what.value else {"action": str(self._what.value)})

    async def _more(self) -> None:
        admin = await tried(self._viewer.now, Role.admin)
        if admin is None:
            return
        by = None if self._who.value == -1 else int(self._who.value)
        action = str(self._what.value) or None
        rows = await tried(self._viewer.workspace.audit, admin, by, action, before=self._last, n=_PER_PAGE)
        with self._body:
            for row in rows or ():
                _row(row)
        self._last = rows[-1].id if rows else self._last
        self._older.set_visibility(rows is not None and len(rows) == _PER_PAGE)


def _row(row: AuditRecord) -> None:
    with El("tr", data_audit=str(row.id)):
        El("td", f"{row.at:%Y-%m-%d %H:%M:%S}")
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
