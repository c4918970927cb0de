"""Agents, their versions and their predictions. What an agent computes, `cual.serve.predicting` computes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StrictInt, TypeAdapter, ValidationError
from pydantic_core import to_json

from cual.agent import Agent
from cual.errors import BadFeatures, CualError, DamagedFile, ForeignFile, NewerFormat
from cual.serve import arrays, uploads
from cual.serve.api.common import (
    LARGEST_ID,
    Admin,
    Body,
    Id,
    InPredictor,
    InSettings,
    InWorkspace,
    Name,
    Reader,
    problems,
)
from cual.serve.records import AgentRecord, VersionRecord
from cual.types import AnyArray, Label

router = APIRouter(prefix="/api/agents", tags=["agents"])
Version = Annotated[int | None, Query(ge=0, le=LARGEST_ID, description="The current one if not given.")]
_INLINE = 64 * 1024  # bytes of a body that are read in no time; more are read in a thread
_ROWS = TypeAdapter(dict[str, list[list[float]]])
_FEATURES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["features"],
                    "additionalProperties": False,
                    "properties": {
                        "features": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "array", "items": {"type": "number"}},
                        }
                    },
                }
            },
            "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
_AGENT_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class RollBack(Body):
    version: Annotated[StrictInt, Field(ge=0, le=LARGEST_ID)]


@dataclass(frozen=True)
class PredictionsOut:
    version: int
    """Which version of the agent said so."""
    labels: list[Label]
    probabilities: list[float]
    """Of the label of each sample."""


@dataclass(frozen=True)
class ProbabilitiesOut:
    version: int
    classes: list[Label]
    probabilities: list[list[float]]
    """One row per sample, columns in the order of `classes`."""


@dataclass(frozen=True)
class NoveltyOut:
    version: int
    threshold: float
    scores: list[float]
    """Above the threshold a sample is probably of a class that the agent does not know."""
    novel: list[bool]


@router.get("", responses=problems())
def agents(person: Reader, workspace: InWorkspace) -> list[AgentRecord]:
    return workspace.agents()


@router.post("", status_code=201, responses=problems(409, 413), openapi_extra=_AGENT_FILE)
async def add_agent(
    request: Request,
    person: Admin,
    workspace: InWorkspace,
    settings: InSettings,
    name: Annotated[Name, Query(min_length=1, max_length=100)],
) -> AgentRecord:
    """Upload an agent's file, as `Agent.save` and `cual fit` write it."""
    async with uploads.arriving(workspace.uploads) as folder:
        await uploads.receive_one(request.stream(), folder / "agent", settings.limits.agent)
        agent = await run_in_threadpool(_load, folder / "agent")
        return await run_in_threadpool(workspace.add_agent, name, agent)


@router.get("/{id}", responses=problems(404))
def agent(person: Reader, workspace: InWorkspace, id: Id) -> AgentRecord:
    return workspace.agent(id)


@router.get("/{id}/versions", responses=problems(404))
def versions(person: Reader, workspace: InWorkspace, id: Id) -> list[VersionRecord]:
    """All versions, with what led to each and how good it is on held-out samples."""
    return workspace.versions(id)


@router.post("/{id}/roll-back", responses=problems(404, 409))
def roll_back(person: Admin, workspace: InWorkspace, id: Id, to: RollBack) -> AgentRecord:
    """Make another version the current one. Nothing is deleted."""
    workspace.roll_back(id, to.version)
    return workspace.agent(id)


@router.post(
    "/{id}/predict", response_model=PredictionsOut, responses=problems(404, 413, 415), openapi_extra=_FEATURES
)
async def predict(
    request: Request, person: Reader, predictor: InPredictor, id: Id, version: Version = None
) -> Response:
    """The class of each sample, and how probable it is."""
    found = await predictor.predict(id, version, await _features(request))
    best = found.probabilities.argmax(axis=1).tolist()
    chosen = np.take_along_axis(found.probabilities, np.array(best, np.int64)[:, None], axis=1)[:, 0]
    return _json(PredictionsOut(found.version, [found.classes[i] for i in best], chosen.tolist()))


@router.post(
    "/{id}/probabilities",
    response_model=ProbabilitiesOut,
    responses=problems(404, 413, 415),
    openapi_extra=_FEATURES,
)
async def probabilities(
    request: Request, person: Reader, predictor: InPredictor, id: Id, version: Version = None
) -> Response:
    """How probable each class is for each sample."""
    found = await predictor.predict(id, version, await _features(request))
    return _json(ProbabilitiesOut(found.version, found.classes, found.probabilities.tolist()))


@router.post(
    "/{id}/novelty", response_model=NoveltyOut, responses=problems(404, 413, 415), openapi_extra=_FEATURES
)
async def novelty(
    request: Request, person: Reader, predictor: InPredictor, id: Id, version: Version = None
) -> Response:
    """How far each sample lies from everything that the agent knows."""
    found = await predictor.novelty(id, version, await _features(request))
    above = (found.scores > found.threshold).tolist()
    return _json(NoveltyOut(found.version, found.threshold, found.scores.tolist(), above))


def _json(told: Any) -> Response:
    """Straight to bytes: these are our own numbers, and FastAPI would check each of them."""
    return Response(to_json(told), media_type="application/json")


async def _features(request: Request) -> AnyArray:
    """The samples of a request: JSON, or the bytes of a .npy file."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    read = _read_json if kind in ("application/json", "") else arrays.read_npy
    return read(body) if len(body) <= _INLINE else await run_in_threadpool(read, body)


def _read_json(data: bytes) -> AnyArray:
    try:
        said = _ROWS.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(part)[:50] for part in first["loc"])
        raise BadFeatures(f"{where or 'the body'}: {first['msg']}") from None
    if list(said) != ["features"]:
        raise BadFeatures('the body is an object with the one field "features", a list of rows of numbers')
    rows = said["features"]
    if not rows:
        raise BadFeatures("features holds no rows")
    if len({len(row) for row in rows}) != 1:
        raise BadFeatures("the rows of features have different lengths")
    return np.array(rows, dtype=np.float64)


def _load(file: Path) -> Agent:
    """An agent that has shown that it can predict: later it would be too late to find out that it cannot."""
    try:
        agent = Agent.load(file)
        for label in agent.names.names:
            agent.names.check(label)
        blank = np.zeros((1, agent.width), np.float32)
        told = (agent.predict_proba(blank), agent.novelty(blank), np.array(agent.threshold.value))
        if not all(np.isfinite(numbers).all() for numbers in told):
            raise DamagedFile("the agent's predictions are no numbers")
    except (ForeignFile, NewerFormat) as error:
        raise type(error)(str(error).replace(str(file), "the file")) from None
    except CualError as error:
        raise DamagedFile(str(error).replace(str(file), "the file")) from None
    except Exception as error:  # a file made by hand can go wrong in any way there is
        raise DamagedFile(f"the file holds no agent that works: {type(error).__name__}") from error
    return agent
