"""Who sends a request: what a visitor is, and how routes and pages ask for it. Nothing is looked up here.

`middleware` finds out who it is with `cual.serve.rules.accounts`, and leaves it in the request.
"""

from starlette.requests import HTTPConnection

from cual.errors import NotAllowed
from cual.serve.rules.records import Person, Role
from cual.serve.rules.secrets import Visitor

VISITOR = "cual.visitor"
"""Where the middleware leaves a `Visitor` in a request's scope."""


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


def sending(person: Person | None) -> Person:
    """The person, or a `NotAllowed` error where samples are not taken from the role.

    >>> sending(Person(1, "Ada", Role.annotator))
    Traceback (most recent call last):
    cual.errors.NotAllowed: this needs the role sender or admin; Ada has the role annotator
    """
    person = allowed(person, Role.sender)
    if not person.role.sends:
        raise NotAllowed(f"this needs the role sender or admin; {person.name} has the role {person.role}")
    return person


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
