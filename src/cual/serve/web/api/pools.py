"""Pools: uploaded or found under an allowed root, and what is to be seen of their samples."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, Response
from pydantic import BeforeValidator, Field, StrictInt, StrictStr

from cual.data.plain import MOST, Value
from cual.serve.rules.pools import LONGEST_GUIDELINES
from cual.serve.rules.records import DependentsRecord, PoolRecord
from cual.serve.web.api.common import (
    LARGEST_ID,
    Admin,
    Body,
    Id,
    InSettings,
    InWorkspace,
    Reader,
    Rename,
    Row,
    SkippedOut,
    problems,
)
from cual.serve.web.api.sending import ColumnName, FromData, ServerPath, described, listed, sent

router = APIRouter(prefix="/api/pools", tags=["pools"])
_SHOWN = "Columns for people to read; by default all plain ones but those of labels."
_FORM = described(
    {
        "agent": {"type": "integer", "minimum": 1, "maximum": LARGEST_ID},
        "columns": {
            "type": ["array", "null"],
            "items": {"type": "string", "maxLength": 200},
            "maxItems": MOST,
            "default": None,
            "description": _SHOWN,
        },
    },
    "Pictures, a zip of them, an .npz or .npy of features, or a table of text (CSV, TSV, JSON lines).",
    form={"columns": {"type": "string", "default": "", "description": f"{_SHOWN} A list of names in JSON."}},
)
Columns = Annotated[list[ColumnName], Field(max_length=MOST)] | None


class FromPath(FromData):
    agent: Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]
    path: ServerPath
    columns: Columns = None


class FromForm(FromData):
    agent: Annotated[int, Field(ge=1, le=LARGEST_ID)]
    columns: Annotated[Columns, BeforeValidator(listed)] = None


class Guidelines(Body):
    text: Annotated[StrictStr, Field(max_length=LONGEST_GUIDELINES)]
    """Plain text."""


@dataclass(frozen=True)
class TextOut:
    text: str


@dataclass(frozen=True)
class ColumnsOut:
    columns: dict[str, Value]


@router.get("", responses=problems())
def pools(person: Reader, workspace: InWorkspace) -> list[PoolRecord]:
    return workspace.pools()


@router.post("", status_code=201, responses=problems(404, 409, 413, 415), openapi_extra=_FORM)
async def add_pool(request: Request, person: Admin, workspace: InWorkspace, settings: InSettings) -> PoolRecord:
    """Make a pool of uploaded files, or of a path under an allowed root. A worker makes it ready."""
    async with sent(request, workspace, settings.limits, FromPath, FromForm) as (wanted, path):
        columns = {"columns": wanted.table, "shown": wanted.columns}
        return await run_in_threadpool(
            partial(workspace.add_pool, wanted.name, path, wanted.agent, person, **columns)
        )


@router.get("/{id}", responses=problems(404))
def pool(person: Reader, workspace: InWorkspace, id: Id) -> PoolRecord:
    return workspace.pool(id)


@router.delete("/{id}", status_code=204, responses=problems(404, 409))
def delete_pool(person: Admin, workspace: InWorkspace, id: Id) -> None:
    """Remove a pool's files. Answers stay. Refused while an adaptation is under way on it."""
    workspace.delete_pool(id, person)


@router.patch("/{id}", responses=problems(404))
def rename_pool(person: Admin, workspace: InWorkspace, id: Id, body: Rename) -> PoolRecord:
    return workspace.rename_pool(id, body.name, person)


@router.get("/{id}/dependents", responses=problems(404))
def dependents(person: Reader, workspace: InWorkspace, id: Id) -> DependentsRecord:
    """What the pool is needed for."""
    return workspace.dependents_of_pool(id)


@router.put("/{id}/guidelines", responses=problems(404))
def set_guidelines(person: Admin, workspace: InWorkspace, id: Id, body: Guidelines) -> PoolRecord:
    """Tell those who label the pool what they should know; an empty text takes it away."""
    return workspace.set_guidelines(id, body.text, person)


@router.get("/{id}/skipped", responses=problems(404))
def skipped(person: Reader, workspace: InWorkspace, id: Id) -> list[SkippedOut]:
    """Items that could not be read, and why."""
    return [SkippedOut(row["source"], row["reason"]) for row in workspace.skipped(id)]


@router.get(
    "/{id}/pictures/{row}",
    responses={
        **problems(404),
        200: {"content": {"image/webp": {"schema": {"type": "string", "format": "binary"}}}},
        304: {"description": "Not changed"},
    },
    response_class=Response,
)
def picture(
    request: Request, person: Reader, workspace: InWorkspace, id: Id, row: Row, large: bool = False
) -> Response:
    """A sample's picture, written anew: small, or large where there is more to see."""
    # Browsers may keep it, but ask each time whether they may show it.
    keep = {"Cache-Control": "private, no-cache"}
    file = workspace.picture(id, row, large)
    response = FileResponse(file, media_type="image/webp", headers=keep)
    response.set_stat_headers(file.stat())
    if request.headers.get("if-none-match") == response.headers["etag"]:
        return Response(status_code=304, headers={**keep, "ETag": response.headers["etag"]})
    return response


@router.get("/{id}/texts/{row}", responses=problems(404))
def text(person: Reader, workspace: InWorkspace, id: Id, row: Row) -> TextOut:
    """A sample's text."""
    return TextOut(workspace.text(id, row))


@router.get("/{id}/columns/{row}", responses=problems(404))
def columns(person: Reader, workspace: InWorkspace, id: Id, row: Row) -> ColumnsOut:
    """What the pool's table says of a sample beside its features or its text."""
    return ColumnsOut(workspace.columns_of(id, row))
