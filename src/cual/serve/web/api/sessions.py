"""Signing in and out, and who is signed in. What a session is, `cual.serve.rules.accounts` knows."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field, StrictStr

from cual.errors import NotAllowed
from cual.serve.rules.accounts import AT_MOST, Accounts
from cual.serve.rules.records import Role
from cual.serve.rules.secrets import Visitor, is_secret
from cual.serve.rules.sentences import said
from cual.serve.web.api.common import Body, Caller, problems
from cual.serve.web.page.sign_in import sign_in_page
from cual.serve.web.security.attempts import Attempts
from cual.serve.web.security.middleware import CLIENT, too_many
from cual.serve.web.security.visitors import csrf_of, person_of, session_of
from cual.serve.web.settings import Settings

router = APIRouter(tags=["sessions"])
_LONGEST_TOKEN = 500  # characters; a whole address may be pasted


@dataclass(frozen=True)
class Me:
    """Who is signed in."""

    id: int
    name: str
    role: Role
    csrf: str
    """For the header X-CSRF-Token; empty for whoever came with a token of their own."""


class SignIn(Body):
    token: Annotated[StrictStr, Field(min_length=1, max_length=_LONGEST_TOKEN)]


@router.get("/sign-in", include_in_schema=False)
def sign_in_by_link(request: Request, token: str = "") -> Response:
    """The form; of an address that somebody was given, with its token in it.

    Nothing is looked up and nothing is used up: chats, mail filters and browsers open addresses on their own.
    """
    return sign_in_page(request, token=token if is_secret(token) else "")


@router.post("/sign-in", include_in_schema=False)
def sign_in_by_form(request: Request, token: Annotated[str, Form(max_length=_LONGEST_TOKEN)] = "") -> Response:
    """Exchange the one-time token of an address for a session: the button was pressed, or it was pasted."""
    return _come_in(request, token.strip().rpartition("token=")[2])


@router.post("/api/sign-in", responses=problems())
def sign_in(request: Request, response: Response, given: SignIn) -> Me:
    """Exchange a one-time token for a session in a cookie."""
    visitor = _exchange(request, given.token)
    if isinstance(visitor, Response):
        return visitor  # pyright: ignore[reportReturnType]
    _set_cookies(request, response, *visitor)
    person = visitor[0].person
    return Me(person.id, person.name, person.role, visitor[0].csrf or "")


@router.post("/api/sign-out", status_code=204, responses=problems())
def sign_out(request: Request, response: Response, person: Caller) -> None:
    """End this session. A token in the Authorization header stays as it is."""
    accounts: Accounts = request.app.state.accounts
    session = session_of(request)
    if session is not None:
        accounts.sign_out(session, by=person)
    for name in request.app.state.cookies:
        response.delete_cookie(name, path="/")


@router.get("/api/me", responses=problems())
def me(request: Request, person: Caller) -> Me:
    """Who is signed in, and the CSRF token that changes need."""
    return Me(person.id, person.name, person.role, csrf_of(request))


def _come_in(request: Request, token: str) -> Response:
    try:
        visitor = _exchange(request, token)
    except NotAllowed as error:
        if person_of(request) is not None:  # the address was opened again by whom it has let in
            return RedirectResponse("/", 303)
        text = str(error)
        return sign_in_page(request, f"{text[0].upper()}{text[1:]}.", 403)
    if isinstance(visitor, Response):
        wait = {"Retry-After": visitor.headers["Retry-After"]}
        return sign_in_page(request, said("Too many attempts. Try again in a minute."), 429, wait)
    response = RedirectResponse("/", 303)
    _set_cookies(request, response, *visitor)
    return response


def _exchange(request: Request, token: str) -> tuple[Visitor, str] | Response:
    attempts: Attempts = request.app.state.attempts
    accounts: Accounts = request.app.state.accounts
    try:
        return accounts.sign_in(token)
    except NotAllowed:
        wait = attempts.failed(request.scope[CLIENT], token)
        if wait:
            return too_many(wait)
        raise


def _set_cookies(request: Request, response: Response, visitor: Visitor, secret: str) -> None:
    settings: Settings = request.app.state.settings
    session, csrf = request.app.state.cookies
    seconds = int(AT_MOST.total_seconds())
    for name, value, hidden in ((session, secret, True), (csrf, visitor.csrf or "", False)):
        response.set_cookie(
            name, value, seconds, path="/", secure=settings.secure, httponly=hidden, samesite="strict"
        )
