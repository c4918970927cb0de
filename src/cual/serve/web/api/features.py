"""Features in the body of a request, as JSON or .npy: read as they arrive, refused as soon as possible.

Texts come as JSON too; what becomes of them and of pictures is in `raw`.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from pydantic_core import from_json

from cual.errors import BadFeatures, ForeignFile, TooLarge
from cual.serve.web import arrays
from cual.serve.web.api import raw
from cual.serve.web.predictions.heavy import run_heavy
from cual.serve.web.predictions.outcomes import check_table
from cual.serve.web.settings import MIB, Limits
from cual.types import AnyArray

JSON_COST = 16
"""Bytes that a byte of JSON takes while it is read: at most 13 for numbers, measured, and those of the rows."""
JSON_ROWS = 2**15
"""Rows in JSON: each is a list, which takes 20 times its text and is looked at by the garbage collector."""
_INLINE = 64 * 1024  # bytes of a body that are read in no time; more are read in a thread
_FORM = 'the body is an object with the one field "features", a list of rows of numbers'
_NUMBERS_AT_ONCE = 2**16  # no other thread runs while lists become an array


def memory(request: Request, limits: Limits) -> int:
    """Bytes that reading a request takes at most."""
    limit, cost = (limits.predict_json, JSON_COST) if _is_json(request) else (limits.predict, 1)
    if raw.is_raw(request):
        cost = raw.COST
    length = _length(request)
    return cost * (limit if length is None else min(limit, length))


async def read(request: Request, limits: Limits, check: Callable[[int, int], None]) -> AnyArray | raw.Raw:
    """The samples of a request: features, or texts that are yet to be encoded.

    `check` is told rows and width of a large .npy before its numbers are taken, and refuses them where there
    are too many; it may take its time.
    """
    if _is_json(request):
        body = await _json_body(request, limits.predict_json)
        if raw.holds_texts(body):
            return await run_heavy(raw.read_texts, body, limits)
        return read_json(body) if len(body) <= _INLINE else await run_heavy(read_json, body)
    return arrays.read_npy(await _npy_body(request, check))


async def _json_body(request: Request, limit: int) -> bytearray:
    too_large = TooLarge(f"JSON is taken up to {limit / MIB:g} MiB at a time; send .npy (application/x-npy)")
    if (_length(request) or 0) > limit:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise too_large
    return body


async def _npy_body(request: Request, check: Callable[[int, int], None]) -> bytearray:
    length, body, header, parts = _length(request), bytearray(), None, request.stream()
    async for part in parts:
        body += part
        if header is not None:
            continue
        try:
            header = _table_header(body)
        except ForeignFile:
            if length is None:  # it may be too large on top of that, which is said first
                async for _ in parts:
                    pass
            raise
        if header is not None and (length is None or length > _INLINE):
            await run_in_threadpool(check, *header.shape)
    return body


def _table_header(body: bytearray) -> arrays.Header | None:
    header = arrays.read_header(body)
    if header is not None:
        arrays.check_plain(header.dtype, "the body")
        check_table(header.shape, header.dtype)
    return header


def read_json(body: bytes | bytearray) -> AnyArray:
    """Rows in JSON as an array.

    >>> read_json(b'{"features": [[1, 2.5]]}').tolist()
    [[1.0, 2.5]]
    """
    # counted before anything is made of it: numbers are cheap, lists and objects are not
    lists = body.count(b"]")
    if body.count(b"{") > 1:
        raise BadFeatures(_FORM)
    if lists - 1 > JSON_ROWS:
        raise TooLarge(f"JSON is taken up to {JSON_ROWS} rows at a time; send .npy (application/x-npy)")
    try:
        body_json: Any = from_json(body)
    except ValueError as error:
        raise BadFeatures(f"the body is no JSON: {error}") from None
    if not isinstance(body_json, dict) or list(cast(dict[str, Any], body_json)) != ["features"]:
        raise BadFeatures(_FORM)
    return _table(body_json["features"], lists)


def _table(rows: Any, lists: int) -> AnyArray:
    # a list more than there are rows is a list in place of a number
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in cast(list[Any], rows)):
        raise BadFeatures(_FORM)
    rows = cast(list[list[Any]], rows)
    if not rows:
        raise BadFeatures("features holds no rows")
    if len({len(row) for row in rows}) != 1:
        raise BadFeatures("the rows of features have different lengths")
    if lists != 1 + len(rows):
        raise BadFeatures(_FORM)
    width = len(rows[0])
    table, step = np.empty((len(rows), width)), max(1, _NUMBERS_AT_ONCE // max(1, width))
    for start in range(0, len(rows), step):
        try:
            table[start : start + step] = rows[start : start + step]
        except (TypeError, ValueError, OverflowError):
            raise BadFeatures("the rows of features hold something that is no number, or too large") from None
    return table


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("application/json", "")


def _length(request: Request) -> int | None:
    """Of the body, where it is said. That it is a number was checked when it came in."""
    length = request.headers.get("content-length")
    return None if length is None else int(length)
