"""What the routes share: who may call them, ids, names, and how errors look."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ConfigDict, StrictInt, StrictStr
from sqlalchemy.exc import OperationalError, TimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cual.errors import (
    AlreadyFinished,
    BudgetExceeded,
    Conflict,
    CualError,
    FileLost,
    FolderInUse,
    LabelsMissing,
    NotAllowed,
    NotFound,
    Overloaded,
    PredictionsStopped,
    SamplesMissing,
    TooLarge,
    TooManyRequests,
    UnknownClass,
    UnknownName,
    UnknownQuery,
    UnknownSample,
)
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.checks import check_name
from cual.serve.rules.records import Person, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage.home import is_no_room
from cual.serve.web.predictions.predicting import Predictor
from cual.serve.web.security.middleware import no_database, refusal
from cual.serve.web.security.visitors import allowed, person_of, sending
from cual.serve.web.settings import Settings

LARGEST_ID = 2**31 - 1
Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Row = Annotated[int, Path(ge=0, le=LARGEST_ID)]
LabelIn = StrictStr | StrictInt


class Problem(BaseModel):
    """What went wrong: the error's name for programs, a sentence for people."""

    error: str
    detail: str


class Body(BaseModel):
    """A request's JSON object. A field that is not known is a mistake, not a detail."""

    model_config = ConfigDict(extra="forbid")


def _named(text: str) -> str:
    try:
        return check_name(text, "the name")
    except CualError as error:
        raise ValueError(str(error)) from None


Name = Annotated[StrictStr, AfterValidator(_named)]


class Rename(Body):
    name: Name


@dataclass(frozen=True)
class SkippedOut:
    """An item that could not be read."""

    source: str
    reason: str


def may(role: Role) -> Callable[[Request], Awaitable[Person]]:
    """A dependency: whoever is signed in, if the role reaches."""

    async def check(request: Request) -> Person:  # not a plain function: FastAPI would send it to a thread
        return allowed(person_of(request), role)

    return check


async def _sending(request: Request) -> Person:
    return sending(person_of(request))


Caller = Annotated[Person, Depends(may(Role.sender))]
"""Whoever is known, programs that send among them."""
Sender = Annotated[Person, Depends(_sending)]
Reader = Annotated[Person, Depends(may(Role.reader))]
Annotator = Annotated[Person, Depends(may(Role.annotator))]
Admin = Annotated[Person, Depends(may(Role.admin))]


async def _workspace(request: Request) -> Workspace:
    return request.app.state.workspace


async def _accounts(request: Request) -> Accounts:
    return request.app.state.accounts


async def _settings(request: Request) -> Settings:
    return request.app.state.settings


async def _predictor(request: Request) -> Predictor:
    return request.app.state.predictor


InWorkspace = Annotated[Workspace, Depends(_workspace)]
InAccounts = Annotated[Accounts, Depends(_accounts)]
InSettings = Annotated[Settings, Depends(_settings)]
InPredictor = Annotated[Predictor, Depends(_predictor)]

_SAID = {
    400: "Not understood, or sent to a name that is not ours",
    401: "Not signed in",
    403: "The role does not reach, or the request is forged",
    404: "There is no such thing",
    409: "Does not fit the state that things are in",
    413: "Too large",
    415: "A type that is not taken here",
    422: "Not as described here, or refused by the learner",
    429: "Too many failed attempts, or too many requests at once",
    503: "The database does not answer, a file is lost, or there is too much to do; try again",
}


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route documents: those that any route can end in, and its own.

    >>> sorted(problems(404))
    [400, 401, 403, 404, 422, 429, 503]
    """
    return {
        code: {"model": Problem, "description": _SAID[code]} for code in (400, 401, 403, 422, 429, 503, *more)
    }


_STATUS: tuple[tuple[tuple[type[CualError], ...], int], ...] = (
    ((NotFound, UnknownClass, UnknownName, UnknownQuery, UnknownSample), 404),
    ((NotAllowed,), 403),
    ((Conflict, BudgetExceeded, AlreadyFinished, LabelsMissing, SamplesMissing, FolderInUse), 409),
    ((TooLarge,), 413),
    ((TooManyRequests,), 429),
    ((Overloaded, PredictionsStopped, FileLost), 503),
)


def status_of(error: CualError) -> int:
    """
    >>> status_of(NotFound("there is no agent 3")), status_of(CualError("no"))
    (404, 422)
    """
    return next((code for kinds, code in _STATUS if isinstance(error, kinds)), 422)


def add_error_handlers(app: FastAPI) -> None:
    """Word every error as a `Problem`."""
    app.add_exception_handler(CualError, _expected)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(OperationalError, _no_database)
    app.add_exception_handler(TimeoutError, _no_database)
    app.add_exception_handler(OSError, _no_room)
    app.add_exception_handler(Exception, _unexpected)


async def _expected(request: Request, error: Exception) -> Response:
    status = status_of(cast(CualError, error))
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return refusal(status, type(error).__name__, _printable(str(error)), headers)


async def _http(request: Request, error: Exception) -> Response:
    http = cast(HTTPException, error)
    name = {404: "NotFound", 405: "MethodNotAllowed", 413: "TooLarge"}.get(http.status_code, "BadRequest")
    return refusal(http.status_code, name, _printable(str(http.detail)), dict(http.headers or {}))


async def _invalid(request: Request, error: Exception) -> Response:
    """Says what is wrong and where, but repeats nothing of what was sent: it may be large, or secret."""
    mistakes = cast(RequestValidationError, error).errors()
    sentences = [f"{'.'.join(str(p)[:50] for p in e['loc'])}: {e['msg']}" for e in mistakes[:5]]
    return refusal(422, "BadRequest", _printable("; ".join(sentences) or "not understood"))


async def _no_database(request: Request, error: Exception) -> Response:
    logging.getLogger(__name__).error("database: %s", error)
    return no_database()


async def _no_room(request: Request, error: Exception) -> Response:
    """A disk that is full, or on which nobody may write: of that people should hear, and come back later."""
    if not is_no_room(cast(OSError, error)):
        raise error
    logging.getLogger(__name__).error("files: %s", error)
    return refusal(
        503, "NoRoom", "there is no room for files here; make some, then try again", {"Retry-After": "60"}
    )


async def _unexpected(request: Request, error: Exception) -> Response:
    return refusal(500, "Internal", "something went wrong here; the log says what")


def _printable(text: str) -> str:
    """Text that can be sent: half a surrogate pair cannot."""
    return text.encode("utf-8", "backslashreplace").decode()
