"""For whoever runs the service: health, metrics, jobs, backup, and the API's own description."""

import asyncio
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

import cual
from cual.serve.rules.records import JobRecord, Role
from cual.serve.web.api.common import Admin, Id, InPredictor, InSettings, InWorkspace, Reader, problems
from cual.serve.web.observing import Metrics
from cual.serve.web.predictions.encoding import Encodings
from cual.serve.web.readiness import Readiness
from cual.serve.web.security.middleware import CLIENT
from cual.serve.web.security.visitors import allowed, person_of
from cual.serve.web.settings import is_loopback

router = APIRouter(tags=["operations"])
_PART = 2**20


@dataclass(frozen=True)
class Health:
    """Whether the service can do its work. Nothing secret: anybody may ask."""

    status: Literal["ok", "failing"]
    database: Literal["ok", "failing"]
    worker: Literal["alive", "stalled", "dead"]
    """Stalled: it is there, but gives no sign of life."""
    version: str
    predictions: Literal["failing"] | None = None
    """Only there while they are not computed."""
    encoder: Literal["failing"] | None = None
    """Only there while the process that encodes pictures and texts has died and is not replaced."""
    writes: Literal["failing"] | None = None
    """Only there while nothing can be written, to the database or to the workspace's folder."""
    background: list[str] | None = None
    """Only there while something has ended that should always run: what it does."""


@dataclass(frozen=True)
class Life:
    """That the process answers, and nothing more."""

    status: Literal["ok"]
    version: str


@router.get("/live")
async def live() -> Life:
    """Whether the process answers: nothing is tried, nobody is waited for. For who restarts what hangs."""
    return Life("ok", cual.__version__)


@router.get(
    "/health",
    response_model_exclude_none=True,
    responses={503: {"model": Health, "description": "It cannot"}},
)
async def health(request: Request, response: Response, predictor: InPredictor) -> Health:
    """Whether it can be used: database, a write, the worker's signs of life, a prediction, what encodes
    pictures and texts, and what runs beside; 503 if not. Answers soon, whatever hangs."""
    state = request.app.state
    readiness: Readiness = state.readiness
    tried = (readiness.database, readiness.writes, readiness.predictions)
    reads, writes, predicted = await asyncio.gather(*(probe.good() for probe in tried))
    predicts = predictor.working() and (predicted or not reads)  # who cannot read cannot tell
    encodings: Encodings = state.encodings
    encodes = encodings.working()
    ended = [background.name for background in state.background if not background.working()]
    worker = "stalled" if state.worker_silent() else "alive"
    if not state.worker_alive():
        worker = "dead"
    good = worker == "alive" and reads and writes and predicts and encodes and not ended
    response.status_code = 200 if good else 503
    return Health(
        "ok" if good else "failing",
        "ok" if reads else "failing",
        worker,
        cual.__version__,
        None if predicts else "failing",
        None if encodes else "failing",
        None if writes else "failing",
        ended or None,
    )


@router.get("/metrics", responses=problems(), response_class=PlainTextResponse)
def metrics(request: Request, settings: InSettings) -> Response:
    """Counts in the format of Prometheus, for readers and for programs on the same machine."""
    # behind a proxy everybody seems to come from the machine itself
    if settings.proxy is not None or not is_loopback(request.scope[CLIENT]):
        allowed(person_of(request), Role.reader)
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/api/jobs", responses=problems())
def jobs(person: Reader, workspace: InWorkspace) -> list[JobRecord]:
    """What the worker has done, does and will do, the latest first."""
    return workspace.jobs()


@router.post("/api/jobs/{id}/cancel", responses=problems(404, 409))
def cancel_job(person: Admin, workspace: InWorkspace, id: Id) -> JobRecord:
    """End a job that waits or runs. The pool or adaptation has failed then, and can be tried again."""
    return workspace.cancel_job(id, person)


@router.post("/api/jobs/{id}/retry", status_code=201, responses=problems(404, 409))
def retry_job(person: Admin, workspace: InWorkspace, id: Id) -> JobRecord:
    """Try again what a failed job was for; the new job."""
    return workspace.retry_job(id, person)


@router.post(
    "/api/backup",
    responses={
        **problems(409),
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
    },
    response_class=Response,
)
def backup(person: Admin, workspace: InWorkspace) -> StreamingResponse:
    """The whole workspace as one file, for `cual serve NEW --restore FILE`."""
    file = workspace.uploads / f"{uuid.uuid4().hex}.backup"
    try:
        packed = workspace.backup(file, person).open("rb")
    finally:
        file.unlink(missing_ok=True)  # it stays until it is closed, which it is however the request ends
    name = f"cual-{datetime.now(UTC):%Y%m%d-%H%M%S}.backup"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(os.fstat(packed.fileno()).st_size),
    }
    return StreamingResponse(_parts(packed), headers=headers, media_type="application/octet-stream")


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(_PART):
            yield part


@router.get("/api/openapi.json", include_in_schema=False)
def description(request: Request, person: Reader) -> JSONResponse:
    """This API, as OpenAPI describes it."""
    described: dict[str, Any] = request.app.openapi()
    return JSONResponse(described)
