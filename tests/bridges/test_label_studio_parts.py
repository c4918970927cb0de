"""Parts of the bridge to Label Studio that can be tried without one: configs, annotations, webhooks, memory."""

import json
import socket
import threading
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cual import SKIP
from cual.bridges.label_studio import FolderSource, Receiver
from cual.bridges.label_studio.labelling import (
    CANNOT_TELL,
    Question,
    answer,
    confidence,
    config,
    extended,
    label,
    missing,
    task,
)
from cual.bridges.label_studio.receiver import LARGEST, SECRET
from cual.bridges.label_studio.showing import showing
from cual.data.files import write
from cual.data.table import Table
from cual.errors import BadImage, BadLabels, BadOption, DamagedFile, FolderInUse
from worlds import World

# -- what annotators see ---------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=20)


@given(st.lists(NAMES, unique=True, max_size=5), NAMES)
def test_every_class_can_be_chosen(names: list[str], new: str) -> None:
    text = config("image", names)
    assert missing(text, "image", names) == []
    more = missing(text, "image", [*names, new])
    assert more == ([] if new in names else [new])
    shown = [tag.get("value") for tag in xml.fromstring(extended(text, more)).iter("Choice")]
    assert shown == [*names, *more, CANNOT_TELL]


def test_whole_numbers_can_be_chosen() -> None:
    assert missing(config("text", [0, 1]), "text", [0, 1, 2]) == ["2"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<View", "no XML"),
        ("<View><Choices name='other' toName='x'/></View>", "has no <Choices"),
        ("<View><Choices name='class' toName='x'/></View>", "must show"),
        (config("text", ["a"]), "must show"),
    ],
)
def test_configs_that_do_not_fit(text: str, why: str) -> None:
    with pytest.raises(BadOption, match=why):
        missing(text, "image", ["a"])


def test_no_class_is_called_like_the_way_out() -> None:
    with pytest.raises(BadLabels):
        config("image", ["cat", CANNOT_TELL])


@given(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30))
def test_the_less_is_known_the_lower_the_score(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= confidence(high) <= confidence(low) <= 1


def test_a_task_says_whose_question_it_is() -> None:
    made = task(Question("q1", 1, 17, 2.0, "novel", 3), "text", "hello", "key")
    assert made["meta"] == {"query": "q1", "sample": 17}
    assert (made["data"]["text"], made["data"]["adaptation"], made["data"]["round"]) == ("hello", "key", 2)
    assert made["predictions"][0]["result"][0]["value"] == {"choices": ["3"]}
    assert task(Question("q1", 1, 17, 2.0, "novel", None), "text", "", "k")["predictions"][0]["result"] == []


# -- what annotators say ---------------------------------------------------------------------------------------


def said(choice: str | None = None, typed: Any = None, at: str = "10:00:00", **more: Any) -> dict[str, Any]:
    result: list[Any] = []
    if choice is not None:
        result.append({"from_name": "class", "type": "choices", "value": {"choices": [choice]}})
    if typed is not None:
        result.append({"from_name": "new_class", "type": "textarea", "value": {"text": typed}})
    return {"result": result, "updated_at": f"2026-01-01T{at}Z", **more}


@pytest.mark.parametrize(
    ("annotations", "meant"),
    [
        ([], None),
        ([said("cat")], "cat"),
        ([said("cat", ["owl"])], "owl"),  # the suggestion was left as it was, and something else typed
        ([said("cat", [" "])], "cat"),
        ([said("cat", [])], "cat"),
        ([said(typed="barn  owl ")], "barn owl"),  # older versions have a text in place of a list
        ([said(typed=[CANNOT_TELL])], SKIP),
        ([said(CANNOT_TELL)], SKIP),
        ([said()], SKIP),
        ([said("cat", was_cancelled=True)], SKIP),
        ([said("cat", at="10:00:00"), said("dog", at="10:00:00.5")], "dog"),
        ([said("cat", at="11:00:00"), said("dog", at="10:00:00")], "cat"),
        ([said("cat"), said("dog", at="11:00:00", was_cancelled=True)], "cat"),
        ([said("cat", ground_truth=True), said("dog", at="11:00:00")], "cat"),
    ],
)
def test_what_annotations_come_to(annotations: list[Any], meant: Any) -> None:
    assert answer(annotations, ["cat", "dog"]) == meant


def test_labels_have_the_type_of_the_classes() -> None:
    assert label(" 7 ", [0, 1]) == 7
    assert label("0", ["0"]) == "0"
    assert label("two  blanks", ["two  blanks"]) == "two  blanks"
    for wrong in ("seven", "1.5"):
        with pytest.raises(BadLabels, match="not a whole number"):
            label(wrong, [0, 1])
    for wrong in ("", " ", "x" * 101, "a\x00b", "a\u202eb"):
        with pytest.raises(BadLabels, match=r"the name of a class (is empty|has 101|holds control)"):
            label(wrong, ["cat"])


# -- webhooks --------------------------------------------------------------------------------------------------


def sent(receiver: Receiver, line: str, **headers: str) -> bytes:
    """What is answered to the head of a request, with no body after it; httpx would not send some of these."""
    url = httpx.URL(receiver.url)
    lines = [line + " HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    with socket.create_connection((url.host, url.port or 0)) as held:
        held.sendall("\r\n".join([*lines, "", ""]).encode())
        got = b""
        while more := held.recv(1000):
            got += more
    return got


def test_messages_that_are_refused() -> None:
    """Only who knows the secret wakes the bridge, with a message that is not too large, at the one address."""
    wake, here = threading.Event(), "POST /label-studio"
    with Receiver(wake) as receiver:
        secret = receiver.secret
        right = {"X_Cual_Secret": secret}
        refused: list[tuple[str, dict[str, str], int]] = [
            (here, {}, 403),
            (here, {"X_Cual_Secret": ""}, 403),
            (here, {"X_Cual_Secret": secret[:-1]}, 403),
            (here, {"X_Cual_Secret": secret + "x"}, 403),
            (here, {"X_Cual_Secret": "Ü"}, 403),
            (here, {"Content_Length": "999999999999"}, 403),
            (here + "/../etc/passwd", right, 404),
            (here + "?x=1", right, 404),
            ("POST http://127.0.0.1/label-studio", right, 404),
            (here, right, 411),
            (here, {**right, "Transfer_Encoding": "chunked"}, 411),
            (here, {**right, "Content_Length": "-1"}, 411),
            (here, {**right, "Content_Length": "1e3"}, 411),
            (here, {**right, "Content_Length": "²"}, 411),
            (here, {**right, "Content_Length": str(LARGEST + 1)}, 413),
            (here, {**right, "Content_Length": "9" * 50}, 413),
            ("GET /label-studio", right, 501),
        ]
        for line, headers, status in refused:
            got = sent(receiver, line, **headers)
            assert got.split(b" ", 2)[1] == str(status).encode(), (line, headers, got)
            assert b"Python" not in got
        assert not wake.is_set()
        assert httpx.post(receiver.url, headers={SECRET: secret}, json={"action": "x"}).status_code == 204
        assert wake.is_set()


def test_somebody_who_sends_nothing_keeps_nobody_waiting() -> None:
    wake = threading.Event()
    with Receiver(wake) as receiver:
        url = httpx.URL(receiver.url)
        with socket.create_connection((url.host, url.port or 0)) as idle:
            idle.sendall(b"POST /label-studio HTTP/1.1\r\n")
            assert httpx.post(receiver.url, headers={SECRET: receiver.secret}).status_code == 204
    with Receiver(wake) as one, Receiver(wake) as other:
        assert one.secret != other.secret


# -- what the folder remembers ---------------------------------------------------------------------------------


def test_what_was_told_is_remembered(world: World, tmp_path: Path) -> None:
    first = FolderSource(world.adapt(), tmp_path)
    with pytest.raises(FolderInUse):
        FolderSource(world.adapt(), tmp_path)
    one, two, *_ = first.ask()
    first.tell(one.query, {one.sample: "owl", two.sample: SKIP})
    assert first.classes() == ["cat", "dog", "owl"]
    first.close()

    from cual import Adaptation

    again = FolderSource(Adaptation.load(tmp_path), tmp_path)
    assert (again.key, again.answers()) == (first.key, {one.sample: "owl", two.sample: SKIP})
    assert {q.sample for q in again.ask()}.isdisjoint({one.sample, two.sample})
    again.close()

    # the adaptation was put back to its beginning: what it does not know is told again
    back = FolderSource(world.adapt(), tmp_path)
    assert back.answers() == {}
    back.close()
    (tmp_path / "label-studio.json").write_text(json.dumps({"key": 1}))
    with pytest.raises(DamagedFile):
        FolderSource(world.adapt(), tmp_path)


def test_what_there_is_to_see(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.new("RGB", (30, 20)).save(photos / "a.jpg")
    (photos / "b.jpg").write_bytes(b"no picture")
    kind, show = showing(photos)
    assert (kind, show("a.jpg")[:23]) == ("image", "data:image/webp;base64,")
    with pytest.raises(BadImage):
        show("b.jpg")
    (tmp_path / "t.csv").write_text("id,text\n5,hello\n6,<b>\n")
    kind, show = showing(tmp_path / "t.csv")
    assert (kind, show(5), show("6")) == ("text", "hello", "<b>")
    with pytest.raises(LookupError):
        show(7)
    write(tmp_path / "f.npz", Table(np.zeros((2, 3), np.float32)))
    kind, show = showing(tmp_path / "f.npz")
    assert (kind, show(1)) == ("text", "1")


def test_a_broken_picture_is_shown_as_one(world: World, tmp_path: Path) -> None:
    def broken(sample: Any) -> str:
        raise BadImage(f"<script>{sample}")

    source = FolderSource(world.adapt(), tmp_path, "image", broken)
    shown = source.show(source.ask()[0])
    assert shown.startswith("data:image/svg+xml,")
    assert "<" not in shown
    assert "script%3E" not in shown.replace("%26lt%3Bscript%26gt%3B", "")
