"""Small things in words: days, percents, lists."""

from collections.abc import Sequence
from datetime import datetime


def day(at: datetime) -> str:
    """In UTC, as the rest of the service."""
    return at.strftime("%Y-%m-%d %H:%M")


def percent(share: float | None) -> str:
    """
    >>> percent(0.9713), percent(None)
    ('97.1 %', '')
    """
    return "" if share is None else f"{100 * share:.1f} %"


def some(things: Sequence[object], most: int) -> str:
    """
    >>> some(["cat", "dog", 3], 2)
    'cat, dog and 1 more'
    """
    text = ", ".join(str(thing) for thing in things[:most])
    return text if len(things) <= most else f"{text} and {len(things) - most} more"
