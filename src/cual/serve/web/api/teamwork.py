"""Several people: how they share the work of an adaptation, how far they agree, and gold questions."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field, StrictBool, StrictInt

from cual.serve.rules.agreement import AgreementRecord
from cual.serve.rules.gold import MOST, GoldRecord
from cual.serve.rules.records import AdaptationRecord
from cual.serve.web.api.common import Admin, Body, Id, InWorkspace, LabelIn, Reader, problems
from cual.serve.web.api.questions import MOST_AT_ONCE, NumberKey

router = APIRouter(prefix="/api", tags=["people"])
MOST_PEOPLE = 100
People = Annotated[StrictInt, Field(ge=1, le=MOST_PEOPLE)]


class Sharing(Body):
    overlap: People | None = None
    """How many people questions are put to from now on; open ones wait for no more than that."""
    own_disputes: StrictBool | None = None
    """Whether people may settle disagreements that they are a party to."""
    gold_share: Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)] | None = None
    """Share of the questions lent to a person whose answer is known."""


class Gold(Body):
    labels: Annotated[dict[NumberKey, LabelIn | None], Field(max_length=MOST_AT_ONCE)]
    """What samples are, by their rows in the pool; null makes one ordinary again."""


@router.post("/adaptations/{id}/sharing", responses=problems(404, 409))
def share_work(person: Admin, workspace: InWorkspace, id: Id, new: Sharing) -> AdaptationRecord:
    """Change how people share the work; what is left out stays as it is."""
    return workspace.share_work(id, person, new.overlap, new.own_disputes, new.gold_share)


@router.get("/adaptations/{id}/agreement", responses=problems(404))
def agreement(person: Reader, workspace: InWorkspace, id: Id) -> AgreementRecord:
    """How far people agree and how each gets on; of others only administrators are told."""
    return workspace.agreement(id, person)


@router.post("/adaptations/{id}/gold", responses=problems(404, 409))
def mark_settled(person: Admin, workspace: InWorkspace, id: Id) -> list[GoldRecord]:
    """Make everything gold that a reviewer has settled; all gold samples of the pool."""
    workspace.mark_settled_gold(id, person)
    return workspace.gold(workspace.adaptation(id).pool, person)


@router.get("/pools/{id}/gold", responses=problems(404))
def gold(person: Admin, workspace: InWorkspace, id: Id) -> list[GoldRecord]:
    """The samples of a pool whose label is known."""
    workspace.pool(id)
    return workspace.gold(id, person)


@router.post("/pools/{id}/gold", responses=problems(404, 409))
def mark_gold(person: Admin, workspace: InWorkspace, id: Id, new: Gold) -> list[GoldRecord]:
    """Say what samples are, so that they can be asked about to see how well people do."""
    return workspace.mark_gold(id, {int(row): label for row, label in new.labels.items()}, person)
