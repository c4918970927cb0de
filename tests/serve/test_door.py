"""Abuse of the door: sign-in addresses, what failed attempts may do to others, who may read a workspace."""

import os
import pty
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from running import CUAL, environment, health, running, until
from serving import Service, make_service
from visiting import Site, site
from worlds import make_world


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    workspace = Workspace.open(tmp_path_factory.mktemp("door") / "workspace")
    yield make_service(workspace, make_world())
    workspace.close()


@pytest.fixture(scope="module")
def app(service: Service) -> Iterator[FastAPI]:
    with site(service, pages=True) as held:
        yield held.app


@pytest.fixture
def here(service: Service, app: FastAPI) -> Site:
    app.state.attempts.clear()
    return Site(service, app)


def address(here: Site, role: Role = Role.annotator) -> str:
    """The token of a new sign-in address."""
    return here.accounts.new_token(here.people[role].id, "sign-in", by=OPERATOR)[1]


def is_unused(here: Site, role: Role = Role.annotator) -> bool:
    return here.accounts.tokens(here.people[role].id)[-1].used_at is None


# -- who only looks at an address ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("agent", ["Slackbot-LinkExpanding 1.0", "Mozilla/5.0"])
def test_looking_at_an_address_does_not_use_it_up(here: Site, method: str, agent: str) -> None:
    secret = address(here)
    for _ in range(3):
        answer = here.visitor(**{"User-Agent": agent}).request(method, "/sign-in", params={"token": secret})
        assert "set-cookie" not in answer.headers
        assert answer.status_code < 500
    assert is_unused(here)
    page = here.visitor().get("/sign-in", params={"token": secret})
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert "<script" not in page.text


def pressed(here: Site, client: TestClient, secret: str) -> Any:
    """Open an address and press its button, as a browser without scripts does."""
    page = client.get("/sign-in", params={"token": secret}, headers={"Accept": "text/html"})
    assert f'<input type="hidden" name="token" value="{secret}">' in page.text
    assert '<form method="post" action="/sign-in"' in page.text
    return client.post("/sign-in", data={"token": secret}, headers={"Origin": here.origin})


def test_the_button_signs_in_once(here: Site) -> None:
    secret = address(here)
    first, second = here.visitor(), here.visitor()
    answer = pressed(here, first, secret)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert first.get("/api/me").json()["name"] == "bob"
    again = pressed(here, second, secret)
    assert again.status_code == 403
    assert "used already" in again.text
    assert "set-cookie" not in again.headers


def test_whom_an_address_has_let_in_may_open_it_again(here: Site) -> None:
    secret, client = address(here), here.visitor()
    pressed(here, client, secret)
    page = client.get("/sign-in", params={"token": secret})
    assert "You are signed in as bob." in page.text
    answer = pressed(here, client, secret)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_somebody_signed_in_can_become_another_by_an_address(here: Site) -> None:
    client = here.browser(Role.reader)
    del client.headers["X-CSRF-Token"]  # a form cannot send it
    answer = pressed(here, client, address(here))
    assert (answer.status_code, client.get("/api/me").json()["name"]) == (303, "bob")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_no_other_site_presses_the_button(here: Site, origin: str) -> None:
    secret = address(here)
    for client in (here.visitor(), here.browser(Role.reader, forge=True)):
        answer = client.post("/sign-in", data={"token": secret}, headers={"Origin": origin})
        assert answer.status_code == 403
    bare = here.browser(Role.reader, forge=True)  # with a cookie and from nowhere
    assert bare.post("/sign-in", data={"token": secret}).status_code == 403
    assert is_unused(here)


def test_the_page_of_an_address_speaks_german(here: Site) -> None:
    page = here.visitor(**{"Accept-Language": "de"}).get("/sign-in", params={"token": address(here)})
    assert "Diese Adresse meldet Sie an" in page.text


@pytest.mark.parametrize("token", ['"><script>alert(1)</script>', "x" * 501, "\x00", "ü"])
def test_what_is_no_token_does_no_harm(here: Site, token: str) -> None:
    page = here.visitor().get("/sign-in", params={"token": token})
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "x" * 501 not in page.text


# -- who fails, and who does not -------------------------------------------------------------------------------


def stale(client: TestClient, how: str, secret: str) -> int:
    """The answer to a token that is not good any more."""
    if how == "bearer":
        return client.get("/api/me", headers={"Authorization": f"Bearer {secret}"}).status_code
    if how == "json":
        return client.post("/api/sign-in", json={"token": secret}).status_code
    origin = {"Origin": str(client.base_url).rstrip("/")}
    return client.post("/sign-in", data={"token": secret}, headers=origin).status_code


@pytest.mark.parametrize("how", ["bearer", "json", "form"])
@pytest.mark.parametrize("known", [True, False])
def test_a_stale_token_locks_nobody_out(here: Site, how: str, known: bool) -> None:
    """A program with an old token asks again and again; its neighbours sign in all the same."""
    neighbour = "192.0.2.7"
    secret = "cual_of-a-workspace-that-is-gone"
    if known:
        record, secret = here.accounts.new_token(here.people[Role.reader].id, "api", by=OPERATOR)
        here.accounts.revoke(record.person, record.id, by=OPERATOR)
    codes = {stale(here.visitor(neighbour), how, secret) for _ in range(30)}
    assert codes == {401 if how == "bearer" else 403}
    assert pressed(here, here.visitor(neighbour), address(here)).status_code == 303
    answer = here.visitor(neighbour).post("/api/sign-in", json={"token": address(here)})
    assert answer.status_code == 200


@pytest.mark.more
def test_many_stale_tokens_of_one_address_lock_nobody_out(here: Site) -> None:
    """Behind one router there may be any number of them, and one who makes them up."""
    neighbour = here.visitor("192.0.2.7")
    codes = [stale(neighbour, "json", f"cual_made-up-{i}") for i in range(300)]
    assert codes[:10] == [403] * 10
    assert set(codes[10:]) == {429}
    assert neighbour.post("/api/sign-in", json={"token": address(here)}).status_code == 200
    assert here.visitor("198.51.100.4").post("/api/sign-in", json={"token": address(here)}).status_code == 200


@pytest.mark.more
def test_a_flood_from_everywhere_locks_nobody_out(here: Site) -> None:
    for i in range(250):
        stale(here.visitor(f"198.51.{i}.1"), "json", f"cual_made-up-{i}")
    assert stale(here.visitor("203.0.113.9"), "json", "cual_made-up") == 429
    assert here.visitor("203.0.113.9").post("/api/sign-in", json={"token": address(here)}).status_code == 200


def test_guesses_that_fail_write_nothing(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """They must not hold the one lock that everybody's answers need."""

    def writing(*_: Any) -> Any:
        raise AssertionError("a guess has opened a transaction that writes")

    monkeypatch.setattr(here.service.workspace.database, "writing", writing)
    for how in ("json", "form", "bearer"):
        assert stale(here.visitor(), how, "cual_guess") in (401, 403)


def test_on_a_socket_of_both_kinds_ipv4_visitors_are_told_apart(here: Site) -> None:
    """On :: an IPv4 address arrives as ::ffff:192.0.2.7; all of them lie in one /64."""
    for i in range(12):
        stale(here.visitor("::ffff:192.0.2.7"), "json", f"cual_made-up-{i}")
    assert stale(here.visitor("::ffff:192.0.2.7"), "json", "cual_one-more") == 429
    assert stale(here.visitor("192.0.2.7"), "json", "cual_one-more") == 429, "the same, written otherwise"
    assert stale(here.visitor("::ffff:192.0.2.8"), "json", "cual_one-more") == 403
    assert here.visitor("::ffff:127.0.0.1").get("/metrics").status_code == 200
    assert here.visitor("::ffff:192.0.2.7").get("/metrics").status_code == 403


# -- what lies in a workspace ----------------------------------------------------------------------------------


def modes(folder: Path) -> dict[str, int]:
    paths = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in paths}


@pytest.fixture
def careless() -> Iterator[None]:
    """A umask that lets everybody read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.usefixtures("careless")
def test_a_new_workspace_is_its_owners(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "deep" / "workspace"
    if there:
        folder.mkdir(parents=True)
    Workspace.open(folder).close()
    found = modes(folder)
    assert found["."] == 0o700
    assert found["cual.sqlite3"] == 0o600
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o755, "what lies above is not ours"


@pytest.mark.usefixtures("careless")
def test_a_restored_workspace_is_its_owners(tmp_path: Path) -> None:
    with closing(Workspace.open(tmp_path / "first")) as first:
        first.backup(tmp_path / "first.backup", OPERATOR)
    Workspace.restore(tmp_path / "first.backup", tmp_path / "second").close()
    assert modes(tmp_path / "second")["."] == 0o700
    assert modes(tmp_path / "second")["cual.sqlite3"] == 0o600


@pytest.mark.usefixtures("careless")
def test_a_workspace_that_somebody_shares_stays_shared(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    Workspace.open(folder).close()
    folder.chmod(0o750)
    (folder / "cual.sqlite3").chmod(0o640)
    Workspace.open(folder).close()
    assert (modes(folder)["."], modes(folder)["cual.sqlite3"]) == (0o750, 0o640)


@pytest.mark.usefixtures("careless")
@pytest.mark.attacks
def test_where_there_is_no_terminal_the_address_is_not_printed(tmp_path: Path) -> None:
    """A journal keeps what a service prints, and many may read it."""
    folder = tmp_path / "workspace"
    with running(folder) as service:
        printed = "".join([*service.lines, *service.log])
        assert "token=" not in printed
        assert "cual_" not in printed
        file = folder / ".sign-in"
        assert str(file) in printed
        assert service.url in printed
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        secret = file.read_text().strip().partition("/sign-in?token=")[2]
        answer = httpx.post(f"{service.url}/api/sign-in", json={"token": secret})
        assert answer.json()["role"] == "admin"
        until(lambda: health(service.url)["worker"] == "alive")
        open_to_others = {path: oct(mode) for path, mode in modes(folder).items() if mode & 0o077}
        assert open_to_others == {}
        assert service.end() == 0
    assert not file.exists(), "it is of no use any more"


@pytest.mark.attacks
def test_on_a_terminal_the_address_is_printed(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*CUAL, "serve", str(tmp_path / "workspace")]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment())
    os.close(theirs)
    try:
        with os.fdopen(ours, errors="replace") as terminal:
            assert any("/sign-in?token=cual_" in line for line in terminal)
            assert not (tmp_path / "workspace" / ".sign-in").exists()
    finally:
        process.kill()
        process.wait()
