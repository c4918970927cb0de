"""A workspace of 0.2.0, on SQLite, on PostgreSQL and as a backup, is found as it was left and gone on with.

What waits is worked off, what is asked is answered, candidates are promoted, inboxes become pools; and all that
comes of it has the bits that the release's own code gave.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

import postgres_server
from cual import Client
from cual.errors import NotAllowed
from cual.serve.rules.records import Person, Role
from cual.serve.rules.workspace import Workspace
from running import running
from upgrades import release, service
from upgrades.release import SECOND, Row, check_still

pytestmark = pytest.mark.more

RELEASE = SECOND


@contextmanager
def opened(folder: Path, database: str | None = None) -> Iterator[Workspace]:
    workspace = Workspace.open(folder, database)
    try:
        yield workspace
    finally:
        workspace.close()


def people(told: Row) -> dict[str, Person]:
    return {p["name"]: Person(p["id"], p["name"], Role(p["role"])) for p in told["people"]}


def truths(told: Row) -> dict[int, dict[Any, Any]]:
    return {int(pool): dict(pairs) for pool, pairs in told["truths"].items()}


def check_left(workspace: Workspace, told: Row, described: Row) -> None:
    """Everything that people see is what it was."""
    check_still(release.opened(workspace) | service.said(workspace), described["opened"])
    check_still(service.keys(workspace, people(told)), described["keys"])


def check_end(workspace: Workspace, told: Row, end: Row) -> None:
    service.go_on(workspace, people(told), truths(told))
    found = service.ended(workspace)
    check_still(found | _but_sureness(found), end | _but_sureness(end))


def _but_sureness(end: Row) -> Row:
    """Adaptations, rounds and pseudo-labels; those of cual-plus without how sure it is: measured otherwise."""
    methods = {agent["id"]: agent["method"] for agent in end["agents"]}
    changed = {number for number, task in end["adaptations"].items() if methods[task["agent"]] == "cual-plus"}
    tasks = {
        number: release.but_sureness(task) if number in changed else task
        for number, task in end["adaptations"].items()
    }
    return {
        "adaptations": tasks,
        "history": {
            number: rounds[:-1] if number in changed else rounds for number, rounds in end["history"].items()
        },
        "pseudo_labels": {
            number: [release.but_sureness(label) for label in labels] if number in changed else labels
            for number, labels in end["pseudo_labels"].items()
        },
    }


def check_workspace(workspace: Workspace, told: Row) -> None:
    check_left(workspace, told, told)
    check_still(release.said_of_jobs(workspace), told["jobs"])
    last = told["audit"][0]["id"]  # the backup that was made then is one row more
    check_still([row for row in service.audited(workspace) if row["id"] <= last], told["audit"])
    check_end(workspace, told, told["end"])


@pytest.mark.usefixtures("bits")
def test_a_workspace_is_found_as_it_was_left_and_gone_on_with(folder: Path, expected: Row) -> None:
    with opened(folder) as workspace:
        check_workspace(workspace, expected["workspace"])


@pytest.mark.postgres
@pytest.mark.usefixtures("bits")
def test_a_workspace_on_postgresql_is_gone_on_with(folder: Path, dumped: str, expected: Row) -> None:
    (folder / "cual.sqlite3").unlink()
    with opened(folder, dumped) as workspace:
        check_workspace(workspace, expected["workspace"])
    assert not (folder / "cual.sqlite3").exists()


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_backup_is_restored_and_gone_on_with(
    kind: str, tmp_path: Path, expected: Row, request: pytest.FixtureRequest
) -> None:
    url = None if kind == "sqlite" else postgres_server.new_database(request.getfixturevalue("postgres"))
    told = expected["workspace"]
    workspace = Workspace.restore(SECOND / "workspace.backup", tmp_path / "restored", url)
    check_left(workspace, told, told["restored"])
    check_end(workspace, told, told["restored"]["end"])
    workspace.close()


def columns(url: str) -> set[tuple[str, str, str, str]]:
    wanted = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public'"
    )
    with psycopg.connect(url) as connection:
        return set(connection.execute(wanted).fetchall())


@pytest.mark.postgres
def test_a_database_that_is_upgraded_has_the_tables_of_a_new_one(
    folder: Path, dumped: str, postgres: str, tmp_path: Path
) -> None:
    new = postgres_server.new_database(postgres)
    Workspace.open(folder, dumped).close()
    Workspace.open(tmp_path / "new", new).close()
    assert columns(dumped) == columns(new)


@pytest.mark.attacks
def test_people_come_back_to_the_service(folder: Path, expected: Row) -> None:
    """`cual serve` on the release's workspace, with the tokens and the cookie that the release gave out."""
    told = expected["workspace"]
    with running(folder) as web:
        cookie, secret = told["cookies"]["bob"]
        with httpx.Client(base_url=web.url, cookies={cookie: secret}) as browser:
            assert browser.get("/api/me").raise_for_status().json()["name"] == "bob"
        for name in ("cleo", "Zoë"):  # revoked, and locked out
            with Client(web.url, told["tokens"][name]) as nobody, pytest.raises(NotAllowed):
                nobody.agents()
        with Client(web.url, told["tokens"]["ann"]) as ann:
            names = [agent.name for agent in ann.agents()]
    assert names == [agent["name"] for agent in told["opened"]["agents"]]
