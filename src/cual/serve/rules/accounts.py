"""Who may do what: people, their tokens and their sessions. Of a secret only its SHA-256 is kept.

HTTP is not known here: `cual.serve.web.security.middleware` reads cookies and headers. Whoever changes
something is named as `by`.
"""

import hmac
import threading
import time
from contextlib import suppress
from datetime import timedelta
from itertools import chain, count
from typing import Any, Literal

from sqlalchemy import Update, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError, OperationalError

from cual.errors import BadOption, Conflict, NotAllowed, NotFound
from cual.serve.rules import audit
from cual.serve.rules.account_rows import (
    ADMIN,
    PERSON,
    PROGRAM,
    PersonRecord,
    TokenKind,
    TokenRecord,
    end_addresses,
    end_sessions,
    find_name,
    find_person,
    id_of,
    person_from,
    person_record,
    token_record,
    why_not,
)
from cual.serve.rules.checks import check_name, needs
from cual.serve.rules.records import OPERATOR, Person, Role
from cual.serve.rules.secrets import Visitor, csrf_for, hashed, new_secret
from cual.serve.storage.database import Database
from cual.serve.storage.tables import now, people, sessions, tokens

IDLE, AT_MOST = timedelta(hours=12), timedelta(days=7)
"""A session ends when nobody has used it for so long, and in any case after so long."""
LIFETIMES: dict[TokenKind, timedelta] = {"sign-in": timedelta(days=1), "api": timedelta(days=90)}
LONGEST = timedelta(days=366)
_REMEMBER = 5.0  # seconds; what other processes change (an invitation, a restored database) is seen after that
_SEEN_EVERY = timedelta(minutes=1)
_NOTE_SECONDS = 0.1


class Accounts:
    """People, tokens and sessions of one workspace."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, Visitor]] = {}
        self._era = 0
        self._lock = threading.Lock()

    # -- people ------------------------------------------------------------------------------------------------

    def people(self) -> list[PersonRecord]:
        with self._database.reading() as connection:
            everybody = connection.execute(select(people, PROGRAM).order_by(people.c.id)).mappings()
            return [person_record(row) for row in everybody]

    def person(self, id: int) -> PersonRecord:
        with self._database.reading() as connection:
            return find_person(connection, id)

    def called(self, name: str) -> PersonRecord | None:
        """Who has this name, in upper or lower case."""
        with self._database.reading() as connection:
            return find_name(connection, name)

    def add_person(self, name: str, role: Role, *, by: Person) -> PersonRecord:
        """Add somebody, who comes in with a token of their own. No two names differ by case only."""
        needs(by, Role.admin)
        name = check_name(name, "a person's name")
        values = {"name": name, "role": str(role), "active": True, "created_at": now()}
        try:
            with self._database.writing() as connection:
                connection.execute(select(people.c.id).with_for_update())  # or two could come at once
                known = find_name(connection, name)
                if known is not None:
                    raise Conflict(f"there is somebody called {known.name!r} already")
                new = find_person(connection, id_of(connection.execute(insert(people).values(**values))))
                audit.write(connection, by, "add person", "person", new.id, name=new.name, role=new.role)
                return new
        except IntegrityError:
            raise Conflict(f"there is somebody called {name!r} already") from None

    def change_person(
        self, id: int, role: Role | None = None, active: bool | None = None, *, by: Person
    ) -> PersonRecord:
        """Give another role, or lock out and let in again. One administrator who can sign in always stays.

        Who becomes a sender is signed out: that is a program.
        """
        needs(by, Role.admin)
        wanted: dict[str, Any] = {"role": None if role is None else str(role), "active": active}
        values = {key: value for key, value in wanted.items() if value is not None}
        with self._database.writing() as connection:
            connection.execute(select(people.c.id).where(ADMIN).with_for_update())  # or two could leave at once
            before, administrators = find_person(connection, id), _administrators(connection)
            if values:
                connection.execute(update(people).where(people.c.id == id).values(**values))
            left = _administrators(connection)
            if any(now_left == 0 < earlier for earlier, now_left in zip(administrators, left, strict=True)):
                also = " who is no program" if left[0] else ""
                raise Conflict(f"{before.name} is the only administrator{also}; make somebody else one first")
            if active is False or role == Role.sender:
                end_sessions(connection, id)
            if role == Role.sender:
                end_addresses(connection, id)
            after = find_person(connection, id)
            if after != before:
                audit.write(connection, by, "change person", "person", id, **values)
        self._forget()
        return after

    def owner(self, name: str) -> PersonRecord:
        """The first administrator who is no program; made by the operator where there is none.

        Parameters
        ----------
        name
            Of a new one; with a number if somebody has it.
        """
        for person in self.people():
            if person.role == Role.admin and person.active and not person.program:
                return person
        names = chain([name], (f"{name} {number}" for number in count(2)))
        free = next(free for free in names if self.called(free) is None)
        return self.add_person(free, Role.admin, by=OPERATOR)

    # -- tokens ------------------------------------------------------------------------------------------------

    def tokens(self, person: int) -> list[TokenRecord]:
        with self._database.reading() as connection:
            find_person(connection, person)
            rows = connection.execute(select(tokens).where(tokens.c.person == person).order_by(tokens.c.id))
            return [token_record(row) for row in rows.mappings()]

    def new_token(
        self, person: int, kind: TokenKind, lifetime: timedelta | None = None, note: str = "", *, by: Person
    ) -> tuple[TokenRecord, str]:
        """A new token, and its secret, which nobody can find out later.

        A new sign-in address makes earlier ones useless that the person has not used.
        """
        needs(by, Role.admin)
        lifetime = LIFETIMES[kind] if lifetime is None else lifetime
        if not timedelta(0) < lifetime <= LONGEST:
            raise BadOption(f"a token lives for up to {LONGEST.days} days, not for {lifetime}")
        secret, at = new_secret(), now()
        values = {"person": person, "kind": kind, "hash": hashed(secret), "note": note}
        with self._database.writing() as connection:
            whose = find_person(connection, person)
            if not whose.active:
                raise Conflict("a person who is locked out gets no token")
            if kind == "sign-in" and whose.role == Role.sender:
                raise Conflict(f"{whose.name} has the role sender, which cannot sign in; make an API token")
            ended = end_addresses(connection, person) if kind == "sign-in" else []
            new = insert(tokens).values(**values, created_at=at, expires_at=at + lifetime)
            number = id_of(connection.execute(new))
            row = connection.execute(select(tokens).where(tokens.c.id == number)).mappings().one()
            details = {"person": person, "kind": kind, "expires": row["expires_at"].isoformat()}
            replaced = {"in place of": ended} if ended else {}
            audit.write(connection, by, "new token", "token", number, **details, **replaced)
        return token_record(row), secret

    def revoke(self, person: int, token: int, *, by: Person) -> TokenRecord:
        """Make a token useless from now on."""
        needs(by, Role.admin)
        with self._database.writing() as connection:
            mine = (tokens.c.id == token) & (tokens.c.person == person)
            alive = update(tokens).where(mine, tokens.c.revoked_at.is_(None))
            revoked = connection.execute(alive.values(revoked_at=now())).rowcount
            row = connection.execute(select(tokens).where(mine)).mappings().one_or_none()
            if row is None:
                raise NotFound(f"person {person} has no token {token}")
            if revoked:
                audit.write(connection, by, "revoke token", "token", token, person=person)
        self._forget()
        return token_record(row)

    # -- sessions ----------------------------------------------------------------------------------------------

    def sign_in(self, secret: str) -> tuple[Visitor, str]:
        """Exchange a one-time token for a session: the visitor, and the session's secret for the cookie."""
        at, mark = now(), hashed(secret)
        alive = tokens.c.used_at.is_(None) & tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > at)
        mine = (tokens.c.hash == mark) & (tokens.c.kind == "sign-in")
        with self._database.reading() as connection:  # a flood of guesses must not keep others from writing
            if connection.execute(select(tokens.c.id).where(mine)).one_or_none() is None:
                raise NotAllowed("nobody was given this sign-in address; copy all of it")
        with self._database.writing() as connection:
            taken = connection.execute(update(tokens).where(mine, alive).values(used_at=at))
            row = connection.execute(select(tokens).where(mine)).mappings().one()
            person = find_person(connection, row["person"])
            if taken.rowcount != 1 or not person.active or not hmac.compare_digest(row["hash"], mark):
                raise NotAllowed(why_not(row, person))
            new = new_secret()
            values = {"person": person.id, "hash": hashed(new), "created_at": at, "seen_at": at}
            session = id_of(connection.execute(insert(sessions).values(**values, expires_at=at + AT_MOST)))
            visitor = Visitor(Person(person.id, person.name, person.role), session, csrf_for(new))
            audit.write(connection, visitor.person, "sign in", "session", session, token=row["id"])
        return visitor, new

    def sign_out(self, session: int, *, by: Person) -> None:
        """End a session of one's own."""
        with self._database.writing() as connection:
            mine = (sessions.c.id == session) & (sessions.c.person == by.id) & sessions.c.revoked_at.is_(None)
            if connection.execute(update(sessions).where(mine).values(revoked_at=now())).rowcount:
                audit.write(connection, by, "sign out", "session", session)
        self._forget()

    def end_sessions(self, person: int, *, by: Person) -> None:
        """Sign a person out everywhere."""
        needs(by, Role.admin)
        with self._database.writing() as connection:
            find_person(connection, person)
            end_sessions(connection, person)
            audit.write(connection, by, "end sessions", "person", person)
        self._forget()

    def known(self, kind: Literal["cookie", "token"], secret: str) -> Visitor | None:
        """Whose secret this is, if it was looked up a moment ago: takes no time, asks no database."""
        with self._lock:
            at, visitor = self._known.get(f"{kind} {hashed(secret)}", (0.0, None))
        return visitor if visitor is not None and time.monotonic() - at < _REMEMBER else None

    def by_cookie(self, secret: str) -> Visitor | None:
        """Whose session this is, while it lives."""
        return self.known("cookie", secret) or self._by_cookie(secret)

    def by_token(self, secret: str) -> Visitor | None:
        """Whose API token this is, while it lives."""
        return self.known("token", secret) or self._by_token(secret)

    def _by_cookie(self, secret: str) -> Visitor | None:
        at, mark, era = now(), hashed(secret), self._era
        alive = sessions.c.revoked_at.is_(None) & (sessions.c.expires_at > at) & people.c.active
        fresh = sessions.c.seen_at > at - IDLE
        columns = (sessions.c.id.label("session"), sessions.c.hash, sessions.c.seen_at, *PERSON)
        wanted = select(*columns).join_from(sessions, people, sessions.c.person == people.c.id)
        with self._database.reading() as connection:
            row = (
                connection.execute(wanted.where(sessions.c.hash == mark, alive, fresh)).mappings().one_or_none()
            )
        if row is None or not hmac.compare_digest(row["hash"], mark):
            return None
        if at - row["seen_at"] > _SEEN_EVERY:
            self._note(update(sessions).where(sessions.c.hash == mark).values(seen_at=at))
        visitor = Visitor(person_from(row), row["session"], csrf_for(secret))
        return self._remember(f"cookie {mark}", visitor, era)

    def _by_token(self, secret: str) -> Visitor | None:
        at, mark, era = now(), hashed(secret), self._era
        alive = tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > at) & people.c.active
        columns = (tokens.c.hash, tokens.c.used_at, *PERSON)
        wanted = select(*columns).join_from(tokens, people, tokens.c.person == people.c.id)
        mine = (tokens.c.hash == mark) & (tokens.c.kind == "api")
        with self._database.reading() as connection:
            row = connection.execute(wanted.where(mine, alive)).mappings().one_or_none()
        if row is None or not hmac.compare_digest(row["hash"], mark):
            return None
        if row["used_at"] is None or at - row["used_at"] > _SEEN_EVERY:
            self._note(update(tokens).where(mine).values(used_at=at))
        return self._remember(f"token {mark}", Visitor(person_from(row), None, None), era)

    def _note(self, seen: Update) -> None:
        """Write down that somebody was here, if it can be done at once: who only reads waits for no writer."""
        with suppress(OperationalError), self._database.writing(patience=_NOTE_SECONDS) as connection:
            connection.execute(seen)

    # -- what was looked up a moment ago -----------------------------------------------------------------------

    def _remember(self, key: str, visitor: Visitor, era: int) -> Visitor:
        """Keep it for a moment, unless something was revoked while it was looked up."""
        with self._lock:
            if len(self._known) > 10_000:
                self._known.clear()
            if era == self._era:
                self._known[key] = (time.monotonic(), visitor)
        return visitor

    def _forget(self) -> None:
        with self._lock:
            self._era += 1
            self._known.clear()


def _administrators(connection: Connection) -> tuple[int, int]:
    """How many there are, and how many of them are no programs."""
    counts = (func.count(), func.count().filter(~PROGRAM.element))
    everybody, people_only = connection.execute(select(*counts).select_from(people).where(ADMIN)).one()
    return everybody, people_only
