"""Hypothesis over what no description names: raw uploads, headers, websocket events, with every role.

Few examples here, always the same; many in the slow tests. No answer is a 5xx, and the service goes on.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from serving import make_service
from visiting import Site, site
from worlds import make_world

pytestmark = pytest.mark.more

FEW, MANY = 20, 500
ROLES = [None, *Role]
QUIET = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("fuzz")
    root = folder / "where things lie"
    root.mkdir()
    workspace = Workspace.open(folder / "workspace", roots=[root])
    service = make_service(workspace, make_world())
    service.start()
    with site(service, pages=True) as held:
        yield held
    workspace.close()


def visitor(here: Site, role: Role | None) -> TestClient:
    return here.visitor() if role is None else here.bearer(role)


def guest(here: Site, role: Role | None) -> TestClient:
    """Somebody in a browser, where the role can sign in."""
    return visitor(here, role) if role in (None, Role.sender) else here.browser(role)


def tried(test: Callable[..., None], examples: int) -> None:
    """Run a test of Hypothesis, always with the same examples where they are few."""
    settings(max_examples=examples, derandomize=examples == FEW, **QUIET)(test)()


def amounts(test: Callable[..., None]) -> Callable[..., None]:
    many = pytest.param(MANY, marks=pytest.mark.slow)
    return pytest.mark.parametrize("examples", [FEW, many])(pytest.mark.parametrize("role", ROLES)(test))


# -- uploads ---------------------------------------------------------------------------------------------------

MAGIC = [b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00", b"PK\x03\x04", b"PAR1", b"\x89PNG\r\n\x1a\n", b"II*\0"]
MAGIC += [
    b"\xff\xd8\xff",
    b"GIF89a",
    b"RIFF\0\0\0\0WEBP",
    b"text,label\n",
    b'{"text": "a"}\n',
    b"\xef\xbb\xbf",
    b"",
]
raw = st.builds(bytes.__add__, st.sampled_from(MAGIC), st.binary(max_size=300))


@st.composite
def npy(draw: st.DrawFn) -> bytes:
    """A .npy file whose header is nearly right."""
    descr = draw(
        st.sampled_from(["<f4", "<f8", "|O", "<U9", "V0", "|V3", "<M8[s]", ">f2", "|b1", "<c8", "S0", "", "x"])
    )
    size = st.integers(-(2**65), 2**65) | st.integers(0, 20) | st.booleans() | st.none() | st.floats()
    shape = draw(st.lists(size, max_size=4).map(tuple) | st.text(max_size=3) | st.just(()))
    order = draw(st.sampled_from([True, False, None, 1, "yes"]))
    header = draw(
        st.sampled_from(
            [repr({"descr": descr, "fortran_order": order, "shape": shape}), repr([descr]), "{", "()"]
        )
    )
    text = header.encode("utf-8", "replace") + b"\n"
    length = draw(st.sampled_from([len(text), 0, 1, 2**16 - 1])).to_bytes(2, "little")
    version = draw(st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"]))
    return b"\x93NUMPY" + version + length + text + draw(st.binary(max_size=200))


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("X.npy", data)
    return buffer.getvalue()


@amounts
def test_raw_uploads(here: Site, role: Role | None, examples: int) -> None:
    client = visitor(here, role)
    name = st.sampled_from(["x.npy", "x.npz", "x.csv", "x.jsonl", "../x", "x\0.png", "", "ü" * 300])

    @given(raw | npy() | npy().map(zipped), name, st.sampled_from(["/api/pools", "/api/agents/from-data"]))
    def test(data: bytes, name: str, path: str) -> None:
        form = {"name": "sent", "agent": "1"} if path == "/api/pools" else {"name": "sent"}
        answer = client.post(path, data=form, files={"files": (name, data)})
        assert answer.status_code < 500, (data, answer.text)
        assert (role is Role.admin) or answer.status_code in (401, 403, 429)

    tried(test, examples)


@amounts
def test_raw_bodies(here: Site, role: Role | None, examples: int) -> None:
    client = visitor(here, role)
    kinds = [
        "application/x-npy",
        "application/json",
        "image/png",
        "text/plain",
        "multipart/form-data",
        "",
        "a/b;c",
    ]
    kinds += ["multipart/form-data; boundary=x", "application/json; charset=utf-7"]

    @given(
        raw | npy(), st.sampled_from(kinds), st.sampled_from(["predict", "probabilities", "novelty", "send"])
    )
    def test(data: bytes, kind: str, what: str) -> None:
        answer = client.post(f"/api/agents/1/{what}", content=data, headers={"Content-Type": kind})
        assert answer.status_code < 500, (data, answer.text)

    tried(test, examples)


# -- headers ---------------------------------------------------------------------------------------------------

HEADERS = ["Authorization", "Cookie", "Origin", "Content-Type", "X-Forwarded-For", "X-CSRF-Token", "Range"]
HEADERS += ["Accept", "Accept-Language", "If-None-Match", "Sec-Fetch-Site", "Accept-Encoding", "X-Request-Id"]
value = st.binary(max_size=60).map(lambda data: bytes(byte for byte in data if byte not in b"\r\n\0"))
value |= st.sampled_from(
    [b"Bearer ", b"bearer cual_", b"bytes=0-,-1", b"de;q=x,*", b'"', b"=;=;", b"null", b"*/*"]
)


@pytest.mark.attacks  # pages that say 404 take their time
@amounts
def test_headers(here: Site, role: Role | None, examples: int) -> None:
    client = guest(here, role)
    paths = [
        "/",
        "/sign-in",
        "/health",
        "/metrics",
        "/api/me",
        "/api/pools/1/pictures/0",
        "/api/agents",
        "/people",
    ]

    @given(
        st.dictionaries(st.sampled_from(HEADERS), value, max_size=5),
        st.sampled_from(paths),
        st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]),
    )
    def test(headers: dict[str, bytes], path: str, method: str) -> None:
        sent: Any = {name: text.strip() for name, text in headers.items()}
        answer = client.request(method, path, headers=sent)
        assert answer.status_code < 500, (method, path, headers, answer.text)

    tried(test, examples)


# -- websockets ------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(
    ["event", "handshake", "javascript_response", "ack", "log", "disconnect", "connect", ""]
)
event = st.builds(lambda name, rest: "42" + json.dumps([name, *rest]), names, st.lists(json_values, max_size=3))
message = (
    event
    | st.text(max_size=40)
    | st.builds(str.__add__, st.sampled_from(["40", "42", "45", "451-", "2"]), st.text(max_size=9))
)


@amounts
def test_websocket_events(here: Site, role: Role | None, examples: int) -> None:
    signed_in = role not in (None, Role.sender)
    client = guest(here, role)
    client.headers["Origin"] = here.origin
    url = "ws://127.0.0.1:8765/_nicegui_ws/socket.io/?EIO=4&transport=websocket"

    @given(st.lists(message | st.binary(max_size=40), max_size=6))
    def test(messages: list[str | bytes]) -> None:
        refused = (WebSocketDisconnect, WebSocketDenialResponse, RuntimeError)
        with suppress(*refused), client.websocket_connect(url) as socket:
            assert signed_in, "whoever has no session is connected"
            socket.send_text("40")
            for part in messages:
                (socket.send_bytes if isinstance(part, bytes) else socket.send_text)(part)  # type: ignore[operator]
        assert here.visitor().get("/health").status_code == 200
        assert here.bearer().get("/api/me").status_code == 200

    tried(test, examples)


# -- what readers are told -------------------------------------------------------------------------------------


def test_a_page_says_that_it_is_not_for_programs(here: Site) -> None:
    answer = here.bearer(Role.sender).get("/")
    assert answer.status_code == 403
    assert "needs the role reader" in answer.text


def test_what_failed_does_not_say_where_things_lie(here: Site) -> None:
    w = here.service.workspace
    (root,) = w.home.roots
    (root / "no text.csv").write_text("a,b\n1,2\n1\n")
    (root / "bad.npz").write_bytes(b"PK\x03\x04 no zip")
    np.save(root / "wide.npy", np.zeros((3, 5)))
    (root / "cut.jsonl").write_text('{"text": "a"}\n{"text')
    (root / "pictures").mkdir()
    (root / "pictures" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    for path in sorted(root.iterdir()):
        with suppress(Exception):
            w.add_pool(path.name, path, here.service.agent, OPERATOR)
        with suppress(Exception):
            w.make_agent(path.name, path, OPERATOR)
    here.service.work()
    reader = here.bearer(Role.reader)
    paths = ["/api/pools", "/api/agents", "/api/jobs", "/api/adaptations"]
    paths += [f"/api/pools/{pool.id}/skipped" for pool in w.pools()]
    paths += [f"/api/pools/{pool.id}" for pool in w.pools()]
    assert sum(pool.state == "failed" for pool in w.pools()) >= 3
    for path in paths:
        text = reader.get(path).text
        for secret in (str(root), str(w.folder), str(Path(__file__).parents[2]), "Traceback"):
            assert secret not in text, path
