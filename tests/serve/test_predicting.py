"""Predictions under attack: arrays that are none, requests that cost too much, and a thread that dies."""

import asyncio
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from cual import Agent, Client
from cual.errors import BadFeatures, NotFound, PredictionsStopped, TooLarge
from cual.serve.rules.records import Role
from cual.serve.rules.workspace import Workspace
from cual.serve.web.api.features import JSON_COST, JSON_ROWS, read_json
from cual.serve.web.predictions.predicting import Predictor, Shape
from cual.serve.web.predictions.queueing import Queue, Request
from cual.serve.web.settings import MIB, Limits
from running import Running, running, until
from serving import Service, make_service
from visiting import Site, site, stream
from worlds import World, make_world

pytestmark = pytest.mark.attacks

ROUTES = ("predict", "probabilities", "novelty")
NPY = {"Content-Type": "application/x-npy"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One workspace for all: predictions change nothing."""
    workspace = Workspace.open(tmp_path_factory.mktemp("predicting") / "workspace")
    yield make_service(workspace, make_world())
    workspace.close()


@pytest.fixture(scope="module")
def here(served: Service) -> Iterator[Site]:
    with site(served) as held:
        yield held


def npy(array: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


def crafted(descr: Any, shape: Any, order: Any = False, version: int = 1, data: bytes = bytes(1024)) -> bytes:
    """A .npy body whose header says whatever it is told to say."""
    header = f"{{'descr': {descr!r}, 'fortran_order': {order!r}, 'shape': {shape!r}, }}\n".encode()
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def post(here: Site, body: bytes, route: str = "predict", role: Role = Role.reader) -> Any:
    return here.bearer(role).post(f"/api/agents/1/{route}", content=body, headers=NPY)


def works(here: Site) -> bool:
    """Whether somebody else still gets right predictions."""
    X = here.service.world.pool[:3]
    told = post(here, npy(X), role=Role.annotator)
    expected = here.service.workspace.load_agent(1).predict(X).tolist()
    return told.status_code == 200 and told.json()["labels"] == expected


# -- arrays that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("shape", [(), (16,), (0, 16), (3, 0), (0, 0), (1, 1, 16), (2, 2, 2, 2)])
def test_what_is_no_table_is_refused_and_nobody_else_notices(
    here: Site, shape: tuple[int, ...], route: str
) -> None:
    answer = post(here, npy(np.zeros(shape)), route)
    assert (answer.status_code, answer.json()["error"]) == (422, "BadFeatures")
    assert works(here)


DESCRIPTIONS = [
    *("<f2", "<f4", "<f8", "<f16", ">f4", "=f4", "|b1", "|i1", "|u1", "<i8", ">u8", "<u2"),
    *("<c8", "<c16", "<M8[s]", "<M8", "<m8[D]", "|S4", "|S0", "<U4", "<U0", "|V4", "|V0", "|O", "O"),
    *("", "f", "float", "<f3", "<f12", "(2,)f4", "(0,)f4", "f4,i4", "x", "<f4 ", "\0", "é", "f4" * 500),
    *([("a", "<f4")], [("a", "<f4"), ("b", "<i4")], [("a", "<f4", (2,))], [("", "|V4")], [("é", "<f4")], []),
    *(("<f4", (16,)), ("<f4", (0,)), ("<f4", (-1,)), ("<f4", 10**9), ("|O", (2,)), [("a", "|O")]),
    *(None, 5, True, b"<f4", {"names": ["a"], "formats": ["<f4"], "offsets": [10**9]}, ("<f4",)),
]
SHAPES = [
    *((), (16,), (1, 16), (2, 16), (16, 2), (0, 16), (1, 0), (0, 10**30), (10**30, 0), (10**30, 16)),
    *((-1, 16), (1, -16), (-1, -16), (True, 16), (1, True), (1.0, 16), ("1", 16), (None, 16), (2**63, 16)),
    *((1,) * 33, (1,) * 65, (2**32, 2**32), [1, 16], 16, "x", {}, (1, (16,)), (1j, 16)),
]
HEADERS = st.tuples(
    st.one_of(st.sampled_from(DESCRIPTIONS), st.text(max_size=6)),
    st.one_of(
        st.sampled_from(SHAPES),
        st.lists(st.integers(-(2**70), 2**70), max_size=4).map(tuple),
        st.tuples(st.integers(0, 4), st.just(16)),
    ),
    st.sampled_from([False, True, 0, None, "C"]),
    st.sampled_from([1, 2, 3, 0, 9, 255]),
)


def check_header(here: Site, header: tuple[Any, Any, Any, int]) -> None:
    """A crafted body is refused, or holds numbers of the agent's width and is answered as such."""
    answer = post(here, crafted(*header))
    assert answer.status_code in (200, 422), (header, answer.text)
    if answer.status_code == 200:
        rows, width = header[1]
        assert (width, len(answer.json()["labels"])) == (16, int(rows)), header
    else:
        assert answer.json()["error"] in ("BadFeatures", "ForeignFile", "DamagedFile"), header


def test_crafted_headers_are_refused_or_answered(here: Site) -> None:
    for descr in DESCRIPTIONS:
        for shape in SHAPES:
            check_header(here, (descr, shape, False, 1))
    for version in (0, 2, 3, 4, 255):
        check_header(here, ("<f4", (2, 16), True, version))
    assert works(here)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(header=HEADERS)
@example(header=("<f4", (2, 16), True, 1))
def test_headers_that_nobody_has_tried_are_refused_or_answered(here: Site, header: Any) -> None:
    check_header(here, header)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    body=st.binary(max_size=64), kept=st.integers(0, 200), flipped=st.integers(0, 127), to=st.integers(0, 255)
)
def test_bodies_that_are_cut_off_or_damaged_are_refused_or_answered(
    here: Site, body: bytes, kept: int, flipped: int, to: int
) -> None:
    good = bytearray(npy(np.zeros((1, 16), np.float32)))
    good[flipped] = to
    for damaged in (body, b"\x93NUMPY" + body, bytes(good), bytes(good[:kept])):
        assert post(here, damaged).status_code in (200, 422)


# -- JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b'{"features": [[[1, 2]]]}',
        b'{"features": [[[1]], [[2]]]}',
        b'{"features": [[{"a": 1}]]}',
        b'{"features": {"a": 1}}',
        b'{"features": [1, 2]}',
        b'{"features": [["[]"]]}',
        b'{"features": [["x"]]}',
        b'{"features": [[]], "more": []}',
        b'{"features": [[1]]',
        b'{"features": [[1' + b"0" * 5000 + b"]]}",
        b'{"features": [[1' + b"0" * 400 + b"]]}",
        b"[" * 10**6,
        b'{"a":' * 10**5,
        b"\xff\xfe",
    ],
)
def test_json_that_is_no_table_is_refused(here: Site, body: bytes) -> None:
    with pytest.raises(BadFeatures):
        read_json(body)
    answer = here.bearer().post("/api/agents/1/predict", content=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "BadFeatures")


def test_json_of_too_many_rows_is_refused_before_it_is_read(here: Site) -> None:
    body = b'{"features": [' + b"[]," * JSON_ROWS + b"[]]}"
    answer = here.bearer().post("/api/agents/1/predict", content=body)
    assert answer.status_code == 413
    assert "send .npy" in answer.json()["detail"]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.one_of(st.floats(allow_nan=False), st.integers(-(2**70), 2**70)), min_size=2, max_size=2),
        min_size=1,
    )
)
def test_json_is_read_to_the_last_bit(rows: list[list[float]]) -> None:
    assert read_json(json.dumps({"features": rows}).encode()).tolist() == [
        [float(x) for x in row] for row in rows
    ]


# -- a thread that goes on -------------------------------------------------------------------------------------


@dataclass
class Fate:
    """An agent's loading, which can be made to go wrong in any way."""

    world: World
    happens: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.agent = self.world.agent()

    def shape(self, agent: int, version: int | None) -> Shape:
        if agent != 1:
            raise NotFound(f"there is no agent {agent}")
        return Shape(version or 0, 16, 2)

    def load(self, agent: int, version: int) -> Agent:
        self.happens()
        return self.agent

    def fails(self, error: BaseException) -> None:
        def happens() -> None:
            raise error

        self.happens = happens


@pytest.fixture
def fate(world: World) -> Fate:
    return Fate(world)


@contextmanager
def predicting(fate: Fate, **options: Any) -> Iterator[Predictor]:
    predictor = Predictor(fate.shape, fate.load, **options)
    try:
        yield predictor
    finally:
        predictor.close()


def ask(predictor: Predictor, *tables: np.ndarray) -> list[Any]:
    """What people get who ask at the same time: an answer or an error each."""

    async def together() -> list[Any]:
        asked = [predictor.predict(1, None, X, person) for person, X in enumerate(tables)]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(together())


def right(told: Any, fate: Fate, X: np.ndarray) -> bool:
    return np.allclose(told.probabilities, fate.agent.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), StopIteration(), KeyError(1), NotFound("x")])
@pytest.mark.parametrize("where", ["load", "shape", "computed", "charge", "queue"])
def test_whatever_goes_wrong_is_told_to_those_who_wait_and_it_goes_on(
    fate: Fate, error: Exception, where: str
) -> None:
    X, broken = fate.world.pool[:5], True

    def happens(*_: Any) -> None:
        if broken:
            raise error

    if where == "load":
        fate.happens = happens
    with predicting(fate, computed=happens if where == "computed" else lambda rows: None) as predictor:
        if where == "shape":
            predictor._shape = lambda agent, version: (happens(), fate.shape(agent, version))[1]
        if where == "queue":
            predictor._pace.rows = lambda group: (happens(), 64)[1]
        charge = happens if where == "charge" else lambda memory: None

        async def one() -> Any:
            return await predictor.predict(1, None, X, charge=charge)

        for _ in range(2):
            with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
                asyncio.run(one())
        broken = False
        assert right(asyncio.run(one()), fate, X)
        assert predictor.working()


def test_rows_that_are_wrong_are_named_in_later_blocks_too(fate: Fate) -> None:
    X = np.zeros((1000, 16))
    X[777, 3] = np.nan
    with predicting(fate) as predictor:
        bad, good = ask(predictor, X, fate.world.pool)
        assert "row 777 holds NaN" in str(bad)
        assert right(good, fate, fate.world.pool)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_is_replaced_and_whoever_waited_is_told(fate: Fate) -> None:
    X, deaths = fate.world.pool[:5], []
    with predicting(fate, stopped=lambda: deaths.append(1), pause=0) as predictor:
        assert right(ask(predictor, X)[0], fate, X)
        fate.fails(SystemExit())  # what no handler of exceptions catches
        for told in ask(predictor, X, X, X):
            assert isinstance(told, PredictionsStopped)
        fate.happens = lambda: None
        assert predictor.working()
        assert right(ask(predictor, X)[0], fate, X)
        assert deaths == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_health_says_that_predictions_are_not_computed_and_recovers(served: Service, fate: Fate) -> None:
    with site(served) as held, predicting(fate, pause=3600) as long, predicting(fate, pause=0) as short:
        for predictor in (long, short):
            held.app.state.predictor = predictor
            fate.happens = lambda: None
            assert works(held)
            fate.fails(SystemExit())
            answer = post(held, npy(fate.world.pool[:3]))
            assert (answer.status_code, answer.json()["error"]) == (503, "PredictionsStopped")
            assert int(answer.headers["retry-after"]) > 0
        fate.happens = lambda: None
        held.app.state.predictor = long  # which waits for an hour before it tries again
        answer = held.visitor().get("/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "failing")
        assert answer.json()["predictions"] == "failing"
        assert post(held, npy(fate.world.pool[:3])).status_code == 503
        held.app.state.predictor = short
        until(lambda: held.visitor().get("/health").status_code == 200)
        assert "predictions" not in held.visitor().get("/health").json()
        assert works(held)


def test_a_block_that_never_ends_keeps_nobody_waiting(fate: Fate) -> None:
    X, end, begun = fate.world.pool[:5], threading.Event(), threading.Event()
    fate.happens = lambda: (begun.set(), end.wait())[0]
    with predicting(fate, patience=0.2) as predictor:
        assert all(isinstance(told, PredictionsStopped) for told in ask(predictor, X, X))
        assert begun.is_set()
        assert not predictor.working()
        assert isinstance(ask(predictor, X)[0], PredictionsStopped)
        end.set()
        until(predictor.working)
        assert right(ask(predictor, X)[0], fate, X)


def test_an_unexpected_error_is_a_problem_like_any_other(served: Service, fate: Fate) -> None:
    with site(served) as held, predicting(fate) as predictor:
        held.app.state.predictor = predictor
        fate.fails(ValueError("a secret of ours"))
        answer = post(held, npy(fate.world.pool[:3]))
        assert (answer.status_code, answer.json()["error"]) == (500, "Internal")
        assert "secret" not in answer.text
        fate.happens = lambda: None
        assert works(held)


# -- how much is taken -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "rows"),
    [(Limits(numbers=160), 10), (Limits(answers=14), 7), (Limits(numbers=160, answers=14), 7)],
)
@pytest.mark.parametrize("route", ROUTES)
def test_more_rows_than_are_computed_at_a_time_are_refused(
    served: Service, limits: Limits, rows: int, route: str
) -> None:
    with site(served, limits=limits) as held:
        client, X = held.bearer(Role.reader), np.zeros((rows + 1, 16))
        bodies = [(npy(X), NPY), (json.dumps({"features": X.tolist()}).encode(), {})]
        for body, kind in bodies:
            answer = client.post(f"/api/agents/1/{route}", content=body, headers=kind)
            assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")
            assert f"takes {rows} rows at a time" in answer.json()["detail"]
        assert post(held, npy(X[1:]), route).status_code == 200


@pytest.mark.parametrize(
    ("status", "header"),
    [
        (413, crafted("<f4", (1048577, 16), data=b"")),
        (413, crafted("|i1", (4 * 1048576, 16), data=b"")),
        (422, crafted("<f4", (16, 1048576), data=b"")),
        (422, crafted("<f4", (16777216,), data=b"")),
        (422, crafted("<c8", (1048577, 16), data=b"")),
        (422, b"\x93NUMPY\x02\x00\xff\xff\xff\xff"),
        (422, b"nothing of the kind"),
    ],
)
def test_what_is_too_much_is_refused_before_it_is_here(here: Site, status: int, header: bytes) -> None:
    pieces = iter([header[:9], header[9:], *[bytes(65536)] * 900])
    bearer = {"Authorization": f"Bearer {here.token(Role.reader)}", "Content-Length": str(60 * MIB), **NPY}
    answer, taken = stream(here.app, "/api/agents/1/predict", pieces, bearer)
    assert (answer, taken < 4) == (status, True)


def test_json_takes_less_than_npy_and_says_so(served: Service) -> None:
    with site(served, limits=Limits(predict_json=1000)) as held:
        body = {"features": [[0.0] * 16] * 20}
        answer = held.bearer().post("/api/agents/1/predict", json=body)
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")
        assert "send .npy" in answer.json()["detail"]
        bearer = {"Authorization": f"Bearer {held.token(Role.reader)}", "Content-Type": "application/json"}
        status, taken = stream(held.app, "/api/agents/1/predict", iter([b" " * 600] * 100), bearer)
        assert (status, taken < 4) == (413, True)
        assert post(held, npy(np.zeros((20, 16)))).status_code == 200


def halfway(held: Site, meanwhile: Callable[[], None]) -> int:
    """Send a good request as a reader, do something when half of it is sent, and say how it ended."""
    body = npy(np.zeros((100, 16)))

    def pieces() -> Iterator[bytes]:
        yield body[:1000]
        meanwhile()
        yield body[1000:]

    bearer = {"Authorization": f"Bearer {held.token(Role.reader)}", "Content-Length": str(len(body)), **NPY}
    return stream(held.app, "/api/agents/1/predict", pieces(), bearer)[0]


def test_one_person_does_not_get_all_places(served: Service) -> None:
    with site(served, limits=Limits(requests_person=1)) as held:
        told = []

        def meanwhile() -> None:
            told.append(post(held, npy(np.zeros((1, 16)))))
            told.append(post(held, npy(np.zeros((1, 16))), role=Role.annotator))

        for _ in range(2):
            assert halfway(held, meanwhile) == 200
            own, others = told[-2:]
            assert (own.status_code, own.json()["error"]) == (429, "TooManyRequests")
            assert int(own.headers["retry-after"]) > 0
            assert others.status_code == 200


def test_all_together_do_not_get_more_places_than_there_are(served: Service) -> None:
    with site(served, limits=Limits(memory=100_000)) as held:
        told = []

        def meanwhile() -> None:
            told.append(post(held, npy(np.zeros((1, 16))), role=Role.annotator))

        assert halfway(held, meanwhile) == 200
        assert (told[0].status_code, told[0].json()["error"]) == (503, "Overloaded")
        assert int(told[0].headers["retry-after"]) > 0
        assert works(held)


def test_a_place_is_given_back_however_a_request_ends(served: Service) -> None:
    bearer = {"Authorization": "", **NPY}
    with site(served, limits=Limits(requests_person=1, numbers=16 * 20000, answers=40000)) as held:
        bearer["Authorization"] = f"Bearer {held.token(Role.reader)}"

        def hang_up(message: Any) -> None:
            if message["type"] == "http.response.body":
                raise OSError("the connection is gone")

        def broken() -> Iterator[bytes]:
            yield npy(np.zeros((9, 16)))[:200]
            raise OSError("the connection is gone")

        long = npy(np.zeros((20000, 16), np.float32))
        for pieces, sent in ((iter([long]), hang_up), (broken(), lambda message: None)):
            with pytest.raises(Exception):  # noqa: B017, PT011  whatever the server makes of it
                stream(held.app, "/api/agents/1/probabilities", pieces, bearer, sent)
        assert post(held, b"nonsense").status_code == 422
        assert post(held, npy(np.zeros((20001, 16)))).status_code == 413
        assert post(held, long, "probabilities").status_code == 200
        assert post(held, npy(np.zeros((1, 16)))).status_code == 200


def test_long_answers_count_as_well(served: Service) -> None:
    with site(served, limits=Limits(memory_person=80_000)) as held:
        assert post(held, npy(np.zeros((3000, 16), np.int8))).status_code == 429
        assert post(held, npy(np.zeros((100, 16), np.int8))).status_code == 200


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_long_answers_are_the_same_as_short_ones(here: Site, route: str, order: Any) -> None:
    X = np.asarray(np.random.default_rng(0).normal(0, 2, (20000, 16)), np.float32, order=order)
    answer = post(here, npy(X), route)
    assert "content-length" not in answer.headers  # it was written while it was sent
    told, agent = answer.json(), here.service.workspace.load_agent(1)
    assert to_json(told) == answer.content
    parts = [post(here, npy(X[start : start + 2000]), route) for start in range(0, 20000, 2000)]
    assert all("content-length" in part.headers for part in parts)
    for name, value in told.items():
        if isinstance(value, list) and name != "classes":
            together = [row for part in parts for row in part.json()[name]]
            words = name in ("labels", "novel", "verdicts")
            same = value == together if words else np.allclose(value, together, rtol=1e-4, atol=1e-4)
            assert same, name
    if route == "predict":
        assert told["labels"] == agent.predict(X).tolist()
    elif route == "probabilities":
        assert np.allclose(told["probabilities"], agent.predict_proba(X), atol=1e-6)
    else:
        assert np.allclose(told["scores"], agent.novelty(X), rtol=1e-4)


def test_the_client_sends_as_many_rows_as_are_taken(served: Service) -> None:
    with site(served, limits=Limits(answers=30)) as held:
        X = served.world.pool
        client = Client("http://127.0.0.1", held.token(Role.reader))
        client._http = held.bearer(Role.reader)  # type: ignore[assignment]  the same, without a network
        assert client.predict(1, X).tolist() == served.workspace.load_agent(1).predict(X).tolist()
    with site(served, limits=Limits(predict=100)) as held:
        client._http = held.bearer(Role.reader)  # type: ignore[assignment]
        with pytest.raises(TooLarge):
            client.predict(1, X)


# -- who comes next --------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    asked=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(1, 300)), min_size=1, max_size=12
    ),
    room=st.integers(1, 100),
)
def test_every_row_has_its_turn_once_and_nobody_is_passed_over(
    asked: list[tuple[int, int, int]], room: int
) -> None:
    loop, queue, waiting = asyncio.new_event_loop(), Queue(), Counter[int]()
    requests = [
        Request("predict", agent, 0, np.zeros((rows, 1)), person, loop.create_future(), lambda memory: None)
        for person, agent, rows in asked
    ]
    for request in requests:
        queue.add(request)
    rows_of_request: dict[Request, list[int]] = {request: [] for request in requests}
    while queue:
        pieces = queue.take(lambda group: room)
        assert sum(piece.rows.stop - piece.rows.start for piece in pieces) <= room
        for piece in pieces:
            rows_of_request[piece.request] += range(piece.rows.start, piece.rows.stop)
        served = {piece.request.person for piece in pieces}
        for person in {request.person for request in requests if request.left}:
            waiting[person] = 0 if person in served else waiting[person] + 1
            assert waiting[person] <= 5, "there are five people"
    assert all(rows == list(range(len(request.X))) for request, rows in rows_of_request.items())
    loop.close()


def test_small_requests_of_others_are_computed_between_the_blocks_of_a_large_one(fate: Fate) -> None:
    large, small = np.zeros((400_000, 16), np.float16), fate.world.pool[:3]

    async def race(predictor: Predictor) -> int:
        first = asyncio.ensure_future(predictor.novelty(1, None, large, person=1))
        served = 0
        while not first.done():
            for person in (2, 3):
                assert right(await predictor.predict(1, None, small, person), fate, small)
            served += not first.done()
        assert len((await first).scores) == len(large)
        return served

    with predicting(fate) as predictor:
        assert asyncio.run(race(predictor)) > 3


def test_all_blocks_are_of_one_version(fate: Fate) -> None:
    versions = iter(range(10**6))
    shape = fate.shape
    fate.shape = lambda agent, version: shape(agent, next(versions) if version is None else version)  # type: ignore[method-assign]
    asked: list[int] = []
    with predicting(fate) as predictor:
        load = predictor._load
        predictor._load = lambda agent, version: (asked.append(version), load(agent, version))[1]
        ask(predictor, np.zeros((50_000, 16)))
    assert len(asked) > 3
    assert len(set(asked)) == 1


def test_what_nobody_waits_for_any_more_is_not_computed(fate: Fate) -> None:
    rows: list[int] = []

    async def leave(predictor: Predictor) -> None:
        asked = asyncio.ensure_future(predictor.predict(1, None, np.zeros((10**6, 16), np.int8)))
        while not rows:
            await asyncio.sleep(0.001)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await predictor.predict(1, None, fate.world.pool, person=2)

    with predicting(fate, computed=rows.append) as predictor:
        asyncio.run(leave(predictor))
    assert sum(rows) < 10**6


# -- a real service --------------------------------------------------------------------------------------------

CLASSES = (3, 16, 100)
LARGE = 63 * MIB


@dataclass
class Attacked:
    """A service in a process of its own, and somebody who may only read."""

    service: Running
    token: str
    agents: dict[int, int]

    def attack(self, classes: int, route: str, body: bytes, kind: str) -> tuple[int, int]:
        """Send a body; the status, and how long the answer was."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        url = f"{self.service.url}/api/agents/{self.agents[classes]}/{route}"
        with httpx.stream("POST", url, content=body, headers=headers, timeout=300) as answer:
            return answer.status_code, sum(map(len, answer.iter_bytes()))

    @contextmanager
    def watched(self) -> Iterator[list[int]]:
        """Ask for the health all the while. Gives a list, which in the end holds the bytes that it grew by."""
        pid, over, statuses, grown = self.service.process.pid, threading.Event(), list[int](), list[int]()

        def look() -> None:
            with httpx.Client(base_url=self.service.url, timeout=300) as client:
                while not over.is_set() or not statuses:
                    statuses.append(client.get("/health").status_code)

        Path(f"/proc/{pid}/clear_refs").write_text("5")  # sets the peak back to what it takes now
        before = memory(pid, "VmRSS")
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            try:
                yield grown
            finally:
                over.set()
                looking.result()
        grown.append(memory(pid, "VmHWM") - before)
        assert set(statuses) == {200}


def memory(pid: int, which: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder, rng = tmp_path_factory.mktemp("attacked"), np.random.default_rng(0)
    with running(folder / "workspace") as service:
        admin, agents = Client(service.url, service.token("Amy", "admin")), {}
        for n in CLASSES:
            X = np.concatenate([rng.normal(rng.normal(0, 3, 16), 1, (6, 16)) for _ in range(n)])
            y = [f"class {c}" for c in range(n) for _ in range(6)]
            Agent.fit(X, y, method="cual", head_options={"hidden": 16, "epochs": 1}).save(folder / f"{n}.agent")
            agents[n] = admin.add_agent(f"of {n} classes", folder / f"{n}.agent").id
        held = Attacked(service, service.token("eve", "reader"), agents)
        small = npy(np.zeros((1, 16)))
        for n in CLASSES:  # loads them: that takes memory, and is no attack
            for route in ROUTES:
                assert held.attack(n, route, small, NPY["Content-Type"])[0] == 200
        yield held


def rows_of(dtype: str, size: int = LARGE) -> bytes:
    return npy(np.zeros((size // np.dtype(dtype).itemsize // 16, 16), dtype))


@pytest.mark.parametrize(("classes", "route"), list(zip(CLASSES, ROUTES, strict=True)))
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_body_of_63_mib_of_many_rows_is_refused_without_taking_it_in(
    attacked: Attacked, dtype: str, classes: int, route: str
) -> None:
    body = rows_of(dtype)
    with attacked.watched() as grown:
        assert attacked.attack(classes, route, body, NPY["Content-Type"])[0] == 413
    assert grown[0] < 32 * MIB


@pytest.mark.parametrize("classes", CLASSES)
def test_the_most_that_is_taken_is_answered_in_bounded_memory(attacked: Attacked, classes: int) -> None:
    rows = min(2**24 // 16, 2**22 // classes)
    with attacked.watched() as grown:
        status, size = attacked.attack(
            classes, "probabilities", npy(np.zeros((rows, 16), np.float16)), NPY["Content-Type"]
        )
    assert (status, size > 40 * MIB) == (200, True)
    assert grown[0] < 160 * MIB


def test_many_at_once_are_let_in_one_by_one(attacked: Attacked) -> None:
    body = rows_of("float32")
    with attacked.watched() as grown, ThreadPoolExecutor(6) as pool:
        told = list(pool.map(lambda _: attacked.attack(3, "predict", body, NPY["Content-Type"])[0], range(6)))
    assert set(told) <= {200, 429}
    assert 200 in told
    assert grown[0] < 320 * MIB


@pytest.mark.parametrize("size", [LARGE, 4 * MIB])
@pytest.mark.parametrize("unit", [b"0,", b"1.5,", b'"",', b"null,", b"[],", b"[0],", b'{"a":1},', b"1"])
def test_json_takes_bounded_memory_whatever_it_holds(attacked: Attacked, unit: bytes, size: int) -> None:
    start, end = (b'{"features":[', b"[0]]}") if unit[:1] in (b"[", b"{") else (b'{"features":[[', b"0]]}")
    body = start + unit * ((size - 100) // len(unit)) + end
    with attacked.watched() as grown:
        status, _ = attacked.attack(3, "predict", body, "application/json")
    assert status == 413 if size == LARGE else status in (413, 422)
    assert grown[0] < 2 * JSON_COST * 4 * MIB
