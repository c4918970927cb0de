"""Requests that never end, come byte by byte, or are too many: each is ended, and others are served meanwhile.

Nobody here has signed in. No speed is claimed, only that it ends; times that are long by default are shortened.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import limited_server
from cual.serve.web.security.http_limits import ConnectionLimits
from running import Running, running, until

pytestmark = pytest.mark.attacks

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /api/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UPGRADE = (
    b" /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: localhost\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = 60.0
"""Seconds after which a connection counts as open for ever."""
MUCH = 64 * 2**20
"""Bytes after which a request counts as endless."""
LIMITS = ConnectionLimits()


class Wire:
    """A connection on which anything can be sent."""

    def __init__(
        self, service: Running, source: str = "127.0.0.1", tls: ssl.SSLContext | None = None, window: int = 0
    ) -> None:
        self.socket = socket.socket()
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.settimeout(LONG)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", int(service.url.rpartition(":")[2])))
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Whether the other side still listens."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, ssl.SSLError):
            return False
        return True

    def is_flooded(self, data: bytes) -> bool:
        """Send the same again and again; False if that was ended."""
        data *= 2**16 // len(data)
        return all(self.send(data) for _ in range(MUCH // len(data)))

    def is_dripped_on(self, data: bytes, pause: float) -> bool:
        """Send the same now and then; False if that was ended."""
        for _ in range(int(LONG / pause)):
            if not self.send(data):
                return False
            time.sleep(pause)
        return True

    def rest(self) -> bytes:
        """All that comes until the other side closes, which it must."""
        answer = b""
        while True:
            try:
                part = self.socket.recv(2**16)
            except (ConnectionError, ssl.SSLError):
                return answer
            if not part:
                return answer
            answer += part


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def check_others(service: Running, tls: ssl.SSLContext | bool = False) -> None:
    """Somebody else still gets an answer."""
    answer = httpx.get(f"{service.url}/health", verify=tls, timeout=LONG)
    assert answer.status_code == 200, answer.text


def wait_for_room(service: Running, tls: ssl.SSLContext | bool = False) -> None:
    """Those who have just come are given a moment to say something before they make room."""

    def has_room() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{service.url}/health", verify=tls, timeout=LONG).status_code == 200
        return False

    until(has_room, LONG)


def open_sockets(service: Running) -> int:
    count = 0
    for file in Path(f"/proc/{service.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by now
            count += os.readlink(file).startswith("socket:")
    return count


@contextmanager
def limited(folder: Path, *tls: Path, **limits: Any) -> Iterator[Running]:
    program = (sys.executable, limited_server.__file__)
    with running(folder, json.dumps(limits), *map(str, tls), program=program) as service:
        yield service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """`cual serve` as it is."""
    with running(tmp_path_factory.mktemp("service") / "workspace") as service:
        yield service
        with Wire(service) as wire:
            wire.send(GET)
            assert service.end() == 0, "who has not finished a request does not keep it from ending"


@pytest.fixture(autouse=True)
def quiet_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nobody without an account can make the service fail, even if only its log says so."""
    services = [request.getfixturevalue(name) for name in request.fixturenames if name in SERVICES]
    yield
    for service in services:
        assert "Traceback" not in "".join(service.log)


SERVICES = ("service", "hasty", "small", "private")
HASTY = {"head_seconds": 1, "body_seconds": 2, "idle_seconds": 3, "watch_seconds": 0.1}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that loses patience soon."""
    with limited(tmp_path_factory.mktemp("hasty") / "workspace", **HASTY) as service:
        yield service


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with room for few."""
    few = {"connections": 20, "reserve": 2, "per_address": 8}
    with limited(tmp_path_factory.mktemp("small") / "workspace", **few) as service:
        yield service


# -- too much --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        (GET + b"X-A: ", b"a"),
        (GET, b"a"),
        (b"GET /", b"a"),
        (b"", b"A"),
        (GET, b"X-A: b\r\n"),
        (b"GET" + UPGRADE + b"X-A: ", b"a"),
        (CHUNKED + b"2;x=", b"a"),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX-A: ", b"a"),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n"),
    ],
    ids=["value", "name", "path", "method", "headers", "websocket", "chunk", "trailer", "trailers"],
)
def test_what_never_ends_is_refused(service: Running, start: bytes, endless: bytes) -> None:
    with Wire(service) as wire:
        wire.send(start)
        assert not wire.is_flooded(endless)
        assert status(wire.rest()) in ((400, 431) if not start else (431,))
    check_others(service)


def test_headers_may_be_as_large_as_the_limit(service: Running) -> None:
    for size, code in ((LIMITS.head, 200), (LIMITS.head + 1, 431)):
        start = GET + b"Connection: close\r\nX-A: "
        with Wire(service) as wire:
            wire.send(start + b"a" * (size - len(start) - 4) + b"\r\n\r\n")
            assert status(wire.rest()) == code
    for count, code in ((LIMITS.headers, 200), (LIMITS.headers + 1, 431)):
        with Wire(service) as wire:
            wire.send(GET + b"Connection: close\r\n" + b"X-A: b\r\n" * (count - 2) + b"\r\n")
            assert status(wire.rest()) == code


def test_a_large_body_is_no_header(service: Running) -> None:
    """Also where it comes in one piece with the header, in small chunks, or before the next request."""
    body = json.dumps({"token": "x" * 2**20}).encode()
    chunks = b"".join(b"5\r\n%s\r\n" % body[i : i + 5] for i in range(0, 5 * (len(body) // 5), 5))
    chunks += b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) % 5, body[-(len(body) % 5) :])
    last = GET + b"Connection: close\r\n\r\n"
    for request in (POST + b"Content-Length: %d\r\n\r\n" % len(body) + body, CHUNKED + chunks):
        with Wire(service) as wire:
            wire.send(request + last)
            answer = wire.rest()
            assert status(answer) in (401, 403, 422)
            assert b"HTTP/1.1 200 OK" in answer


def test_pipelined_requests_are_few(service: Running) -> None:
    with Wire(service) as wire:
        wire.send((GET + b"\r\n") * 4 + GET + b"Connection: close\r\n\r\n")
        assert wire.rest().count(b"HTTP/1.1 200 OK") == 5
    with Wire(service) as wire:
        assert not wire.is_flooded(GET + b"\r\n")
    check_others(service)


def test_headers_of_a_websocket_are_limited(service: Running) -> None:
    with Wire(service) as wire:
        wire.send(b"GET" + UPGRADE + b"X-A: " + b"a" * LIMITS.line + b"\r\n\r\n")
        assert status(wire.rest()) == 431


def test_messages_of_a_websocket_are_limited(service: Running) -> None:
    token = service.token("robot", "reader")
    with Wire(service) as wire:
        wire.send(b"GET" + UPGRADE + f"Authorization: Bearer {token}\r\n\r\n".encode())
        assert status(wire.socket.recv(2**16)) == 101
        wire.send(b"\x82\xff" + (2**30).to_bytes(8, "big") + b"mask")
        assert not wire.is_flooded(b"a")
    check_others(service)


# -- too slow --------------------------------------------------------------------------------------------------


def test_half_sent_requests_keep_nobody_out(service: Running) -> None:
    before = open_sockets(service)
    with ExitStack() as wires:
        for _ in range(900):  # more than there may be, fewer than the files that a process may open
            wires.enter_context(Wire(service)).send(GET)
        wait_for_room(service)
        assert open_sockets(service) - before <= LIMITS.connections + LIMITS.reserve
        until(lambda: open_sockets(service) <= before, LONG)
        check_others(service)


@pytest.mark.parametrize("start", [GET, GET + b"X-A: ", b"G", b"\r\n", GET + b"\r\n" + GET])
def test_a_header_has_a_time_limit(hasty: Running, start: bytes) -> None:
    with Wire(hasty) as wire:
        wire.send(start)
        assert b"HTTP/1.1 408" in wire.rest()
    check_others(hasty)


@pytest.mark.parametrize("start", [GET, GET + b"X-A: ", b""])
def test_a_header_has_a_time_limit_also_while_it_grows(hasty: Running, start: bytes) -> None:
    with Wire(hasty) as wire:
        wire.send(start)
        assert not wire.is_dripped_on(b"A" if start else b"\r\n", 0.1)
        assert status(wire.rest()) == 408


@pytest.mark.parametrize("start", [b"", GET + b"\r\n"], ids=["new", "kept alive"])
def test_silence_is_ended_silently(hasty: Running, start: bytes) -> None:
    with Wire(hasty) as wire:
        wire.send(start)
        assert wire.rest().count(b"HTTP/1.1") == bool(start)


@pytest.mark.parametrize(
    "start",
    [
        POST + b"Content-Length: 100000\r\n\r\n",
        CHUNKED,
        CHUNKED + b"2\r\n{}\r\n0\r\n",
        CHUNKED + b"5000\r\n",
        POST + b"Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n",
    ],
)
def test_a_body_must_not_pause(hasty: Running, start: bytes) -> None:
    with Wire(hasty) as wire:
        wire.send(start)
        assert status(wire.rest().removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")) == 408
    check_others(hasty)


def test_a_body_must_not_drip(hasty: Running) -> None:
    for start, drop in ((POST + b"Content-Length: 100000\r\n\r\n", b"a"), (CHUNKED, b"1\r\na\r\n")):
        with Wire(hasty) as wire:
            wire.send(start)
            assert not wire.is_dripped_on(drop, 0.1)
            assert status(wire.rest()) == 408


def test_a_body_may_take_long(hasty: Running) -> None:
    body = json.dumps({"token": "x" * 50_000}).encode()
    with Wire(hasty) as wire:
        wire.send(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 2500):
            assert wire.send(body[start : start + 2500])
            time.sleep(0.25)
        assert status(wire.rest()) in (401, 403, 422)


def test_a_body_that_was_refused_does_not_go_on_for_ever(hasty: Running) -> None:
    with Wire(hasty) as wire:
        wire.send(b"POST /api/agents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
        assert not wire.is_dripped_on(b"a" * 1000, 0.05)
        assert status(wire.rest()) == 401


def test_who_does_not_read_is_ended(hasty: Running) -> None:
    import nicegui

    file = f"GET /_nicegui/{nicegui.__version__}/static/sass.dart.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    before = open_sockets(hasty)
    with Wire(hasty, window=4096) as wire:
        wire.send(file.encode() * 4)
        until(lambda: open_sockets(hasty) > before, LONG)
        until(lambda: open_sockets(hasty) <= before, LONG)


def test_what_becomes_no_websocket_is_ended(hasty: Running) -> None:
    """`websockets` refuses a method other than GET, and says so to nobody."""
    with Wire(hasty) as wire:
        wire.send(b"POST" + UPGRADE + b"\r\n")
        wire.rest()


# -- too many --------------------------------------------------------------------------------------------------


def held(service: Running, source: str) -> tuple[Wire, int]:
    """A connection, and the status of its answer: 100 if its request is being served and its body awaited."""
    wire = Wire(service, source)
    wire.send(POST + b"Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
    return wire, status(wire.socket.recv(2**16))


def answer(service: Running, source: str) -> bytes:
    with Wire(service, source) as wire:
        wire.send(GET + b"Connection: close\r\n\r\n")
        return wire.rest()


def test_one_address_does_not_take_all_connections(small: Running) -> None:
    with ExitStack() as wires:
        for expected in [100] * 8 + [503] * 4:
            wire, code = held(small, "127.0.0.2")
            wires.enter_context(wire)
            assert code == expected
        assert status(answer(small, "127.0.0.3")) == 200
        check_others(small)


def test_this_machine_is_served_when_nobody_else_is(small: Running) -> None:
    with ExitStack() as wires:
        for n, expected in enumerate([100] * 20 + [503] * 4):
            wire, code = held(small, f"127.0.0.{2 + n // 8}")
            wires.enter_context(wire)
            assert code == expected
        check_others(small)
    until(lambda: status(answer(small, "127.0.0.9")) == 200, LONG)


def test_who_waits_longest_makes_room(small: Running) -> None:
    with ExitStack() as wires:
        served, code = held(small, "127.0.0.2")
        wires.enter_context(served)
        assert code == 100
        silent = [wires.enter_context(Wire(small, "127.0.0.2")) for _ in range(7)]
        until(lambda: status(answer(small, "127.0.0.2")) == 200, LONG)
        assert silent[0].rest() == b""
        served.send(b"a" * 100_000)
        assert status(served.socket.recv(2**16)) in (401, 403, 422)


# -- TLS -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    command += f" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {key} -out {certificate}"
    if subprocess.run(command.split(), capture_output=True).returncode:
        pytest.skip("no openssl")
    return certificate, key


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[Running]:
    """A service that speaks TLS, has room for few and loses patience soon."""
    folder = tmp_path_factory.mktemp("private") / "workspace"
    with limited(folder, *certificate, connections=20, **HASTY) as service:
        yield service


HELLO = bytes.fromhex("16030100c8010000c40303") + b"a" * 32
"""How the first message of a handshake begins."""


def test_handshakes_that_stop_are_ended(private: Running, certificate: tuple[Path, Path]) -> None:
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    for start in (b"", HELLO[:1], HELLO):
        with Wire(private) as wire:
            wire.send(start)
            assert status(wire.rest() or b" 0 ") == 0
    before = open_sockets(private)
    with ExitStack() as wires:
        for _ in range(50):
            wires.enter_context(Wire(private)).send(HELLO)
        wait_for_room(private, trusted)
        assert open_sockets(private) - before <= 20 + LIMITS.reserve
        until(lambda: open_sockets(private) <= before, LONG)


def test_the_same_limits_hold_within_tls(private: Running, certificate: tuple[Path, Path]) -> None:
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    with Wire(private, tls=trusted) as wire:
        wire.send(GET + b"X-A: " + b"a" * LIMITS.head)
        assert status(wire.rest()) == 431
    with Wire(private, tls=trusted) as wire:
        wire.send(GET)
        assert status(wire.rest()) == 408
    before = open_sockets(private)
    with Wire(private, tls=trusted) as wire:  # is told that it is over, and does not say so, too
        wire.send(GET + b"\r\n")
        until(lambda: open_sockets(private) <= before, LONG)
    check_others(private, trusted)
