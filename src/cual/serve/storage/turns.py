"""Who writes next among the threads of a process: first come, first served, and nobody waits for ever.

How a transaction is begun, and what a database does by itself while others write, is in `database`.
"""

import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import OperationalError

CROWD = 4
"""Who may wait behind others that do not get on. The rest is told at once: a web process has few threads, and
those that wait read nothing for anybody."""
SLOW = 2.0
"""Seconds after which those that write do not get on."""
LOOK = 0.25
"""Seconds between two looks of those that wait at whether it goes on."""


class Busy(OperationalError):
    """The turn of a writer did not come in time. As if the database had said so: nothing was written."""

    def __init__(self) -> None:
        super().__init__(None, None, Exception("others write for too long; try again"), hide_parameters=True)


class Turns:
    """Places for those that write, given in the order in which they came.

    Parameters
    ----------
    places
        How many may write at a time.

    >>> turns = Turns(places=1)
    >>> with turns.taken(deadline=time.monotonic() + 5):
    ...     try:
    ...         with turns.taken(deadline=time.monotonic()):
    ...             pass
    ...     except Busy:
    ...         print("somebody writes")
    somebody writes
    """

    def __init__(self, places: int = 1) -> None:
        self._lock = threading.Lock()
        self._free = places
        self._places = places
        self._waiting: deque[threading.Lock] = deque()
        self._since: float | None = None
        """When somebody last got on, or the first of those came that have not; none while nobody writes."""
        self._crowd: int | None = None

    def hurry(self) -> None:
        """Let few wait while nobody gets on."""
        self._crowd = CROWD

    @contextmanager
    def taken(self, deadline: float) -> Generator[None]:
        """A place, from when it is free; `Busy` where none is before `deadline`, by `time.monotonic`."""
        self._take(deadline)
        got_on = False
        try:
            yield
            got_on = True
        except OperationalError:
            raise
        except BaseException:
            got_on = True  # what failed had nothing to do with others
            raise
        finally:
            self._leave(got_on)

    def _take(self, deadline: float) -> None:
        with self._lock:
            if self._since is None:
                self._since = time.monotonic()
            if self._free:
                self._free -= 1
                return
            self._check(len(self._waiting))
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        while not mine.acquire(timeout=max(0.0, min(LOOK, deadline - time.monotonic()))):
            with self._lock:
                if mine not in self._waiting:
                    return  # it was our turn in this moment
                try:
                    self._check(self._waiting.index(mine), deadline)
                except Busy:
                    self._waiting.remove(mine)
                    raise

    def _check(self, ahead: int, deadline: float | None = None) -> None:
        """Refuse who has waited long enough, or has too many ahead while nobody gets on."""
        now = time.monotonic()
        still = self._since is not None and now - self._since > SLOW
        if (deadline is not None and now >= deadline) or (
            self._crowd is not None and still and ahead >= self._crowd
        ):
            raise Busy

    def _leave(self, got_on: bool) -> None:
        with self._lock:
            if got_on:
                self._since = time.monotonic()
            if self._waiting:
                self._waiting.popleft().release()  # whoever leaves lets the next one in
                return
            self._free += 1
            if self._free == self._places:
                self._since = None
