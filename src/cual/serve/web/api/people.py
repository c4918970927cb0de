"""People and their tokens. Administrators only, but for what concerns oneself (`sessions`)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field, StrictBool

from cual.serve.rules.accounts import LIFETIMES, LONGEST, PersonRecord, TokenKind, TokenRecord
from cual.serve.rules.records import Role
from cual.serve.web.api.common import Admin, Body, Id, InAccounts, InSettings, Name, problems

router = APIRouter(prefix="/api/people", tags=["people"])
Days = Annotated[float, Field(gt=0, le=LONGEST.days, allow_inf_nan=False)]


class NewPerson(Body):
    name: Name
    role: Role


class Change(Body):
    role: Role | None = None
    active: StrictBool | None = None


class NewToken(Body):
    kind: TokenKind = "sign-in"
    days: Days | None = None
    note: Name | None = None


@dataclass(frozen=True)
class MadeToken:
    """A new token. Its secret is told here and never again."""

    record: TokenRecord
    token: str
    address: str | None
    """Where a sign-in token leads in."""


@router.get("", responses=problems())
def people(person: Admin, accounts: InAccounts) -> list[PersonRecord]:
    """Everybody, also those who are locked out."""
    return accounts.people()


@router.post("", status_code=201, responses=problems(409))
def add_person(person: Admin, accounts: InAccounts, new: NewPerson) -> PersonRecord:
    """Add somebody. They sign in with a token that is made for them next."""
    return accounts.add_person(new.name, new.role, by=person)


@router.get("/{id}", responses=problems(404))
def one_person(person: Admin, accounts: InAccounts, id: Id) -> PersonRecord:
    return accounts.person(id)


@router.patch("/{id}", responses=problems(404, 409))
def change_person(person: Admin, accounts: InAccounts, id: Id, change: Change) -> PersonRecord:
    """Give another role, lock out (`active: false`, which ends all sessions) or let in again."""
    return accounts.change_person(id, change.role, change.active, by=person)


@router.delete("/{id}/sessions", status_code=204, responses=problems(404))
def end_sessions(person: Admin, accounts: InAccounts, id: Id) -> None:
    """Sign somebody out everywhere."""
    accounts.end_sessions(id, by=person)


@router.get("/{id}/tokens", responses=problems(404))
def tokens(person: Admin, accounts: InAccounts, id: Id) -> list[TokenRecord]:
    """What tokens somebody has; the secrets are not kept."""
    return accounts.tokens(id)


@router.post("/{id}/tokens", status_code=201, responses=problems(404, 409))
def new_token(person: Admin, accounts: InAccounts, settings: InSettings, id: Id, new: NewToken) -> MadeToken:
    """Make a one-time sign-in token, or one for programs (`kind: api`)."""
    lifetime = LIFETIMES[new.kind] if new.days is None else timedelta(days=new.days)
    record, secret = accounts.new_token(id, new.kind, lifetime, new.note or "", by=person)
    address = f"{settings.url}/sign-in?token={secret}" if new.kind == "sign-in" else None
    return MadeToken(record, secret, address)


@router.delete("/{id}/tokens/{token}", responses=problems(404))
def revoke(person: Admin, accounts: InAccounts, id: Id, token: Id) -> TokenRecord:
    """Make a token useless."""
    return accounts.revoke(id, token, by=person)
