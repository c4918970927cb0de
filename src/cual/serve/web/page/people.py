"""People and their ways in, for administrators. Secrets are shown once, when they are made."""

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.serve.rules.accounts import PersonRecord, TokenKind
from cual.serve.rules.checks import check_name
from cual.serve.rules.records import Role
from cual.serve.rules.sentences import said
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.frame import frame
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.person import show_new_token
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import told, tr
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import day

_MAY = {
    Role.sender: said("sender: a program that has samples judged and sends them"),
    Role.reader: said("reader: sees everything"),
    Role.annotator: said("annotator: also answers and reviews"),
    Role.admin: said("administrator: also starts adaptations, invites people, rolls back"),
}


def add_page() -> None:
    @page("/people")
    async def people_page(request: Request) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        await asked(viewer.now, Role.admin)
        with frame(viewer, tr("People")), El("div", classes="stack"):
            El("h1", tr("People"))
            await People(viewer).draw()


class People:
    def __init__(self, viewer: Viewer) -> None:
        self._viewer, self._accounts = viewer, viewer.accounts
        with El("section", classes="card", aria_label=tr("Invite somebody")):
            El("h2", tr("Invite somebody"))
            with El("div", classes="line"):
                self._name = ui.input(tr("Name")).props("outlined dense maxlength=100")
                self._role = ui.select(
                    {role: told(may) for role, may in _MAY.items()}, label=tr("Role"), value=Role.annotator
                ).props("outlined dense")
                button(tr("Make a sign-in address"), "main").on("click", self._invite)
        self._list = El("section", classes="card", aria_label=tr("People"))

    async def draw(self) -> None:
        people = await asked(self._accounts.people)
        self._list.clear()
        with self._list, El("div", classes="scroll"), El("table", classes="table"):
            with El("thead"), El("tr"):
                for name in ("Name", "Role", "Since", "Actions"):
                    El("th", name, scope="col")
            with El("tbody"):
                for person in people:
                    self._row(person)

    def _row(self, person: PersonRecord) -> None:
        with El("tr", data_person=person.name):
            with El("td", classes="wrap"):
                link(
                    person.name,
                    f"/people/{person.id}",
                    aria_label=tr("{name}: tokens and their last use", name=person.name),
                )
            with El("td"), El("div", classes="line"):
                self._role_of(person)
                if not person.active:
                    El("span", tr("locked out"), "badge bad")
                if person.program:
                    El("span", tr("program"), "badge", title=tr("Never got a sign-in address, only API tokens"))
            El("td", day(person.created_at))
            with El("td"), El("div", classes="line"):
                if person.active and not person.program and person.role != Role.sender:
                    button(
                        tr("Sign-in address"), aria_label=tr("New sign-in address for {name}", name=person.name)
                    ).on("click", lambda: self._token(person, "sign-in"))
                if person.active:
                    button(tr("API token"), aria_label=tr("New API token for {name}", name=person.name)).on(
                        "click", lambda: self._token(person, "api")
                    )
                text = tr("Lock out") if person.active else tr("Let in")
                button(text, "plain", aria_label=tr("{what}: {name}", what=text, name=person.name)).on(
                    "click", lambda: self._lock(person)
                )

    def _role_of(self, person: PersonRecord) -> None:
        choice = El("select", classes="find narrow", aria_label=tr("Role of {name}", name=person.name))
        with choice:
            for role in Role:
                El("option", role, value=role, selected="" if role == person.role else None)

        async def change(event: GenericEventArguments) -> None:
            admin = await tried(self._viewer.now, Role.admin)
            if event.args not in list(Role) or admin is None:
                return
            await tried(self._accounts.change_person, person.id, Role(event.args), None, by=admin)
            await self.draw()

        choice.on("change", change, js_handler="(event) => emit(event.target.value)")

    async def _invite(self) -> None:
        name = await tried(check_name, self._name.value or "", "the name")
        if name is None:
            return
        admin = await tried(self._viewer.now, Role.admin)
        if admin is None:
            return
        person = await tried(self._accounts.add_person, name, Role(self._role.value), by=admin)
        if person is not None:
            self._name.value = ""
            await self.draw()
            await self._token(person, "api" if person.role == Role.sender else "sign-in")

    async def _token(self, person: PersonRecord, kind: TokenKind) -> None:
        await show_new_token(self._viewer, person, kind)

    async def _lock(self, person: PersonRecord) -> None:
        sure = tr("Lock {name} out? All their sessions end at once.", name=person.name)
        if person.active and not await confirmed(sure, tr("Lock out")):
            return
        admin = await tried(self._viewer.now, Role.admin)
        if admin is not None:
            await tried(self._accounts.change_person, person.id, None, not person.active, by=admin)
            await self.draw()
