"""Predictions for production use: requests that arrive together are computed together, in one thread.

Reading and writing of HTTP is in `cual.serve.api.predictions`.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch

from cual.agent import Agent
from cual.errors import BadFeatures
from cual.pool import as_features
from cual.types import AnyArray, FloatArray, Label

Kind = Literal["predict", "novelty"]
WAIT = 0.002
"""Seconds that the first request of a batch waits for others."""
MOST_ROWS = 8192
"""A batch takes no more requests from here on; a single larger request is a batch of its own."""


@dataclass(frozen=True)
class Predictions:
    """What one request gets: of the version that computed it."""

    version: int
    classes: list[Label]
    probabilities: FloatArray
    """(n, classes)"""


@dataclass(frozen=True)
class Novelties:
    version: int
    threshold: float
    scores: FloatArray


@dataclass(frozen=True)
class _Request:
    kind: Kind
    agent: int
    version: int | None
    X: AnyArray
    answer: "asyncio.Future[Any]"


Outcome = Predictions | Novelties | Exception


class Predictor:
    """Collects requests for a moment and computes them in one go.

    Parameters
    ----------
    current
        The current version of an agent: asked once per batch, so that rolling back counts at once.
    load
        An agent of a version; it keeps those that were used last.
    computed
        Told the rows of each batch.

    Which requests happen to share a batch can change the last bits of a probability, never more.
    """

    def __init__(
        self,
        current: Callable[[int], int],
        load: Callable[[int, int], Agent],
        computed: Callable[[int], None] = lambda rows: None,
        wait: float = WAIT,
    ) -> None:
        self._current, self._load, self._computed, self._wait = current, load, computed, wait
        self._thread = ThreadPoolExecutor(1, "predictions")
        self._desks: WeakKeyDictionary[asyncio.AbstractEventLoop, _Desk] = WeakKeyDictionary()

    async def predict(self, agent: int, version: int | None, X: AnyArray) -> Predictions:
        return await self._ask("predict", agent, version, X)

    async def novelty(self, agent: int, version: int | None, X: AnyArray) -> Novelties:
        return await self._ask("novelty", agent, version, X)

    def close(self) -> None:
        """End the thread when it has computed what it has begun."""
        self._thread.shutdown()

    async def _ask(self, kind: Kind, agent: int, version: int | None, X: AnyArray) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._desks:
            self._desks[loop] = _Desk(loop, self._thread, self._compute, self._wait)
        request = _Request(kind, agent, version, X, loop.create_future())
        self._desks[loop].take(request)
        return await request.answer

    # -- in the thread -----------------------------------------------------------------------------------------

    def _compute(self, batch: list[_Request]) -> list[Outcome]:
        groups: dict[tuple[Kind, int, int | None], list[int]] = {}
        for place, request in enumerate(batch):
            groups.setdefault((request.kind, request.agent, request.version), []).append(place)
        outcomes: dict[int, Outcome] = {}
        for (kind, agent, version), places in groups.items():
            told = self._compute_group(kind, agent, version, [batch[place].X for place in places])
            outcomes |= dict(zip(places, told, strict=True))
        return [outcomes[place] for place in range(len(batch))]

    def _compute_group(self, kind: Kind, id: int, version: int | None, held: list[AnyArray]) -> list[Outcome]:
        """Compute requests of one kind for one agent; what is wrong with one of them is told to that one."""
        try:
            version = self._current(id) if version is None else version
            agent = self._load(id, version)
            checked = [_checked(X, agent.width) for X in held]
            good = [X for X in checked if isinstance(X, torch.Tensor)]
            answers: Iterator[Outcome] = iter(())
            if good:
                self._computed(sum(len(X) for X in good))
                answers = iter(_computed(kind, agent, version, good))
            return [next(answers) if isinstance(X, torch.Tensor) else X for X in checked]
        except Exception as error:  # whatever it is belongs to those who wait
            return [error] * len(held)


class _Desk:
    """Where the requests of one event loop wait: a moment for each other, and while the thread computes."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: ThreadPoolExecutor,
        compute: Callable[[list[_Request]], list[Outcome]],
        wait: float,
    ) -> None:
        self._loop, self._thread, self._compute, self._wait = loop, thread, compute, wait
        self._waiting: list[_Request] = []
        self._busy = False

    def take(self, request: _Request) -> None:
        self._waiting.append(request)
        if len(self._waiting) == 1 and not self._busy:
            self._loop.call_later(self._wait, self._begin)

    def _begin(self) -> None:
        if self._busy or not self._waiting:
            return
        rows, n = 0, 0
        while n < len(self._waiting) and (not n or rows + len(self._waiting[n].X) <= MOST_ROWS):
            rows += len(self._waiting[n].X)
            n += 1
        batch, self._waiting, self._busy = self._waiting[:n], self._waiting[n:], True
        done = self._loop.run_in_executor(self._thread, self._compute, batch)
        done.add_done_callback(lambda done: self._end(batch, done))

    def _end(self, batch: list[_Request], done: "asyncio.Future[list[Outcome]]") -> None:
        self._busy = False
        for request, outcome in zip(batch, done.result(), strict=True):
            if request.answer.done():  # nobody waits for it any more
                continue
            if isinstance(outcome, Exception):
                request.answer.set_exception(outcome)
            else:
                request.answer.set_result(outcome)
        self._begin()  # those who came meanwhile have waited long enough


def _checked(X: AnyArray, width: int) -> torch.Tensor | Exception:
    try:
        return as_features(X, "features", width)
    except Exception as error:
        return error


def _computed(kind: Kind, agent: Agent, version: int, held: list[torch.Tensor]) -> list[Outcome]:
    together, ends = torch.cat(held), np.cumsum([len(X) for X in held])[:-1].tolist()
    if kind == "novelty":
        scores, threshold = agent.novelty(together), float(agent.threshold.value)
        return [_finite(part) or Novelties(version, threshold, part) for part in np.split(scores, ends)]
    classes, told = list(agent.names.names), np.split(agent.predict_proba(together), ends)
    return [_finite(part) or Predictions(version, classes, part) for part in told]


def _finite(numbers: FloatArray) -> BadFeatures | None:
    if np.isfinite(numbers).all():
        return None
    return BadFeatures("the features are so large that the arithmetic overflows; use the agent's encoder")
