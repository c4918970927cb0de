"""What inboxes take and tell: plain frozen records. No database, no files here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from cual.errors import BadOption
from cual.types import AnyArray, Label

Verdict = Literal["known", "unsure", "unlike anything known"]
VERDICTS: tuple[Verdict, ...] = ("known", "unsure", "unlike anything known")
Original = Literal["picture", "text"]
Fate = Literal["kept", "again", "passed over"]
"""What became of a sample: kept; there already, exactly or nearly; known and left out by the sampling rule."""
MOST_SAMPLES, MOST_MEGABYTES, MOST_DAYS = 100_000, 65_536, 3650
LEAST_NEAR = 0.9


@dataclass(frozen=True)
class Policy:
    """What is kept of what is sent to an agent; administrators set it.

    >>> Policy(known_share=2.0)
    Traceback (most recent call last):
    cual.errors.BadOption: the share of known samples to keep lies between 0 and 1, but is 2.0
    """

    originals: bool = True
    """Whether pictures and texts are kept beside their features."""
    known_share: float = 0.1
    """Share of known-looking samples that are kept; all others are."""
    near: float | None = 0.999
    """Samples whose features have a cosine above this are kept once; None for exact duplicates only."""
    most_samples: int = 10_000
    most_megabytes: int = 1024
    """Features and originals together."""
    most_days: int = 90

    def __post_init__(self) -> None:
        if not 0 <= self.known_share <= 1:
            raise BadOption(
                f"the share of known samples to keep lies between 0 and 1, but is {self.known_share}"
            )
        if self.near is not None and not LEAST_NEAR <= self.near < 1:
            raise BadOption(f"the cosine of near-duplicates lies from {LEAST_NEAR} to below 1, not {self.near}")
        for value, most, what in (
            (self.most_samples, MOST_SAMPLES, "number of samples"),
            (self.most_megabytes, MOST_MEGABYTES, "number of megabytes"),
            (self.most_days, MOST_DAYS, "number of days"),
        ):
            if not 1 <= value <= most:
                raise BadOption(f"the {what} that an inbox keeps lies between 1 and {most}, but is {value}")


@dataclass(frozen=True)
class Arrivals:
    """Samples of one request, as they were judged."""

    X: AnyArray
    """(n, width), as the agent's encoder gives them."""
    digests: Sequence[str]
    """Of the contents, in hexadecimal: equal ones are exact duplicates."""
    verdicts: Sequence[Verdict]
    labels: Sequence[Label]
    scores: Sequence[float | None]
    version: int
    """Of the agent that judged them."""
    kind: Original | None = None
    originals: Sequence[bytes] = ()
    """Files of pictures or texts in UTF-8, where it were not features that came."""
    names: Sequence[str | None] = ()

    def __len__(self) -> int:
        return len(self.digests)


@dataclass(frozen=True)
class Key:
    """What a request calls itself, so that it can be sent again. Another person's key is another key."""

    value: str
    body: str
    """Digest of all that was asked: with another one, the key is refused."""


@dataclass(frozen=True)
class ArrivalCount:
    """How many samples of a verdict and predicted class came: kept + again + passed over."""

    verdict: Verdict
    label: Label
    arrived: int
    kept: int
    again: int
    passed_over: int
    dropped: int
    """Of those that were kept: gone since, by the limits."""


@dataclass(frozen=True)
class InboxRecord:
    """What waits for an agent.

    >>> owls = ArrivalCount("known", "owl", arrived=9, kept=4, again=3, passed_over=2, dropped=1)
    >>> inbox = InboxRecord(1, waiting=3, by_verdict={"known": 3}, bytes=4096, since=None, counts=[owls])
    >>> inbox.arrived, inbox.dropped
    (9, 1)
    """

    agent: int
    waiting: int
    """Samples that the next pool would have."""
    by_verdict: dict[str, int]
    """The same by verdict."""
    bytes: int
    since: datetime | None
    """When the inbox was opened; None where nothing has come yet."""
    counts: list[ArrivalCount]
    """All that came since then."""
    policy: Policy = field(default_factory=Policy)

    @property
    def arrived(self) -> int:
        return sum(count.arrived for count in self.counts)

    @property
    def dropped(self) -> int:
        return sum(count.dropped for count in self.counts)


@dataclass(frozen=True, eq=False)
class WaitingSamples:
    """Kept samples of an open inbox, the oldest first."""

    X: AnyArray
    """(n, width) float32."""
    ids: list[int]
    arrived_at: list[datetime]
    times: list[int]
    """How often each has come."""
    labels: list[Label]
    scores: list[float | None]
    has_original: list[bool]
