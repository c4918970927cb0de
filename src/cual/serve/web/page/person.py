"""The ways in of one person, for administrators: tokens with their last use, made and revoked. Secrets once."""

from datetime import datetime

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules.accounts import PersonRecord, TokenKind, TokenRecord
from cual.serve.rules.checks import check_name
from cual.serve.rules.records import Role
from cual.serve.rules.sentences import Sentence, said
from cual.serve.storage.tables import now
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.frame import frame
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import told, tr
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import ROLES, day

_KINDS: dict[TokenKind, Sentence] = {"sign-in": said("Sign-in address"), "api": said("API token")}
_COLUMNS = (said("What"), said("Note"), said("Made (UTC)"), said("Last used"), said("State"), said("Actions"))


def add_page() -> None:
    @page("/people/{id}")
    async def person_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        await asked(viewer.now, Role.admin)
        person = await asked(viewer.accounts.person, id)
        with frame(viewer, tr("{name} · People", name=person.name)), El("div", classes="stack"):
            with El("div"):
                El("h1", person.name, "wrap")
                El("p", described(person), "soft")
                link(tr("All people"), "/people")
            await Tokens(viewer, person).draw()


def described(person: PersonRecord) -> str:
    """What an administrator should know of a name."""
    words = [tr("The role is {role}.", role=told(ROLES[person.role]))]
    if not person.active:
        words.append(tr("Locked out: no token lets anybody in under this name."))
    if person.program:
        words.append(
            tr("Only programs come in under this name, so it does not count as an administrator who is left.")
        )
    return " ".join(words)


def state_of(token: TokenRecord, at: datetime) -> str:
    """Whether a token still lets in."""
    if token.revoked_at is not None:
        return tr("revoked {day}", day=day(token.revoked_at))
    if token.kind == "sign-in" and token.used_at is not None:
        return tr("used: it worked once")
    if token.expires_at <= at:
        return tr("expired {day}", day=day(token.expires_at))
    return tr("good until {day}", day=day(token.expires_at))


def is_good(token: TokenRecord, at: datetime) -> bool:
    used = token.kind == "sign-in" and token.used_at is not None
    return token.revoked_at is None and not used and token.expires_at > at


class Tokens:
    """The tokens of one person, the latest first."""

    def __init__(self, viewer: Viewer, person: PersonRecord) -> None:
        self._viewer, self._person = viewer, person
        if person.active:
            with El("section", classes="card", aria_label=tr("New way in")):
                El("h2", tr("New way in"))
                with El("div", classes="line"):
                    self._note = ui.input(tr("Note")).props("outlined dense maxlength=100")
                    button(tr("New API token"), "main").on("click", lambda: self._new("api"))
                    button(tr("New sign-in address")).on("click", lambda: self._new("sign-in"))
                El("p", tr("A new sign-in address makes earlier ones useless that were not used."), "soft")
        with El("section", classes="card", aria_label=tr("Tokens")):
            El("h2", tr("Tokens"))
            self._box = El("div")
            button(tr("Sign out everywhere"), "plain").on("click", self._sign_out)

    async def draw(self) -> None:
        tokens = await asked(self._viewer.accounts.tokens, self._person.id)
        self._box.clear()
        with self._box:
            if not tokens:
                El("p", tr("There are none."), "soft")
                return
            box = El("div", classes="scroll", tabindex="0", role="region", aria_label=tr("Table of tokens"))
            with box, El("table", classes="table"):
                with El("thead"), El("tr"):
                    for name in _COLUMNS:
                        El("th", told(name), scope="col")
                with El("tbody"):
                    for token in reversed(tokens):
                        self._row(token)

    def _row(self, token: TokenRecord) -> None:
        state, good = state_of(token, now()), is_good(token, now())
        with El("tr", data_token=str(token.id)):
            El("td", told(_KINDS[token.kind]))
            El("td", token.note, "wrap")
            El("td", day(token.created_at))
            El("td", tr("never") if token.used_at is None else day(token.used_at))
            El("td", state)
            with El("td"):
                if good:
                    name = tr("Revoke {kind} {number}", kind=told(_KINDS[token.kind]), number=token.id)
                    button(tr("Revoke"), "plain", aria_label=name).on("click", lambda: self._revoke(token))

    async def _new(self, kind: TokenKind) -> None:
        note = str(self._note.value or "").strip()
        if note and await tried(check_name, note, "the note") is None:
            return
        if await show_new_token(self._viewer, self._person, kind, note):
            self._note.value = ""
            await self.draw()

    async def _revoke(self, token: TokenRecord) -> None:
        if not await confirmed(
            tr("Revoke it? Whoever uses this {kind} is out at once.", kind=told(_KINDS[token.kind])),
            tr("Revoke"),
        ):
            return
        admin = await tried(self._viewer.now, Role.admin)
        if admin is not None:
            await tried(self._viewer.accounts.revoke, self._person.id, token.id, by=admin)
            await self.draw()

    async def _sign_out(self) -> None:
        admin = await tried(self._viewer.now, Role.admin)
        if admin is not None:
            await tried(self._viewer.accounts.end_sessions, self._person.id, by=admin)
            ui.notify(tr("{name} is signed out everywhere.", name=self._person.name))


async def show_new_token(viewer: Viewer, person: PersonRecord, kind: TokenKind, note: str = "") -> bool:
    """Make a token and show its secret, this once; whether there is one."""
    admin = await tried(viewer.now, Role.admin)
    if admin is None:
        return False
    token = await tried(viewer.accounts.new_token, person.id, kind, note=note, by=admin)
    if token is None:
        return False
    record, secret = token
    address = f"{viewer.settings.url}/sign-in?token={secret}" if kind == "sign-in" else secret
    what = tr("This address lets in once") if kind == "sign-in" else tr("This token is for programs")
    with ui.dialog() as dialog, El("div", classes="card"):
        El("h2", tr("For {name}", name=person.name), "wrap")
        El("p", tr("{what}, until {day} UTC. It is not shown again.", what=what, day=day(record.expires_at)))
        El("code", address, "secret wrap", data_secret="", tabindex="0")
        with El("div", classes="line"):
            button(tr("Copy"), "main").on("click", lambda: ui.clipboard.write(address))
            button(tr("Close")).on("click", dialog.close)
    dialog.props["aria-label"] = tr("For {name}", name=person.name)
    dialog.on("hide", dialog.clear)
    dialog.open()
    return True
