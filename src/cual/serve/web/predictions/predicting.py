"""Predictions for production use: computed in one thread, block by block, for all who wait.

What is computed is in `outcomes`, who comes next in `queueing`, reading and writing of HTTP in
`cual.serve.web.api.predictions`.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from cual.agent import Agent
from cual.data.pool import check_finite, check_width
from cual.errors import PredictionsStopped
from cual.serve.web.predictions.outcomes import (
    Judgements,
    Novelties,
    Outcome,
    Predictions,
    Shape,
    check_table,
    kept,
    numbers_of,
    numbers_per_row,
    too_many_rows,
)
from cual.serve.web.predictions.queueing import Kind, Pace, Piece, Queue, Request
from cual.serve.web.settings import Limits
from cual.types import AnyArray

log = logging.getLogger(__name__)
WAIT = 0.002
"""Seconds that the first request of a batch waits for others."""
PATIENCE = 120.0
"""Seconds after which a block will not end any more: it takes a twentieth of one, loading an agent some."""
PAUSE, LONGEST_PAUSE, LONG_LIFE = 0.5, 30.0, 30.0
"""Seconds before a thread that died is replaced: twice as many each time, unless it had lived long."""
_LOOK = 1.0  # seconds between two looks of whoever waits at whether anybody computes
_END_SECONDS = 10.0
_STOPPED = "predictions are not being computed at the moment; try again"


Charge = Callable[[int], None]


class Predictor:
    """Collects requests for a moment and computes them in one go, large ones in blocks between those of others.

    No request can end it: what goes wrong is told to those who wait for it. Should its thread end all the
    same, or never come to an end, all who wait are told, and it begins anew.

    Parameters
    ----------
    shape
        Of a version of an agent, or with None of the current one: asked once per batch, so that rolling back
        counts at once.
    load
        An agent of a version; it keeps those that were used last.
    computed
        Told the rows of each batch.
    stopped
        Called when the thread is found dead.
    judged
        Told what requests were answered whose samples were judged, in the thread that computes.

    Which requests happen to share a batch can change the last bits of a probability, never more.
    """

    def __init__(
        self,
        shape: Callable[[int, int | None], Shape],
        load: Callable[[int, int], Agent],
        computed: Callable[[int], None] = lambda rows: None,
        stopped: Callable[[], None] = lambda: None,
        limits: Limits | None = None,
        wait: float = WAIT,
        patience: float = PATIENCE,
        pause: float = PAUSE,
        judged: Callable[[int, Agent, Shape, Judgements | Novelties], None] = lambda id, agent, shape, answer: (
            None
        ),
    ) -> None:
        self._judged = judged
        self._shape, self._load, self._computed, self._stopped = shape, load, computed, stopped
        self._limits, self._wait = limits or Limits(), wait
        self._patience, self._first_pause, self._pause = patience, pause, pause
        self._lock = threading.Lock()
        """Held for whatever follows; never while computing."""
        self._changed = threading.Condition(self._lock)
        self._queue, self._pace = Queue(), Pace()
        self._batch: list[Piece] = []
        self._batch_since: float | None = None
        self._thread: threading.Thread | None = None
        self._thread_since = 0.0
        self._replace_at: float | None = None
        self._closed = False
        self.last: int | None = None
        """The agent that predicted last."""

    async def predict(
        self,
        agent: int,
        version: int | None,
        X: AnyArray,
        person: int = 0,
        charge: Charge = lambda memory: None,
    ) -> Predictions:
        """Probabilities of all classes.

        Parameters
        ----------
        version
            The current one if None.
        person
            Who asks: people take turns.
        charge
            Told the bytes that the answer will take, in another thread; its error is the answer instead.
        """
        return await self._ask("predict", agent, version, X, person, charge)

    async def novelty(
        self,
        agent: int,
        version: int | None,
        X: AnyArray,
        person: int = 0,
        charge: Charge = lambda memory: None,
        false_alarms: float | None = None,
    ) -> Novelties:
        """Scores, and what they are compared with; `false_alarms` is a rate other than the agent's."""
        return await self._ask("novelty", agent, version, X, person, charge, false_alarms)

    async def judge(
        self,
        agent: int,
        version: int | None,
        X: AnyArray,
        person: int = 0,
        charge: Charge = lambda memory: None,
        false_alarms: float | None = None,
    ) -> Judgements:
        """The class of each sample with its probability, and whether it is like anything known."""
        return await self._ask("judge", agent, version, X, person, charge, false_alarms)

    def check(self, agent: int, version: int | None, rows: int, width: int) -> None:
        """Refuse rows that the agent does not take, or not so many, before they are here. Asks the database."""
        check_work(rows, width, self._shape(agent, version), self._limits)

    def check_rows(self, agent: int, version: int | None, rows: int) -> int:
        """The same for rows that will be as wide as the agent wants them; how wide that is."""
        shape = self._shape(agent, version)
        check_work(rows, shape.width, shape, self._limits)
        return shape.width

    def working(self) -> bool:
        """Whether predictions are computed; where not, all who wait are told, and a dead thread is replaced."""
        with self._lock:
            alive = self._alive(time.monotonic())
            lost = [] if alive else self._given_up()
        _tell((request, PredictionsStopped(_STOPPED)) for request in lost)
        return alive

    def probe(self, agent: int) -> None:
        """Have a row of zeros predicted, as anybody could, and wait for it; an error where that fails."""
        X = np.zeros((1, self._shape(agent, None).width), np.float32)
        asyncio.run(self._ask("predict", agent, None, X, 0, lambda memory: None, counts=False))

    def close(self) -> None:
        """End the thread when it has computed what it has begun."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)
        with self._lock:
            lost = self._given_up()
        _tell((request, PredictionsStopped("the service is ending")) for request in lost)

    async def _ask(
        self,
        kind: Kind,
        agent: int,
        version: int | None,
        X: AnyArray,
        person: int,
        charge: Charge,
        false_alarms: float | None = None,
        counts: bool = True,
    ) -> Any:
        check_table(X.shape, X.dtype)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self.working():
            raise PredictionsStopped(_STOPPED)
        request = Request(kind, agent, version, X, person, answer, charge, false_alarms=false_alarms)
        request.counts = counts
        self._put(request)

        def look() -> None:
            nonlocal again
            again = loop.call_later(_LOOK, look)  # first, for whatever happens next
            self.working()

        again = loop.call_later(_LOOK, look)
        try:
            return await answer
        finally:
            again.cancel()
            answer.cancel()  # nothing more is computed for whoever has gone

    def _put(self, request: Request) -> None:
        with self._changed:
            if self._closed:
                raise PredictionsStopped("the service is ending")
            if self._thread is None and not self._begun(time.monotonic()):
                raise PredictionsStopped(_STOPPED)
            self._queue.add(request)
            self._changed.notify()

    # -- the thread's life, under the lock ---------------------------------------------------------------------

    def _alive(self, now: float) -> bool:
        if self._thread is None:  # begins with the first request
            return True
        if self._thread.is_alive():
            return self._batch_since is None or now - self._batch_since < self._patience
        if self._closed:
            return False
        if self._replace_at is None:
            if now - self._thread_since > LONG_LIFE:
                self._pause = self._first_pause
            log.critical("the thread of predictions has died; another begins in %.1f s", self._pause)
            self._replace_at, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
            self._stopped()
        elif now >= self._replace_at:
            return self._begun(now)
        return False

    def _begun(self, now: float) -> bool:
        """Begin a thread, if the system lets us."""
        # not waited for at the end of the process: it may be the one that never comes to an end
        thread = threading.Thread(target=self._run, name="predictions", daemon=True)
        self._batch_since = None
        try:
            thread.start()
        except RuntimeError:
            log.exception("the thread of predictions cannot begin")
            return False
        self._thread, self._thread_since, self._replace_at = thread, now, None
        return True

    def _given_up(self) -> list[Request]:
        """All that wait, and those in the making; nobody is waited for afterwards."""
        lost, self._batch = [*self._queue.clear(), *(piece.request for piece in self._batch)], []
        return lost

    # -- in the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._something_waits():
            try:
                self._work()
            except Exception as error:  # whatever it is belongs to those who wait
                _tell((request, error) for request in self._lost())

    def _something_waits(self) -> bool:
        """Wait for a request, and a moment longer for others; False at the end."""
        with self._changed:
            if self._queue and not self._closed:
                return True  # those who came meanwhile have waited long enough
            while not self._queue and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
        time.sleep(self._wait)
        return True

    def _work(self) -> None:
        with self._lock:
            self._batch, self._batch_since = self._queue.take(self._pace.rows), time.monotonic()
            batch = self._batch
        _tell(self._compute(batch))
        with self._lock:
            self._batch, self._batch_since = [], None

    def _lost(self) -> list[Request]:
        """Whose batch has failed; all, if it failed before it was known whose."""
        with self._lock:
            lost = [piece.request for piece in self._batch] or self._queue.clear()
            self._batch, self._batch_since = [], None
        return lost

    def _compute(self, batch: list[Piece]) -> list[tuple[Request, Outcome]]:
        """The outcome of each request that has one now; what is wrong with one of them is told to that one."""
        if not batch:
            return []
        kind, id, version = group = batch[0].request.group
        shape = self._shape(id, version)
        outcomes: list[tuple[Request, Outcome]] = []
        pieces: list[Piece] = []
        blocks: list[torch.Tensor] = []
        for piece in batch:
            try:
                blocks.append(_block(piece, shape, self._limits))
                pieces.append(piece)
            except Exception as error:
                outcomes.append((piece.request, error))
        if not pieces:
            return outcomes
        agent, rows = self._load(id, shape.version), sum(map(len, blocks))
        began = time.perf_counter()
        together = torch.cat(blocks)
        numbers = numbers_of(agent, kind, together)
        self._pace.note(group, rows, time.perf_counter() - began)
        self._computed(sum(len(b) for b, piece in zip(blocks, pieces, strict=True) if piece.request.counts))
        self.last = id
        ends = np.cumsum([len(block) for block in blocks])[:-1]
        for piece, part in zip(pieces, np.split(numbers, ends), strict=True):
            outcome = kept(piece, part, agent, shape)
            if isinstance(outcome, Judgements | Novelties):
                self._judged(id, agent, shape, outcome)
            outcomes += [] if outcome is None else [(piece.request, outcome)]
        return outcomes


def check_work(rows: int, width: int, shape: Shape, limits: Limits) -> None:
    """Refuse features of another width, and more rows than are computed for one request.

    >>> check_work(50_000, 16, Shape(version=0, width=16, classes=100), Limits())
    Traceback (most recent call last):
    cual.errors.TooLarge: this agent takes 41943 rows at a time (16 wide, 100 classes); send the 50000 in parts
    """
    check_width(width, shape.width, "features")
    error = too_many_rows(rows, shape, limits)
    if error is not None:
        raise error


def _block(piece: Piece, shape: Shape, limits: Limits) -> torch.Tensor:
    """The rows of a piece, checked, in float32."""
    request = piece.request
    if request.numbers is None:
        rows, width = request.X.shape
        check_work(rows, width, shape, limits)
        request.charge(4 * rows * numbers_per_row(request.kind, shape))
    request.version = shape.version
    with np.errstate(all="ignore"):  # what overflows becomes infinite and is reported
        block = torch.from_numpy(np.array(request.X[piece.rows], dtype=np.float32, order="C"))
    check_finite(block, "features", offset=piece.rows.start)
    return block


def _tell(outcomes: Iterable[tuple[Request, Outcome]]) -> None:
    """Hand outcomes to those who wait, each in their own event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
    for request, outcome in outcomes:
        request.over = True
        by_loop.setdefault(request.answer.get_loop(), []).append((request.answer, outcome))
    for loop, answers in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and with it whoever waited there
            loop.call_soon_threadsafe(_settle, answers)


def _settle(outcomes: list[tuple["asyncio.Future[Any]", Outcome]]) -> None:
    for answer, outcome in outcomes:
        if answer.done():  # nobody waits for it any more
            continue
        if isinstance(outcome, StopIteration):  # the one error that a future does not take
            answer.set_exception(RuntimeError("StopIteration"))
        elif isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
