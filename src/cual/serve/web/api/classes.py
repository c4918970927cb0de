"""Classes of an agent: what people are told of them, how they are found, and the keys of whoever asks."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool, StrictInt, StrictStr, TypeAdapter
from starlette.responses import Response

from cual.serve.rules.classes import LONGEST_DESCRIPTION, MOST_CHOSEN
from cual.serve.rules.records import AgentRecord, ClassRecord, RepairRecord
from cual.serve.rules.repairing import LONGEST_REASON
from cual.serve.web.api.common import (
    LARGEST_ID,
    Admin,
    Annotator,
    Body,
    Id,
    InWorkspace,
    LabelIn,
    Reader,
    problems,
)
from cual.types import Label

router = APIRouter(prefix="/api/agents/{id}", tags=["classes"])


class Example(Body):
    pool: Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]
    row: Annotated[StrictInt, Field(ge=0, le=LARGEST_ID)]


class Description(Body):
    """What is left out stays as it is."""

    label: LabelIn
    description: Annotated[StrictStr | None, Field(max_length=LONGEST_DESCRIPTION)] = None
    colour: Annotated[StrictStr | None, Field(pattern=r"^(#[0-9a-fA-F]{6})?$")] = None
    """As #rrggbb; an empty text goes back to the usual one."""
    examples: Annotated[list[Example] | None, Field(max_length=MOST_CHOSEN)] = None


Digit = Annotated[str, Path(pattern="^[1-9]$", description="One of the nine digits.")]


class KeyOf(Body):
    key: Annotated[StrictStr, Field(pattern=r"^[1-9]$")]
    label: LabelIn


Reason = Annotated[StrictStr, Field(max_length=LONGEST_REASON)]


class NewName(Body):
    label: LabelIn
    to: LabelIn
    why: Reason = ""
    meant: StrictBool = False
    """Whether the name is meant also where it differs from another class's only by case or the like."""


class Merging(Body):
    into: LabelIn
    others: Annotated[list[LabelIn], Field(min_length=1, max_length=1000)]
    """Classes that become part of it."""
    why: Reason = ""


class Removal(Body):
    label: LabelIn
    leave_spread: StrictBool = False
    """Where not all its samples are in the agent's memory, leave what they said of how classes spread."""
    why: Reason = ""


_REPAIR = TypeAdapter(RepairRecord)
_AT_ONCE_OR_BEGUN: dict[int | str, dict[str, Any]] = {
    **problems(404, 409),
    202: {"model": RepairRecord, "description": "The head is trained again; follow the repair"},
}


def _done_or_begun(record: AgentRecord | RepairRecord) -> AgentRecord | Response:
    """The agent where it is changed already; a repair that a worker does as what was begun, not done."""
    if isinstance(record, AgentRecord):
        return record
    return Response(_REPAIR.dump_json(record), 202, media_type="application/json")


@dataclass(frozen=True)
class Found:
    """A class that may be meant; the score is 1 for the name itself, and less the farther it is from it."""

    label: Label
    score: float


@router.get("/classes", responses=problems(404))
def classes(person: Reader, workspace: InWorkspace, id: Id) -> list[ClassRecord]:
    """What people are told of each class that the current version knows, or an answer named since."""
    return workspace.classes(id)


@router.get("/classes/find", responses=problems(404))
def find_classes(
    person: Reader,
    workspace: InWorkspace,
    id: Id,
    typed: Annotated[str, Query(max_length=100)],
    n: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> list[Found]:
    """Classes that somebody may mean: any order of words, with typos, in the plural, without accents."""
    return [Found(match.label, match.score) for match in workspace.find_classes(id, typed, n)]


@router.put("/classes", responses=problems(404))
def describe_class(person: Admin, workspace: InWorkspace, id: Id, body: Description) -> ClassRecord:
    """Write down what a class is: plain text, a colour, samples that show it."""
    chosen = None if body.examples is None else [(example.pool, example.row) for example in body.examples]
    return workspace.describe_class(id, body.label, person, body.description, body.colour, chosen)


@router.post("/classes/rename", responses=problems(404, 409))
def rename_class(person: Admin, workspace: InWorkspace, id: Id, body: NewName) -> AgentRecord:
    """Give a class another name, in a version of its own. Refused while an adaptation is under way."""
    return workspace.rename_class(id, body.label, body.to, person, body.why, body.meant)


@router.post("/classes/merge", response_model=AgentRecord, responses=_AT_ONCE_OR_BEGUN)
def merge_classes(person: Admin, workspace: InWorkspace, id: Id, body: Merging) -> AgentRecord | Response:
    """Make classes part of another one, in a version of its own.

    In closed form at once, exactly as if they had always been one: 200 and the agent. A head that trains is
    trained again from what is kept, by a worker: 202 and the repair, as of teaching.
    """
    return _done_or_begun(workspace.merge_classes(id, body.into, body.others, person, body.why))


@router.post("/classes/remove", response_model=AgentRecord, responses=_AT_ONCE_OR_BEGUN)
def remove_class(person: Admin, workspace: InWorkspace, id: Id, body: Removal) -> AgentRecord | Response:
    """Remove a class, in a version of its own.

    In closed form at once, exactly as if it had never been learned: 200 and the agent. A head that trains is
    trained again from what is kept, by a worker: 202 and the repair, as of teaching.
    """
    return _done_or_begun(workspace.remove_class(id, body.label, person, body.leave_spread, body.why))


@router.get("/keys", responses=problems(404))
def keys(person: Reader, workspace: InWorkspace, id: Id) -> dict[str, Label]:
    """Which digit answers with which class, for whoever asks."""
    return workspace.kept_keys(id, person)


@router.put("/keys", status_code=204, responses=problems(404))
def give_key(person: Annotator, workspace: InWorkspace, id: Id, body: KeyOf) -> None:
    """Give one of one's own digits to a class, which keeps it until it is given to another or taken away."""
    workspace.give_key(id, person, body.key, body.label)


@router.delete("/keys/{key}", status_code=204, responses=problems(404))
def take_key(person: Annotator, workspace: InWorkspace, id: Id, key: Digit) -> None:
    """Take one of one's own digits away from its class, which gets none by itself any more."""
    workspace.take_key(id, person, key)
