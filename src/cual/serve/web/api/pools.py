"""Pools: uploaded or found under an allowed root, and what is to be seen of their samples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from pydantic import AfterValidator, Field, StrictInt, StrictStr, TypeAdapter, ValidationError

from cual.errors import BadFile, ForeignFile, TooLarge
from cual.serve.rules.records import Person, PoolRecord
from cual.serve.rules.workspace import Workspace
from cual.serve.web import arrays, uploads
from cual.serve.web.api.common import (
    LARGEST_ID,
    Admin,
    Body,
    Id,
    InSettings,
    InWorkspace,
    Name,
    Reader,
    Row,
    problems,
)
from cual.serve.web.settings import Limits
from cual.serve.web.uploads import Upload

router = APIRouter(prefix="/api/pools", tags=["pools"])
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["name", "agent", "path"],
                    "additionalProperties": False,
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 100},
                        "agent": {"type": "integer", "minimum": 1, "maximum": LARGEST_ID},
                        "path": {
                            "type": "string",
                            "description": "A file or folder on the service's machine, under a root that "
                            "`cual serve --root` allows.",
                        },
                    },
                }
            },
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["name", "agent", "files"],
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 100},
                        "agent": {"type": "integer", "minimum": 1, "maximum": LARGEST_ID},
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "Pictures, or one .npz or .npy of features, or one CSV of texts.",
                        },
                    },
                }
            },
        },
    }
}


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a path is printable text")
    return text


class FromPath(Body):
    name: Name
    agent: Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]
    path: Annotated[StrictStr, Field(min_length=1, max_length=4096), AfterValidator(_printable)]


class FromForm(Body):
    name: Name
    agent: Annotated[int, Field(ge=1, le=LARGEST_ID)]


@dataclass(frozen=True)
class TextOut:
    text: str


@dataclass(frozen=True)
class SkippedOut:
    """An item that could not be read."""

    source: str
    reason: str


@router.get("", responses=problems())
def pools(person: Reader, workspace: InWorkspace) -> list[PoolRecord]:
    return workspace.pools()


@router.post("", status_code=201, responses=problems(404, 409, 413, 415), openapi_extra=_FORM)
async def add_pool(request: Request, person: Admin, workspace: InWorkspace, settings: InSettings) -> PoolRecord:
    """Make a pool of uploaded files, or of a path under an allowed root. A worker makes it ready."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() == "application/json":
        wanted = _valid(FromPath, body=await _small_body(request, settings.limits))
        path = _under_root(workspace, Path(wanted.path))
        return await run_in_threadpool(workspace.add_pool, wanted.name, path, wanted.agent, person)
    async with uploads.arriving(workspace.uploads) as folder:
        form = await uploads.receive(request.stream(), kind, folder, settings.limits)
        return await run_in_threadpool(_from_form, workspace, person, form, folder, settings.limits)


@router.get("/{id}", responses=problems(404))
def pool(person: Reader, workspace: InWorkspace, id: Id) -> PoolRecord:
    return workspace.pool(id)


@router.delete("/{id}", status_code=204, responses=problems(404, 409))
def delete_pool(person: Admin, workspace: InWorkspace, id: Id) -> None:
    """Remove a pool and its files. Refused while an adaptation needs it, whatever its state."""
    workspace.delete_pool(id, person)


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
def picture(request: Request, person: Reader, workspace: InWorkspace, id: Id, row: Row) -> Response:
    """A sample's picture, small and written anew."""
    # Browsers may keep it, but ask each time whether they may show it.
    keep = {"Cache-Control": "private, no-cache"}
    response = FileResponse(workspace.picture(id, row), media_type="image/webp", headers=keep)
    response.set_stat_headers(workspace.picture(id, row).stat())
    if request.headers.get("if-none-match") == response.headers["etag"]:
        return Response(status_code=304, headers={**keep, "ETag": response.headers["etag"]})
    return response


@router.get("/{id}/texts/{row}", responses=problems(404))
def text(person: Reader, workspace: InWorkspace, id: Id, row: Row) -> TextOut:
    """A sample's text."""
    return TextOut(workspace.text(id, row))


async def _small_body(request: Request, limits: Limits) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limits.json:
            raise TooLarge(f"this takes at most {limits.json} bytes at once")
    return bytes(body)


def _valid(model: type[Any], body: bytes | None = None, fields: dict[str, str] | None = None) -> Any:
    adapter: TypeAdapter[Any] = TypeAdapter(model)
    try:
        return adapter.validate_python(fields) if body is None else adapter.validate_json(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_input=False, include_url=False)) from None


def _under_root(workspace: Workspace, path: Path) -> Path:
    """A path as it was given, or found in one of the roots. Whether it may be read, the workspace decides."""
    if path.is_absolute():
        return path
    roots = workspace.home.roots
    candidates = (root / path for root in roots if (root / path).resolve().is_relative_to(root))
    return next((p for p in candidates if p.exists()), (roots[0] if roots else Path("/")) / path)


def _from_form(workspace: Workspace, person: Person, form: Upload, folder: Path, limits: Limits) -> PoolRecord:
    wanted: FromForm = _valid(FromForm, fields=form.fields)
    workspace.agent(wanted.agent)
    kinds = {file.kind for file in form.files}
    if not form.files:
        raise BadFile("the form has no files")
    if kinds == {"picture"}:
        return workspace.add_pool(wanted.name, folder, wanted.agent, person)
    if len(form.files) > 1:
        raise ForeignFile(
            "send pictures, or one .npz or .npy of features, or one CSV of texts; not several kinds"
        )
    file = form.files[0]
    if file.kind == "npz":
        arrays.check_npz(file.path, limits.unpacked)
    elif file.kind == "npy":
        arrays.check_npy(file.path)
    return workspace.add_pool(wanted.name, file.path, wanted.agent, person)
