"""Who sends a request: what a visitor is, and how routes and pages ask for it. Nothing is looked up here.

`cual.serve.middleware` finds out who it is with `cual.serve.accounts`, and leaves it in the request.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from cual.errors import NotAllowed
from cual.serve.records import Person, Role

VISITOR = "cual.visitor"
"""Where the middleware leaves a `Visitor` in a request's scope."""


@dataclass(frozen=True)
class Visitor:
    """Somebody who has shown a secret that is known and alive."""

    person: Person
    session: int | None
    """None for whoever came with a token in the Authorization header."""
    csrf: str | None
    """What a page of ours sends along with changes, and no other page can know."""


def person_of(request: HTTPConnection) -> Person | None:
    """Who is signed in; None for nobody. Asks no database: the middleware has done it."""
    visitor: Visitor | None = request.scope.get(VISITOR)
    return None if visitor is None else visitor.person


def session_of(request: HTTPConnection) -> int | None:
    """The session that a request belongs to, for `Accounts.sign_out`."""
    visitor: Visitor | None = request.scope.get(VISITOR)
    return None if visitor is None else visitor.session


def csrf_of(request: HTTPConnection) -> str:
    """What the header X-CSRF-Token must hold in changes made with this session; "" without one."""
    visitor: Visitor | None = request.scope.get(VISITOR)
    return "" if visitor is None or visitor.csrf is None else visitor.csrf


def allowed(person: Person | None, role: Role) -> Person:
    """The person, or a `NotAllowed` error where the role does not reach.

    >>> allowed(Person(1, "Ada", Role.annotator), Role.admin)
    Traceback (most recent call last):
    cual.errors.NotAllowed: this needs the role admin; Ada has the role annotator
    """
    if person is None:
        raise NotAllowed("sign in first")
    if not person.role.may(role):
        raise NotAllowed(f"this needs the role {role}; {person.name} has the role {person.role}")
    return person


def new_secret() -> str:
    """256 random bits, with a mark by which logs and secret scanners know them."""
    return f"cual_{secrets.token_urlsafe(32)}"


def hashed(secret: str) -> str:
    """What is kept of a secret. It is random and long, so that a plain hash cannot be turned back."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def csrf_for(secret: str) -> str:
    """Bound to the session, computed from its secret, useless without it."""
    return hmac.new(secret.encode("utf-8", "replace"), b"csrf", hashlib.sha256).hexdigest()
