"""Abuse, tried one by one: each case says who tries what, and is refused."""

import io
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from cual.errors import BadOption, NotAllowed
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.web.settings import Limits, Settings, check_exposure, read_proxy
from serving import Service, make_service
from visiting import Site, site, stream
from worlds import make_world

# Who may call what. Written by hand: a route that is not here fails the test below.
ANYBODY, SENDER, READER, ANNOTATOR, ADMIN = "anybody", *Role
SENDING = ("POST", "/api/agents/{id}/send")
"""The one thing that a role may do and some of those after it may not."""
ROLES: dict[tuple[str, str], str] = {
    ("POST", "/api/sign-in"): ANYBODY,
    ("GET", "/health"): ANYBODY,
    ("GET", "/live"): ANYBODY,
    ("GET", "/metrics"): READER,
    ("GET", "/api/storage"): ADMIN,
    ("PUT", "/api/storage/retention"): ADMIN,
    ("POST", "/api/storage/clean"): ADMIN,
    ("POST", "/api/sign-out"): SENDER,
    ("GET", "/api/me"): SENDER,
    ("GET", "/api/audit"): ADMIN,
    ("GET", "/api/audit.csv"): ADMIN,
    ("GET", "/api/people"): ADMIN,
    ("POST", "/api/people"): ADMIN,
    ("GET", "/api/people/{id}"): ADMIN,
    ("PATCH", "/api/people/{id}"): ADMIN,
    ("DELETE", "/api/people/{id}/sessions"): ADMIN,
    ("GET", "/api/people/{id}/tokens"): ADMIN,
    ("POST", "/api/people/{id}/tokens"): ADMIN,
    ("DELETE", "/api/people/{id}/tokens/{token}"): ADMIN,
    ("GET", "/api/agents"): READER,
    ("POST", "/api/agents"): ADMIN,
    ("POST", "/api/agents/from-data"): ADMIN,
    ("POST", "/api/agents/example"): ADMIN,
    ("GET", "/api/agents/{id}"): SENDER,
    ("PATCH", "/api/agents/{id}"): ADMIN,
    ("DELETE", "/api/agents/{id}"): ADMIN,
    ("GET", "/api/agents/{id}/dependents"): READER,
    ("GET", "/api/agents/{id}/skipped"): READER,
    ("GET", "/api/agents/{id}/versions"): READER,
    ("POST", "/api/agents/{id}/roll-back"): ADMIN,
    ("PUT", "/api/agents/{id}/rollout"): ADMIN,
    ("POST", "/api/agents/{id}/promote"): ADMIN,
    ("POST", "/api/agents/{id}/discard"): ADMIN,
    ("GET", "/api/agents/{id}/stages"): READER,
    ("GET", "/api/agents/{id}/shadow"): READER,
    ("GET", "/api/agents/{id}/versions/{version}/shadow"): READER,
    ("GET", "/api/agents/{id}/shadow/pictures/{example}"): READER,
    ("PUT", "/api/agents/{id}/false-alarms"): ADMIN,
    ("GET", "/api/agents/{id}/classes"): READER,
    ("PUT", "/api/agents/{id}/classes"): ADMIN,
    ("GET", "/api/agents/{id}/classes/find"): READER,
    ("POST", "/api/agents/{id}/classes/rename"): ADMIN,
    ("POST", "/api/agents/{id}/classes/merge"): ADMIN,
    ("POST", "/api/agents/{id}/classes/remove"): ADMIN,
    ("POST", "/api/agents/{id}/classes/split"): ADMIN,
    ("POST", "/api/agents/{id}/teach"): ADMIN,
    ("POST", "/api/agents/{id}/forget"): ADMIN,
    ("GET", "/api/agents/{id}/repairs"): ADMIN,
    ("GET", "/api/agents/{id}/repairs/{repair}"): ADMIN,
    ("POST", "/api/agents/{id}/repairs/{repair}/answers"): ADMIN,
    ("POST", "/api/agents/{id}/repairs/{repair}/drop"): ADMIN,
    ("GET", "/api/agents/{id}/keys"): READER,
    ("PUT", "/api/agents/{id}/keys"): ANNOTATOR,
    ("DELETE", "/api/agents/{id}/keys/{key}"): ANNOTATOR,
    ("GET", "/api/agents/{id}/watching"): READER,
    ("PUT", "/api/agents/{id}/watching"): ADMIN,
    ("POST", "/api/agents/{id}/watching/adapt"): ADMIN,
    ("GET", "/api/agents/{id}/watching/pictures/{sample}"): READER,
    ("GET", "/api/agents/{id}/watching/texts/{sample}"): READER,
    ("GET", "/api/agents/{id}/webhooks"): ADMIN,
    ("POST", "/api/agents/{id}/webhooks"): ADMIN,
    ("PATCH", "/api/agents/{id}/webhooks/{webhook}"): ADMIN,
    ("DELETE", "/api/agents/{id}/webhooks/{webhook}"): ADMIN,
    ("POST", "/api/agents/{id}/predict"): SENDER,
    SENDING: SENDER,
    ("GET", "/api/agents/{id}/inbox"): READER,
    ("PATCH", "/api/agents/{id}/inbox"): ADMIN,
    ("POST", "/api/agents/{id}/inbox/close"): ADMIN,
    ("POST", "/api/agents/{id}/probabilities"): SENDER,
    ("POST", "/api/agents/{id}/novelty"): SENDER,
    ("GET", "/api/pools"): READER,
    ("POST", "/api/pools"): ADMIN,
    ("GET", "/api/pools/{id}"): READER,
    ("PATCH", "/api/pools/{id}"): ADMIN,
    ("DELETE", "/api/pools/{id}"): ADMIN,
    ("GET", "/api/pools/{id}/dependents"): READER,
    ("PUT", "/api/pools/{id}/guidelines"): ADMIN,
    ("GET", "/api/pools/{id}/skipped"): READER,
    ("GET", "/api/pools/{id}/pictures/{row}"): READER,
    ("GET", "/api/pools/{id}/texts/{row}"): READER,
    ("GET", "/api/pools/{id}/columns/{row}"): READER,
    ("GET", "/api/adaptations"): READER,
    ("POST", "/api/adaptations"): ADMIN,
    ("GET", "/api/adaptations/{id}"): READER,
    ("POST", "/api/adaptations/{id}/stop"): ADMIN,
    ("POST", "/api/adaptations/{id}/finish"): ADMIN,
    ("POST", "/api/adaptations/{id}/budget"): ADMIN,
    ("POST", "/api/adaptations/{id}/drop"): ADMIN,
    ("POST", "/api/adaptations/{id}/retry"): ADMIN,
    ("GET", "/api/adaptations/{id}/labels"): READER,
    ("GET", "/api/agents/{id}/labels"): READER,
    ("GET", "/api/adaptations/{id}/ledger"): READER,
    ("POST", "/api/adaptations/{id}/sharing"): ADMIN,
    ("GET", "/api/adaptations/{id}/agreement"): READER,
    ("POST", "/api/adaptations/{id}/gold"): ADMIN,
    ("GET", "/api/pools/{id}/gold"): ADMIN,
    ("POST", "/api/pools/{id}/gold"): ADMIN,
    ("GET", "/api/adaptations/{id}/history"): READER,
    ("GET", "/api/adaptations/{id}/map"): READER,
    ("GET", "/api/adaptations/{id}/scores"): READER,
    ("GET", "/api/adaptations/{id}/report"): READER,
    ("GET", "/api/adaptations/{id}/questions"): READER,
    ("POST", "/api/adaptations/{id}/lend"): ANNOTATOR,
    ("POST", "/api/adaptations/{id}/give-back"): ANNOTATOR,
    ("POST", "/api/adaptations/{id}/answers"): ANNOTATOR,
    ("GET", "/api/adaptations/{id}/undo"): ANNOTATOR,
    ("POST", "/api/adaptations/{id}/undo"): ANNOTATOR,
    ("POST", "/api/adaptations/{id}/settle"): ANNOTATOR,
    ("GET", "/api/adaptations/{id}/pseudo-labels"): READER,
    ("POST", "/api/adaptations/{id}/reviews"): ANNOTATOR,
    ("POST", "/api/adaptations/{id}/classes"): ANNOTATOR,
    ("POST", "/api/adaptations/{id}/classes/withdraw"): ANNOTATOR,
    ("GET", "/api/jobs"): READER,
    ("POST", "/api/jobs/{id}/cancel"): ADMIN,
    ("POST", "/api/jobs/{id}/retry"): ADMIN,
    ("POST", "/api/backup"): ADMIN,
}
HIDDEN = {("GET", "/sign-in"), ("POST", "/sign-in"), ("GET", "/api/openapi.json")}
"""Routes that are not in the description: the door, and the description itself."""
BODIES: dict[str, Any] = {
    "/api/people": {"name": "x", "role": "reader"},
    "/api/people/{id}/tokens": {},
    "/api/agents/{id}/roll-back": {"version": 0},
    "/api/agents/{id}/rollout": {"new_versions": "candidate"},
    "/api/agents/{id}/promote": {"version": 0, "live": 0, "why": "better"},
    "/api/agents/{id}/discard": {"version": 0, "why": "worse"},
    "/api/agents/{id}/false-alarms": {"share": 0.05},
    "/api/agents/{id}/watching": {"starts": False},
    "/api/agents/{id}/webhooks": {"url": "https://hooks.example.org/"},
    "/api/agents/{id}/webhooks/{webhook}": {"active": False},
    "/api/agents/{id}/classes": {"label": "cat", "description": "purrs"},
    "/api/agents/{id}/classes/rename": {"label": "cat", "to": "tomcat"},
    "/api/agents/{id}/classes/merge": {"into": "cat", "others": ["dog"]},
    "/api/agents/{id}/classes/remove": {"label": "cat"},
    "/api/agents/{id}/classes/split": {"label": "cat"},
    "/api/agents/{id}/teach": {"path": "/nowhere"},
    "/api/agents/{id}/forget": {"person": 1},
    "/api/agents/{id}/repairs/{repair}/answers": {"names": ["a", "b"]},
    "/api/agents/{id}/keys": {"key": "1", "label": "cat"},
    "/api/pools/{id}/guidelines": {"text": "Look twice."},
    "/api/adaptations": {"agent": 1, "pool": 1, "budget": 4},
    "/api/adaptations/{id}/lend": {"n": 1},
    "/api/adaptations/{id}/give-back": {"questions": []},
    "/api/adaptations/{id}/answers": {"answers": {}},
    "/api/adaptations/{id}/settle": {"question": 1, "label": "cat"},
    "/api/adaptations/{id}/reviews": {"reviews": {}},
    "/api/adaptations/{id}/sharing": {},
    "/api/pools/{id}/gold": {"labels": {}},
    "/api/adaptations/{id}/classes": {"classes": {}},
    "/api/adaptations/{id}/classes/withdraw": {"rows": []},
    "/api/agents/{id}/predict": {"features": [[0.0] * 16]},
    "/api/agents/{id}/send": {"features": [[0.0] * 16]},
    "/api/agents/{id}/inbox": {"originals": True},
    "/api/agents/{id}/inbox/close": {"name": "sent"},
    "/api/agents/{id}/probabilities": {"features": [[0.0] * 16]},
    "/api/agents/{id}/novelty": {"features": [[0.0] * 16]},
    "/api/pools": {"name": "p", "agent": 1, "path": "/nowhere"},
    "/api/pools/{id}": {"name": "p"},
    "/api/agents/from-data": {"name": "a", "path": "/nowhere"},
    "/api/agents/{id}": {"name": "a"},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One workspace for all: what is refused changes nothing, and what is not does no harm here."""
    folder = tmp_path_factory.mktemp("security")
    (folder / "data").mkdir()
    workspace = Workspace.open(folder / "workspace", roots=[folder / "data"])
    held = make_service(workspace, make_world())
    held.start()  # so that nobody can delete the pool
    yield held
    workspace.close()


@pytest.fixture(scope="module")
def app(service: Service) -> Iterator[FastAPI]:
    with site(service) as held:
        yield held.app


@pytest.fixture
def here(service: Service, app: FastAPI) -> Site:
    """The site as if nobody had been there: with new tokens, and nobody's failures remembered."""
    app.state.attempts.clear()
    return Site(service, app)


def filled(path: str) -> str:
    for name in ("id", "row", "token", "key", "sample", "webhook"):
        path = path.replace(f"{{{name}}}", "1")
    return path


def ask(client: TestClient, method: str, path: str, **more: Any) -> Any:
    body = BODIES.get(path, {} if method in ("PATCH", "POST") else None)
    return client.request(method, filled(path), json=body, **more)


# -- roles -----------------------------------------------------------------------------------------------------


def described(app: Any) -> set[tuple[str, str]]:
    return {(m.upper(), path) for path, held in app.openapi()["paths"].items() for m in held}


def test_the_table_of_roles_names_every_route(here: Site) -> None:
    assert described(here.app) == set(ROLES)


@pytest.mark.more
def test_the_description_leaves_no_route_out(here: Site) -> None:
    """Every path and method that the app answers is described, or is one of the few that are hidden."""
    answered: set[tuple[str, str]] = set()
    reader = here.bearer(Role.reader)  # who can do no harm
    paths = {path for _, path in ROLES} | {path for _, path in HIDDEN}
    for path in paths:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            template = f"{path.rpartition('/')[0]}/{{id}}"  # of "/api/agents/example", which no number is
            taken = (method, path) not in ROLES and (method, template) in ROLES
            if not taken and reader.request(method, filled(path)).status_code != 405:
                answered.add((method, path))
    assert answered == set(ROLES) | HIDDEN


@pytest.mark.parametrize(("method", "path"), sorted(ROLES))
def test_nobody_comes_in_without_credentials(here: Site, method: str, path: str) -> None:
    client = here.visitor("192.0.2.7")
    if ROLES[method, path] == ANYBODY:
        assert ask(client, method, path).status_code in (200, 403, 422)
        return
    answer = ask(client, method, path)
    assert answer.status_code in (401, 403), path
    assert answer.headers["content-type"] == "application/json"
    for wrong in ("Bearer x", "Bearer ", "Basic YTpi", f"Basic {here.token(Role.admin)}", "Bearer \xff"):
        said = ask(client, method, path, headers={"Authorization": wrong.encode("latin-1")})
        assert said.status_code in (401, 429)


@pytest.mark.parametrize(("method", "path"), sorted(ROLES))
def test_every_route_asks_for_its_role(here: Site, method: str, path: str) -> None:
    order = [SENDER, READER, ANNOTATOR, ADMIN]
    needed = ROLES[method, path]
    for role in order:
        allowed = needed == ANYBODY or order.index(role) >= order.index(Role(needed))
        if (method, path) == SENDING:
            allowed = role in (SENDER, ADMIN)
        token = {"Authorization": f"Bearer {here.token(role)}"}
        answer = ask(here.visitor("192.0.2.7"), method, path, headers=token)
        if allowed:
            assert answer.status_code not in (401,), (role, answer.text)
            assert answer.status_code != 403 or "role" not in answer.text, (role, answer.text)
        else:
            assert answer.status_code == 403, (role, answer.text)
            assert "this needs the role" in answer.json()["detail"]


def test_nobody_raises_their_own_role(here: Site) -> None:
    for role in (Role.reader, Role.annotator):
        client, me = here.browser(role), here.people[role].id
        assert client.patch(f"/api/people/{me}", json={"role": "admin"}).status_code == 403
        assert client.post(f"/api/people/{me}/tokens", json={"kind": "api"}).status_code == 403
        admin = here.people[Role.admin].id
        assert client.post(f"/api/people/{admin}/tokens", json={}).status_code == 403
        assert client.get("/api/me").json()["role"] == role


def test_a_sender_cannot_sign_in(here: Site) -> None:
    """Neither by an address, nor by one that it was given before, nor with a session that it had."""
    admin, name = here.bearer(), "once a person"
    person = admin.post("/api/people", json={"name": name, "role": "reader"}).json()["id"]
    address = f"/api/people/{person}/tokens"
    browser = here.visitor(Origin=here.origin)
    first = admin.post(address, json={"kind": "sign-in"}).json()["token"]
    assert browser.post("/api/sign-in", json={"token": first}).status_code == 200
    unused = admin.post(address, json={"kind": "sign-in"}).json()["token"]
    assert browser.get("/api/me").status_code == 200
    assert admin.patch(f"/api/people/{person}", json={"role": "sender"}).status_code == 200
    assert browser.get("/api/me").status_code == 401
    assert here.visitor().post("/api/sign-in", json={"token": unused}).status_code == 403
    refused = admin.post(address, json={"kind": "sign-in"})
    assert refused.status_code == 409
    assert "API token" in refused.json()["detail"]
    assert admin.post(address, json={"kind": "api"}).status_code == 201


def test_a_sender_sends_and_sees_nothing(here: Site) -> None:
    sender, agent = here.bearer(SENDER), here.service.agent
    rows = here.service.world.pool[:2].tolist()
    assert sender.post(f"/api/agents/{agent}/predict", json={"features": rows}).status_code == 200
    kept = sender.post(f"/api/agents/{agent}/send", json={"features": rows})
    assert kept.status_code == 200
    assert len(kept.json()["kept"]) == 2
    for path in ("/api/agents", f"/api/agents/{agent}/inbox", "/api/people", "/api/pools"):
        assert sender.get(path).status_code == 403, path
    assert here.bearer(ANNOTATOR).post(f"/api/agents/{agent}/send", json={"features": rows}).status_code == 403


def test_a_person_cannot_answer_as_another(here: Site) -> None:
    adaptation = here.service.start()
    bob = here.bearer(Role.annotator)
    question = bob.post(f"/api/adaptations/{adaptation}/lend", json={"n": 1}).json()[0]
    body = {"answers": {str(question["id"]): "cat"}, "person": here.people[Role.admin].id}
    assert bob.post(f"/api/adaptations/{adaptation}/answers", json=body).status_code == 422
    del body["person"]
    assert bob.post(f"/api/adaptations/{adaptation}/answers", json=body).status_code == 200
    told = bob.get(f"/api/adaptations/{adaptation}/questions").json()
    assert {a["person"] for q in told for a in q["answers"]} == {"bob"}


# -- signing in ------------------------------------------------------------------------------------------------


def test_the_session_cookie_is_out_of_reach_of_scripts_and_sites(here: Site) -> None:
    secret = here.accounts.new_token(here.people[Role.admin].id, "sign-in", by=OPERATOR)[1]
    answer = here.visitor().post("/sign-in", data={"token": secret})
    session, csrf = answer.headers.get_list("set-cookie")
    for word in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert word in session
    assert "SameSite=strict" in csrf
    assert "Secure" not in session
    assert secret not in session
    assert answer.headers["referrer-policy"] == "strict-origin"


def test_under_tls_cookies_travel_by_tls_only(service: Service) -> None:
    with site(service, proxy="https://label.example.org", url="https://label.example.org") as held:
        secret = held.accounts.new_token(held.people[Role.admin].id, "sign-in", by=OPERATOR)[1]
        answer = held.visitor().post("/sign-in", data={"token": secret})
        assert all("Secure" in cookie for cookie in answer.headers.get_list("set-cookie"))
        assert answer.headers["strict-transport-security"].startswith("max-age=")


@pytest.mark.parametrize("how", ["form", "json", "bearer"])
def test_guessing_is_slowed_down(here: Site, how: str) -> None:
    guesses = iter(range(100))

    def guess(client: TestClient) -> Any:
        wrong = f"cual_wrong-{next(guesses)}"
        if how == "form":
            return client.post("/sign-in", data={"token": wrong}, headers={"Origin": here.origin})
        if how == "json":
            return client.post("/api/sign-in", json={"token": wrong})
        return client.get("/api/me", headers={"Authorization": f"Bearer {wrong}"})

    client = here.visitor("192.0.2.7")
    codes = [guess(client).status_code for _ in range(12)]
    assert codes[:10] == [401 if how == "bearer" else 403] * 10
    assert codes[10:] == [429] * 2
    assert int(guess(client).headers["retry-after"]) > 0
    assert here.bearer().get("/api/me").status_code == 200  # who knows a token is not locked out


def test_a_header_does_not_make_another_address(here: Site) -> None:
    """Without a proxy, what X-Forwarded-For says is not believed."""
    codes = []
    for i in range(12):
        client = here.visitor("192.0.2.7", **{"X-Forwarded-For": f"10.1.1.{i}"})
        codes.append(client.post("/api/sign-in", json={"token": f"wrong {i}"}).status_code)
    assert codes[-1] == 429


def test_behind_a_proxy_only_its_own_word_counts(service: Service) -> None:
    with site(service, proxy="https://label.example.org", url="https://label.example.org") as held:
        codes = []
        for i in range(12):
            client = held.visitor(**{"X-Forwarded-For": f"10.1.1.{i}, 198.51.100.9"})
            codes.append(client.post("/api/sign-in", json={"token": f"wrong {i}"}).status_code)
        assert codes[-1] == 429


# -- other sites -----------------------------------------------------------------------------------------------


CHANGES = sorted(key for key, role in ROLES.items() if key[0] != "GET" and role != ANYBODY)


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_a_change_with_a_cookie_needs_our_page(here: Site, method: str, path: str) -> None:
    client = here.browser(forge=True)
    csrf = client.get("/api/me").json()["csrf"]
    own = {"Origin": here.origin, "X-CSRF-Token": csrf}
    forged: list[dict[str, str]] = [
        {},
        {"Origin": here.origin},
        {"X-CSRF-Token": csrf},
        {**own, "X-CSRF-Token": "0" * len(csrf)},
        {**own, "X-CSRF-Token": here.browser().headers["X-CSRF-Token"]},  # of another session
        {**own, "Origin": "http://evil.example"},
        {**own, "Origin": "null"},
        {**own, "Origin": "http://127.0.0.1:9999"},
        {**own, "Origin": "https://127.0.0.1:8765"},
    ]
    for headers in forged:
        answer = ask(client, method, path, headers=headers)
        assert answer.status_code == 403, headers
        assert answer.json()["error"] in ("ForeignOrigin", "BadCsrfToken")
    assert ask(client, method, path, headers=own).status_code != 403 or path in (
        "/api/pools",
        "/api/agents/from-data",
        "/api/agents/{id}/teach",
    )


def test_another_site_cannot_sign_a_browser_in(here: Site) -> None:
    secret = here.accounts.new_token(here.people[Role.admin].id, "sign-in", by=OPERATOR)[1]
    evil = here.visitor(Origin="http://evil.example")
    assert evil.post("/api/sign-in", json={"token": secret}).status_code == 403
    assert evil.post("/sign-in", data={"token": secret}).status_code == 403


def test_no_other_origin_may_read(here: Site) -> None:
    answer = here.bearer().get("/api/agents", headers={"Origin": "http://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert here.visitor().options("/api/people", headers=asked).status_code in (401, 405)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "localhost.evil.example", "", "a b", "x@y"]
)
def test_a_name_that_is_not_ours_is_refused(here: Site, host: str) -> None:
    answer = here.bearer().get("/api/agents", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]) == (400, "UnknownHost")


def test_names_that_are_ours(service: Service) -> None:
    with site(service, names=("Label.lan",)) as held:
        for host in ("localhost:8765", "127.0.0.1:1234", "[::1]:8765", "label.lan"):
            assert held.bearer().get("/api/me", headers={"Host": host}).status_code == 200


@pytest.fixture
def sockets(here: Site) -> Site:
    """The site with a websocket where NiceGUI has its own."""

    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        with suppress(WebSocketDisconnect):
            while True:
                await socket.send_text(await socket.receive_text())

    here.app.add_api_websocket_route("/_nicegui_ws/socket.io", echo)
    return here


def test_a_websocket_needs_a_session_and_our_page(sockets: Site) -> None:
    path = "/_nicegui_ws/socket.io"
    client = sockets.browser(Role.reader)
    with client.websocket_connect(f"ws://127.0.0.1:8765{path}") as socket:
        socket.send_text("hello")
        assert socket.receive_text() == "hello"
    for origin in ("http://evil.example", "http://127.0.0.1:9999", "null", ""):
        with pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)):
            client.websocket_connect(f"ws://127.0.0.1:8765{path}", headers={"Origin": origin}).__enter__()
    with pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)):
        sockets.visitor(Origin=sockets.origin).websocket_connect(f"ws://127.0.0.1:8765{path}").__enter__()
    del client.headers["Origin"]
    with pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)):
        client.websocket_connect(f"ws://127.0.0.1:8765{path}").__enter__()


def test_a_websocket_ends_with_its_session(sockets: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cual.serve.web.security.middleware._CHECK_SOCKET_EVERY", -1.0)
    client = sockets.browser(Role.reader)
    with client.websocket_connect("ws://127.0.0.1:8765/_nicegui_ws/socket.io") as socket:
        socket.send_text("hello")
        assert socket.receive_text() == "hello"
        sockets.accounts.end_sessions(sockets.people[Role.reader].id, by=OPERATOR)
        socket.send_text("still here?")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


def test_polling_in_place_of_a_websocket_is_guarded_alike(here: Site) -> None:
    path = "/_nicegui_ws/socket.io?transport=polling"
    client = here.browser(Role.reader)
    assert here.visitor().get(path).status_code == 401
    assert client.get(path, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.post(path, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get(path).status_code == 404  # let through; there is no page here


# -- paths and files -------------------------------------------------------------------------------------------

TRAVERSALS = [
    "../1",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2fworkspace.json",
    "..%5c..%5cworkspace.json",
    "1%00.webp",
    "....//....//workspace.json",
    "%252e%252e%252fworkspace.json",
    "/etc/passwd",
    "1/../../../../cual.sqlite3",
    "-1",
    "1e3",
    "99999999999999999999",
    "٣",
    "1;",
    "0x1",
]
WITH_PARAMETERS = sorted({path for _, path in ROLES if "{" in path})


@pytest.mark.parametrize("path", WITH_PARAMETERS)
def test_no_path_leads_out_of_the_workspace(here: Site, path: str) -> None:
    client = here.bearer()
    secrets = [
        (here.service.workspace.folder / "workspace.json").read_text().strip(),
        "root:x:0:0",
        "SQLite format",
    ]
    for trick in TRAVERSALS:
        for name in ("id", "row", "token"):
            if f"{{{name}}}" not in path:
                continue
            url = filled(path.replace(f"{{{name}}}", trick))
            for method in ("GET", "POST"):
                answer = client.request(method, url, json=BODIES.get(path) if method == "POST" else None)
                assert answer.status_code in (404, 405, 422), (url, answer.text)
                assert not any(secret in answer.text for secret in secrets)


def test_a_pool_comes_only_from_an_allowed_root(here: Site, tmp_path: Path) -> None:
    (root,), outside = here.service.workspace.home.roots, tmp_path / "outside"
    outside.mkdir()
    for folder in (root, outside):
        np.savez(folder / "pool.npz", X=here.service.world.pool)
    (root / "link.npz").symlink_to(outside / "pool.npz")
    (root / "folder").symlink_to(outside)
    client = here.bearer()

    def add(path: object) -> Any:
        return client.post("/api/pools", json={"name": "p", "agent": 1, "path": str(path)})

    refused = [
        outside / "pool.npz",
        os.path.relpath(outside / "pool.npz", root),
        root / os.path.relpath(outside / "pool.npz", root),
        root / "link.npz",
        root / "folder" / "pool.npz",
        "/etc/passwd",
        "/proc/self/environ",
        here.service.workspace.folder / "cual.sqlite3",
        here.service.workspace.folder / "uploads",
        tmp_path / "not there",
        "~/pool.npz",
        "\\\\server\\share",
    ]
    for path in refused:
        assert add(path).status_code == 403, path
    for path in ("a\0b", "a\nb", ""):
        assert add(path).status_code == 422
    assert add(root / "pool.npz").status_code == 201
    assert add("pool.npz").status_code == 201


def test_a_link_inside_a_folder_of_pictures_leads_nowhere(here: Site, tmp_path: Path) -> None:
    """The worker looks again: a link may be put there after the pool was added."""
    from PIL import Image

    from cual.serve.jobs.worker import work_until_idle

    folder, outside = here.service.workspace.home.roots[0] / "photos", tmp_path / "secret.png"
    folder.mkdir()
    Image.new("RGB", (8, 8), "red").save(outside)
    (folder / "a.png").symlink_to(outside)
    client = here.bearer()
    made = client.post("/api/pools", json={"name": "p", "agent": 1, "path": "photos"})
    assert made.status_code == 201
    work_until_idle(here.service.workspace)
    pool = client.get(f"/api/pools/{made.json()['id']}").json()
    assert pool["state"] == "failed"
    assert client.get(f"/api/pools/{pool['id']}/pictures/0").status_code == 404


# -- uploads ---------------------------------------------------------------------------------------------------


def npz(**arrays: Any) -> bytes:
    held = io.BytesIO()
    np.savez(held, **arrays)
    return held.getvalue()


def zipped(**members: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return held.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    padded = header.encode() + b" " * (118 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + data


def upload(client: TestClient, *files: tuple[str, bytes], **form: str) -> Any:
    parts = [("files", file) for file in files]
    return client.post("/api/pools", data={"name": "p", "agent": "1", **form}, files=parts)


def left(here: Site) -> list[str]:
    return [p.name for p in here.service.workspace.uploads.iterdir()]


PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 32


@pytest.mark.parametrize(
    ("status", "files"),
    [
        (422, []),
        (422, [("a.png", b"\0<svg onload=alert(1)>")]),
        (422, [("a.jpg", b"\x7fELF" + b"\0" * 100)]),
        (422, [("a.png", b"MZ\x90\0" + b"\0" * 100)]),
        (422, [("a.pdf", b"%PDF-1.7\n" + b" " * 100)]),
        (422, [("a.png", b"")]),
        (422, [("a.npz", b"PK\x03\x04 and then nothing of the kind")]),
        (422, [("a.npz", npz(X=np.zeros((2, 16))))] * 2),
        (422, [("a.png", PNG), ("b.npz", npz(X=np.zeros((2, 16))))]),
        (422, [("a.npz", zipped(**{"X.py": b"print(1)"}))]),
        (422, [("a.npz", zipped(**{"../../X.npy": b"x" * 100}))]),
    ],
)
def test_files_that_are_not_what_is_taken_here(here: Site, status: int, files: list[tuple[str, bytes]]) -> None:
    before = len(here.bearer().get("/api/pools").json())
    answer = upload(here.bearer(), *files)
    assert answer.status_code == status, answer.text
    assert str(here.service.workspace.folder) not in answer.text
    assert len(here.bearer().get("/api/pools").json()) == before
    assert left(here) == []


def test_pickles_are_never_read(here: Site, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "owned",))

    held = io.BytesIO()
    np.savez(held, X=np.array([Evil()], dtype=object), allow_pickle=True)
    assert upload(here.bearer(), ("a.npz", held.getvalue())).status_code == 422
    plain = io.BytesIO()
    np.save(plain, np.array([Evil()], dtype=object), allow_pickle=True)
    assert upload(here.bearer(), ("a.npy", plain.getvalue())).status_code == 422
    npy_body = {"Content-Type": "application/x-npy"}
    answer = here.bearer().post("/api/agents/1/predict", content=plain.getvalue(), headers=npy_body)
    assert answer.status_code == 422
    assert "Python objects" in answer.json()["detail"]
    here.service.work()
    assert not (tmp_path / "owned").exists()


def test_a_zip_bomb_is_not_unpacked(service: Service) -> None:
    with site(service, limits=Limits(unpacked=10**6)) as held:
        bomb = npz(X=np.zeros((2, 16)))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(
                "X.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 1250), }", bytes(10**7))
            )
        assert len(packed.getvalue()) < 10**5
        answer = upload(held.bearer(), ("bomb.npz", packed.getvalue()))
        assert answer.status_code == 413
        assert upload(held.bearer(), ("fine.npz", bomb)).status_code == 201


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(1000000, 1000000)", "(-1, 5)", "(10, 10)"])
def test_an_array_that_claims_more_than_it_holds(here: Site, shape: str) -> None:
    lie = npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}", bytes(64))
    assert upload(here.bearer(), ("a.npz", zipped(**{"X.npy": lie}))).status_code == 422
    assert upload(here.bearer(), ("a.npy", lie)).status_code == 422
    body = {"Content-Type": "application/x-npy"}
    assert here.bearer().post("/api/agents/1/predict", content=lie, headers=body).status_code == 422


@pytest.mark.parametrize("header", ["{'descr': '<f8'", "()", "{'descr': '<f8', 'fortran_order': 0}", "[" * 110])
def test_an_array_whose_header_is_nonsense(here: Site, header: str) -> None:
    body = {"Content-Type": "application/x-npy"}
    answer = here.bearer().post("/api/agents/1/predict", content=npy(header), headers=body)
    assert answer.status_code == 422


PIECES = 1000


def endless() -> Iterator[bytes]:
    """A body that never says how long it is, and must be refused long before its end."""
    return iter([b"x" * 65536] * PIECES)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/people", "application/json"),
        ("/api/agents/1/predict", "application/json"),
        ("/api/agents/1/predict", "application/x-npy"),
        ("/api/agents?name=x", "application/octet-stream"),
        ("/api/pools", "application/json"),
        ("/api/adaptations/1/answers", "application/json"),
    ],
)
def test_a_body_that_is_too_large_is_refused_before_its_end(service: Service, path: str, kind: str) -> None:
    with site(service, limits=Limits(json=10**6, predict=10**6, agent=10**6, upload=10**6, files=10)) as held:
        client = held.bearer()
        said = {"Content-Type": kind, "Content-Length": str(10**10)}
        answer = client.post(path, content=b"{}", headers=said)
        assert answer.status_code == 413
        bearer = {"Authorization": f"Bearer {held.token(Role.admin)}"}
        status, taken = stream(held.app, path, endless(), {"Content-Type": kind, **bearer})
        assert (status, taken < PIECES / 10) == (413, True)
        assert left(held) == []


def part(name: str, data: bytes, file: str | None = None) -> bytes:
    named = f'; filename="{file}"' if file is not None else ""
    return f'--XX\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data + b"\r\n"


def file_without_end(start: bytes) -> Iterator[bytes]:
    yield part("name", b"p") + part("agent", b"1")
    yield part("files", b"", "a").removesuffix(b"\r\n") + start
    yield from endless()


def field_without_end() -> Iterator[bytes]:
    yield part("name", b"").removesuffix(b"\r\n")
    yield from endless()


@pytest.mark.parametrize(
    "pieces",
    [
        file_without_end(PNG),
        file_without_end(b"PK\x03\x04"),
        file_without_end(b"a,b\n" * 5),
        field_without_end(),
        (part("files", PNG, f"{i}.png") for i in range(PIECES)),
        (part(f"field{i}", b"x") for i in range(PIECES)),
    ],
    ids=["picture", "npz", "table", "field", "many files", "many fields"],
)
def test_uploads_are_limited_while_they_arrive(service: Service, pieces: Iterator[bytes]) -> None:
    with site(service, limits=Limits(upload=10**6, picture=10**5, table=10**5, files=5)) as held:
        headers = {"Content-Type": "multipart/form-data; boundary=XX"}
        headers["Authorization"] = f"Bearer {held.token(Role.admin)}"
        status, taken = stream(held.app, "/api/pools", pieces, headers)
        assert (status, taken < PIECES / 10) == (413, True)
        assert left(held) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--XX",
        b"--XX--\r\n",
        b"--XX\r\n\r\nno header\r\n--XX--\r\n",
        part("name", b"p") + part("agent", b"1") + part("files", PNG, "a.png"),  # cut off
        part("name", b"p") + part("agent", b"1") + b"--XX--\r\n",
        part("name", b"p") + part("files", PNG, "a.png") + b"--XX--\r\n",
        part("name", b"\xff\xfe") + part("agent", b"one") + part("files", PNG, "a.png") + b"--XX--\r\n",
        part("name", b"p") + part("agent", b"999") + part("files", PNG, "a.png") + b"--XX--\r\n",
    ],
)
def test_broken_forms(here: Site, body: bytes) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=XX"}
    answer = here.bearer().post("/api/pools", content=body, headers=kind)
    assert answer.status_code in (404, 422), answer.text
    for wrong in ("multipart/form-data", "text/plain", "multipart/form-data; boundary=" + "x" * 5000, ""):
        assert (
            here.bearer().post("/api/pools", content=body, headers={"Content-Type": wrong}).status_code == 422
        )
    assert left(here) == []


def test_names_of_files_are_no_paths(here: Site, tmp_path: Path) -> None:
    from PIL import Image

    held = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(held, "PNG")
    names = [
        "../../../owned.png",
        "/etc/owned.png",
        "..\\..\\owned.png",
        "a.png\0.php",
        ".htaccess",
        "a.png",
        "A.png",
    ]
    answer = upload(here.bearer(), *[(name, held.getvalue()) for name in names])
    assert answer.status_code == 201, answer.text
    source = here.service.workspace.home.pool_folder(answer.json()["id"])
    found = [p for p in source.rglob("*") if p.is_file()]
    assert len(found) == len(names)
    assert all(p.suffix == ".png" and not p.name.startswith(".") for p in found)
    assert not list(tmp_path.rglob("owned.php"))
    assert left(here) == []


def test_a_file_that_is_no_agent(here: Site, tmp_path: Path) -> None:
    client = here.bearer()
    here.service.world.agent().save(tmp_path / "a.agent")
    good = (tmp_path / "a.agent").read_bytes()
    deep = json.dumps({"__metadata__": {"cual": "[" * 100_000}}).encode()
    bad = [b"", b"x", good[:200], good[:-1], good[:-1000], b"\x80\x04.", deep]
    bad.append(len(deep).to_bytes(8, "little") + deep)
    bad.append(good.replace(b"validation.X", b"validation.Z"))
    bad.append(good.replace(b'\\"width\\"', b'\\"widht\\"'))
    bad.append(bytes(8) + b"\xff" * 1000)
    for data in bad:
        answer = client.post("/api/agents", params={"name": "x"}, content=data)
        assert answer.status_code in (201, 422), answer.text
        assert str(here.service.workspace.folder) not in answer.text
    assert client.post("/api/agents", params={"name": "x"}, content=good).status_code == 201
    assert left(here) == []


# -- what people type ------------------------------------------------------------------------------------------

SCRIPTS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "';DROP TABLE people;--"]


@pytest.mark.parametrize("text", SCRIPTS)
def test_scripts_in_names_stay_text(here: Site, text: str, tmp_path: Path) -> None:
    client = here.bearer()
    adaptation = here.service.start()
    lent = client.post(f"/api/adaptations/{adaptation}/lend", json={"n": 100}).json()
    said = {str(q["id"]): text for q in lent}
    answers = client.post(f"/api/adaptations/{adaptation}/answers", json={"answers": said})
    assert answers.json()["new_classes"] == [text]
    person = client.post("/api/people", json={"name": text, "role": "reader"})
    here.service.world.agent().save(tmp_path / "a.agent")
    with (tmp_path / "a.agent").open("rb") as file:
        agent = client.post("/api/agents", params={"name": text}, content=file.read())
    pool = upload(client, (text, npz(X=here.service.world.pool)), name=text)
    for answer in (answers, person, agent, pool):
        assert answer.is_success, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert {person.json()["name"], agent.json()["name"], pool.json()["name"]} == {text}
    here.service.work()
    report = client.get(f"/api/adaptations/{adaptation}/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "<script>alert" not in report.text
    assert "<img src=x" not in report.text
    page = here.visitor().get("/sign-in", params={"token": text})
    assert text not in page.text


@pytest.mark.parametrize(
    "name", ["a\r\nSet-Cookie: x=1", "a\0b", "a\nb", "\u2028", "", " ", "x" * 101, "\ud800", 5, None]
)
def test_names_that_are_none(here: Site, name: Any) -> None:
    client = here.bearer()
    body = json.dumps({"name": name, "role": "reader"}).encode()
    answer = client.post("/api/people", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "set-cookie" not in answer.headers
    if isinstance(name, str) and name.isprintable():
        assert client.post("/api/agents", params={"name": name}, content=b"x").status_code == 422


@pytest.mark.parametrize(
    "label", ["", " ", "a\nb", "x" * 101, 5, 1.5, True, ["cat"], {"a": 1}, "\ud800", "\u202eabc"]
)
def test_labels_that_are_none(here: Site, label: Any) -> None:
    adaptation, client = here.service.start(), here.bearer()
    question = client.post(f"/api/adaptations/{adaptation}/lend", json={"n": 1}).json()[0]
    body = json.dumps({"answers": {str(question["id"]): label}}).encode()
    kind = {"Content-Type": "application/json"}
    answer = client.post(f"/api/adaptations/{adaptation}/answers", content=body, headers=kind)
    assert answer.status_code == 422, answer.text
    assert client.get(f"/api/adaptations/{adaptation}").json()["spent"] == 0


def test_what_is_wrong_is_said_without_repeating_it(here: Site) -> None:
    for body in (b'{"name": "geheim', b'{"name": ["geheim"], "role": "reader"}', b'{"geheim": NaN}', b"\xff"):
        answer = here.bearer().post("/api/people", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422)
        assert "geheim" not in answer.text.replace("body.geheim", "")


# -- headers, logs, addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/agents", "/api/nothing", "/sign-in", "/health", "/live", "/metrics"])
def test_safe_headers_everywhere(here: Site, path: str) -> None:
    for client in (here.visitor(), here.bearer()):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (
            "unsafe-inline"
            not in headers["content-security-policy"].partition("script-src")[2].partition(";")[0]
        )
        assert headers["referrer-policy"] in ("same-origin", "strict-origin")
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_pictures_are_shown_only_after_asking_again(here: Site) -> None:
    client = here.bearer(Role.reader)
    first = client.get("/api/pools/1/pictures/0")
    assert (first.status_code, first.headers["content-type"]) == (200, "image/webp")
    assert first.headers["cache-control"] == "private, no-cache"
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get("/api/pools/1/pictures/0", headers=tag).status_code == 304
    assert here.visitor().get("/api/pools/1/pictures/0", headers=tag).status_code == 401


def test_the_large_picture_where_there_is_one(here: Site) -> None:
    client, address = here.bearer(Role.reader), "/api/pools/1/pictures/0"
    small = client.get(address)
    assert client.get(f"{address}?large=1").content == small.content, "there is nothing larger"
    file = here.service.workspace.picture(1, 0).with_name("0-large.webp")
    file.write_bytes(b"RIFF, and larger")
    large = client.get(f"{address}?large=1")
    assert (large.content, large.headers["content-type"]) == (b"RIFF, and larger", "image/webp")
    assert large.headers["etag"] != small.headers["etag"]
    assert client.get(address).content == small.content
    assert client.get(f"{address}?large=../1").status_code == 422
    assert here.visitor().get(f"{address}?large=1").status_code == 401
    file.unlink()


def test_the_log_holds_no_secrets(here: Site, caplog: pytest.LogCaptureFixture) -> None:
    from cual.serve.operations.logs import JsonLines, Lines

    secret = here.accounts.new_token(here.people[Role.admin].id, "sign-in", by=OPERATOR)[1]
    with caplog.at_level("DEBUG"):
        browser = here.visitor(Origin=here.origin)
        browser.get("/sign-in", params={"token": secret})
        browser.post("/sign-in", data={"token": secret})
        browser.post("/sign-in", data={"token": "cual_something-that-is-not-known"})
        browser.get(f"/api/{secret}")
        here.bearer().post("/api/people", json={"name": "Geheimnis", "role": "reader"})
    cookie = browser.cookies[here.app.state.cookies[0]]
    for formatter in (JsonLines(), Lines()):
        log = "\n".join(formatter.format(record) for record in caplog.records if record.name.startswith("cual"))
        assert '"/sign-in"' in log or "path=/sign-in" in log
        for word in (secret, cookie, here.token(Role.admin), "something-that-is-not-known", "Geheimnis"):
            assert word not in log


def test_a_request_cannot_write_lines_of_its_own_into_the_log(
    here: Site, caplog: pytest.LogCaptureFixture
) -> None:
    from cual.serve.operations.logs import JsonLines, Lines

    with caplog.at_level("INFO"):
        here.bearer().get("/api/x%0a%7b%22level%22:%22forged%22%7d")
    (record,) = (r for r in caplog.records if r.name == "cual.serve.requests")
    for formatter in (JsonLines(), Lines()):
        assert "\n" not in formatter.format(record)


def test_metrics_are_for_this_machine_and_for_readers(here: Site, service: Service) -> None:
    assert here.visitor().get("/metrics").status_code == 200
    assert here.visitor("192.0.2.7").get("/metrics").status_code == 403
    assert here.bearer(Role.annotator).get("/metrics").status_code == 200
    with site(service, proxy="https://label.example.org", url="https://label.example.org") as held:
        assert held.visitor().get("/metrics").status_code == 403
        assert held.bearer(Role.reader).get("/metrics").status_code == 200
        assert held.bearer(Role.sender).get("/metrics").status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "label.example.org"])
def test_other_machines_need_tls_or_a_proxy(host: str) -> None:
    with pytest.raises(NotAllowed, match="unencrypted"):
        check_exposure(host, tls=False, proxy=None, insecure=False)
    check_exposure(host, tls=True, proxy=None, insecure=False)
    check_exposure(host, tls=False, proxy="https://x.org", insecure=False)
    check_exposure(host, tls=False, proxy=None, insecure=True)


@pytest.mark.parametrize(
    "url", ["label.example.org", "ftp://x.org", "https://", "https://x.org/cual", "https://u@x.org"]
)
def test_addresses_of_proxies_that_are_none(url: str) -> None:
    with pytest.raises(BadOption):
        read_proxy(url)


def test_a_wildcard_address_does_not_let_names_be_rebound() -> None:
    open_ = Settings(host="0.0.0.0", tls=True, names=("label.example.org",))
    assert open_.knows_host("192.168.1.5:8765")
    assert open_.knows_host("label.example.org:8765")
    assert not open_.knows_host("evil.example:8765")
    assert not open_.is_own_origin("https://evil.example:8765", "evil.example:8765")
