"""Where the time of an adaptation goes, by stage."""

import time
from collections.abc import Generator
from contextlib import contextmanager

import torch


class Timings(dict[str, float]):
    """Seconds per stage.

    >>> timings = Timings("cpu")
    >>> with timings.stage("scoring"):
    ...     pass
    >>> list(timings)
    ['scoring']
    """

    def __init__(self, device: torch.device | str) -> None:
        super().__init__()
        self._cuda = torch.device(device).type == "cuda"

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        start = self._now()
        try:
            yield
        finally:
            self[name] = self.get(name, 0.0) + self._now() - start

    def _now(self) -> float:
        if self._cuda:
            torch.cuda.synchronize()
        return time.perf_counter()
