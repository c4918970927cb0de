"""What every request passes before any route sees it: its host, its size, who sends it, and where from.

Roles are not checked here but by each route (`cual.serve.web.api.common`); this gate only keeps strangers out.
"""

import hmac
import math
import time
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy.exc import OperationalError, TimeoutError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cual.serve.rules.accounts import Accounts
from cual.serve.rules.secrets import Visitor
from cual.serve.web.security.addresses import plain
from cual.serve.web.security.attempts import Attempts
from cual.serve.web.security.visitors import VISITOR
from cual.serve.web.settings import Settings

CLIENT = "cual.client"
"""Where the address of whoever asks stands in a request's scope."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
WATCHED = frozenset({"/health", "/live"})
"""Where nobody needs to be known, and nobody is looked up: they answer also while the database does not."""
_DOOR = "/sign-in"
_OPEN = frozenset({_DOOR, "/api/sign-in", "/metrics", "/favicon.ico"}) | WATCHED
_SOCKET, _FRAMEWORK = "/_nicegui_ws/", "/_nicegui/"
_CHECK_SOCKET_EVERY = 5.0


def cookie_names(workspace_id: str) -> tuple[str, str]:
    """Of the session and of the CSRF token; cookies do not tell ports apart, so each workspace has its own.

    >>> cookie_names("a1b2")
    ('cual_session_a1b2', 'cual_csrf_a1b2')
    """
    return f"cual_session_{workspace_id[:8]}", f"cual_csrf_{workspace_id[:8]}"


def refusal(status: int, error: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    """An error as the API words it."""
    return JSONResponse({"error": error, "detail": detail}, status, headers)


def no_database() -> Response:
    return refusal(503, "NoDatabase", "the database does not answer; try again", {"Retry-After": "1"})


class Gate:
    """Host, credentials, CSRF, and the origin of websockets."""

    def __init__(
        self, app: ASGIApp, accounts: Accounts, settings: Settings, attempts: Attempts, cookie: str
    ) -> None:
        self._app, self._accounts, self._settings = app, accounts, settings
        self._attempts, self._cookie = attempts, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope[CLIENT] = self._client(scope)
        try:
            refused = await self._look_at(scope)
        except (OperationalError, TimeoutError):  # no handler of the app's is asked about what comes before it
            refused = no_database()
        if refused is not None and scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif refused is not None:
            await refused(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _look_at(self, scope: Scope) -> Response | None:
        """The refusal that a request deserves, or None; who it comes from is left in its scope."""
        headers = Headers(scope=scope)
        if not self._settings.knows_host(headers.get("host", "")):
            return refusal(
                400, "UnknownHost", "this service has another name; see cual serve --help for --name"
            )
        bearer = headers.get("authorization", "")
        if scope["path"] in WATCHED:
            visitor = None
        elif bearer:
            visitor = await self._by_token(scope, bearer)
            if isinstance(visitor, Response):
                return visitor
        else:
            visitor = await self._by_cookie(scope)
        scope[VISITOR] = visitor
        return self._stranger(scope, headers, visitor) or self._forged(scope, headers, visitor)

    async def _by_token(self, scope: Scope, authorization: str) -> Visitor | Response:
        kind, _, secret = authorization.partition(" ")
        visitor = None
        if kind.lower() == "bearer":
            secret = secret.strip()
            visitor = self._accounts.known("token", secret)
            visitor = visitor or await run_in_threadpool(self._accounts.by_token, secret)
        if visitor is None:
            wait = self._attempts.failed(scope[CLIENT], authorization)
            if wait:
                return too_many(wait)
            return _sign_in_first("this token is not known, has expired or was revoked")
        return visitor

    async def _by_cookie(self, scope: Scope) -> Visitor | None:
        secret = HTTPConnection(scope).cookies.get(self._cookie)
        if not secret:
            return None
        known = self._accounts.known("cookie", secret)
        return known or await run_in_threadpool(self._accounts.by_cookie, secret)

    def _stranger(self, scope: Scope, headers: Headers, visitor: Visitor | None) -> Response | None:
        """Without credentials nothing is to be had but the door, and the files of the page's framework."""
        path: str = scope["path"]
        if visitor is not None or path in _OPEN:
            return None
        if path.startswith(_FRAMEWORK) and scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            return None
        if "text/html" in headers.get("accept", "") and not path.startswith("/api/"):
            return RedirectResponse(_DOOR, 303)
        return _sign_in_first("sign in, or send a token: Authorization: Bearer …")

    def _forged(self, scope: Scope, headers: Headers, visitor: Visitor | None) -> Response | None:
        """What another site's page could have made a browser send."""
        path, origin = scope["path"], headers.get("origin")
        ours = origin is not None and self._settings.is_own_origin(origin, headers.get("host", ""))
        socket = scope["type"] == "websocket"
        if not socket and scope["method"] in _SAFE and not path.startswith(_SOCKET):
            return None
        if origin is not None and not ours:
            return refusal(403, "ForeignOrigin", "this request comes from a page of another site")
        if visitor is None or visitor.session is None:
            return None
        if path.startswith(_SOCKET) and not socket and scope["method"] in _SAFE:
            foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
            return refusal(403, "ForeignOrigin", "this comes from another site") if foreign else None
        if not ours:
            return refusal(403, "ForeignOrigin", "a change made with a cookie needs an Origin header")
        if socket or path == _DOOR or path.startswith((_SOCKET, _FRAMEWORK)):
            return (
                None  # the framework, and a form, send no header of ours; SameSite and Origin keep others out
            )
        if not hmac.compare_digest(headers.get("x-csrf-token", "").encode(), (visitor.csrf or "").encode()):
            return refusal(403, "BadCsrfToken", "a change made with a cookie needs the header X-CSRF-Token")
        return None

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A socket, until its session ends: a page left open must not outlive it."""
        checked, ended = time.monotonic(), False

        async def receive_if_alive() -> Message:
            nonlocal checked, ended
            message = await receive()
            if message["type"] == "websocket.receive" and time.monotonic() - checked > _CHECK_SOCKET_EVERY:
                checked = time.monotonic()
                if (await self._look_at(scope)) is not None:
                    ended = True
                    return {"type": "websocket.disconnect", "code": 1008}
            return message

        await self._app(scope, receive_if_alive, send)
        if ended:
            with suppress(Exception):  # the app may have closed it
                await send({"type": "websocket.close", "code": 1008})

    def _client(self, scope: Scope) -> str:
        """The address of whoever asks; behind a proxy, what the proxy wrote last."""
        peer = scope.get("client")
        direct = plain(str(peer[0])) if peer else "?"
        if self._settings.proxy is None:
            return direct
        header = Headers(scope=scope).getlist("x-forwarded-for")
        return plain(header[-1].split(",")[-1].strip() or direct) if header else direct


class BodyLimit:
    """Refuses bodies that are too large: at once where the length is said, else when the limit is reached."""

    def __init__(self, app: ASGIApp, limit: Callable[[str], int]) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        header = Headers(scope=scope).get("content-length", "0")
        if not header.isascii() or not header.isdigit() or len(header) > 18:
            await refusal(400, "BadLength", "Content-Length is not a number")(scope, receive, send)
            return
        if int(header) > limit:
            await refusal(413, "TooLarge", _too_large(limit))(scope, receive, send)
            return
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > limit:
                raise HTTPException(413, _too_large(limit))
            return message

        await self._app(scope, counted, send)


def too_many(wait: float) -> Response:
    """Somebody has failed too often."""
    seconds = max(1, math.ceil(wait))
    detail = f"too many failed attempts to sign in; try again in {seconds} seconds"
    return refusal(429, "TooManyAttempts", detail, {"Retry-After": str(seconds)})


def _sign_in_first(detail: str) -> Response:
    return refusal(401, "NotSignedIn", detail, {"WWW-Authenticate": "Bearer"})


def _too_large(limit: int) -> str:
    return f"this takes at most {limit} bytes at once"
