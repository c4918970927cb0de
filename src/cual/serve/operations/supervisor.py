"""The processes of the service: this one serves the web and keeps one worker running beside it.

What is computed, the worker knows; what is served, `cual.serve.web.app`.
"""

import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import IO

import uvicorn
from fastapi import FastAPI

from cual.errors import BadOption, FolderInUse
from cual.serve.operations.logs import LogFormat
from cual.serve.web.security.connections import Listener
from cual.serve.web.security.http_limits import ConnectionLimits, LimitedHttp
from cual.serve.web.settings import Settings
from cual.storage import replacing, write_bytes

log = logging.getLogger(__name__)
_LOCK, _WHERE, _ADDRESS = (
    ".serving.lock",
    ".serving.json",
    ".sign-in",
)  # hidden: a folder with nothing else in it is still new
_END_SECONDS = 10
"""How long requests and the worker may take to end."""
_STARTING, _SILENT = 60.0, 10.0
"""Seconds in which a worker must give its first sign of life, and each further one."""
_LONG_LIFE, _LONGEST_PAUSE = 30.0, 30.0
_PORTS_TRIED = 50


class Worker:
    """The worker process, started again whenever it ends by itself.

    It ends with this process, however that ends: it looks whether its parent is still there.

    Parameters
    ----------
    program
        The module that is a worker, and arguments that only it knows.
    """

    def __init__(
        self,
        folder: Path,
        database: str | None = None,
        log_format: LogFormat = "text",
        program: Sequence[str] = ("cual.serve.worker",),
    ) -> None:
        self._command = [sys.executable, "-m", *program, str(folder)]
        self._command += ["--parent", str(os.getpid()), "--log-format", log_format]
        # not on the command line, where everybody on this machine could read a password
        self._environment = {**os.environ, **({} if database is None else {"CUAL_DATABASE": database})}
        self._process: subprocess.Popen[bytes] | None = None
        self._quiet_until = 0.0
        self._ending = threading.Event()
        self._lock = threading.Lock()
        """Held while a worker is begun: none may be begun behind the back of `end`."""
        self._thread = threading.Thread(target=self._keep, name="worker", daemon=True)

    def start(self) -> None:
        self._process = self._begin()
        self._thread.start()

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def silent(self) -> bool:
        """Whether it is there but gives no sign of life, as one that was stopped or hangs."""
        return self.alive() and time.monotonic() > self._quiet_until

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def end(self) -> None:
        """Ask it to go; a job that it leaves is done again by the next."""
        with self._lock:
            self._ending.set()
            process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._thread.join()

    def _begin(self) -> subprocess.Popen[bytes]:
        # Of a group of its own: Ctrl-C in a terminal is for us, and we tell the worker.
        listening, beat = os.pipe()
        try:
            process = subprocess.Popen(
                [*self._command, "--beat", str(beat)],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(beat,),
            )
        except BaseException:
            os.close(listening)
            raise
        finally:
            os.close(beat)
        self._quiet_until = time.monotonic() + _STARTING
        threading.Thread(target=self._listen, args=(listening,), name="beats", daemon=True).start()
        return process

    def _listen(self, beats: int) -> None:
        """Note each sign of life of one worker, until it has ended."""
        with open(beats, "rb", buffering=0) as pipe:
            while pipe.read(4096):
                self._quiet_until = time.monotonic() + _SILENT

    def _keep(self) -> None:
        pause = 0.1
        while self._process is not None:
            began = time.monotonic()
            code = self._process.wait()
            if self._ending.is_set():
                return
            pause = 0.1 if time.monotonic() - began > _LONG_LIFE else min(2 * pause, _LONGEST_PAUSE)
            log.warning("the worker has ended with %d; another begins in %.1f s", code, pause)
            self._ending.wait(pause)
            with self._lock:
                if self._ending.is_set():
                    return
                self._process = self._begin()


@dataclass(frozen=True)
class Where:
    """What a workspace's folder tells of the service that runs, or ran last."""

    url: str
    running: bool


def where(folder: Path) -> Where | None:
    """The address of the service of a workspace; None if there never was one."""
    try:
        url = str(json.loads((folder / _WHERE).read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        with (folder / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Where(url, True)
    return Where(url, False)


@contextmanager
def claimed(folder: Path) -> Generator[Callable[[str], None]]:
    """Hold a workspace for one service; call what it gives with the address.

    The lock is the kernel's and ends with this process, however that ends.
    """
    folder.mkdir(0o700, parents=True, exist_ok=True)
    with (folder / _LOCK).open("ab") as lock:
        if not _locked(lock):
            known = where(folder)
            at = f" at {known.url}" if known is not None else ""
            raise FolderInUse(f"{folder} is being served already{at}")

        def announce(url: str) -> None:
            write_bytes(folder / _WHERE, json.dumps({"url": url, "pid": os.getpid()}).encode())

        yield announce


def put_down(folder: Path, address: str) -> Path:
    """Keep the administrator's address in a file that only the user of this process can read."""
    file = folder.resolve() / _ADDRESS
    with replacing(file, private=True) as writing:
        writing.write(f"{address}\n".encode())
    return file


def take_up(folder: Path) -> None:
    """Remove the file: the service has ended, and the next one makes another address."""
    (folder / _ADDRESS).unlink(missing_ok=True)


def _locked(lock: IO[bytes]) -> bool:
    """Whether the lock is ours now. Whoever only looks (`where`) has it for a moment; that is waited for."""
    for _ in range(20):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


def listen(host: str, port: int | None, default: int = 8765) -> socket.socket:
    """A socket on `port`, or without one on the first free port from `default` on."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        raise BadOption(f"--host {host}: no such address on this machine") from None
    for candidate in [port] if port is not None else [*range(default, default + _PORTS_TRIED), 0]:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address[0], candidate))
            listener.listen(128)  # so that the next one who asks for this port sees that it is taken
        except OSError as error:
            listener.close()
            if port is not None:
                raise BadOption(f"--port {port}: {error.strerror}; give another one, or none") from None
            continue
        return listener
    raise BadOption(f"--host {host}: no port is free")


class _Server(uvicorn.Server):
    """Ends in good order when asked to, and lets whoever called it clean up as well. It accepts connections
    within limits."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits) -> None:
        super().__init__(config)
        self._limits = limits
        self._listener: Listener | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # uvicorn is to accept nothing itself
        self._listener = Listener(self._limits, self._protocol, self.config.ssl)
        for listening in sockets or ():
            self._listener.start(listening)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._listener is not None:
            self._listener.stop()
        await super().shutdown(sockets)

    def _protocol(self) -> LimitedHttp:
        return LimitedHttp(self.config, self.server_state, self.lifespan.state, limits=self._limits)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # uvicorn's own raises the signal again at the end, and that would be the end of this process
        def end(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(
    app: FastAPI,
    settings: Settings,
    listener: socket.socket,
    worker: Worker,
    tls: tuple[Path, Path] | None = None,
    started: Callable[[], None] = lambda: None,
    limits: ConnectionLimits | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then answer what has come in, end the worker, and return.

    Parameters
    ----------
    listener
        The socket to serve on.
    tls
        Files of the certificate and of its key.
    started
        Called when requests are answered.
    limits
        Of connections and of what comes on them.
    """
    limits = limits or ConnectionLimits()
    if settings.proxy is not None:
        limits = replace(limits, per_address=limits.connections)  # everybody comes from the proxy's
    config = uvicorn.Config(
        app,
        http=LimitedHttp,
        ws="websockets-sansio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who is to be believed, our own middleware decides
        ssl_certfile=None if tls is None else str(tls[0]),
        ssl_keyfile=None if tls is None else str(tls[1]),
        timeout_graceful_shutdown=_END_SECONDS,
        timeout_keep_alive=limits.idle_seconds,
        ws_max_size=4 * 2**20,
    )
    server = _Server(config, limits)
    worker.start()
    watch = threading.Thread(target=_when_started, args=(server, started), daemon=True)
    watch.start()
    try:
        server.run(sockets=[listener])
    finally:
        worker.end()


def _when_started(server: uvicorn.Server, started: Callable[[], None]) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.01)
    started()
