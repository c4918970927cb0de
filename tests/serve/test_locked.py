"""A database that somebody locks and does not let go: writers are told soon, and reading goes on."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database
from cual.serve.storage.migrations import migrate
from cual.serve.storage.turns import Busy, Turns
from cual.serve.web.settings import Limits
from running import Served, until
from serving import Service, make_service
from visiting import site

HANGS = 50
"""Seconds after which an answer will not come any more: before, each writer alone took sixty."""


@contextlib.contextmanager
def locked(database: Database) -> Iterator[None]:
    """Somebody else writes, and does not end: on SQLite to the file, on PostgreSQL to all people and tokens."""
    import sqlite3

    if database.is_sqlite:
        with contextlib.closing(sqlite3.connect(str(database.url.database), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
        return
    address = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as other:
        other.execute("LOCK TABLE people, tokens IN SHARE MODE")
        yield
        other.rollback()


@pytest.fixture
def database(tmp_path: Path, database_url: str | None) -> Database:
    held = Database(database_url or f"sqlite:///{tmp_path / 'test.sqlite3'}")
    migrate(held)
    return held


def add(database: Database, name: str) -> None:
    with database.writing() as connection:
        connection.execute(sa.insert(db.people).values(name=name, role="reader"))


def test_all_who_wait_are_told_and_nothing_is_written(database: Database) -> None:
    database.hurry(0.5)

    def attempt(number: int) -> str:
        try:
            add(database, f"person {number}")
        except OperationalError as error:
            return type(error).__name__
        return "written"

    with ThreadPoolExecutor(45) as pool:
        with locked(database):
            told = Counter(pool.map(attempt, range(45)))
            assert told["written"] == 0
            with database.reading() as connection:
                assert connection.execute(sa.select(db.people)).all() == []
        assert Counter(pool.map(attempt, range(45))) == {"written": 45}


def test_who_is_behind_many_that_do_not_get_on_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cual.serve.storage.turns.SLOW", 0.0)
    turns, ended, told = Turns(), threading.Event(), list[str]()
    turns.hurry()

    def wait() -> None:
        try:
            with turns.taken(time.monotonic() + 600):
                ended.wait()
                told.append("written")
        except Busy:
            told.append("told")

    threads = [threading.Thread(target=wait) for _ in range(12)]
    for thread in threads:
        thread.start()
    until(lambda: len(told) == 7)  # one is in, four wait
    ended.set()
    for thread in threads:
        thread.join()
    assert Counter(told) == {"told": 7, "written": 5}
    with turns.taken(time.monotonic()):
        pass  # it is free again


def test_a_turn_is_lost_by_nobody_when_some_give_up() -> None:
    turns, counted = Turns(), Counter[str]()
    lock = threading.Lock()

    def many(seed: int) -> None:
        for n in range(50):
            try:
                with turns.taken(time.monotonic() + (0.001 if (seed + n) % 2 else 600)):
                    time.sleep(0.0005)
                    kind = "written"
            except Busy:
                kind = "told"
            with lock:
                counted[kind] += 1

    threads = [threading.Thread(target=many, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.total() == 400
    assert counted["written"] >= 200


def test_reading_needs_no_turn_of_a_writer(service: Service) -> None:
    """Also by a token or a session that was not used for a while, which is written down at other times."""
    with site(service, limits=Limits(database_seconds=0.2)) as held:
        program, browser, admin = held.bearer(Role.reader), held.browser(Role.reader), held.bearer()
        with service.workspace.database.writing() as connection:
            connection.execute(sa.update(db.sessions).values(seen_at=db.now() - timedelta(minutes=10)))
        with locked(service.workspace.database):
            assert program.get("/api/agents").status_code == 200
            assert browser.get("/api/agents").status_code == 200
            refused = admin.post("/api/people", json={"name": "zoe", "role": "reader"})
            assert (refused.status_code, refused.json()["error"]) == (503, "NoDatabase")
            assert int(refused.headers["retry-after"]) > 0
        assert admin.post("/api/people", json={"name": "zoe", "role": "reader"}).status_code == 201


def test_who_cannot_be_looked_up_is_asked_to_come_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception("gone"))

    with site(service) as held:
        client = held.bearer()
        monkeypatch.setattr(Database, "reading", gone)
        answer = client.get("/api/agents")
        assert (answer.status_code, answer.json()["error"]) == (503, "NoDatabase")


@pytest.mark.attacks
def test_a_held_lock_stalls_neither_health_nor_readers(tmp_path: Path, database_url: str | None) -> None:
    """The attack as it was found: 45 writers, each of which waited for a minute, one after the other."""
    from cual.serve.rules.accounts import Accounts
    from worlds import make_world

    workspace = Workspace.open(tmp_path / "workspace", database_url)
    service = make_service(workspace, make_world())
    tokens = [
        Accounts(workspace.database).new_token(person.id, "api", by=OPERATOR)[1]
        for person in (service.ann, service.eve)
    ]
    writer, reader = ({"Authorization": f"Bearer {token}"} for token in tokens)
    served = Served(workspace, tmp_path / "log")
    limits = httpx.Limits(max_connections=100)
    try:
        with (
            httpx.Client(base_url=served.url, timeout=HANGS, limits=limits) as client,
            ThreadPoolExecutor(60) as pool,
        ):
            until(lambda: _answers(client))
            with locked(workspace.database):
                writers = [
                    pool.submit(
                        client.post, "/api/people", json={"name": f"p{n}", "role": "reader"}, headers=writer
                    )
                    for n in range(45)
                ]
                readers = [pool.submit(client.get, "/api/agents", headers=reader) for _ in range(10)]
                looks = [pool.submit(client.get, path) for path in ("/live", "/health") for _ in range(5)]
                assert {look.result().status_code for look in looks} <= {200, 503}
                assert {look.result().status_code for look in looks[:5]} == {200}
                assert {one.result().status_code for one in readers} == {200}
                assert {one.result().status_code for one in writers} == {503}
                assert all(int(one.result().headers["retry-after"]) > 0 for one in writers)
            again = client.post("/api/people", json={"name": "p0", "role": "reader"}, headers=writer)
            assert again.status_code == 201
    finally:
        served.end()
        workspace.close()


def _answers(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return client.get("/health").status_code == 200
    return False
