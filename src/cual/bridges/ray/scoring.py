"""Passes over a pool on a Ray cluster: workers hold the agent and score chunks. What a score is, is elsewhere.

A pass is what `Pool.map` is asked for: work that holds what it needs of the agent, on one chunk of features
after the other. The work goes to each worker once, a chunk is a piece of work, and its result comes back in its
order. Whom to ask, what to believe, the journal and all files stay with the driver. So a worker may be lost at
any time, and a driver that was killed goes on from what it had saved, with or without Ray.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import torch

from cual.bridges.ray.cluster import Cluster, Need, Place, fetched, node
from cual.data.folder import ShardedRows, reopen
from cual.data.pool import read_rows
from cual.errors import BadFile, CualError
from cual.types import Progress, Row

T = TypeVar("T")

log = logging.getLogger(__name__)


class Scoring:
    """Where the passes over a pool are made: on a cluster, with the results that this process would have.

    Give it to a pool (``pool.elsewhere = Scoring(cluster)``) whose features lie in a folder that all nodes see
    under the same name; rows of any other pool are sent along. The agent must be on the CPU.

    Parameters
    ----------
    cluster
        From `connected`.
    progress
        Called with the chunks that are done of each pass.
    cores
        Cores of a worker, and threads of its arithmetic. As many as here, if not given, because they decide how
        sums are rounded; fewer, where no node has as many.
    """

    def __init__(self, cluster: Cluster, progress: Progress | None = None, cores: int | None = None) -> None:
        self._cluster = cluster
        self._progress = progress
        self._cores = cores or _cores(cluster)

    def map(
        self, work: Callable[..., T], folder: Row | None, pieces: Iterator[tuple[Any, ...]], total: int
    ) -> Iterator[T]:
        need = Need(self._cores)
        task = self._cluster.task(_score, need)
        place = Place.here()
        held = self._cluster.put(Pass(work, folder))
        under_way: deque[Any] = deque()
        for done in range(total):
            while len(under_way) < self._cluster.at_once(need) and (piece := next(pieces, None)) is not None:
                under_way.append(task(place, self._cores, [held], *piece))
            result = self._cluster.get(under_way.popleft())
            if self._progress is not None:
                self._progress("scoring", done + 1, total)
            yield result


def _cores(cluster: Cluster) -> int:
    here, there = torch.get_num_threads(), cluster.most_cores()
    if not 0 < there < here:
        return here
    log.warning(
        "no node has %d cores, as many as threads are used here: the last bits of scores may differ. "
        "OMP_NUM_THREADS=%d, with Ray and without, gives the same",
        here,
        there,
    )
    return there


@dataclass(frozen=True)
class Pass:
    """What the chunks of a pass have in common."""

    work: Callable[..., Any]
    folder: Row | None
    """Where the features lie; None if they are sent."""

    @cached_property
    def rows(self) -> ShardedRows:
        assert self.folder is not None
        try:
            return reopen(self.folder)
        except (CualError, OSError) as error:
            raise BadFile(
                f"{node()} does not see {self.folder['path']} as it is where the command was given ({error}): "
                "Ray's workers read the features, so the folder must be on storage that all nodes share, under "
                "the same name"
            ) from error


# -- on the nodes ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _pass(held: Any) -> Pass:
    """Kept for the next chunk: a worker has what it needs of the agent for as long as a pass goes on."""
    return fetched(held)


def _score(place: Place, cores: int, held: list[Any], features: Any, *others: Any) -> Any:
    """One chunk; `held` is a list because Ray would else unpack the pass anew for every one of them."""
    place.enter(cores)
    current = _pass(held[0])
    X = features if current.folder is None else read_rows(current.rows, features)
    return current.work(X, *others)
