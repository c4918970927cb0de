"""Long answers as JSON text, written a few rows at a time: never as a list of all their numbers."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from cual.serve.web.predictions.heavy import run_heavy

NUMBERS_AT_ONCE = 2**14
"""So few that writing them keeps other threads waiting for two milliseconds."""


@dataclass(frozen=True)
class Rows:
    """A list in an answer, of which any part can be had."""

    n: int
    width: int
    """Numbers of a row."""
    take: Callable[[slice], list[Any]]


def response(fields: Mapping[str, Any], leave: Callable[[], None]) -> Response:
    """An object as JSON; `leave` is called when it is written. Long ones are written in threads, while sent.

    These are our own numbers: FastAPI would check each of them.
    """
    if sum(value.n * value.width for value in fields.values() if isinstance(value, Rows)) > NUMBERS_AT_ONCE:
        return _Long(fields, leave)
    try:
        return Response(b"".join(pieces(fields)), media_type="application/json")
    finally:
        leave()


def pieces(fields: Mapping[str, Any]) -> Iterator[bytes]:
    """The text of an object, piece by piece.

    >>> b"".join(pieces({"version": 0, "labels": Rows(3, 1, lambda rows: ["a", "b", "c"][rows])}))
    b'{"version":0,"labels":["a","b","c"]}'
    """
    separator = b"{"
    for name, value in fields.items():
        yield separator + to_json(name) + b":"
        yield from _list(value) if isinstance(value, Rows) else (to_json(value),)
        separator = b","
    yield b"}"


def _list(rows: Rows) -> Iterator[bytes]:
    step = max(1, NUMBERS_AT_ONCE // max(1, rows.width))
    separator = b"["
    for start in range(0, rows.n, step):
        yield separator + to_json(rows.take(slice(start, start + step)))[1:-1]
        separator = b","
    yield b"]"


async def _in_threads(texts: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (text := await run_heavy(next, texts, None)) is not None:
        yield text


class _Long(StreamingResponse):
    def __init__(self, fields: Mapping[str, Any], leave: Callable[[], None]) -> None:
        super().__init__(_in_threads(pieces(fields)), media_type="application/json")
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # however it ends: whoever asked may have gone
            self._leave()
