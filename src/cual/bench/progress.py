"""How far a run is and how long it will still take. Showing it is up to the command line."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from cual.types import Row


@dataclass(frozen=True)
class Progress:
    """How far a run is: tasks done and in all, seconds left (as an estimate), and the newest row."""

    done: int
    total: int
    seconds_left: float
    row: Row | None = None


class Meter:
    """Counts tasks and estimates the time left from those of this run.

    >>> meter = Meter(4, lambda now: print(now.done, now.total))
    >>> meter.skip(2)  # an earlier run did these
    2 4
    >>> meter.step({"task": 3})
    3 4
    """

    def __init__(self, total: int, progress: Callable[[Progress], None] | None) -> None:
        self._total, self._progress = total, progress
        self._done = self._here = 0
        self._began = time.perf_counter()

    def skip(self, n: int) -> None:
        """Tasks that an earlier run has finished."""
        self._done += n
        self._tell(None)

    def step(self, row: Row) -> None:
        self._done, self._here = self._done + 1, self._here + 1
        self._tell(row)

    def _tell(self, row: Row | None) -> None:
        if self._progress is None:
            return
        spent = time.perf_counter() - self._began
        left = spent / self._here * (self._total - self._done) if self._here else math.nan
        self._progress(Progress(self._done, self._total, left, row))
