"""Days of the calendar in a reader's time zone, as points in time. Nothing is drawn here."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

FIRST, LAST = date(2000, 1, 1), date(2999, 12, 31)
"""Days that can be asked for."""
_NAME = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,2}")


def zone_of(name: object) -> tzinfo:
    """The time zone that a browser names; UTC where this machine does not know it.

    >>> str(zone_of("Europe/Berlin")), str(zone_of("Middle/Earth")), str(zone_of("../../etc/passwd"))
    ('Europe/Berlin', 'UTC', 'UTC')
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def day_of(text: object) -> date | None:
    """The day that a field holds; none where it holds none that can be asked for.

    >>> day_of("2026-03-01"), day_of(""), day_of("0001-01-01"), day_of(["x"])
    (datetime.date(2026, 3, 1), None, None, None)
    """
    try:
        day = date.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return day if day is not None and FIRST <= day <= LAST else None


def span(first: date | None, last: date | None, zone: tzinfo) -> tuple[datetime | None, datetime | None]:
    """From the beginning of one day to the end of another, both included: since when, and before when.

    On the last Sunday of October, a day in Berlin has 25 hours:

    >>> since, until = span(date(2026, 10, 25), date(2026, 10, 25), zone_of("Europe/Berlin"))
    >>> until.astimezone(UTC) - since.astimezone(UTC)
    datetime.timedelta(days=1, seconds=3600)
    """
    since = None if first is None else datetime.combine(first, time.min, zone)
    until = None if last is None else datetime.combine(last + timedelta(days=1), time.min, zone)
    return since, until
