"""People, tokens and sessions: what is kept of secrets, what lets in, and for how long."""

from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from cual.errors import BadOption, Conflict, NotAllowed, NotFound
from cual.serve.rules import accounts as module
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage.tables import metadata, now, people, sessions
from cual.serve.web.security.attempts import Attempts


@pytest.fixture
def accounts(workspace: Workspace) -> Accounts:
    return Accounts(workspace.database)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch):
    """Let time pass."""

    def pass_time(by: timedelta) -> None:
        moment = now() + by
        monkeypatch.setattr(module, "now", lambda: moment)
        monkeypatch.setattr(module, "_REMEMBER", -1.0)

    return pass_time


def everything(workspace: Workspace) -> str:
    """All that the database holds, as text."""
    with workspace.database.reading() as link:
        return repr([tuple(row) for table in metadata.sorted_tables for row in link.execute(sa.select(table))])


def test_no_secret_is_kept(accounts: Accounts, workspace: Workspace) -> None:
    ada = accounts.add_person("Ada", Role.annotator, by=OPERATOR)
    _, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    _, once = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    _, session = accounts.sign_in(once)
    held = everything(workspace)
    assert "Ada" in held
    for secret in (api, once, session):
        assert len(secret) >= 48  # 256 bits and a mark
        assert secret not in held
        assert secret.removeprefix("cual_") not in held


def test_a_sign_in_token_works_once(accounts: Accounts) -> None:
    ada = accounts.add_person("Ada", Role.annotator, by=OPERATOR)
    _, once = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    visitor, _ = accounts.sign_in(once)
    assert (visitor.person.name, visitor.person.role) == ("Ada", Role.annotator)
    with pytest.raises(NotAllowed, match="used already"):
        accounts.sign_in(once)


def test_what_is_not_known_lets_nobody_in(accounts: Accounts) -> None:
    ada = accounts.add_person("Ada", Role.admin, by=OPERATOR)
    _, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    _, once = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    for wrong in ("", "x", once[:-1], once + "x", once.upper(), api, "\x00", "\ud800"):
        with pytest.raises(NotAllowed):
            accounts.sign_in(wrong)
    assert accounts.by_token(once) is None  # one kind is not the other
    assert accounts.by_cookie(api) is None
    assert accounts.by_cookie(once) is None
    assert accounts.by_token(api) is not None


@pytest.mark.parametrize("kind", ["sign-in", "api"])
def test_tokens_expire(accounts: Accounts, later, kind) -> None:
    ada = accounts.add_person("Ada", Role.admin, by=OPERATOR)
    _, secret = accounts.new_token(ada.id, kind, timedelta(hours=2), by=OPERATOR)
    later(timedelta(hours=1))
    if kind == "api":
        assert accounts.by_token(secret) is not None
    later(timedelta(hours=3))
    assert accounts.by_token(secret) is None
    with pytest.raises(NotAllowed):
        accounts.sign_in(secret)


def test_revoked_tokens_let_nobody_in(accounts: Accounts) -> None:
    ada = accounts.add_person("Ada", Role.admin, by=OPERATOR)
    record, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    assert accounts.by_token(api) is not None
    assert accounts.revoke(ada.id, record.id, by=OPERATOR).revoked_at is not None
    assert accounts.by_token(api) is None
    once, secret = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    accounts.revoke(ada.id, once.id, by=OPERATOR)
    with pytest.raises(NotAllowed, match="taken back"):
        accounts.sign_in(secret)


def test_nobody_revokes_a_token_under_another_name(accounts: Accounts) -> None:
    ada, bob = (accounts.add_person(name, Role.admin, by=OPERATOR) for name in ("Ada", "Bob"))
    record, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    with pytest.raises(NotFound):
        accounts.revoke(bob.id, record.id, by=OPERATOR)
    assert accounts.by_token(api) is not None


def test_sessions_end_when_nobody_uses_them_and_in_any_case(accounts: Accounts, later) -> None:
    def signed_in() -> str:
        return accounts.sign_in(accounts.new_token(ada.id, "sign-in", by=OPERATOR)[1])[1]

    ada = accounts.add_person("Ada", Role.admin, by=OPERATOR)
    idle, used = signed_in(), signed_in()
    for hours in range(6, 7 * 24, 6):
        later(timedelta(hours=hours))
        assert accounts.by_cookie(used) is not None
        assert hours < 18 or accounts.by_cookie(idle) is None
    later(timedelta(hours=7 * 24))
    assert accounts.by_cookie(used) is None


def test_signing_out_ends_the_session(accounts: Accounts) -> None:
    ada = accounts.add_person("Ada", Role.admin, by=OPERATOR)
    first, a = accounts.sign_in(accounts.new_token(ada.id, "sign-in", by=OPERATOR)[1])
    _, b = accounts.sign_in(accounts.new_token(ada.id, "sign-in", by=OPERATOR)[1])
    assert accounts.by_cookie(a) is not None
    assert first.session is not None
    accounts.sign_out(first.session, by=first.person)
    assert accounts.by_cookie(a) is None
    assert accounts.by_cookie(b) is not None
    accounts.end_sessions(ada.id, by=OPERATOR)
    assert accounts.by_cookie(b) is None


def test_who_is_locked_out_is_out_at_once(accounts: Accounts) -> None:
    accounts.add_person("Root", Role.admin, by=OPERATOR)
    ada = accounts.add_person("Ada", Role.annotator, by=OPERATOR)
    _, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    _, once = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    _, cookie = accounts.sign_in(accounts.new_token(ada.id, "sign-in", by=OPERATOR)[1])
    assert accounts.by_token(api) is not None
    assert accounts.by_cookie(cookie) is not None
    accounts.change_person(ada.id, active=False, by=OPERATOR)
    assert accounts.by_token(api) is None
    assert accounts.by_cookie(cookie) is None
    with pytest.raises(NotAllowed, match="locked out"):
        accounts.sign_in(once)
    with pytest.raises(Conflict):
        accounts.new_token(ada.id, "api", by=OPERATOR)
    accounts.change_person(ada.id, active=True, by=OPERATOR)
    assert accounts.by_cookie(cookie) is None  # signing in again is asked of them


def test_a_new_role_counts_at_once(accounts: Accounts) -> None:
    accounts.add_person("Root", Role.admin, by=OPERATOR)
    ada = accounts.add_person("Ada", Role.admin, by=OPERATOR)
    _, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    for role in (Role.reader, Role.annotator):
        accounts.change_person(ada.id, role, by=OPERATOR)
        visitor = accounts.by_token(api)
        assert visitor is not None
        assert visitor.person.role == role


def test_one_administrator_always_stays(accounts: Accounts) -> None:
    root = accounts.add_person("Root", Role.admin, by=OPERATOR)
    for change in ({"role": Role.reader}, {"active": False}):
        with pytest.raises(Conflict, match="only administrator"):
            accounts.change_person(root.id, **change, by=OPERATOR)
    accounts.add_person("Ada", Role.admin, by=OPERATOR)
    assert accounts.change_person(root.id, Role.reader, by=OPERATOR).role == Role.reader


def test_programs_are_no_administrators_that_count(accounts: Accounts) -> None:
    root = accounts.add_person("Root", Role.admin, by=OPERATOR)
    robot = accounts.add_person("robot", Role.admin, by=OPERATOR)
    accounts.new_token(root.id, "sign-in", by=OPERATOR)
    accounts.new_token(root.id, "api", by=OPERATOR)  # a person may have programs, too
    accounts.new_token(robot.id, "api", by=OPERATOR)
    assert [(person.name, person.program) for person in accounts.people()] == [("Root", False), ("robot", True)]
    for change in ({"role": Role.reader}, {"active": False}):
        with pytest.raises(Conflict, match="only administrator who is no program"):
            accounts.change_person(root.id, **change, by=OPERATOR)
    assert accounts.person(root.id).role == Role.admin
    assert accounts.change_person(robot.id, Role.reader, by=OPERATOR).role == Role.reader
    accounts.change_person(robot.id, Role.admin, by=OPERATOR)
    accounts.new_token(robot.id, "sign-in", by=OPERATOR)  # somebody comes in under this name from now on
    assert not accounts.person(robot.id).program
    assert accounts.change_person(root.id, Role.reader, by=OPERATOR).role == Role.reader


def test_where_there_are_only_programs_one_stays(accounts: Accounts) -> None:
    robot = accounts.add_person("robot", Role.admin, by=OPERATOR)
    accounts.new_token(robot.id, "api", by=OPERATOR)
    eve = accounts.add_person("eve", Role.reader, by=OPERATOR)
    assert accounts.change_person(eve.id, Role.annotator, by=OPERATOR).role == Role.annotator
    with pytest.raises(Conflict, match="only administrator"):
        accounts.change_person(robot.id, Role.reader, by=OPERATOR)


def test_nobody_signs_in_as_a_program_when_the_service_starts(accounts: Accounts) -> None:
    robot = accounts.add_person("Me", Role.admin, by=OPERATOR)
    accounts.new_token(robot.id, "api", by=OPERATOR)
    owner = accounts.owner("me")
    assert (owner.name, owner.program) == ("me 2", False)
    assert accounts.owner("me") == owner


def test_the_last_use_of_a_token_is_known(accounts: Accounts, later) -> None:
    def used() -> datetime | None:
        (token,) = accounts.tokens(ada.id)
        return token.used_at

    ada = accounts.add_person("Ada", Role.admin, by=OPERATOR)
    _, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    assert used() is None
    assert accounts.by_token(api[:-1]) is None
    assert used() is None
    assert accounts.by_token(api) is not None
    first = used()
    assert first is not None
    later(timedelta(seconds=5))
    assert accounts.by_token(api) is not None
    assert used() == first, "not at every request"
    later(timedelta(minutes=5))
    assert accounts.by_token(api) is not None, "having been used does not end it"
    last = used()
    assert last is not None
    assert last > first


def test_a_new_sign_in_address_ends_the_ones_before(accounts: Accounts) -> None:
    ada, bob = (accounts.add_person(name, Role.admin, by=OPERATOR) for name in ("Ada", "Bob"))
    _, used = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    accounts.sign_in(used)
    _, old = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    _, of_bob = accounts.new_token(bob.id, "sign-in", by=OPERATOR)
    _, api = accounts.new_token(ada.id, "api", by=OPERATOR)
    _, new = accounts.new_token(ada.id, "sign-in", by=OPERATOR)
    with pytest.raises(NotAllowed, match="newer one was made"):
        accounts.sign_in(old)
    for secret in (new, of_bob):
        accounts.sign_in(secret)
    assert accounts.by_token(api) is not None
    ended = [token.revoked_at is not None for token in accounts.tokens(ada.id)]
    assert ended == [False, True, False, False], "what was used is not called revoked"


@pytest.mark.parametrize("same", ["ada lovelace", "ADA LOVELACE", "Ada  Lovelace", "Ａda Lovelace"])
def test_names_that_differ_by_case_are_one(accounts: Accounts, same: str) -> None:
    ada = accounts.add_person("Ada Lovelace", Role.annotator, by=OPERATOR)
    with pytest.raises(Conflict, match="'Ada Lovelace'"):
        accounts.add_person(same, Role.reader, by=OPERATOR)
    assert accounts.called(same) == ada
    assert accounts.called("Ada") is None
    assert len(accounts.people()) == 1


def test_two_that_an_earlier_release_took_for_different_people(
    accounts: Accounts, workspace: Workspace
) -> None:
    with workspace.database.writing() as connection:
        for name in ("Ada", "ada"):
            connection.execute(
                sa.insert(people).values(name=name, role="reader", active=True, created_at=now())
            )
    for name in ("Ada", "ada"):
        found = accounts.called(name)
        assert found is not None
        assert found.name == name
    assert accounts.called("ADA") == accounts.called("Ada")


def test_names_are_checked_and_belong_to_one_person(accounts: Accounts) -> None:
    accounts.add_person(" Ada ", Role.admin, by=OPERATOR)
    with pytest.raises(Conflict):
        accounts.add_person("Ada", Role.reader, by=OPERATOR)
    for name in ("", " ", "a\nb", "x" * 101, "a\u202eb"):
        with pytest.raises(BadOption):
            accounts.add_person(name, Role.reader, by=OPERATOR)


def test_the_owner_is_made_once(accounts: Accounts) -> None:
    first = accounts.owner("me")
    assert (first.name, first.role) == ("me", Role.admin)
    assert accounts.owner("somebody else") == first


def test_earlier_addresses_of_the_terminal_end_when_a_new_one_is_made(accounts: Accounts) -> None:
    me = accounts.owner("me")
    _, old = accounts.new_token(me.id, "sign-in", by=OPERATOR)
    _, api = accounts.new_token(me.id, "api", by=OPERATOR)
    accounts.new_token(me.id, "sign-in", by=OPERATOR)
    with pytest.raises(NotAllowed):
        accounts.sign_in(old)
    assert accounts.by_token(api) is not None


@pytest.mark.parametrize("days", [0, -1, 367])
def test_no_token_lives_forever(accounts: Accounts, days: int) -> None:
    with pytest.raises(BadOption):
        accounts.new_token(accounts.owner("me").id, "api", timedelta(days=days), by=OPERATOR)


def test_when_a_session_was_seen_is_not_written_at_every_request(
    accounts: Accounts, workspace: Workspace, later
) -> None:
    def seen() -> datetime:
        with workspace.database.reading() as link:
            return link.execute(sa.select(sessions.c.seen_at)).scalar_one()

    _, cookie = accounts.sign_in(accounts.new_token(accounts.owner("me").id, "sign-in", by=OPERATOR)[1])
    first = seen()
    later(timedelta(seconds=5))
    accounts.by_cookie(cookie)
    assert seen() == first
    later(timedelta(minutes=5))
    accounts.by_cookie(cookie)
    assert seen() > first


def test_failures_are_limited_per_address_and_altogether() -> None:
    time = 0.0
    attempts = Attempts(per_address=3, altogether=5, clock=lambda: time)
    for i in range(3):
        assert attempts.failed("10.0.0.1", f"wrong {i}") == 0
    assert attempts.failed("10.0.0.1", "one more") == 60
    assert attempts.failed("10.0.0.1", "wrong 0") == 0  # no attempt that was not made before
    assert attempts.failed("10.0.0.2", "one more") == 0
    assert attempts.failed("10.0.0.3", "wrong") == 0
    assert attempts.failed("10.0.0.9", "wrong") == 60  # many addresses do not help
    time = 61.0
    assert attempts.failed("10.0.0.1", "one more") == 0


def test_addresses_that_failed_do_not_fill_the_memory() -> None:
    attempts = Attempts()
    for i in range(10_500):
        attempts.failed(f"10.0.{i // 256}.{i % 256}", "wrong")
    assert len(attempts._of) <= 10_000
