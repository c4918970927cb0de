"""Small things in words: days, percents, lists."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.texts import tr

STATES: Mapping[str, Sentence] = {
    "preparing": said("preparing"),
    "ready": said("ready"),
    "thinking": said("thinking"),
    "asking": said("asking"),
    "review": said("review"),
    "finished": said("finished"),
    "failed": said("failed"),
    "dropped": said("dropped"),
    "removed": said("removed"),
}
"""What agents, pools and adaptations are, in a word."""
ZONES: Mapping[str, Sentence] = {
    "old": said("looks known"),
    "ambiguous": said("hard to say"),
    "novel": said("looks new"),
}
"""How a sample lies to the line between what is known and what is new."""
ROLES: Mapping[str, Sentence] = {
    "sender": said("sender"),
    "reader": said("reader"),
    "annotator": said("annotator"),
    "admin": said("administrator"),
}


def day(at: datetime) -> str:
    """In UTC, as the rest of the service.

    >>> day(datetime(2026, 3, 1, 23, 30))
    '2026-03-01 23:30'
    """
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
    return text if len(things) <= most else tr("{some} and {n} more", some=text, n=len(things) - most)
