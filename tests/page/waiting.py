"""Waiting for a condition, not for a time."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 180_000
"""Milliseconds after which something that should happen has not."""


def until(condition: Callable[[], Any], seconds: float = PATIENCE / 1000) -> Any:
    """What `condition` returns as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found
