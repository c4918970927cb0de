"""What agents and pools are made of, as it is sent: files in a form, or the path of something that is there."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BeforeValidator, Field, StrictStr, TypeAdapter, ValidationError

from cual.errors import TooLarge
from cual.serve.rules.sources import TableColumns
from cual.serve.rules.workspace import Workspace
from cual.serve.web import uploads
from cual.serve.web.api.common import Body, Name
from cual.serve.web.settings import Limits

_LONGEST_COLUMN = 200
ColumnName = Annotated[StrictStr, Field(max_length=_LONGEST_COLUMN)]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("this must be printable text")
    return text


def _or_none(value: Any) -> Any:
    """A form sends what was left empty, too."""
    return None if value == "" else value


ServerPath = Annotated[StrictStr, Field(min_length=1, max_length=4096), AfterValidator(_printable)]
Optional = Annotated[
    Annotated[StrictStr, Field(max_length=_LONGEST_COLUMN), AfterValidator(_printable)] | None,
    BeforeValidator(_or_none),
]


class FromData(Body):
    """What is told along with samples."""

    name: Name
    text: Optional = None
    """The table's column of text."""
    id: Optional = None
    """The table's column of ids."""

    @property
    def table(self) -> TableColumns:
        return TableColumns(self.text, None, self.id)


@asynccontextmanager
async def sent(
    request: Request, workspace: Workspace, limits: Limits, from_path: type[Any], from_form: type[Any]
) -> AsyncGenerator[tuple[Any, Path]]:
    """What a request says, as one of the two models, and where the samples lie while it is dealt with."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() == "application/json":
        wanted = _valid(from_path, body=await _small_body(request, limits))
        yield wanted, _under_root(workspace, Path(wanted.path))
        return
    async with uploads.arriving(workspace.uploads) as folder:
        form = await uploads.receive(request.stream(), kind, folder, limits)
        wanted = _valid(from_form, fields=form.fields)
        yield wanted, await run_in_threadpool(uploads.one_source, form, folder, limits)


def listed(value: Any) -> Any:
    """A list as a form sends it: in JSON.

    >>> listed('["colour", "size"]'), listed(["colour"])
    (['colour', 'size'], ['colour'])
    """
    if not isinstance(value, str) or not value:
        return value or None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("this must be a list in JSON") from None


def described(
    more: dict[str, Any], files: str, form: dict[str, Any] | None = None, named: bool = True
) -> dict[str, Any]:
    """The bodies of such a request, for OpenAPI.

    Parameters
    ----------
    more
        Fields beside the name and the columns; those without a default in their description must be there.
    files
        What can be sent.
    form
        Fields that are something else in a form, which knows text alone.
    named
        Whether it gets a name.
    """
    column = {"type": "string", "maxLength": _LONGEST_COLUMN, "description": "Of a table.", "default": ""}
    fields: dict[str, Any] = {
        "name": {"type": "string", "minLength": 1, "maxLength": 100},
        **more,
        "text": column,
        "id": column,
    }
    if not named:
        del fields["name"]
    path = {
        "type": "string",
        "description": "A file or folder on the service's machine, under a root that `--root` allows.",
    }
    parts = {"type": "array", "items": {"type": "string", "format": "binary"}, "description": files}
    required = [name for name, field in fields.items() if "default" not in field]
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": [*required, "path"],
                        "additionalProperties": False,
                        "properties": {**fields, "path": path},
                    }
                },
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": [*required, "files"],
                        "properties": {**fields, **(form or {}), "files": parts},
                    }
                },
            },
        }
    }


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
