"""How often somebody may try to sign in and fail: per address and altogether. Kept in memory only."""

import ipaddress
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

WINDOW = 60.0
"""Seconds that a failure is remembered."""
PER_ADDRESS, ALTOGETHER = 10, 200
_MOST_ADDRESSES = 10_000


class Attempts:
    """Failures of the last minute. Successes are not counted: nobody is locked out by signing in often.

    >>> now = iter([0.0, 1.0, 2.0, 3.0, 70.0])
    >>> attempts = Attempts(per_address=2, clock=lambda: next(now))
    >>> attempts.failed("10.0.0.1"); attempts.failed("10.0.0.1")
    >>> attempts.wait("10.0.0.1"), attempts.wait("10.0.0.2"), attempts.wait("10.0.0.1")
    (58.0, 0.0, 0.0)
    """

    def __init__(
        self,
        per_address: int = PER_ADDRESS,
        altogether: int = ALTOGETHER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._all: deque[float] = deque(maxlen=altogether)
        self._per_address = per_address
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, address: str) -> None:
        """Write down a failure."""
        key = _neighbourhood(address)
        with self._lock:
            now = self._clock()
            self._all.append(now)
            self._of.setdefault(key, deque(maxlen=self._per_address)).append(now)
            self._of.move_to_end(key)
            while len(self._of) > _MOST_ADDRESSES:
                self._of.popitem(last=False)

    def wait(self, address: str) -> float:
        """Seconds until this address may try again; 0 if it may now."""
        with self._lock:
            now = self._clock()
            counts = (self._all, self._of.get(_neighbourhood(address)))
            return max((_left(failures, now) for failures in counts if failures is not None), default=0.0)


def _left(failures: deque[float], now: float) -> float:
    if len(failures) < (failures.maxlen or 0):
        return 0.0
    return max(0.0, failures[0] + WINDOW - now)


def _neighbourhood(address: str) -> str:
    """An IPv6 user owns a whole /64: all of it counts as one.

    >>> _neighbourhood("2001:db8::1") == _neighbourhood("2001:db8::2"), _neighbourhood("10.0.0.1")
    (True, '10.0.0.1')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else str(parsed)
