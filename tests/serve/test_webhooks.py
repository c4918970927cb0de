"""Webhooks against a real receiver on this machine: signed, told at least once, and not everywhere."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cual.client import check_webhook
from cual.errors import BadOption, BadSignature, Conflict, NotAllowed, NotFound
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.watching import noting, webhooks
from cual.serve.rules.watching.records import EVENTS
from cual.serve.rules.watching.signing import signature
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from cual.serve.web.watching import delivering, posting
from cual.serve.web.watching.delivering import Delivering
from running import running, until
from serving import Service
from visiting import site
from watched import look, send_unlike
from worlds import make_world

SECRET = "a secret of the team"


@dataclass
class Receiver:
    """What came, and what is answered to it."""

    url: str = ""
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    statuses: list[int] = field(default_factory=list[int])
    """Answered first, one each; 204 afterwards."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.came]


@contextmanager
def receiving(*statuses: int, port: int = 0) -> Iterator[Receiver]:
    """A receiver that listens, until the end of the block."""
    held = Receiver(statuses=list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            held.came.append((dict(self.headers), body))
            self.send_response(held.statuses.pop(0) if held.statuses else 204)
            for name, value in held.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(held.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    held.url = f"http://127.0.0.1:{server.server_port}/hook?team=3"
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def tell(service: Service, n: int = 1) -> None:
    """Something happens."""
    with service.workspace.database.writing() as connection:
        for i in range(n):
            data = {"state": "began", "n": i}
            webhooks.tell(connection, service.agent, "animals", 0, "novelty.alert", data, db.now())


def rows(workspace: Workspace) -> list[Any]:
    with workspace.database.reading() as connection:
        return list(connection.execute(sa.select(db.deliveries).order_by(db.deliveries.c.id)).all())


def make_due(workspace: Workspace) -> None:
    """Let the time pass until what failed is tried again."""
    d = db.deliveries.c
    with workspace.database.writing() as connection:
        waits = sa.update(db.deliveries).where(d.next_at.is_not(None))
        connection.execute(waits.values(next_at=db.now() - timedelta(seconds=1)))


# -- delivered -------------------------------------------------------------------------------------------------


def test_an_event_is_delivered_signed(service: Service) -> None:
    workspace = service.workspace
    with receiving() as receiver:
        hook, secret = workspace.add_webhook(service.agent, receiver.url, service.ann)
        tell(service)
        assert Delivering(workspace.home).deliver() == 1
        ((headers, body),) = receiver.came
    event = check_webhook(secret, body, headers["Cual-Signature"])
    assert event["event"] == headers["Cual-Event"] == "novelty.alert"
    assert event["agent"] == {"id": service.agent, "name": "animals"}
    assert headers["Content-Type"] == "application/json"
    assert f"http://{headers['Host']}/" in receiver.url
    (told,) = workspace.webhooks(service.agent, service.ann)
    assert (told.id, told.waiting, told.error) == (hook.id, 0, None)
    assert told.delivered_at is not None


def test_a_receiver_that_fails_first_gets_it_later_with_the_same_id(service: Service) -> None:
    workspace = service.workspace
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workspace.add_webhook(service.agent, f"http://127.0.0.1:{port}/", service.ann, secret=SECRET)
    tell(service)
    assert Delivering(workspace.home).deliver() == 1  # nobody listens
    (row,) = rows(workspace)
    assert (row.attempts, row.delivered_at) == (1, None)
    assert row.error == "it cannot be reached: ConnectionRefusedError"
    assert row.next_at > db.now()
    assert Delivering(workspace.home).deliver() == 0  # not yet
    with receiving(500, 302, port=port) as receiver:
        receiver.headers["Location"] = f"http://127.0.0.1:{port}/elsewhere"
        for _ in range(3):
            make_due(workspace)
            assert Delivering(workspace.home).deliver() == 1  # each time another process, as it were
    assert len(receiver.came) == 3  # and the redirect was not followed
    assert len({event["id"] for event in receiver.events}) == 1
    (row,) = rows(workspace)
    assert (row.attempts, row.next_at, row.error) == (4, None, None)


def test_it_waits_longer_each_time_and_gives_up_at_last(service: Service) -> None:
    workspace = service.workspace
    with receiving(*[503] * 50) as receiver:
        workspace.add_webhook(service.agent, receiver.url, service.ann)
        tell(service)
        for pause in webhooks.PAUSES:
            make_due(workspace)
            began = db.now()
            Delivering(workspace.home).deliver()
            assert rows(workspace)[0].next_at >= began + timedelta(seconds=pause)
        make_due(workspace)
        Delivering(workspace.home).deliver()
    assert len(receiver.came) == len(webhooks.PAUSES) + 1
    (row,) = rows(workspace)
    assert (row.next_at, row.error) == (None, "given up: the receiver answers 503")


def test_a_receiver_that_is_gone_is_told_no_more_of_it(service: Service) -> None:
    with receiving(410) as receiver:
        service.workspace.add_webhook(service.agent, receiver.url, service.ann)
        tell(service)
        Delivering(service.workspace.home).deliver()
    assert rows(service.workspace)[0].next_at is None


def test_only_wanted_events_of_webhooks_that_are_active_are_told(service: Service) -> None:
    workspace, agent = service.workspace, service.agent
    with receiving() as receiver:
        hook, _ = workspace.add_webhook(agent, receiver.url, service.ann, ["drift.alert"])
        tell(service)
        assert rows(workspace) == []
        workspace.change_webhook(agent, hook.id, service.ann, active=True, events=["novelty.alert"])
        tell(service)
        workspace.change_webhook(agent, hook.id, service.ann, active=False)
        assert Delivering(workspace.home).deliver() == 0
        workspace.change_webhook(agent, hook.id, service.ann, active=True)
        assert Delivering(workspace.home).deliver() == 1


def test_too_many_that_wait_push_out_the_oldest(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST_WAITING", 3)
    service.workspace.add_webhook(service.agent, "https://hooks.example.org/", service.ann)
    tell(service, 5)
    assert [row.next_at is None for row in rows(service.workspace)] == [True, True, False, False, False]


def test_a_version_that_goes_live_and_a_proposal_are_told(service: Service) -> None:
    workspace = service.workspace
    with receiving() as receiver:
        workspace.add_webhook(service.agent, receiver.url, service.ann)
        send_unlike(service, 40)
        look(workspace)
        look(workspace)
        task = service.start()
        service.answer_all(task)
        service.finish(task)
        noting.note(workspace.home, [], db.now())
        noting.note(workspace.home, [], db.now())
        Delivering(workspace.home).deliver()
    assert [event["event"] for event in receiver.events] == ["adaptation.proposed", "version.live"]
    assert receiver.events[0]["data"] == {"groups": 1, "settled": 40, "questions": 5}
    assert receiver.events[1]["data"] == {"version": 1, "before": 0}


def test_a_version_that_goes_live_is_told_where_nothing_was_predicted_yet(service: Service) -> None:
    workspace = service.workspace
    workspace.add_webhook(service.agent, "https://hooks.example.org/", service.ann, ["version.live"])
    task = service.start()
    service.answer_all(task)
    service.finish(task)
    noting.note(workspace.home, [], db.now())
    assert [row.event for row in rows(workspace)] == ["version.live"]


@pytest.mark.attacks
def test_a_service_that_was_killed_goes_on(tmp_path: Path) -> None:
    """A real one: what it was told before is delivered by the next, once the receiver is up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(tmp_path / "labels") as first:
        opened = Workspace.open(tmp_path / "labels")
        agent = opened.add_agent("animals", make_world().agent(), OPERATOR).id
        opened.add_webhook(agent, f"http://127.0.0.1:{port}/", OPERATOR, secret=SECRET)
        with opened.database.writing() as connection:
            webhooks.tell(connection, agent, "animals", 0, "drift.alert", {}, db.now())
        until(lambda: rows(opened)[0].attempts > 0)
        first.process.kill()
        first.process.wait()
    make_due(opened)
    with receiving(500, port=port) as receiver, running(tmp_path / "labels"):
        until(lambda: len(receiver.came) > 0)
        until(lambda: rows(opened)[0].attempts > 1)
        make_due(opened)
        until(lambda: rows(opened)[0].delivered_at is not None)
    opened.close()
    headers, body = receiver.came[-1]
    assert check_webhook(SECRET, body, headers["Cual-Signature"])["event"] == "drift.alert"


# -- where it may go -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "name", "why"),
    [
        ("http", "203.0.113.9", "sent by https"),
        ("https", "10.1.2.3", "private address"),
        ("https", "192.168.0.1", "private address"),
        ("https", "169.254.169.254", "private address"),
        ("https", "0.0.0.0", "private address"),
        ("https", "224.0.0.1", "private address"),
        ("https", "fd00::1", "private address"),
        ("https", "::ffff:10.0.0.1", "private address"),
        ("https", "64:ff9b::a00:1", "private address"),
        ("https", "2002:a00:1::", "private address"),
    ],
)
def test_private_addresses_are_not_sent_to(scheme: str, name: str, why: str) -> None:
    with pytest.raises(NotAllowed, match=why):
        posting.reachable(scheme, name, 443)
    assert posting.reachable(scheme, name, 443, hosts=[name])


def test_a_name_that_leads_to_this_machine_is_not_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's name server may say anything, another time than when the address was set."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: found)
    with pytest.raises(NotAllowed, match="private address"):
        posting.reachable("https", "rebound.example.org", 443)
    with pytest.raises(NotAllowed, match="https"):
        posting.reachable("http", "rebound.example.org", 80)
    assert posting.reachable("http", "localhost", 80) == "127.0.0.1"


def test_one_private_address_among_public_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 443)) for a in ("93.184.215.14", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: found)
    with pytest.raises(NotAllowed, match="private address"):
        posting.reachable("https", "mixed.example.org", 443)


def test_what_must_not_be_reached_is_refused_when_it_is_told(service: Service) -> None:
    service.workspace.add_webhook(service.agent, "https://10.0.0.1/", service.ann)
    tell(service)
    Delivering(service.workspace.home).deliver()
    (row,) = rows(service.workspace)
    assert "private address" in row.error


def test_an_endless_answer_is_cut() -> None:
    with receiving() as receiver:
        receiver.body = b"x" * 10_000_000
        assert posting.post(receiver.url, b"{}", {}) == 204


def test_a_receiver_that_never_answers_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends a byte now and then, so that no single wait is long."""
    monkeypatch.setattr(posting, "DEADLINE", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
                while not over.wait(0.05):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(OSError, match="too long"):
            posting.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
        over.set()
        thread.join()


# -- set -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "https://",
        "https://user:pass@example.org/",
        "https://example.org/#part",
        "https://example.org/ä",
        "https://example.org/a b",
        "https://example.org:99999/",
        "https://example.org/\r\nX: y",
        "https://[::1/",
        "https://example.org/" + "x" * 3000,
    ],
)
def test_addresses_that_are_none_are_refused(service: Service, url: str) -> None:
    with pytest.raises(BadOption):
        service.workspace.add_webhook(service.agent, url, service.ann)


def test_secrets_events_and_numbers_have_limits(service: Service) -> None:
    workspace, agent, url = service.workspace, service.agent, "https://hooks.example.org/"
    with pytest.raises(BadOption, match="16 to 200"):
        workspace.add_webhook(agent, url, service.ann, secret="short")
    with pytest.raises(BadOption, match="some of"):
        workspace.add_webhook(agent, url, service.ann, ["everything"])
    for _ in range(webhooks.MOST):
        workspace.add_webhook(agent, url, service.ann)
    with pytest.raises(Conflict, match="remove one first"):
        workspace.add_webhook(agent, url, service.ann)
    other = workspace.add_agent("other", service.world.agent(), OPERATOR).id
    first = workspace.webhooks(agent, service.ann)[0].id
    with pytest.raises(NotFound):
        workspace.remove_webhook(other, first, service.ann)
    workspace.remove_webhook(agent, first, service.ann)
    assert len(workspace.webhooks(agent, service.ann)) == webhooks.MOST - 1


def test_over_http_the_secret_is_told_once_and_nobody_else_sees_addresses(service: Service) -> None:
    with site(service) as here:
        admin, url = here.bearer(), f"/api/agents/{service.agent}/webhooks"
        added = admin.post(url, json={"url": "https://hooks.example.org/x"})
        assert added.status_code == 201
        secret = added.json()["secret"]
        assert len(secret) >= 32
        assert added.json()["webhook"]["events"] == list(EVENTS)
        assert secret not in admin.get(url).text
        assert secret not in admin.get("/api/audit").text
        assert here.bearer(Role.annotator).get(url).status_code == 403
        one = f"{url}/{added.json()['webhook']['id']}"
        assert admin.patch(one, json={"active": False}).json()["active"] is False
        assert admin.delete(one).status_code == 204
        assert admin.get(url).json() == []


def test_webhooks_of_a_restored_workspace_are_paused(service: Service, tmp_path: Path) -> None:
    """It may be a copy: the other one still tells everybody."""
    workspace = service.workspace
    workspace.add_webhook(service.agent, "https://hooks.example.org/", service.ann, secret=SECRET)
    tell(service)
    file = workspace.backup(tmp_path / "labels.backup", service.ann)
    copy = Workspace.restore(file, tmp_path / "copy")
    (hook,) = copy.webhooks(service.agent, OPERATOR)
    assert (hook.active, hook.waiting) == (False, 1)
    copy.close()


# -- the other side --------------------------------------------------------------------------------------------


def test_a_body_that_was_changed_kept_or_signed_otherwise_is_refused() -> None:
    now = db.now()
    body = b'{"id": 1}'
    good = signature(SECRET, body, now)
    assert check_webhook(SECRET, body, good) == {"id": 1}
    for wrong_body, header in (
        (b'{"id": 2}', good),
        (body, signature("another secret!!", body, now)),
        (body, good.replace("t=", "t=1")),
        (body, ""),
        (body, "t=1,v1=ä"),
    ):
        with pytest.raises(BadSignature):
            check_webhook(SECRET, wrong_body, header)
    with pytest.raises(BadSignature, match="seconds ago"):
        check_webhook(SECRET, body, good, now=time.time() + 301)
    with pytest.raises(BadSignature, match="seconds ago"):
        check_webhook(SECRET, body, good, now=time.time() - 301)


def test_nothing_of_an_answer_gets_into_what_is_told() -> None:
    error = delivering._worded(ConnectionResetError(104, "<script>"))
    assert error == "it cannot be reached: ConnectionResetError"
