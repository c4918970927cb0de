"""How much of a request may come, and how slowly, until it is ended. Who may connect is in `connections`.

uvicorn's parser keeps an unfinished header for ever, adds to it in quadratic time, and queues requests without
end; whoever sends one need not have signed in, and with TLS of our own there is no proxy that would stop them.
"""

import asyncio
import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConnectionLimits:
    """What one connection, one address and all together may take. No options yet: nobody has asked."""

    connections: int = 512
    """In all. Every TLS connection takes a quarter of a MiB, and processes often may open but 1024 files."""
    reserve: int = 16
    """Further ones that only this machine itself may open: a flood must not hide the service from `/health`."""
    per_address: int = 128
    """From one address, or one /64 of IPv6. An office may share one; this machine may be a proxy for all."""
    silent_seconds: float = 0.2
    """Where there is no room, who has sent no request for longest is ended, if that is longer than this."""
    head: int = 64 * 2**10
    """Bytes of a request line and its headers; also of anything that comes within a body and is none of it."""
    headers: int = 100
    line: int = 8 * 2**10
    """Bytes of one header of a websocket, which are limited by `websockets` as well, but there unanswered."""
    pipelined: int = 8
    """Requests that one connection sends before the first is answered. Browsers send none."""
    head_seconds: float = 10
    """From the first byte of a request to the end of its headers; also for the TLS handshake."""
    body_seconds: float = 20
    """In each such time `rate` times as many bytes must come, or go."""
    rate: int = 500
    """Bytes per second; a telephone at the edge of its network is faster."""
    idle_seconds: int = 30
    """How long a connection may stay without a next request."""
    watch_seconds: float = 1
    """How often all this is looked at."""


class Pace:
    """Whether enough bytes come by.

    >>> pace = Pace(ConnectionLimits(rate=500, body_seconds=20), now=0)
    >>> pace.add(10_000)
    >>> pace.too_slow(now=19), pace.too_slow(now=38), pace.too_slow(now=40)
    (False, False, True)
    """

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        self._seconds = limits.body_seconds
        self._enough = limits.rate * limits.body_seconds
        self.restart(now)

    def restart(self, now: float) -> None:
        self._since = now
        self._bytes = 0

    def add(self, count: int) -> None:
        self._bytes += count

    def too_slow(self, now: float) -> bool:
        if self._bytes >= self._enough:
            self.restart(now)
        return now - self._since > self._seconds


class Refused(Exception):
    """Stops the parser; the connection has been ended already."""


class LimitedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol within limits. Time is not kept by timers: `check` is called every moment.

    The base class is named, not left to uvicorn's choice: these are the callbacks of its parser (httptools).
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits or ConnectionLimits()
        self._awaited: Literal["request", "head", "body"] = "request"
        """What comes next; "head" from the first byte of a request on."""
        self._since = self.loop.time()
        """Since when we wait for that."""
        self._pace = Pace(self._limits, self._since)
        self._undelivered = 0
        """Bytes since the last that completed a head or belonged to a body."""
        self._delivered = False
        self._upgraded = False
        self._answered: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the last that came."""

    @property
    def waiting_since(self) -> float | None:
        """Since when we wait for a request; None while one is being served."""
        return None if self._is_busy() else self._since

    def check(self, now: float) -> None:
        """End the connection if the other side has kept us waiting for too long."""
        if self.transport.is_closing():
            return
        waited = now - self._since
        if self._is_our_turn():
            self._since = now
            self._pace.restart(now)
        elif self._awaited == "request" and waited > self._longest_silence():
            self.transport.close()  # no 408: browsers connect in advance, and would take it for an answer
        elif self._awaited == "head" and waited > self._limits.head_seconds:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "SlowRequest", "the headers took too long")
        elif self._awaited == "body" and not self._is_busy() and waited > self._limits.body_seconds:
            self.transport.close()  # it was answered long ago, and what still comes is thrown away
        elif self._awaited == "body" and self._pace.too_slow(now):
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "SlowRequest", "the body took too long")

    def data_received(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self._upgraded and not self.transport.is_closing():
            self._begin_head()
            end = start + self._limits.head - self._undelivered  # the parser gets not a byte more than that
            self._feed(data[start:end])
            start = end

    def _feed(self, piece: bytes) -> None:
        self._delivered = False
        super().data_received(piece)
        self._undelivered = 0 if self._delivered else self._undelivered + len(piece)
        if self._undelivered >= self._limits.head and not self.transport.is_closing():
            self._refuse_head(f"a request has at most {self._limits.head} bytes of headers")

    # -- what the parser finds ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._begin_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= self._limits.headers:  # also those after a body, which come here as well
            self._refuse_head(f"a request has at most {self._limits.headers} headers")
            raise Refused
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._limits.pipelined:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", "wait for the answers")
            raise Refused
        self._awaited = "body"
        self._since = self.loop.time()
        self._pace.restart(self._since)
        self._delivered = True
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        self._pace.add(len(body))
        self._delivered = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._awaited = "request"
        self._since = self.loop.time()
        self._delivered = True
        super().on_message_complete()

    # -- what uvicorn makes of it ------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        self._answered = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._give_up_answer()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        longest = max(len(self.url), *(len(name) + len(value) for name, value in self.headers))
        if longest > self._limits.line - 64:  # what stands around them in a line
            self._refuse_head(f"a websocket's headers have at most {self._limits.line} bytes each")
            return
        self._upgraded = True
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():  # else it was `Refused`, and has its answer
            super().send_400_response(msg)

    # ----------------------------------------------------------------------------------------------------------

    def _begin_head(self) -> None:
        if self._awaited == "request":
            self._awaited = "head"
            self._since = self.loop.time()

    def _is_busy(self) -> bool:
        """Whether a request is being answered, or waits for it."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _is_our_turn(self) -> bool:
        """Whether we are the slow ones: we answer, have stopped reading, or have not said "100 Continue"."""
        if not self._is_busy():
            return False
        return self._awaited != "body" or self.flow.read_paused or self.cycle.waiting_for_100_continue

    def _longest_silence(self) -> float:
        return self._limits.idle_seconds if self.cycle else self._limits.head_seconds

    def _may_answer(self) -> bool:
        """Whether what we write now would be read as the answer to the request that we refuse."""
        if self._awaited == "body":
            return self._is_busy() and not self.cycle.response_started and not self.pipeline
        return not self._is_busy()

    def _refuse_head(self, detail: str) -> None:
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "HeadersTooLarge", detail)

    def _refuse(self, status: HTTPStatus, error: str, detail: str) -> None:
        log.info("ended a connection: %s", detail, extra={"fields": {"client": self.client and self.client[0]}})
        if self._may_answer():
            self.transport.write(refusal(status, error, detail))
        self.transport.close()
        self._give_up_answer()

    def _give_up_answer(self) -> None:
        """Tell the application that nobody listens; uvicorn would tell only the last of several requests."""
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()


def refusal(status: HTTPStatus, error: str, detail: str) -> bytes:
    """A whole answer, worded as the API words errors.

    >>> refusal(HTTPStatus.REQUEST_TIMEOUT, "SlowRequest", "hurry").splitlines()[0]
    b'HTTP/1.1 408 Request Timeout'
    """
    body = json.dumps({"error": error, "detail": detail}).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
