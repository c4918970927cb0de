"""People, tokens and sessions as the database has them: rows, and records made of them. No decisions here."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import CursorResult, RowMapping, select, update
from sqlalchemy.engine import Connection

from cual.errors import NotFound
from cual.serve.rules.records import Person, Role
from cual.serve.storage.tables import now, people, sessions

TokenKind = Literal["sign-in", "api"]
PERSON = (people.c.id, people.c.name, people.c.role)


@dataclass(frozen=True)
class TokenRecord:
    """A token as far as anybody may know it; the secret itself is shown once, when it is made."""

    id: int
    person: int
    kind: TokenKind
    note: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True)
class PersonRecord:
    """A person as administrators see them."""

    id: int
    name: str
    role: Role
    active: bool
    created_at: datetime


def id_of(inserted: CursorResult[Any]) -> int:
    key = inserted.inserted_primary_key
    assert key is not None  # every table here numbers its rows
    return int(key[0])


def person_from(row: RowMapping) -> Person:
    return Person(row["id"], row["name"], Role(row["role"]))


def person_record(row: RowMapping) -> PersonRecord:
    return PersonRecord(row["id"], row["name"], Role(row["role"]), bool(row["active"]), row["created_at"])


def token_record(row: RowMapping) -> TokenRecord:
    inserted, ends = row["created_at"], row["expires_at"]
    used, revoked = row["used_at"], row["revoked_at"]
    return TokenRecord(row["id"], row["person"], row["kind"], row["note"], inserted, ends, used, revoked)


def find_person(connection: Connection, id: int) -> PersonRecord:
    row = connection.execute(select(people).where(people.c.id == id)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no person {id}")
    return person_record(row)


def end_sessions(connection: Connection, person: int) -> None:
    alive = (sessions.c.person == person) & sessions.c.revoked_at.is_(None)
    connection.execute(update(sessions).where(alive).values(revoked_at=now()))


def why_not(token: RowMapping, person: PersonRecord) -> str:
    if not person.active:
        return f"{person.name} is locked out"
    if token["used_at"] is not None:
        return "this sign-in address has been used already; each works once. Ask for a new one"
    if token["revoked_at"] is not None:
        return "this sign-in address was taken back; ask for a new one"
    return "this sign-in address has expired; ask for a new one"
