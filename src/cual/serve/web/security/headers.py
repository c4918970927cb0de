"""Headers that tell browsers to trust only what we sent ourselves, and the nonces that say what that is."""

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NO_PAGE = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# NiceGUI compiles its templates in the browser (eval) and styles elements one by one; its inline scripts get a
# nonce, so that a script or an event handler in something a person typed does not run.
_PAGE = (
    "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)


class SafeHeaders:
    """Adds them to every response."""

    def __init__(self, app: ASGIApp, secure: bool) -> None:
        self._app, self._secure = app, secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        page = not scope["path"].startswith(("/api/", "/health", "/live", "/metrics"))
        nonce = secrets.token_urlsafe(16) if page else ""
        if page and "text/html" in Headers(scope=scope).get("accept", ""):
            # the nonce is written into the page, so the page must not be packed yet; a proxy may do that
            scope["headers"] = [(k, v) for k, v in scope["headers"] if k != b"accept-encoding"]
        rewriter = _NonceWriter(send, nonce) if page else None

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add(MutableHeaders(scope=message), scope, page, nonce)
            await (rewriter or send)(message)

        await self._app(scope, receive, send_safely)

    def _add(self, headers: MutableHeaders, scope: Scope, page: bool, nonce: str) -> None:
        headers["X-Content-Type-Options"] = "nosniff"
        headers["X-Frame-Options"] = "DENY"
        # the address of /sign-in holds a token; "no-referrer" would hide the origin of its form, too
        headers["Referrer-Policy"] = "strict-origin" if scope["path"] == "/sign-in" else "same-origin"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers["Permissions-Policy"] = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"
        headers.setdefault("Content-Security-Policy", _PAGE.format(nonce=nonce) if page else _NO_PAGE)
        if not scope["path"].startswith("/_nicegui/"):
            headers.setdefault("Cache-Control", "no-store")
        if self._secure:
            headers["Strict-Transport-Security"] = "max-age=31536000"


class _NonceWriter:
    """Marks the script elements of a page that we send as ours; anything but HTML goes through untouched."""

    def __init__(self, send: Send, nonce: str) -> None:
        self._send, self._nonce = send, nonce
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_page(Headers(raw=message["headers"])):
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_marked(self._start, bytes(self._body))
        else:
            await self._send(message)

    async def _send_marked(self, start: Message, body: bytes) -> None:
        marked = re.sub(rb"<script(?=[\s>])", b'<script nonce="%s"' % self._nonce.encode(), body)
        headers = MutableHeaders(raw=start["headers"])
        if "content-length" in headers:
            headers["content-length"] = str(len(marked))
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": marked})


def _is_page(headers: Headers) -> bool:
    return headers.get("content-type", "").startswith("text/html") and "content-encoding" not in headers
