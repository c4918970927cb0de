"""Whose pictures are decoded and what is encoded together; and what becomes of rows that go wrong there."""

import io
import json
import threading
from typing import Any

import numpy as np
import pytest

from cual.encoders.base import Kind
from cual.encoders.function import FunctionEncoder
from cual.serve.jobs.decoding import Decoders
from cual.serve.jobs.encoder import ANSWER, BAD, FAILED, GOOD, Answers, Loaded, Work
from cual.serve.jobs.turns import Request, Sample, Turns

BATCH: dict[Kind, int] = {"image": 4, "text": 8}


def turns(decoders: int = 3, **options: Any) -> Turns:
    return Turns(decoders, BATCH, **options)


def request(id: int, person: int, n: int, kind: Kind = "text", encoder: str = "e") -> Request:
    return Request(id, person, encoder, kind, [f"{id}.{row}".encode() for row in range(n)])


def admitted(line: Turns, *requests: Request) -> None:
    for one in requests:
        line.add(one)
        assert line.next_work() is one
        line.admit(one, None)


def names(samples: Request | list[Sample]) -> list[str]:
    assert isinstance(samples, list)
    return [sample.content for sample in samples]


def test_rows_of_several_requests_are_encoded_together_and_people_take_turns() -> None:
    line = turns()
    admitted(line, request(1, 10, 20), request(2, 20, 2), request(3, 30, 1))
    assert names(line.next_work()) == ["1.0", "2.0", "3.0", "1.1", "2.1", "1.2", "1.3", "1.4"]
    assert names(line.next_work()) == [f"1.{row}" for row in range(5, 13)]


def test_encoders_take_turns() -> None:
    line = turns()
    admitted(line, request(1, 1, 20, encoder="a"), request(2, 2, 3, encoder="b"))
    encoders = [line.next_work()[0].request.encoder for _ in range(3)]  # type: ignore[index]
    assert encoders == ["a", "b", "a"]


def test_one_person_never_has_all_decoders() -> None:
    line = turns(decoders=3)
    admitted(line, request(1, 10, 5, "image"))
    first = [line.next_picture(), line.next_picture()]
    assert [sample.content for sample in first] == [b"1.0", b"1.1"]
    waiting = threading.Thread(target=lambda: third.append(line.next_picture()), daemon=True)
    third: list[Sample] = []
    waiting.start()
    admitted(line, request(2, 20, 1, "image"))
    waiting.join(60)
    assert third[0].content == b"2.0"  # not the third of whoever came first
    line.decoded(first[0], "pixels")
    assert line.next_picture().content == b"1.2"


def test_decoding_waits_while_much_is_decoded() -> None:
    line = turns(ahead=2, decoders=5)
    admitted(line, request(1, 1, 5, "image"))
    for _ in range(2):
        line.decoded(line.next_picture(), "pixels")
    found: list[Sample] = []
    waiting = threading.Thread(target=lambda: found.append(line.next_picture()), daemon=True)
    waiting.start()
    assert len(names(line.next_work())) == 2
    waiting.join(60)
    assert found[0].content == b"1.2"


def test_what_nobody_waits_for_is_neither_decoded_nor_encoded() -> None:
    line = turns()
    new, texts, pictures, other = (
        request(1, 1, 3),
        request(2, 1, 3),
        request(3, 1, 3, "image"),
        request(4, 1, 1),
    )
    admitted(line, texts, pictures)
    taken = line.next_picture()
    line.add(new)
    for id in (1, 2, 3, 3, 99):
        line.drop(id)
    line.decoded(taken, "pixels")
    line.admit(new, None)  # found its encoder too late
    admitted(line, other)
    assert names(line.next_work()) == ["4.0"]
    assert not line._requests.keys() - {4}
    assert not len(line._pictures)
    assert not line._ready


class Told:
    """What was answered."""

    def __init__(self) -> None:
        self.pipe, self.dropped = io.BytesIO(), list[int]()
        self.answers = Answers(self.pipe, self.dropped.append)

    def rows(self) -> dict[tuple[int, int], tuple[int, Any]]:
        data, found = self.pipe.getvalue(), dict[tuple[int, int], tuple[int, Any]]()
        while data:
            id, row, kind, length = ANSWER.unpack(data[: ANSWER.size])
            body = data[ANSWER.size : ANSWER.size + length]
            found[id, row] = kind, np.frombuffer(body, np.float32) if kind == GOOD else json.loads(body)
            data = data[ANSWER.size + length :]
        return found


def lengths(texts: list[str]) -> list[list[float]]:
    """An encoder that some texts upset."""
    if "bang" in texts:
        raise ValueError("a secret of ours")
    return [[len(text), np.inf if text == "endless" else 1.0] for text in texts]


@pytest.fixture
def told() -> Told:
    return Told()


def worked(told: Told, texts: list[str]) -> None:
    line = turns()
    work = Work(line, told.answers, Decoders(1))
    asked = Request(7, 1, "e", "text", [text.encode() for text in texts])
    line.add(asked)
    assert line.next_work() is asked
    line.admit(asked, Loaded(FunctionEncoder(lengths, "lengths", "text"), None))
    rows = line.next_work()
    assert isinstance(rows, list)
    work._encode(rows)


def test_rows_that_upset_the_encoder_fail_alone(told: Told) -> None:
    worked(told, ["a", "bang", "ccc", "endless"])
    rows = told.rows()
    assert [rows[7, row][0] for row in range(4)] == [GOOD, BAD, GOOD, BAD]
    assert rows[7, 2][1].tolist() == [3.0, 1.0]
    assert rows[7, 1][1]["error"] == ""  # no error of ours: told to the log alone
    assert rows[7, 3][1] == {"error": "BadFeatures", "detail": "the encoder makes no numbers of it"}


def test_an_encoder_that_is_not_ours_is_never_begun(told: Told) -> None:
    line = turns()
    work = Work(line, told.answers, Decoders(1))
    asked = request(1, 1, 2, encoder="python:os:system@0123456789ab")
    line.add(asked)
    assert line.next_work() is asked
    work._begin(asked)
    assert told.rows()[1, 0][0] == FAILED
    assert "is not one that the service runs" in told.rows()[1, 0][1]["detail"]
    assert told.dropped == [1]
