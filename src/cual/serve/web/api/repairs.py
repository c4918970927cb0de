"""Repairs of an agent that a worker does: teaching, forgetting, splitting. Merging and removing: `classes`."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StrictBool, StrictInt, StrictStr

from cual.repair.splitting import MOST_PARTS
from cual.serve.rules.records import RepairRecord
from cual.serve.rules.repair_jobs import MOST_QUESTIONS, MOST_SAMPLES
from cual.serve.rules.repairing import LONGEST_REASON
from cual.serve.rules.sources import TableColumns
from cual.serve.web.api.common import LARGEST_ID, Admin, Body, Id, InSettings, InWorkspace, LabelIn, problems
from cual.serve.web.api.sending import Optional, ServerPath, described, sent

router = APIRouter(prefix="/api/agents/{id}", tags=["repairs"])
Reason = Annotated[StrictStr, Field(max_length=LONGEST_REASON)]
OtherId = Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]
RepairId = Annotated[int, Path(ge=1, le=LARGEST_ID)]

_TEACH = described(
    {
        "label": {"type": "string", "maxLength": 200, "default": "", "description": "Of a table."},
        "why": {"type": "string", "maxLength": LONGEST_REASON, "default": ""},
    },
    "One zip with a folder of pictures per class, or one table of text with labels (CSV, TSV, JSON lines), or "
    "one .npz of labelled features.",
    named=False,
)


class LabelledData(Body):
    """Samples with labels, which an agent is taught."""

    text: Optional = None
    id: Optional = None
    label: Optional = None
    """Columns of a table."""
    why: Reason = ""

    @property
    def table(self) -> TableColumns:
        return TableColumns(self.text, self.label, self.id)


class LabelledPath(LabelledData):
    path: ServerPath


class Forgetting(Body):
    """Either samples of a pool, or answers: of a person, of an adaptation, or of a person in one."""

    pool: OtherId | None = None
    samples: Annotated[list[LabelIn], Field(min_length=1, max_length=MOST_SAMPLES)] | None = None
    """Ids."""
    person: OtherId | None = None
    adaptation: OtherId | None = None
    earlier: StrictBool = False
    """Also in the files of all other versions."""
    originals: StrictBool = False
    """With samples: also remove their pictures, texts and columns from the pool."""
    why: Reason = ""


class Splitting(Body):
    label: LabelIn
    parts: Annotated[StrictInt, Field(ge=2, le=MOST_PARTS)] = 2
    questions: Annotated[StrictInt, Field(ge=0, le=MOST_QUESTIONS)] = 10
    """Doubtful samples to ask about, at most."""
    why: Reason = ""


class SplitAnswer(Body):
    sample: Annotated[StrictInt, Field(ge=0, le=LARGEST_ID)]
    label: LabelIn


class SplitAnswers(Body):
    names: Annotated[list[LabelIn], Field(min_length=2, max_length=MOST_PARTS)]
    """What each group is, in their order."""
    answers: Annotated[list[SplitAnswer], Field(default_factory=list, max_length=MOST_SAMPLES)]
    leave_rest: StrictBool = False
    """Leave samples in the class of which no features are kept."""


@router.get("/repairs", responses=problems(404))
def repairs(person: Admin, workspace: InWorkspace, id: Id) -> list[RepairRecord]:
    """What a worker has changed, from teaching to removing, and what is under way; the latest first."""
    return workspace.repairs(id)


@router.get("/repairs/{repair}", responses=problems(404))
def repair(person: Admin, workspace: InWorkspace, id: Id, repair: RepairId) -> RepairRecord:
    """How far a repair is; of a split, what it asks."""
    return workspace.repair(id, repair)


@router.post("/teach", status_code=202, responses=problems(404, 409, 413, 415), openapi_extra=_TEACH)
async def teach(
    request: Request, person: Admin, workspace: InWorkspace, settings: InSettings, id: Id
) -> RepairRecord:
    """Teach an agent labelled data that is uploaded, or lies under an allowed root. A worker does it."""
    async with sent(request, workspace, settings.limits, LabelledPath, LabelledData) as (wanted, path):
        return await run_in_threadpool(workspace.teach, id, path, person, wanted.table, wanted.why)


@router.post("/forget", status_code=202, responses=problems(404, 409))
def forget(person: Admin, workspace: InWorkspace, id: Id, body: Forgetting) -> RepairRecord:
    """Take back samples, or answers, as if they had never been. A worker does it."""
    chosen: dict[str, Any] = {"pool": body.pool, "samples": body.samples}
    chosen |= {"adaptation": body.adaptation, "of": body.person}
    return workspace.forget(id, person, **chosen, earlier=body.earlier, originals=body.originals, why=body.why)


@router.post("/classes/split", status_code=202, responses=problems(404, 409))
def split_class(person: Admin, workspace: InWorkspace, id: Id, body: Splitting) -> RepairRecord:
    """Group the samples of a class; once that is done, the repair asks what the groups are."""
    return workspace.split_class(id, body.label, person, body.parts, body.questions, body.why)


@router.post("/repairs/{repair}/answers", status_code=202, responses=problems(404, 409))
def answer_split(
    person: Admin, workspace: InWorkspace, id: Id, repair: RepairId, body: SplitAnswers
) -> RepairRecord:
    """Say what the groups of a split are, and what its doubtful samples; the version is made then."""
    answers = {answer.sample: answer.label for answer in body.answers}
    return workspace.answer_split(id, repair, body.names, answers, person, body.leave_rest)


@router.post("/repairs/{repair}/drop", responses=problems(404, 409))
def drop_repair(person: Admin, workspace: InWorkspace, id: Id, repair: RepairId) -> RepairRecord:
    """Leave a split that asks, or a repair that failed."""
    return workspace.drop_repair(id, repair, person)
