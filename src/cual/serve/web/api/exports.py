"""Labels as files, for whoever may see them. What a label is and how it is written, `cual.export` knows.

A file is made whole before the first byte is sent: what cannot be made is an error and not half a file, and
nobody who reads slowly holds anything but the file.
"""

import os
import tempfile
import threading
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cual.errors import Overloaded, TooManyRequests
from cual.export import Labels, formats
from cual.serve.rules.records import Person
from cual.serve.rules.workspace import Workspace
from cual.serve.web.api.common import Id, InWorkspace, Reader, problems

router = APIRouter(prefix="/api", tags=["labels"])
MOST = 8
"""Exports that are made or sent at a time."""
MOST_PERSON = 2
_PART = 2**20
_TYPES = [formats[name].media_type.partition(";")[0] for name in formats]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    **problems(404),
    200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in _TYPES}},
}
FormatName = Annotated[
    str,
    Query(
        pattern=f"^({'|'.join(formats)})$",
        description=f"One of {', '.join(formats)}; datasets comes as a zip of its folder.",
    ),
]
Everything = Annotated[
    bool,
    Query(description="Also what does not count: corrected, overruled and rejected labels, “cannot tell”."),
]
WithColumns = Annotated[bool, Query(description="Also the columns of the pools' tables, as `columns.NAME`.")]


class UnderWay:
    """Exports that are being made or sent: few at a time, for each takes room on the disk.

    >>> exports = UnderWay()
    >>> for _ in range(MOST_PERSON): exports.begin(7)
    >>> exports.begin(7)
    Traceback (most recent call last):
    cual.errors.TooManyRequests: 2 exports of yours are under way; try again when one of them has ended
    >>> exports.end(7); exports.begin(7)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of = Counter[int]()

    def begin(self, person: int) -> None:
        with self._lock:
            if self._of[person] >= MOST_PERSON:
                many = f"{MOST_PERSON} exports of yours are under way"
                raise TooManyRequests(f"{many}; try again when one of them has ended")
            if self._of.total() >= MOST:
                raise Overloaded(f"{MOST} exports are under way; try again when one of them has ended")
            self._of[person] += 1

    def end(self, person: int) -> None:
        with self._lock:
            self._of[person] -= 1
            self._of += Counter()  # forgets those at zero


@router.get("/adaptations/{id}/labels", responses=_RESPONSES, response_class=Response)
def adaptation_labels(
    request: Request,
    person: Reader,
    workspace: InWorkspace,
    id: Id,
    format: FormatName = "csv",
    everything: Everything = False,
    columns: WithColumns = False,
) -> StreamingResponse:
    """The labels of an adaptation: answers, and what is believed, with people, times and doubts."""
    wanted = {"adaptation": id, "everything": everything, "columns": columns}
    return _sent(request, person, workspace, f"labels-adaptation-{id}", format, **wanted)


@router.get("/agents/{id}/labels", responses=_RESPONSES, response_class=Response)
def agent_labels(
    request: Request,
    person: Reader,
    workspace: InWorkspace,
    id: Id,
    format: FormatName = "csv",
    everything: Everything = False,
    columns: WithColumns = False,
) -> StreamingResponse:
    """The labels of all adaptations of an agent that were not dropped."""
    wanted = {"agent": id, "everything": everything, "columns": columns}
    return _sent(request, person, workspace, f"labels-agent-{id}", format, **wanted)


class _Sent(StreamingResponse):
    """A file that is sent, and whatever comes of that, closed and counted out."""

    def __init__(self, file: IO[bytes], over: Callable[[], None], name: str, media_type: str) -> None:
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Length": str(os.fstat(file.fileno()).st_size),
        }
        super().__init__(iter(partial(file.read, _PART), b""), headers=headers, media_type=media_type)
        self._file, self._over = file, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
            self._over()


def _sent(
    request: Request, person: Person, workspace: Workspace, name: str, format: str, **wanted: Any
) -> StreamingResponse:
    exports: UnderWay = request.app.state.exports
    exports.begin(person.id)
    try:
        labels = workspace.export(person, format=format, **wanted)
        file = _made(labels, format, workspace.uploads)
    except BaseException:
        exports.end(person.id)
        raise
    over = partial(exports.end, person.id)
    return _Sent(file, over, name + (formats[format].suffix or ".zip"), formats[format].media_type)


def _made(labels: Labels, format: str, uploads: Path) -> IO[bytes]:
    """The file, opened; its name is gone, so that it goes when it is closed, however that comes about."""
    with tempfile.TemporaryDirectory(dir=uploads, prefix="export.") as folder:
        path = Path(folder) / "labels"
        formats[format].write(labels, path)
        return (_zipped(path) if path.is_dir() else path).open("rb")


def _zipped(folder: Path) -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(folder.rglob("*")):
            packed.write(file, Path("labels") / file.relative_to(folder))
    return target
