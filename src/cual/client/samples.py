"""Samples on their way to a service: features, pictures or texts in requests that are not too large."""

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from cual import errors
from cual.client.records import RemoteVerdict
from cual.errors import BadFeatures, CualError, TooLarge

Samples = npt.ArrayLike | Sequence[Path] | Sequence[bytes] | Sequence[str]
"""Features (n, width); files of pictures, or their bytes; or texts."""
_CHUNK = 8 * 2**20  # bytes of features or pictures in one request
_MOST_PICTURES, _MOST_TEXTS = 64, 512
Send = Callable[[dict[str, Any], slice], dict[str, Any]]
"""Sends a body with these rows."""


def in_parts(X: Samples, send: Send, most: int | None = None) -> Iterator[dict[str, Any]]:
    """What a service answers to samples, part by part; `send` is told the body of each and its rows.

    `most` is how many texts or rows of features are sent at a time, if not as many as fit.
    """
    kind = _kind(X)
    if kind == "text":
        return _halved(
            cast(Sequence[str], X), most or _MOST_TEXTS, lambda part: {"json": {"texts": list(part)}}, send
        )
    if kind == "picture":
        return _pictures(cast("Sequence[Path | bytes]", X), send)
    features = np.asarray(X)
    if features.ndim != 2 or not features.size:
        raise BadFeatures(f"X has the shape {features.shape}; features are a table (samples, width)")
    step = max(1, _CHUNK // max(1, features[:1].nbytes))
    return _halved(features, min(step, most or step), _npy, send)


def whole(parts: list[dict[str, Any]], name: str) -> list[Any]:
    """A list of all parts; the error of a sample that could not be encoded.

    >>> whole([{"labels": ["owl"]}, {"labels": ["fox", "owl"]}], "labels")
    ['owl', 'fox', 'owl']
    """
    before = 0
    for part in parts:
        for failed in part.get("failed") or ():
            kind = getattr(errors, failed["error"], CualError)
            raise kind(f"sample {before + failed['row']} cannot be used: {failed['detail']}")
        before += len(part[name])
    return [value for part in parts for value in part[name]]


def told_of(part: dict[str, Any]) -> list[RemoteVerdict]:
    """What a part of an answer says of each sample."""
    n = len(part["labels"])
    kept: list[Any] = part.get("kept") or [None] * n
    failed = {row["row"]: row["detail"] for row in part.get("failed") or ()}
    columns = [
        part[name] or [None] * n for name in ("labels", "probabilities", "calibrated", "verdicts", "scores")
    ]
    return [
        RemoteVerdict(
            *row,
            threshold=part["threshold"],
            version=part["version"],
            error=failed.get(number),
            kept=kept[number],
        )
        for number, row in enumerate(zip(*columns, strict=True))
    ]


def _kind(X: Samples) -> str:
    """What samples are, by the first of them.

    >>> _kind(["a text"]), _kind([b"..."]), _kind([Path("a.jpg")]), _kind([[0.5, 1.0]])
    ('text', 'picture', 'picture', 'features')
    """
    if isinstance(X, str | bytes | Path):
        raise BadFeatures("give a list of pictures or texts, also for one")
    if not isinstance(X, list | tuple) or not X:
        return "features"
    items = cast(Sequence[Any], X)
    for kind, types in (("text", str), ("picture", (Path, bytes))):
        if isinstance(items[0], types):
            if not all(isinstance(item, types) for item in items):
                raise BadFeatures(f"X begins with a {kind} and goes on with something else")
            return kind
    return "features"


def _halved(
    X: Any, step: int, body: Callable[[Any], dict[str, Any]], send: Send, before: int = 0
) -> Iterator[dict[str, Any]]:
    """Send so many at a time; fewer, where the service takes no more: it knows the agent.

    `before` is how many rows were sent already.
    """
    start = 0
    while start < len(X):
        part = X[start : start + step]
        try:
            answer = send(body(part), slice(before + start, before + start + len(part)))
        except TooLarge:
            if len(part) == 1:
                raise
            step = len(part) // 2
            continue
        yield answer
        start += step


def _pictures(X: "Sequence[Path | bytes]", send: Send) -> Iterator[dict[str, Any]]:
    """Read files as they are sent, so many bytes at a time."""
    part: list[bytes] = []
    before = 0
    for item in X:
        data = item.read_bytes() if isinstance(item, Path) else item
        if part and (len(part) == _MOST_PICTURES or sum(map(len, part)) + len(data) > _CHUNK):
            yield from _halved(part, len(part), _form, send, before)
            before += len(part)
            part = []
        part.append(data)
    yield from _halved(part, len(part), _form, send, before)


def _form(pictures: Sequence[bytes]) -> dict[str, Any]:
    return {"files": [("files", (f"{number}", picture)) for number, picture in enumerate(pictures)]}


def _npy(array: npt.NDArray[Any]) -> dict[str, Any]:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return {"content": buffer.getvalue(), "headers": {"Content-Type": "application/x-npy"}}
