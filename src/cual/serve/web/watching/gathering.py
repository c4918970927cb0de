"""Counts predictions while they are made, and writes them down every few seconds. What they mean, `rules` say.

Nothing is written per request. What a kill loses is what was judged since the last flush: `SECONDS` at most.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

import numpy as np

from cual.agent import Agent
from cual.serve.rules.watching import noting
from cual.serve.rules.watching.course import Judged, Yardstick
from cual.serve.rules.watching.evidence import OTHER
from cual.serve.rules.watching.noting import Batch
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.serve.web.background import Background
from cual.serve.web.predictions.outcomes import UNSURE_BELOW, Judgements, Novelties, Shape

log = logging.getLogger(__name__)
SECONDS = 5.0
"""Between two flushes."""
MOST = 1_000_000
"""Samples that are held while the database does not answer; older ones are dropped, and that is logged."""
_YARDSTICKS = 64
_ROLLED = timedelta(hours=1)


class Gathering:
    """What was judged since the last flush. Thread-safe.

    Parameters
    ----------
    judged
        Told of each batch: the agent, and how many were seen, unlike anything known, and unsure.
    regroup
        Called at times, in the thread that flushes: looks at what waits.
    """

    def __init__(
        self,
        home: Home,
        judged: Callable[[int, int, int, int], None] = lambda agent, seen, unlike, unsure: None,
        regroup: Callable[[], None] = lambda: None,
        seconds: float = SECONDS,
    ) -> None:
        self._home, self._judged, self._regroup, self._seconds = home, judged, regroup, seconds
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        """Held by whoever flushes: batches are written in the order in which they came."""
        self._batches: list[Batch] = []
        self._held = 0
        self._yardsticks: dict[tuple[int, int, float | None], tuple[float | None, Yardstick]] = {}
        self._rolled: datetime | None = None
        self._ending = threading.Event()
        self.background = Background("watching", self._run, self._ending)

    def start(self) -> None:
        self.background.start()

    def close(self) -> None:
        """Write down what there is, and end."""
        self._ending.set()
        self.background.join()
        self._try("flushed", self.flush)

    def note(self, id: int, agent: Agent, shape: Shape, outcome: Judgements | Novelties) -> None:
        """Count what was judged. Whatever goes wrong is logged: a prediction never fails for its sake."""
        try:
            self._note(id, agent, shape, outcome)
        except Exception:
            log.exception("predictions of agent %d could not be counted", id)

    def _note(self, id: int, agent: Agent, shape: Shape, outcome: Judgements | Novelties) -> None:
        threshold, yardstick = self._measure(id, agent, shape)
        if isinstance(outcome, Judgements):
            scores, classes = outcome.best[:, 3], outcome.best[:, 0].astype(np.int64)
        else:
            scores, classes = outcome.scores, np.full(len(outcome.scores), OTHER)
        # by the agent's own rate: a rate that one request asks for says nothing of the others
        unlike = scores > threshold if threshold is not None else np.zeros(len(scores), np.bool_)
        unsure = 0
        if isinstance(outcome, Judgements) and outcome.calibrated:
            unsure = int((~unlike & (outcome.best[:, 2] < UNSURE_BELOW)).sum())
        judged = Judged(unlike, scores.astype(np.float32), classes, unsure)
        batch = Batch(id, shape.version, db.now(), judged, yardstick)
        self._judged(id, len(judged), int(unlike.sum()), unsure)
        with self._lock:
            self._batches.append(batch)
            self._held += len(judged)
            while self._held > MOST:
                dropped = self._batches.pop(0)
                self._held -= len(dropped.judged)
                log.error("%d predictions could not be written down and are not counted", len(dropped.judged))

    def _measure(self, id: int, agent: Agent, shape: Shape) -> tuple[float | None, Yardstick]:
        """The threshold at the agent's own rate, and what its validation samples say of it."""
        key = (id, shape.version, shape.false_alarms)
        if key not in self._yardsticks:
            rate, threshold, scores = shape.false_alarms, None, np.empty(0, np.float32)
            if len(agent.validation):
                scores = agent.known_novelty
                threshold = float((agent.threshold if rate is None else agent.threshold_at(rate)).value)
            yardstick = Yardstick.of(scores, np.inf if threshold is None else threshold, rate)
            while len(self._yardsticks) >= _YARDSTICKS:
                self._yardsticks.pop(next(iter(self._yardsticks)))
            self._yardsticks[key] = (threshold, yardstick)
        return self._yardsticks[key]

    def flush(self) -> None:
        """Write down what has gathered; where that fails, it is kept for the next time."""
        with self._flushing:
            with self._lock:
                batches, self._batches, self._held = self._batches, [], 0
            try:
                noting.note(self._home, batches, db.now())
            except BaseException:
                with self._lock:
                    self._batches = [*batches, *self._batches]
                    self._held += sum(len(batch.judged) for batch in batches)
                raise

    def _run(self) -> None:
        while not self._ending.wait(self._seconds):
            self._try("flushed", self.flush)
            self._try("rolled up", self._roll_up)
            self._try("grouped", self._regroup)

    def _roll_up(self) -> None:
        now = db.now()
        if self._rolled is None or abs(now - self._rolled) >= _ROLLED:  # also where a clock was set back
            noting.roll_up(self._home, now)
            self._rolled = now

    def _try(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            log.exception("what predictions said could not be %s; it is tried again", what)
