"""Whether the service can do its work, found out by doing a little of it: a write, a prediction, a look.

What is tried may take long or never end, so each has a thread of its own, at most one at a time; whoever asks
gets an answer soon in any case. How the answer looks is in `cual.serve.web.api.operations`.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import sqlalchemy as sa

from cual.errors import CualError
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.serve.web.predictions.predicting import Predictor

log = logging.getLogger(__name__)
FRESH = 2.0
"""Seconds for which an answer is kept: anybody may ask, and a write is not free."""
WAIT = 1.0
"""Seconds that whoever asks is kept waiting at most."""
WRITE_SECONDS, PREDICT_SECONDS = 5.0, 30.0
"""That a write and a prediction may take; an agent may have to be loaded first."""
_AGENTS = 3
"""Agents that are tried: one whose file is damaged says nothing of the others."""
_BYTES = 64 * 1024
"""Written to find out whether there is room: more than a file system hides in what it has reserved already."""


class Probe:
    """Something that is tried when somebody asks, unless it was tried a moment ago.

    Parameters
    ----------
    attempt
        Raises an error where it fails.
    patience
        Seconds after which an attempt that has not ended has failed.
    """

    def __init__(self, name: str, attempt: Callable[[], None], patience: float, fresh: float = FRESH) -> None:
        self.name = name
        self._attempt, self._patience, self._fresh = attempt, patience, fresh
        self._lock = threading.Lock()
        self._good = True
        self._ended = float("-inf")
        self._began = 0.0
        self._under_way: Future[None] | None = None

    async def good(self) -> bool:
        """Whether it works. An attempt is waited for a moment; until it ends, what was known holds."""
        now = time.monotonic()
        with self._lock:
            if self._under_way is None and now - self._ended >= self._fresh:
                self._begin(now)
            under_way, known_bad = self._under_way, not self._good and now - self._ended < 5 * self._fresh
        if under_way is not None and not known_bad:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(under_way)), WAIT)
        with self._lock:
            late = self._under_way is not None and time.monotonic() - self._began > self._patience
            return self._good and not late

    def _begin(self, now: float) -> None:
        future: Future[None] = Future()
        thread = threading.Thread(target=self._try, args=(future,), name=f"probe of {self.name}", daemon=True)
        self._began, self._under_way = now, future
        try:
            thread.start()
        except RuntimeError:  # the system has no thread for us: that is an answer, too
            self._good, self._ended, self._under_way = False, now, None

    def _try(self, future: "Future[None]") -> None:
        good = False
        try:
            self._attempt()
            good = True
        except BaseException as error:
            if self._good:
                log.error("%s fails: %s", self.name, error)
        finally:
            with self._lock:
                if good and not self._good:
                    log.warning("%s works again", self.name)
                self._good, self._ended, self._under_way = good, time.monotonic(), None
            future.set_result(None)


class Readiness:
    """All that is tried. `predictor` gives what computes predictions."""

    def __init__(self, home: Home, predictor: Callable[[], Predictor]) -> None:
        self.database = Probe("reading the database", partial(read, home), WRITE_SECONDS)
        self.writes = Probe("writing", partial(write, home, WRITE_SECONDS), WRITE_SECONDS + 1)
        self.predictions = Probe("predicting", lambda: predict(home, predictor()), PREDICT_SECONDS)


def predict(home: Home, predictor: Predictor) -> None:
    """Have an agent predict, the one first that did so last. Where there is none, nothing can be tried."""
    with home.database.reading() as connection:
        ready = sa.select(db.agents.c.id).where(db.agents.c.state == "ready").order_by(db.agents.c.id.desc())
        agents = list(connection.execute(ready.limit(_AGENTS)).scalars())
    if predictor.last is not None:
        agents = [predictor.last, *(agent for agent in agents if agent != predictor.last)]
    failure: Exception | None = None
    for agent in agents:
        try:
            predictor.probe(agent)
            return
        except (CualError, OSError) as error:
            failure = error
    if failure is not None:
        raise failure


def read(home: Home) -> None:
    """Ask the database something."""
    with home.database.reading() as connection:
        connection.execute(sa.select(db.schema.c.version))


def write(home: Home, patience: float) -> None:
    """Write to the database, changing nothing, and to the folder, leaving nothing there."""
    with home.database.writing(patience) as connection:
        connection.execute(sa.update(db.schema).values(version=db.schema.c.version))
    home.uploads.mkdir(exist_ok=True)
    file = home.uploads / f".probe-{os.getpid()}"
    try:
        with file.open("wb") as written:
            written.write(os.urandom(_BYTES))  # what is all the same, a file system may not store
            written.flush()
            os.fsync(written.fileno())
    finally:
        file.unlink(missing_ok=True)
