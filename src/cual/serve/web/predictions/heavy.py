"""Work that keeps the interpreter busy, in few threads: many would crowd out the one that answers everybody."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

THREADS = 2
P = ParamSpec("P")
T = TypeVar("T")
_limiter: RunVar[CapacityLimiter] = RunVar("cual.serve.heavy")  # each event loop has its own


async def run_heavy(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call a function in one of the few threads; who came first is served first."""
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(THREADS)
        _limiter.set(limiter)
    return await run_sync(lambda: function(*args, **named), limiter=limiter)
