"""What the workspace takes on the disk, how long what is kept, and what would go; for administrators."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from cual.serve.rules.retention import MOST, Going, Rule, StorageRecord
from cual.serve.web.api.common import Admin, Body, InWorkspace, problems

router = APIRouter(prefix="/api/storage", tags=["operations"])
Count = Annotated[int, Field(ge=0, le=MOST, strict=True)]


class RetentionIn(Body):
    """How long what is kept. A field that is not given, or is null, keeps all of it."""

    pools_days: Count | None = None
    """Days for which a pool is kept after the last of its adaptations has ended."""
    versions: Count | None = None
    """Retired versions of an agent that are kept, the latest."""


@router.get("", responses=problems())
def storage(
    person: Admin,
    workspace: InWorkspace,
    pools_days: Annotated[int | None, Query(ge=0, le=MOST)] = None,
    versions: Annotated[int | None, Query(ge=0, le=MOST)] = None,
) -> StorageRecord:
    """Bytes that are taken, and what would go: by the rule that was set, or by the one that is asked about."""
    tried = Rule(pools_days, versions)
    return workspace.storage(person, None if tried == Rule() else tried)


@router.put("/retention", responses=problems())
def set_retention(person: Admin, workspace: InWorkspace, rule: RetentionIn) -> Rule:
    """Say how long what is kept. A worker looks once an hour; `GET /api/storage` says first what would go."""
    return workspace.set_retention(Rule(**rule.model_dump()), person)


@router.post("/clean", responses=problems())
def clean(person: Admin, workspace: InWorkspace) -> list[Going]:
    """Let go at once what goes by the rule that was set, and what is left over; what went."""
    return workspace.clean_up(person)
