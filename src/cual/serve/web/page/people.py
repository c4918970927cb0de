"""People and their ways in, for administrators. Secrets are shown once, when they are made."""

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.serve.rules.accounts import PersonRecord, TokenKind
from cual.serve.rules.checks import check_name
from cual.serve.rules.records import Role
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.frame import frame
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.routes import page
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import day

_MAY = {
    Role.reader: "reader: sees everything",
    Role.annotator: "annotator: also answers and reviews",
    Role.admin: "admin: also starts adaptations, invites people, rolls back",
}


def add_page() -> None:
    @page("/people")
    async def people_page(request: Request) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        await asked(viewer.now, Role.admin)
        with frame(viewer, "People"), El("div", classes="stack"):
            El("h1", "People")
            await People(viewer).draw()


class People:
    def __init__(self, viewer: Viewer) -> None:
        self._viewer, self._accounts = viewer, viewer.accounts
        with El("section", classes="card", aria_label="Invite somebody"):
            El("h2", "Invite somebody")
            with El("div", classes="line"):
                self._name = ui.input("Name").props("outlined dense maxlength=100")
                self._role = ui.select(_MAY, label="Role", value=Role.annotator).props("outlined dense")
                button("Make a sign-in address", "main").on("click", self._invite)
        self._list = El("section", classes="card", aria_label="People")

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
            El("td", person.name, "wrap")
            with El("td"), El("div", classes="line"):
                self._role_of(person)
                if not person.active:
                    El("span", "locked out", "badge bad")
            El("td", day(person.created_at))
            with El("td"), El("div", classes="line"):
                if person.active:
                    button("Sign-in address", aria_label=f"New sign-in address for {person.name}").on(
                        "click", lambda: self._token(person, "sign-in")
                    )
                    button("API token", aria_label=f"New API token for {person.name}").on(
                        "click", lambda: self._token(person, "api")
                    )
                text = "Lock out" if person.active else "Let in"
                button(text, "plain", aria_label=f"{text} {person.name}").on(
                    "click", lambda: self._lock(person)
                )

    def _role_of(self, person: PersonRecord) -> None:
        choice = El("select", classes="find narrow", aria_label=f"Role of {person.name}")
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
            await self._token(person, "sign-in")

    async def _token(self, person: PersonRecord, kind: TokenKind) -> None:
        admin = await tried(self._viewer.now, Role.admin)
        if admin is None:
            return
        token = await tried(self._accounts.new_token, person.id, kind, by=admin)
        if token is None:
            return
        record, secret = token
        address = f"{self._viewer.settings.url}/sign-in?token={secret}" if kind == "sign-in" else secret
        what = "This address lets in once" if kind == "sign-in" else "This token is for programs"
        with ui.dialog() as dialog, El("div", classes="card"):
            El("h2", f"For {person.name}", "wrap")
            El("p", f"{what}, until {day(record.expires_at)} UTC. It is not shown again.")
            El("code", address, "secret wrap", data_secret="", tabindex="0")
            with El("div", classes="line"):
                button("Copy", "main").on("click", lambda: ui.clipboard.write(address))
                button("Close").on("click", dialog.close)
        dialog.props["aria-label"] = f"For {person.name}"
        dialog.on("hide", dialog.clear)
        dialog.open()

    async def _lock(self, person: PersonRecord) -> None:
        sure = f"Lock {person.name} out? All their sessions end at once."
        if person.active and not await confirmed(sure, "Lock out"):
            return
        admin = await tried(self._viewer.now, Role.admin)
        if admin is not None:
            await tried(self._accounts.change_person, person.id, None, not person.active, by=admin)
            await self.draw()
