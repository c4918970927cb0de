"""How many tokens that are not good somebody may try: per address and altogether. Kept in memory only.

A secret has 256 random bits, which nobody guesses however often they try. So whoever has a good one is let in
whatever others do, and this is not asked; and a program that goes on sending its old token makes one attempt.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from cual.serve.rules.secrets import hashed
from cual.serve.web.security.addresses import network_of

WINDOW = 60.0
"""Seconds that an attempt is remembered."""
PER_ADDRESS, ALTOGETHER = 10, 200
_MOST_ADDRESSES = 10_000


class Attempts:
    """Tokens of the last minute that were not good, each counted once for each address that it came from.

    >>> now = iter([0.0, 1.0, 2.0, 3.0, 4.0, 70.0])
    >>> attempts = Attempts(per_address=2, clock=lambda: next(now))
    >>> [attempts.failed("10.0.0.1", secret) for secret in ("old", "old", "other", "third")]
    [0.0, 0.0, 0.0, 57.0]
    >>> attempts.failed("10.0.0.2", "third"), attempts.failed("10.0.0.1", "third")
    (0.0, 0.0)
    """

    def __init__(
        self,
        per_address: int = PER_ADDRESS,
        altogether: int = ALTOGETHER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._per_address, self._altogether = per_address, altogether
        self._all: OrderedDict[str, float] = OrderedDict()
        self._of: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()

    def failed(self, address: str, secret: str) -> float:
        """Write down a token that is not good: seconds until another may be tried from there; 0 if now."""
        network, mark = network_of(address), hashed(secret)
        with self._lock:
            now = self._clock()
            mine = self._of.setdefault(network, OrderedDict())
            self._of.move_to_end(network)
            _forget(mine, now)
            _forget(self._all, now)
            if mark in mine:
                return 0.0
            wait = max(_wait(mine, self._per_address, now), _wait(self._all, self._altogether, now))
            if not wait:
                mine[mark] = now
                self._all[f"{network} {mark}"] = now
            while len(self._of) > _MOST_ADDRESSES:
                self._of.popitem(last=False)
            return wait

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._all.clear()
            self._of.clear()


def _forget(attempts: OrderedDict[str, float], now: float) -> None:
    while attempts and next(iter(attempts.values())) + WINDOW <= now:
        attempts.popitem(last=False)


def _wait(attempts: OrderedDict[str, float], most: int, now: float) -> float:
    return 0.0 if len(attempts) < most else next(iter(attempts.values())) + WINDOW - now
