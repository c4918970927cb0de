"""People, tokens and sessions as the database has them: rows, and records made of them. No decisions here."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import CursorResult, RowMapping, exists, select, update
from sqlalchemy.engine import Connection

from cual.data.labels import likeness
from cual.errors import NotFound
from cual.serve.rules.records import Person, Role
from cual.serve.storage.tables import now, people, sessions, tokens

TokenKind = Literal["sign-in", "api"]
PERSON = (people.c.id, people.c.name, people.c.role)
PROGRAM = (
    exists().where(tokens.c.person == people.c.id, tokens.c.kind == "api")
    & ~exists().where(tokens.c.person == people.c.id, tokens.c.kind == "sign-in")
).label("program")
"""Whether only programs come in under a name: it has tokens for them, and never got a sign-in address."""
ADMIN = (people.c.role == str(Role.admin)) & people.c.active


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
    """When: a sign-in address the one time, a token for programs the last time, give or take a minute."""
    revoked_at: datetime | None


@dataclass(frozen=True)
class PersonRecord:
    """A person as administrators see them."""

    id: int
    name: str
    role: Role
    active: bool
    created_at: datetime
    program: bool = False
    """Whether only programs come in under this name: it was never given a sign-in address."""


def id_of(inserted: CursorResult[Any]) -> int:
    key = inserted.inserted_primary_key
    assert key is not None  # every table here numbers its rows
    return int(key[0])


def person_from(row: RowMapping) -> Person:
    return Person(row["id"], row["name"], Role(row["role"]))


def person_record(row: RowMapping) -> PersonRecord:
    role, active, program = Role(row["role"]), bool(row["active"]), bool(row["program"])
    return PersonRecord(row["id"], row["name"], role, active, row["created_at"], program)


def token_record(row: RowMapping) -> TokenRecord:
    inserted, ends = row["created_at"], row["expires_at"]
    used, revoked = row["used_at"], row["revoked_at"]
    return TokenRecord(row["id"], row["person"], row["kind"], row["note"], inserted, ends, used, revoked)


def find_person(connection: Connection, id: int) -> PersonRecord:
    row = connection.execute(select(people, PROGRAM).where(people.c.id == id)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no person {id}")
    return person_record(row)


def find_name(connection: Connection, name: str) -> PersonRecord | None:
    """Who is called so: exactly, if an earlier cual has let two in whose names differ by case only."""
    everybody = connection.execute(select(people, PROGRAM).order_by(people.c.id)).mappings()
    alike = [person_record(row) for row in everybody if likeness(row["name"]) == likeness(name)]
    return next((person for person in alike if person.name == name.strip()), alike[0] if alike else None)


def end_addresses(connection: Connection, person: int) -> list[int]:
    """Make the sign-in addresses useless that a person was given and has not used; their numbers."""
    unused = (tokens.c.person == person) & (tokens.c.kind == "sign-in") & tokens.c.used_at.is_(None)
    alive = unused & tokens.c.revoked_at.is_(None)
    ended = list(connection.execute(select(tokens.c.id).where(alive).order_by(tokens.c.id)).scalars())
    connection.execute(update(tokens).where(alive).values(revoked_at=now()))
    return ended


def end_sessions(connection: Connection, person: int) -> None:
    alive = (sessions.c.person == person) & sessions.c.revoked_at.is_(None)
    connection.execute(update(sessions).where(alive).values(revoked_at=now()))


def why_not(token: RowMapping, person: PersonRecord) -> str:
    if not person.active:
        return f"{person.name} is locked out"
    if token["used_at"] is not None:
        return "this sign-in address has been used already; each works once. Ask for a new one"
    if token["revoked_at"] is not None:
        return "this sign-in address was taken back, or a newer one was made; use that, or ask for a new one"
    return "this sign-in address has expired; ask for a new one"
