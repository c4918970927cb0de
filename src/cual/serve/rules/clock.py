"""Clocks that are set back, as after a wrong start or by hand: what was written down then lies ahead.

What waits for a moment must not wait for as long as the clock was wrong. So whoever compares a moment with now
also asks here whether it was written down later than now, by more than the clocks of two machines differ.
"""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

SKEW = timedelta(seconds=5)
"""What clocks of several machines may differ by."""


def set_back(written: "sa.ColumnElement[datetime] | sa.Column[Any]", now: datetime) -> sa.ColumnElement[bool]:
    """Whether something was written down at a moment that has not come yet."""
    return sa.func.coalesce(written > now + SKEW, sa.false())


def was_set_back(written: datetime, now: datetime) -> bool:
    """The same of a moment that was read.

    >>> noon = datetime(2026, 1, 1, 12)
    >>> was_set_back(noon, noon - timedelta(hours=1)), was_set_back(noon, noon - timedelta(seconds=1))
    (True, False)
    """
    return written > now + SKEW
