"""A Label Studio that says what none would: what cannot be used is refused by name, and the rest is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cual.bridges.label_studio import Bridge, FolderSource, LabelStudio
from cual.bridges.label_studio.labelling import answer, config
from cual.client import ServiceError
from cual.errors import BadLabels, CualError
from worlds import World

AT = "2026-01-01T10:00:00Z"


def said(label: str, **more: Any) -> dict[str, Any]:
    region = {"from_name": "class", "type": "choices", "value": {"choices": [label]}}
    return {"result": [region], "updated_at": AT, **more}


def region(value: Any, name: Any = "class") -> dict[str, Any]:
    return {"result": [{"from_name": name, "value": value}], "updated_at": AT}


MALFORMED: dict[str, Any] = {
    "no annotation": None,
    "a word": "cat",
    "a list": ["cat"],
    "no time": {"result": []},
    "no real time": said("cat", updated_at="yesterday"),
    "a number as time": said("cat", updated_at=5),
    "a word as result": {"result": "cat", "updated_at": AT},
    "a number as result": {"result": 5, "updated_at": AT},
    "a result by name": {"result": {"choices": ["cat"]}, "updated_at": AT},
    "a word as region": {"result": ["cat"], "updated_at": AT},
    "a list as value": region(["cat"]),
    "a word as choices": region({"choices": "cat"}),
    "a number as choice": region({"choices": [3]}),
    "choices by name": region({"choices": {"cat": 1}}),
    "a number as text": region({"text": 5}, "new_class"),
    "text by name": region({"text": {"owl": 1}}, "new_class"),
    "no text in a list": region({"text": [None]}, "new_class"),
}


@pytest.mark.parametrize("annotation", MALFORMED.values(), ids=MALFORMED)
def test_malformed_annotations_have_a_name(annotation: Any):
    with pytest.raises(BadLabels):
        answer([annotation], ["cat", "dog"])
    with pytest.raises(BadLabels):
        answer([said("dog"), annotation], ["cat", "dog"])


def test_a_new_class_that_no_file_can_hold_is_refused():
    with pytest.raises(BadLabels, match="control characters"):
        answer([region({"text": ["\ud800"]}, "new_class")], ["cat"])


def test_times_with_and_without_a_zone_are_compared():
    """A time without a zone is UTC, as Label Studio writes it."""
    early, late = (
        said("cat", updated_at="2026-01-01T10:00:00"),
        said("dog", updated_at="2026-01-01T12:30:00+02:00"),
    )
    assert answer([early, late], ["cat", "dog"]) == "dog"
    assert answer([late, said("cat", updated_at="2026-01-01T10:31:00")], ["cat", "dog"]) == "cat"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([AT, "class", "cat"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["result", "updated_at", "value", "from_name", "choices", "text"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.lists(anything, max_size=3))
def test_whatever_is_annotated_only_named_errors_come_out(annotations: list[Any]):
    with suppress(BadLabels):
        answer(annotations, ["cat", "dog"])


# -- a server that is none -------------------------------------------------------------------------------------


class Fake(ThreadingHTTPServer):
    """Answers what it is told to, by the beginning of a path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.tasks: Any = []
        self.answers: dict[str, Any] = {
            "/api/projects/1/": {"id": 1, "label_config": config("text", ["cat", "dog"])},
        }

    def answer(self, path: str) -> Any:
        found = [key for key in self.answers if path.startswith(key)]
        if found:
            return self.answers[max(found, key=len)]
        return {"tasks": self.tasks, "total": len(self.tasks)}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Fake)
        self._send(self.server.answer(self.path))

    def do_POST(self) -> None:
        self._read()
        self._send({})

    def do_PATCH(self) -> None:
        self._read()
        self._send({})

    def _read(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Fake)
        if self.path.endswith("/import"):
            self.server.tasks += [{"annotations": [], **task} for task in body]

    def _send(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def fake() -> Iterator[Fake]:
    with Fake() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_one_malformed_annotation_leaves_the_others(world: World, tmp_path: Path, fake: Fake):
    source, reports = FolderSource(world.adapt(), tmp_path), list[str]()
    with LabelStudio(fake.url, "token") as studio:
        bridge = Bridge(source, studio, project=1, report=reports.append)
        bridge.step()
        first, *others = fake.tasks
        first["annotations"] = [said("cat")]
        for task, wrong in zip(others, MALFORMED.values(), strict=False):
            task["annotations"] = [wrong]
        fake.tasks += [{"meta": 5}, {"meta": {"query": "q0", "sample": ["x"]}}, {"annotations": []}]
        fake.tasks += [{"meta": {"query": "q0", "sample": True}, "annotations": [said("cat")]}]
        bridge.pull()
        assert source.answers() == {first["meta"]["sample"]: "cat"}
        assert sum("cannot be used" in report for report in reports) == min(len(others), len(MALFORMED))
        for gone in (None, 5, "none", {}):  # not the same as deleted: what was told stays
            first["annotations"] = gone
            bridge.pull()
        del first["annotations"]
        bridge.pull()
    assert source.answers() == {first["meta"]["sample"]: "cat"}
    source.close()


@pytest.mark.parametrize("body", [None, [], "tasks", 5, {}, {"tasks": None}, {"tasks": [5], "total": 1}])
def test_tasks_that_are_none(world: World, tmp_path: Path, fake: Fake, body: Any):
    source = FolderSource(world.adapt(), tmp_path)
    with LabelStudio(fake.url, "token") as studio:
        bridge = Bridge(source, studio, project=1)
        fake.answers["/api/tasks/"] = body
        with pytest.raises(ServiceError, match="is no Label Studio"):
            bridge.pull()
    source.close()


@pytest.mark.parametrize(
    "body", [None, [], "x", {}, {"results": 3}, {"results": [{"id": "a"}]}, {"results": [1]}]
)
def test_projects_that_are_none(world: World, tmp_path: Path, fake: Fake, body: Any):
    source = FolderSource(world.adapt(), tmp_path)
    fake.answers["/api/projects/"] = body
    with LabelStudio(fake.url, "token") as studio, pytest.raises(CualError):
        Bridge(source, studio)
    source.close()


@pytest.mark.parametrize(
    "body", [None, [], {}, {"id": 1, "label_config": 7}, {"id": 1, "label_config": "<View"}]
)
def test_a_project_that_is_none(world: World, tmp_path: Path, fake: Fake, body: Any):
    source = FolderSource(world.adapt(), tmp_path)
    fake.answers["/api/projects/1/"] = body
    with LabelStudio(fake.url, "token") as studio, pytest.raises(CualError):
        Bridge(source, studio, project=1)
    source.close()


@pytest.mark.parametrize("body", [None, {}, [5], [{}], [{"headers": None, "id": 1}]])
def test_webhooks_that_are_none(world: World, tmp_path: Path, fake: Fake, body: Any):
    source = FolderSource(world.adapt(), tmp_path)
    fake.answers["/api/webhooks/"] = body
    with LabelStudio(fake.url, "token") as studio:
        bridge = Bridge(source, studio, project=1)
        with pytest.raises(ServiceError):
            bridge.add_webhook("http://127.0.0.1/", "secret")
    source.close()
