"""Who looks at a page, and how a page asks the workspace: in a thread, so that nobody else's page waits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from nicegui import ui
from sqlalchemy.exc import OperationalError, TimeoutError
from starlette.requests import Request

from cual.errors import CualError, NotAllowed
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import Person, Role
from cual.serve.web.page.texts import tr
from cual.serve.web.security.visitors import allowed, csrf_of, person_of
from cual.serve.web.settings import Settings

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace

P = ParamSpec("P")
R = TypeVar("R")
STATE = "cual.page.state"
"""Where `add_pages` leaves the app's state in a request: all apps of a process share NiceGUI's pages."""


@dataclass(frozen=True)
class Viewer:
    """A signed-in person in front of a page."""

    request: Request
    workspace: "Workspace"
    accounts: Accounts
    settings: Settings
    person: Person

    @classmethod
    def of(cls, request: Request) -> "Viewer":
        # the gate in front of the page lets through whoever is signed in or has a token, a sender's too
        person = allowed(person_of(request), Role.reader)
        state = request.scope[STATE]
        return cls(request, state.workspace, state.accounts, state.settings, person)

    @property
    def csrf(self) -> str:
        return csrf_of(self.request)

    @property
    def theme(self) -> bool | None:
        return theme_of(self.request)

    def may(self, role: Role) -> bool:
        return self.person.role.may(role)

    def now(self, role: Role) -> Person:
        """The person with the rights they have by now, which must reach: a page may stay open for days."""
        record = self.accounts.person(self.person.id)
        if not record.active:
            raise NotAllowed(f"{record.name} is locked out")
        return allowed(Person(record.id, record.name, record.role), role)


def theme_of(request: Request) -> bool | None:
    """Dark (True), light (False), or None for what the system says."""
    return {"dark": True, "light": False}.get(request.cookies.get("cual_theme", ""))


async def asked(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a method of the workspace returns, computed in a thread."""
    return await asyncio.to_thread(function, *args, **kwargs)


async def tried(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
    """Like `asked`, but an error that was meant for people is shown to them; None then."""
    try:
        return await asked(function, *args, **kwargs)
    except CualError as error:
        complain(error)
    except (OperationalError, TimeoutError):
        complain(tr("The database does not answer; try again."))
    return None


def complain(error: CualError | str) -> None:
    """Say what went wrong, in a way that screen readers announce at once."""
    text = str(error)
    sentence = text[:1].upper() + text[1:]
    ui.notify(sentence, type="negative", position="top", multi_line=True, timeout=8000, close_button="OK")
