"""Which version of an agent predicts: candidates are compared, promoted, discarded; and the way back."""

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from fastapi import Path as InPath
from pydantic import Field, StrictInt, StrictStr

from cual.serve.rules.records import AgentRecord
from cual.serve.rules.shadows import ShadowRecord
from cual.serve.rules.stages import LEAST_SHARE, LONGEST_REASON, StageRecord
from cual.serve.web.api.common import LARGEST_ID, Admin, Body, Id, InWorkspace, Reader, problems

router = APIRouter(prefix="/api/agents/{id}", tags=["agents"])
Number = Annotated[StrictInt, Field(ge=0, le=LARGEST_ID)]
InNumber = Annotated[int, InPath(ge=0, le=LARGEST_ID)]
Reason = Annotated[StrictStr, Field(max_length=LONGEST_REASON)]
NeededReason = Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_REASON)]

_KEEP = {"Cache-Control": "private, no-cache"}  # once it is deleted, nobody sees it


class Rollout(Body):
    """What is left out stays as it is."""

    new_versions: Literal["live", "candidate"] | None = None
    """What versions begin as that adaptations make."""
    shadow_share: Annotated[float, Field(ge=LEAST_SHARE, le=1, allow_inf_nan=False)] | None = None
    """Of samples that a candidate predicts as well."""


class RollBack(Body):
    version: Number
    why: Reason = ""
    live: Number | None = None
    """The version that is live; refused where it is another one by now."""


class Promotion(Body):
    version: Number
    live: Number
    """The version that is live, and was compared; refused where it is another one by now."""
    why: NeededReason


class Discard(Body):
    version: Number
    why: NeededReason


@router.put("/rollout", responses=problems(404, 409))
def set_rollout(person: Admin, workspace: InWorkspace, id: Id, new: Rollout) -> AgentRecord:
    """Say whether versions that adaptations make are live at once, and how much a candidate predicts."""
    return workspace.set_rollout(id, person, new.new_versions, new.shadow_share)


@router.post("/promote", responses=problems(404, 409))
def promote(person: Admin, workspace: InWorkspace, id: Id, new: Promotion) -> AgentRecord:
    """Make a candidate live; the version that was is retired."""
    return workspace.promote(id, new.version, new.live, new.why, person)


@router.post("/roll-back", responses=problems(404, 409))
def roll_back(person: Admin, workspace: InWorkspace, id: Id, to: RollBack) -> AgentRecord:
    """Make a retired version live again. Nothing is deleted."""
    return workspace.roll_back(id, to.version, person, to.why, to.live)


@router.post("/discard", responses=problems(404, 409))
def discard(person: Admin, workspace: InWorkspace, id: Id, given_up: Discard) -> AgentRecord:
    """Give up a candidate: its file goes, its row of the history stays."""
    return workspace.discard(id, given_up.version, given_up.why, person)


@router.get("/stages", responses=problems(404))
def stages(person: Reader, workspace: InWorkspace, id: Id) -> list[StageRecord]:
    """Who made which version live, or gave one up, when and why; the latest first."""
    return workspace.stage_changes(id)


@router.get("/shadow", responses=problems(404))
def shadow(person: Reader, workspace: InWorkspace, id: Id) -> ShadowRecord:
    """Where the latest candidate differs from the live version."""
    return workspace.shadow(id)


@router.get("/versions/{version}/shadow", responses=problems(404))
def shadow_of(person: Reader, workspace: InWorkspace, id: Id, version: InNumber) -> ShadowRecord:
    """The same of a version that is, or was, a candidate."""
    return workspace.shadow(id, version)


@router.get(
    "/shadow/pictures/{example}",
    responses={
        **problems(404),
        200: {"content": {"image/webp": {"schema": {"type": "string", "format": "binary"}}}},
    },
    response_class=Response,
)
def shadow_picture(
    person: Reader, workspace: InWorkspace, id: Id, example: Annotated[int, InPath(ge=1, le=LARGEST_ID)]
) -> Response:
    """A small picture of a sample of which the two say different things."""
    return Response(workspace.shadow_picture(id, example), media_type="image/webp", headers=_KEEP)
