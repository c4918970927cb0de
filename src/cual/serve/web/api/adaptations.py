"""Adaptations: started, watched, stopped, finished. Questions and answers are in `questions`."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import Field, StrictFloat, StrictInt

from cual.serve.rules.records import AdaptationRecord
from cual.serve.web.api.common import (
    LARGEST_ID,
    Admin,
    Body,
    Id,
    InWorkspace,
    Reader,
    problems,
)
from cual.types import Label

router = APIRouter(prefix="/api/adaptations", tags=["adaptations"])
Key = Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]
# A report is a whole page made by us; it needs its own styles and small scripts, and nothing of the service.
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; font-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


Labels = Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)] | Annotated[StrictFloat, Field(gt=0, le=1)]
"""A whole number is a number of labels, a fraction a share of the pool."""


class Start(Body):
    agent: Key
    pool: Key
    budget: Labels
    overlap: Annotated[StrictInt, Field(ge=1, le=100)] = 1
    """How many people each question is put to; every opinion is charged."""
    version: Annotated[StrictInt, Field(ge=0, le=LARGEST_ID)] | None = None
    """What the answers build on; null for the live version."""


class Budget(Body):
    budget: Labels
    """In all, not in addition."""


@dataclass(frozen=True)
class MapOut:
    """Where samples lie in two dimensions; all lists are equally long."""

    x: list[float]
    y: list[float]
    row: list[int]
    state: list[Literal["old", "ambiguous", "novel", "asked", "pseudo"]]
    label: list[Label | None]


@dataclass(frozen=True)
class ScoresOut:
    """The histogram of a round's scores."""

    edges: list[float]
    counts: list[int]
    t_inner: float | None
    round: int | None
    rounds: int


@router.get("", responses=problems())
def adaptations(person: Reader, workspace: InWorkspace) -> list[AdaptationRecord]:
    return workspace.adaptations()


@router.post("", status_code=201, responses=problems(404, 409))
def start(person: Admin, workspace: InWorkspace, new: Start) -> AdaptationRecord:
    """Begin to adapt an agent's live version, or another one, to a pool."""
    return workspace.start(new.agent, new.pool, new.budget, person, new.overlap, new.version)


@router.get("/{id}", responses=problems(404))
def adaptation(person: Reader, workspace: InWorkspace, id: Id) -> AdaptationRecord:
    return workspace.adaptation(id)


@router.post("/{id}/budget", responses=problems(404, 409))
def raise_budget(person: Admin, workspace: InWorkspace, id: Id, wanted: Budget) -> AdaptationRecord:
    """Allow more labels in all; questions that have ended, or were stopped, go on."""
    return workspace.raise_budget(id, wanted.budget, person)


@router.post("/{id}/stop", responses=problems(404, 409))
def stop(person: Admin, workspace: InWorkspace, id: Id) -> AdaptationRecord:
    """Ask no more questions."""
    workspace.stop(id, person)
    return workspace.adaptation(id)


@router.post("/{id}/finish", responses=problems(404, 409))
def finish(person: Admin, workspace: InWorkspace, id: Id) -> AdaptationRecord:
    """Have the next version made; watch the state until it is "finished"."""
    workspace.finish(id, person)
    return workspace.adaptation(id)


@router.post("/{id}/drop", responses=problems(404, 409))
def drop(person: Admin, workspace: InWorkspace, id: Id) -> AdaptationRecord:
    """Give it up. Answers are kept; no version comes of it."""
    workspace.drop(id, person)
    return workspace.adaptation(id)


@router.post("/{id}/retry", responses=problems(404, 409))
def retry(person: Admin, workspace: InWorkspace, id: Id) -> AdaptationRecord:
    """Try again what has failed."""
    workspace.retry(id, person)
    return workspace.adaptation(id)


@router.get("/{id}/ledger", responses=problems(404))
def ledger(person: Reader, workspace: InWorkspace, id: Id) -> list[dict[str, Any]]:
    """What was asked, when, with which score, and what was answered."""
    return workspace.ledger(id)


@router.get("/{id}/history", responses=problems(404))
def history(person: Reader, workspace: InWorkspace, id: Id) -> list[dict[str, Any]]:
    """One row per round."""
    return workspace.history(id)


@router.get("/{id}/map", responses=problems(404))
def map(person: Reader, workspace: InWorkspace, id: Id) -> MapOut:
    """The pool in two dimensions."""
    return MapOut(**workspace.map(id))


@router.get("/{id}/scores", responses=problems(404))
def scores(
    person: Reader,
    workspace: InWorkspace,
    id: Id,
    round: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
) -> ScoresOut:
    """The histogram of scores with T_inner, of the last round if none is named."""
    return ScoresOut(**workspace.scores(id, round))


@router.get("/{id}/report", responses=problems(404, 409), response_class=HTMLResponse)
def report(person: Reader, workspace: InWorkspace, id: Id) -> HTMLResponse:
    """All about it as one page that needs nothing else."""
    return HTMLResponse(workspace.report(id), headers={"Content-Security-Policy": _REPORT_POLICY})
