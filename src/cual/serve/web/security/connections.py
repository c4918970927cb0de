"""Who may connect: how many in all, and from one address. Limits of one request are in `http_limits`.

Connections are accepted here and not by uvicorn, which knows of one only after its TLS handshake: those that
never finish it would be counted by nobody.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from cual.serve.web.security.addresses import network_of
from cual.serve.web.security.http_limits import ConnectionLimits, LimitedHttp, Pace, refusal

log = logging.getLogger(__name__)
_THIS_MACHINE = frozenset({"127.0.0.1", "::1"})


class Connection:
    """One connection from when it is accepted until it is closed, whatever is spoken on it."""

    def __init__(self, socket: socket.socket, address: str, limits: ConnectionLimits, now: float) -> None:
        self.socket = socket
        self.address = address
        self.opening: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        """None until the TLS handshake is over."""
        self._limits = limits
        self._ended = False
        self._accepted = now
        self._understood = now
        """When it last spoke HTTP, or was a websocket."""
        self._unsent = 0
        self._pace = Pace(limits, now)

    @property
    def closed(self) -> bool:
        return self.socket.fileno() == -1

    @property
    def waiting_since(self) -> float | None:
        """Since when we wait for a request; None while one is being served, or if it has been ended."""
        if self._ended:
            return None
        if self.transport is None:
            return self._accepted
        protocol = self.transport.get_protocol()
        return protocol.waiting_since if isinstance(protocol, LimitedHttp) else None

    def end(self) -> None:
        self._ended = True
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def opened(self, _: "asyncio.Task[None]") -> None:
        if self.transport is None:
            self.socket.close()

    def check(self, now: float) -> None:
        """End it if the other side takes too long."""
        if self.transport is None:
            return  # the handshake has a time-out of its own
        protocol = self.transport.get_protocol()
        if self._is_read_too_slowly(self.transport, now) or self._is_no_websocket(protocol, now):
            self.end()
        elif isinstance(protocol, LimitedHttp):
            protocol.check(now)

    def _is_read_too_slowly(self, transport: asyncio.Transport, now: float) -> bool:
        unsent = transport.get_write_buffer_size()
        if unsent == 0 or (unsent > self._unsent and not transport.is_closing()):
            self._pace.restart(now)  # all has gone out, or enough of it for more to be written
        else:
            self._pace.add(self._unsent - unsent)
        self._unsent = unsent
        return self._pace.too_slow(now)

    def _is_no_websocket(self, protocol: asyncio.BaseProtocol, now: float) -> bool:
        """Whether it was to become one and did not: `websockets` leaves some bad requests without an answer."""
        if not isinstance(protocol, WebSocketsSansIOProtocol) or protocol.handshake_complete:
            self._understood = now
        return now - self._understood > self._limits.head_seconds


class Listener:
    """Accepts connections while there is room, and makes room by ending the one that was silent for longest."""

    def __init__(
        self, limits: ConnectionLimits, protocol: Callable[[], LimitedHttp], tls: ssl.SSLContext | None
    ) -> None:
        self._limits = limits
        self._protocol = protocol
        self._tls = tls
        self._connections = list[Connection]()
        self._tasks = list[asyncio.Task[None]]()

    def start(self, listening: socket.socket) -> None:
        listening.setblocking(False)
        listening.listen(1024)
        self._tasks.append(asyncio.create_task(self._accept(listening)))
        self._tasks.append(asyncio.create_task(self._watch()))

    def stop(self) -> None:
        """Accept no more. What is connected stays, but is watched no longer."""
        for task in self._tasks:
            task.cancel()
        for connection in self._connections:
            if connection.transport is None:
                connection.end()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:  # too many open files, mostly: as others are closed it can go on
                log.warning("cannot accept connections: %s", error)
                await asyncio.sleep(self._limits.watch_seconds)
                continue
            address = network_of(str(peer[0]))
            if self._has_room(address):
                connection = Connection(accepted, address, self._limits, loop.time())
                self._connections.append(connection)
                connection.opening = loop.create_task(self._open(connection))
                connection.opening.add_done_callback(connection.opened)
            else:
                self._refuse(accepted)
            await asyncio.sleep(0)  # many may wait to be accepted; those who are in have their turn

    async def _open(self, connection: Connection) -> None:
        seconds = None if self._tls is None else self._limits.head_seconds
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                connection.socket,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except OSError as error:
            log.debug("no connection with %s: %s", connection.address, error)
        else:
            connection.transport = transport

    def _refuse(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            if self._tls is None:  # else nothing can be said before a handshake, which is work
                detail = "too many connections; try again in a moment"
                accepted.send(refusal(HTTPStatus.SERVICE_UNAVAILABLE, "TooManyConnections", detail))

    def _has_room(self, address: str) -> bool:
        limits = self._limits
        if len(self._connections) < min(limits.connections, limits.per_address):
            return True
        self._forget_closed()
        local = address in _THIS_MACHINE
        if len(self._connections) >= limits.connections + (limits.reserve if local else 0):
            return self._make_room(self._connections)
        if local:  # maybe a proxy, through which everybody comes
            return True
        same = [connection for connection in self._connections if connection.address == address]
        return len(same) < limits.per_address or self._make_room(same)

    def _make_room(self, connections: list[Connection]) -> bool:
        """End the one that we have waited for longest; False if all are being served or have just come."""
        waiting = [(since, each) for each in connections if (since := each.waiting_since) is not None]
        if not waiting:
            return False
        since, longest = min(waiting, key=lambda pair: pair[0])
        if asyncio.get_running_loop().time() - since < self._limits.silent_seconds:
            return False
        longest.end()
        return True

    def _forget_closed(self) -> None:
        self._connections = [connection for connection in self._connections if not connection.closed]

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.watch_seconds)
            self._forget_closed()
            for connection in self._connections:
                try:
                    connection.check(loop.time())
                except Exception:  # of one connection; the others are still to be watched
                    log.exception("a connection could not be checked")
                    connection.end()
