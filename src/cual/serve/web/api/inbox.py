"""Samples that programs send to an agent, to be judged and kept; and the pools that are made of them.

How they are judged is in `predictions`, what is kept in `cual.serve.rules.inbox`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Query, Response
from pydantic import Field, StrictBool, StrictInt

from cual.data.labels import as_text, unreadable
from cual.errors import BadOption
from cual.serve.rules.inbox.records import (
    LEAST_NEAR,
    MOST_DAYS,
    MOST_MEGABYTES,
    MOST_SAMPLES,
    Arrivals,
    Fate,
    InboxRecord,
    Key,
    Original,
)
from cual.serve.rules.records import PoolRecord
from cual.serve.web.api import answers, features, raw
from cual.serve.web.api.answers import Rows
from cual.serve.web.api.bodies import SAMPLES
from cual.serve.web.api.common import Admin, Body, Id, InWorkspace, Name, Reader, Sender, problems
from cual.serve.web.api.encoded import Features
from cual.serve.web.api.predictions import Asking, FalseAlarms, InAsking, PredictionsOut, judgements
from cual.serve.web.predictions.outcomes import Judgements
from cual.serve.web.predictions.places import Place
from cual.types import AnyArray

router = APIRouter(prefix="/api/agents", tags=["inbox"])
LONGEST_NAME = 200
THREADS = 4
"""Requests that are kept at once: those to one agent take turns, and others are not to wait for a thread."""
_limiter: RunVar[CapacityLimiter] = RunVar("cual.serve.inbox")  # each event loop has its own
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Sent again with the same key within a day, the same request is answered the same.",
    ),
]
Names = Annotated[
    list[str] | None,
    Query(description="What the samples are called, one each; the files of a form have names already."),
]


@dataclass(frozen=True, kw_only=True)
class SentOut(PredictionsOut):
    """What was said of each sample, and what became of it."""

    kept: list[Fate | None]
    """kept: it waits now; again: it was there already, exactly or nearly; passed over: it looks known, and only
    a share of those is kept."""


class Changes(Body):
    """What is to be kept otherwise than before; what is not said stays."""

    originals: StrictBool = True
    known_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.1
    near: Annotated[float, Field(ge=LEAST_NEAR, lt=1, allow_inf_nan=False)] | None = 0.999
    """Cosine of features above which samples are kept once; null for exact duplicates only."""
    most_samples: Annotated[StrictInt, Field(ge=1, le=MOST_SAMPLES)] = 10_000
    most_megabytes: Annotated[StrictInt, Field(ge=1, le=MOST_MEGABYTES)] = 1024
    most_days: Annotated[StrictInt, Field(ge=1, le=MOST_DAYS)] = 90


class Close(Body):
    name: Name


@router.post(
    "/{id}/send", response_model=SentOut, responses=problems(404, 409, 413, 415), openapi_extra=SAMPLES
)
async def send(
    person: Sender,
    asking: InAsking,
    false_alarms: FalseAlarms = None,
    name: Names = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """What `/predict` says of each sample; and the samples wait to become a pool.

    Once this is answered they are kept, whatever happens to the service. Whoever got no answer sends the same
    again with the same `Idempotency-Key`: nothing is kept twice.
    """
    place = asking.places.take(person.id, features.memory(asking.request, asking.limits))
    try:
        answer = await _Sending(asking, place, false_alarms, name, idempotency_key).answer()
        return Response(answer, media_type="application/json")
    finally:
        place.leave()


@router.get("/{id}/inbox", responses=problems(404))
def inbox(person: Reader, workspace: InWorkspace, id: Id) -> InboxRecord:
    """How many samples wait to become a pool, by verdict; and how many came."""
    return workspace.inbox(id)


@router.patch("/{id}/inbox", responses=problems(404, 409))
def set_inbox_policy(person: Admin, workspace: InWorkspace, id: Id, changes: Changes) -> InboxRecord:
    """Say what is kept of what is sent to the agent, from the next sample on."""
    said = {field: getattr(changes, field) for field in changes.model_fields_set}
    workspace.set_inbox_policy(id, replace(workspace.inbox(id).policy, **said), person)
    return workspace.inbox(id)


@router.post("/{id}/inbox/close", status_code=201, responses=problems(404, 409))
def close_inbox(person: Admin, workspace: InWorkspace, id: Id, body: Close) -> PoolRecord:
    """Make a pool of all that waits. A worker makes it ready; what is sent from now on waits for the next."""
    return workspace.close_inbox(id, body.name, person)


@dataclass(frozen=True)
class _Sending:
    """One request on its way: read, looked up, judged, kept."""

    asking: Asking
    place: Place
    false_alarms: float | None
    names: list[str] | None
    key: str | None

    async def answer(self) -> bytes:
        asking = self.asking
        samples = await asking.read()
        digests = await _in_thread(partial(_digests, samples))
        names = _names(samples, self.names, len(digests))
        key = None if self.key is None else Key(self.key, self._body(digests, names))
        if key is not None:
            before = await _in_thread(partial(asking.workspace.sent_before, asking.agent, asking.person, key))
            if before is not None:
                return before
        encoded = await asking.encode(samples, self.place) if isinstance(samples, raw.Raw) else samples
        X = encoded.X if isinstance(encoded, Features) else encoded
        judged = await asking.predictor.judge(
            asking.agent, asking.version, X, asking.person.id, self.place.grow, self.false_alarms
        )
        rows = encoded.rows if isinstance(encoded, Features) else range(len(X))
        arrivals = _arrivals(samples, X, judged, digests, names, rows)
        return await _in_thread(
            partial(
                asking.workspace.send,
                asking.agent,
                arrivals,
                asking.person,
                partial(_answer, encoded, judged),
                key,
            )
        )

    def _body(self, digests: Sequence[str], names: Sequence[str | None]) -> str:
        """The digest of all that is asked."""
        asked = repr((self.asking.version, self.false_alarms, list(digests), list(names)))
        return hashlib.sha256(asked.encode()).hexdigest()


def _digests(samples: AnyArray | raw.Raw) -> list[str]:
    """What samples are told apart by: their kind and their bytes; of features, as float32."""
    if isinstance(samples, raw.Raw):
        kind = samples.kind.encode() + b"\0"
        return [hashlib.sha256(kind + item).hexdigest() for item in samples.items]
    with np.errstate(all="ignore"):  # what overflows is refused where it is judged
        X = np.ascontiguousarray(samples, np.float32)
    return [hashlib.sha256(b"features\0" + row.tobytes()).hexdigest() for row in X]


def _names(samples: AnyArray | raw.Raw, given: list[str] | None, n: int) -> list[str | None]:
    """A name for each sample, for people to read; never a path."""
    if given is not None:
        if len(given) != n:
            raise BadOption(f"{n} samples came with {len(given)} names")
        return [readable_name(name) for name in given]
    if isinstance(samples, raw.Raw) and samples.names:
        return [readable_name(name.decode(errors="replace")) for name in samples.names]
    return [None] * n


def readable_name(name: str) -> str | None:
    """What stands after the last slash of a name, if people can read that.

    >>> [readable_name(name) for name in ("../../etc/owl.jpg", "C:\\\\owl.jpg", "a\\nb", "/")]
    ['owl.jpg', 'owl.jpg', None, None]
    """
    last = as_text(name).replace("\\", "/").rpartition("/")[2].strip()[-LONGEST_NAME:].strip()
    return last if last and not unreadable(last) else None


def _arrivals(
    samples: AnyArray | raw.Raw,
    X: AnyArray,
    judged: Judgements,
    digests: Sequence[str],
    names: Sequence[str | None],
    rows: Sequence[int],
) -> Arrivals:
    """What could be judged of a request; `rows` says which of its rows these are."""
    every = slice(0, len(X))
    scores: list[float | None] = judged.best[:, 3].tolist()
    kind: Original | None = None
    originals: list[bytes] = []
    if isinstance(samples, raw.Raw):
        kind = "picture" if samples.kind == "image" else "text"
        originals = [samples.items[row] for row in rows]
    return Arrivals(
        np.asarray(X, np.float32),
        [digests[row] for row in rows],
        judged.verdicts(every),
        judged.labels(every),
        scores if judged.threshold is not None else [None] * len(X),
        judged.version,
        kind,
        originals,
        [names[row] for row in rows],
    )


def _answer(encoded: AnyArray | Features, judged: Judgements, fates: list[Fate]) -> bytes:
    fields: dict[str, Any] = {**judgements(judged), "kept": Rows(len(fates), 1, fates.__getitem__)}
    told = encoded.spread(fields) if isinstance(encoded, Features) else fields
    return b"".join(answers.pieces(told))


async def _in_thread(work: partial[Any]) -> Any:
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(THREADS)
        _limiter.set(limiter)
    return await run_sync(work, limiter=limiter)
