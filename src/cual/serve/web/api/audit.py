"""The audit trail, for administrators: page by page as JSON, or whole as CSV. `rules.audit` writes it."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime

from cual.export.text import csv_lines
from cual.serve.rules.records import AuditRecord, Person
from cual.serve.rules.workspace import Workspace
from cual.serve.web.api.common import LARGEST_ID, Admin, InWorkspace, problems

router = APIRouter(prefix="/api", tags=["audit"])
_COLUMNS = ("id", "at", "person", "action", "kind", "thing", "details")
_AT_ONCE = 1000
By = Annotated[
    int | None, Query(ge=0, le=LARGEST_ID, description="Only what this person did; 0: the operator.")
]
Action = Annotated[str | None, Query(pattern="^[a-z ]{1,50}$", description="Only this command.")]
Since = Annotated[AwareDatetime | None, Query(description="Only what was done from then on.")]
Until = Annotated[AwareDatetime | None, Query(description="Only what was done before; not earlier than since.")]


@router.get("/audit", responses=problems())
def audit(
    person: Admin,
    workspace: InWorkspace,
    by: By = None,
    action: Action = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[
        int | None, Query(ge=1, le=LARGEST_ID, description="Only rows with a lower id: the next page.")
    ] = None,
    n: Annotated[int, Query(ge=1, le=_AT_ONCE)] = 100,
) -> list[AuditRecord]:
    """Who did what, the latest first."""
    return workspace.audit(person, by, action, since, until, before, n)


@router.get(
    "/audit.csv",
    responses={**problems(), 200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
def audit_csv(
    person: Admin,
    workspace: InWorkspace,
    by: By = None,
    action: Action = None,
    since: Since = None,
    until: Until = None,
) -> StreamingResponse:
    """All of it as a table, the latest first."""
    wanted: dict[str, Any] = {"by": by, "action": action, "since": since, "until": until}
    first = workspace.audit(person, **wanted, n=_AT_ONCE)  # what is wrong is said before anything is sent
    pages = _pages(workspace, person, first, **wanted)
    headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
    return StreamingResponse(pages, headers=headers, media_type="text/csv; charset=utf-8")


def _pages(workspace: Workspace, person: Person, rows: list[AuditRecord], **wanted: Any) -> Iterator[str]:
    yield csv_lines([_COLUMNS])
    while rows:
        yield csv_lines([_cells(row) for row in rows])
        rows = workspace.audit(person, **wanted, before=rows[-1].id, n=_AT_ONCE)


def _cells(row: AuditRecord) -> list[str]:
    details = json.dumps(row.details, ensure_ascii=False)
    thing = "" if row.thing is None else str(row.thing)
    return [str(row.id), row.at.isoformat(), row.person, row.action, row.kind, thing, details]
