"""Pictures and texts become features in a process beside this one: begun when first needed, kept warm.

What happens in it is in `cual.serve.jobs.encoder`; how they arrive over HTTP, in `cual.serve.web.api.raw`.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, cast

import numpy as np

from cual import errors
from cual.encoders.base import Kind
from cual.errors import CualError, PredictionsStopped
from cual.serve.jobs.encoder import ANSWER, FAILED, GOOD, HEAD
from cual.serve.rules.messages import exit_words
from cual.types import FloatArray

log = logging.getLogger(__name__)
COMMAND = (sys.executable, "-m", "cual.serve.jobs.encoder")
PATIENCE = 180.0
"""Seconds without a row after which it will not go on: a picture takes 20 at most, loading a model some."""
PAUSE, LONGEST_PAUSE, LONG_LIFE = 0.5, 30.0, 30.0
"""Seconds before a process that died is replaced: twice as many each time, unless it had lived long."""
_LOOK = 1.0  # seconds between two looks of whoever waits at whether anybody encodes
_END_SECONDS = 5.0
_MOST = 2**26  # bytes of one answer
_HIDDEN = ("CUAL_DATABASE",)
_STOPPED = "pictures and texts are not being encoded at the moment; try again"

Encoded = FloatArray | CualError
"""Features of one picture or text, or what is wrong with it."""


@dataclass(eq=False)
class Waiting:
    """A request that somebody waits for."""

    id: int
    head: dict[str, Any]
    items: Sequence[bytes]
    answer: "asyncio.Future[list[Encoded]]"
    since: float
    rows: dict[int, Encoded] = field(default_factory=dict[int, Encoded])

    @property
    def is_whole(self) -> bool:
        return len(self.rows) == len(self.head["sizes"])

    def result(self) -> list[Encoded]:
        return [self.rows[row] for row in range(len(self.rows))]


class Encodings:
    """The process, and who waits for it.

    Should it end, or never come to an end, all who wait are told, and another begins.

    Parameters
    ----------
    encoded
        Told of each row that was encoded.
    stopped
        Called when the process is found dead.
    """

    def __init__(
        self,
        encoded: Callable[[], None] = lambda: None,
        stopped: Callable[[], None] = lambda: None,
        patience: float = PATIENCE,
        pause: float = PAUSE,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._encoded, self._stopped, self._command = encoded, stopped, tuple(command)
        self._patience, self._first_pause, self._pause = patience, pause, pause
        self._lock = threading.RLock()
        """Held for whatever follows; never while a pipe is read or written."""
        self._changed = threading.Condition(self._lock)
        self._process: subprocess.Popen[bytes] | None = None
        self._process_since = self._heard = 0.0
        self._waiting: dict[int, Waiting] = {}
        self._outbox: deque[Waiting | int] = deque()
        """What is still to be sent: requests, and the numbers of those that nobody waits for any more."""
        self._number = 0
        self._replace_at: float | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    async def encode(self, encoder: str, kind: Kind, items: Sequence[bytes], person: int = 0) -> list[Encoded]:
        """Features of pictures (files as they are) or texts (UTF-8), each or what is wrong with it.

        Parameters
        ----------
        encoder
            The fingerprint of a built-in encoder; any other is refused.
        person
            Who asks: people take turns.
        """
        loop = asyncio.get_running_loop()
        if not self.working():
            raise PredictionsStopped(_STOPPED)
        told = {"person": person, "encoder": encoder, "kind": kind, "sizes": [len(item) for item in items]}
        waiting = self._put(told, items, loop.create_future())

        def look() -> None:
            nonlocal again
            again = loop.call_later(_LOOK, look)  # first, for whatever happens next
            self.working()

        again = loop.call_later(_LOOK, look)
        try:
            return await waiting.answer
        finally:
            again.cancel()
            waiting.answer.cancel()
            self._forget(waiting)

    def working(self) -> bool:
        """Whether there is a process that encodes, or need be none; a dead one is replaced."""
        with self._lock:
            alive = self._alive(time.monotonic())
            lost = [] if alive else self._given_up()
        _tell((waiting, PredictionsStopped(_STOPPED)) for waiting in lost)
        return alive

    def close(self) -> None:
        """End the process, and tell all who wait."""
        with self._changed:
            self._closed = True
            lost, process = self._given_up(), self._process
            self._changed.notify_all()  # whoever writes closes its stdin
        _tell((waiting, PredictionsStopped("the service is ending")) for waiting in lost)
        if process is not None:
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _put(self, told: dict[str, Any], items: Sequence[bytes], answer: "asyncio.Future[Any]") -> Waiting:
        now = time.monotonic()
        with self._changed:
            if self._closed:
                raise PredictionsStopped("the service is ending")
            if self._process is None and not self._begun(now):
                raise PredictionsStopped(_STOPPED)
            self._number += 1
            waiting = Waiting(self._number, {"id": self._number, **told}, items, answer, now)
            self._waiting[waiting.id] = waiting
            self._outbox.append(waiting)
            self._changed.notify_all()
        return waiting

    def _forget(self, waiting: Waiting) -> None:
        """Nobody waits for it any more: what is not encoded yet need not be."""
        with self._changed:
            self._waiting.pop(waiting.id, None)
            waiting.items = ()
            if waiting in self._outbox:
                self._outbox.remove(waiting)
            elif self._process is not None and not self._closed:
                self._outbox.append(waiting.id)
                self._changed.notify_all()

    # -- the process's life, under the lock --------------------------------------------------------------------

    def _alive(self, now: float) -> bool:
        if self._process is None:  # begins with the first request
            return True
        if self._process.poll() is None:
            if not self._stuck(now):
                return True
            log.error("the encoder process %d does not come to an end", self._process.pid)
            self._process.kill()
            self._process.wait()
        if self._closed:
            return False
        if self._replace_at is None:
            if now - self._process_since > LONG_LIFE:
                self._pause = self._first_pause
            log.error(
                "the encoder process %d has ended (%s); another begins in %.1f s",
                self._process.pid,
                exit_words(self._process.returncode),
                self._pause,
            )
            self._replace_at, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
            self._stopped()
        elif now >= self._replace_at:
            return self._begun(now)
        return False

    def _stuck(self, now: float) -> bool:
        """Whether somebody has waited for long, and nothing was heard of the process for as long."""
        oldest = min((waiting.since for waiting in self._waiting.values()), default=now)
        return now - max(oldest, self._heard) > self._patience

    def _begun(self, now: float) -> bool:
        """Begin a process, if the system lets us."""
        environment = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what libraries print of a file may be anything
                env=environment,
                bufsize=0,
            )
        except OSError:
            log.exception("the encoder process cannot begin")
            return False
        self._outbox.clear()
        self._process, self._process_since, self._heard, self._replace_at = process, now, now, None
        for work in (self._write, self._read):
            threading.Thread(target=work, args=(process,), name="encoder", daemon=True).start()
        log.info("the encoder process %d begins", process.pid)
        return True

    def _given_up(self) -> list[Waiting]:
        lost = list(self._waiting.values())
        self._waiting.clear()
        self._outbox.clear()
        return lost

    # -- in threads of their own -------------------------------------------------------------------------------

    def _write(self, process: "subprocess.Popen[bytes]") -> None:
        """Send what is to be sent to a process, until it ends or we do."""
        pipe = cast(IO[bytes], process.stdin)
        with suppress(OSError):
            while (message := self._message(process)) is not None:
                for part in message:
                    _write_all(pipe, part)
        with suppress(OSError):
            pipe.close()

    def _message(self, process: "subprocess.Popen[bytes]") -> list[bytes] | None:
        """The next one in parts; None at the end."""
        with self._changed:
            while not self._outbox and not self._closed and process is self._process and process.poll() is None:
                self._changed.wait(_LOOK)
            if self._closed or process is not self._process or not self._outbox:
                return None
            next_ = self._outbox.popleft()
            told, items = ({"drop": next_}, ()) if isinstance(next_, int) else (next_.head, next_.items)
        head = json.dumps(told).encode()
        return [HEAD.pack(len(head)) + head, *items]

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        """Hand on what a process answers, until it ends."""
        pipe = cast(IO[bytes], process.stdout)
        with suppress(OSError, EOFError, ValueError):
            while True:
                id, row, kind, length = ANSWER.unpack(_whole(pipe, ANSWER.size))
                if length > _MOST:
                    raise ValueError(length)
                self._take(id, row, kind, _whole(pipe, length))
        process.kill()  # it has ended, or says what nobody understands
        process.wait()
        pipe.close()
        self.working()  # whoever waits is told

    def _take(self, id: int, row: int, kind: int, data: bytes) -> None:
        outcome = np.frombuffer(data, np.float32) if kind == GOOD else _error(data)
        if kind == GOOD:
            self._encoded()
        with self._lock:
            self._heard = time.monotonic()
            waiting = self._waiting.get(id)
            if waiting is None:
                return
            if kind != FAILED:
                if isinstance(outcome, Exception) and not isinstance(outcome, CualError):
                    outcome = errors.BadFeatures("it cannot be encoded")
                waiting.rows[row] = outcome
                if not waiting.is_whole:
                    return
            del self._waiting[id]
        _tell([(waiting, cast(Exception, outcome) if kind == FAILED else waiting.result())])


def _error(data: bytes) -> Exception:
    """What went wrong: an error of ours, or one that is told to the log alone."""
    told = json.loads(data)
    kind = getattr(errors, told["error"], None) if told["error"] else None
    if isinstance(kind, type) and issubclass(kind, CualError):
        return kind(told["detail"])
    log.error("encoding: %s", told["detail"])
    return RuntimeError(told["detail"])


def _tell(outcomes: Iterable[tuple[Waiting, list[Encoded] | Exception]]) -> None:
    """Hand outcomes to those who wait, each in their own event loop."""
    for waiting, outcome in outcomes:
        with suppress(RuntimeError):  # the loop has ended, and with it whoever waited there
            waiting.answer.get_loop().call_soon_threadsafe(_settle, waiting.answer, outcome)


def _settle(answer: "asyncio.Future[Any]", outcome: list[Encoded] | Exception) -> None:
    if answer.done():  # nobody waits for it any more
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    """All of it: a pipe without a buffer takes as much as there is room for."""
    left = memoryview(data)
    while left:
        left = left[pipe.write(left) :]


def _whole(pipe: IO[bytes], length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = pipe.read(length - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
