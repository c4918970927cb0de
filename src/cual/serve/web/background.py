"""Threads that go on whatever happens in them: what ends one is logged, shown in `/health`, and begun anew."""

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
PAUSE, LONGEST_PAUSE, LONG_LIFE = 2.0, 60.0, 60.0
"""Seconds before what ended is begun anew: twice as many each time, unless it had lived long."""


class Background:
    """A thread that does one thing until it is to end.

    Parameters
    ----------
    run
        Returns once `ending` is set. Whatever else ends it is a fault.
    """

    def __init__(
        self, name: str, run: Callable[[], None], ending: threading.Event, pause: float = PAUSE
    ) -> None:
        self.name = name
        self._run, self._ending, self._first_pause = run, ending, pause
        self._fails = False
        self._thread = self._made()

    def start(self) -> None:
        """Begin, or go on where it has begun already."""
        if self._thread.is_alive():
            return
        if self._thread.ident is not None:  # of an earlier life
            self._thread = self._made()
        self._thread.start()

    def _made(self) -> threading.Thread:
        """Not waited for at the end of the process: it may be the one that never comes to an end."""
        return threading.Thread(target=self._keep, name=self.name, daemon=True)

    def join(self, seconds: float | None = None) -> None:
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def working(self) -> bool:
        """Whether it does its work; True also before its start and after its end, which are meant."""
        begun = self._thread.ident is not None and not self._ending.is_set()
        return not begun or (self._thread.is_alive() and not self._fails)

    def _keep(self) -> None:
        pause = self._first_pause
        while not self._ending.is_set():
            began = time.monotonic()
            self._fails = False
            try:
                self._run()
                continue
            except BaseException:  # SystemExit too: nothing in here is meant to end the thread
                self._fails = True
                if time.monotonic() - began > LONG_LIFE:
                    pause = self._first_pause
                log.critical("%s has ended; it begins anew in %.1f s", self.name, pause, exc_info=True)
            self._ending.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
