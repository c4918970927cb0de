"""What watching tells: plain records for the API, the page and the metrics."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from cual.serve.rules.watching.evidence import Interval
from cual.types import Label

EVENTS = ("novelty.alert", "drift.alert", "adaptation.proposed", "version.live")
Event = Literal["novelty.alert", "drift.alert", "adaptation.proposed", "version.live"]


@dataclass(frozen=True)
class WatchPoint:
    """What was seen within a minute or an hour."""

    version: int
    start: datetime
    seconds: int
    seen: int
    unlike: int
    unsure: int
    share: Interval
    """Of samples unlike anything known, with its 95 % interval."""
    score: float | None
    """Mean novelty of samples that look known."""


@dataclass(frozen=True)
class ClassShare:
    """How many of the samples that look known were taken for a class."""

    label: Label | None
    """None: all that are too rare to be counted by themselves."""
    now: float
    before: float | None
    """Among the first samples of the version; None while these are still coming."""


@dataclass(frozen=True)
class ExampleRecord:
    """A sample that shows what a group is."""

    sample: int
    original: Literal["picture", "text"] | None
    """What there is to see of it; None where only features were kept."""


@dataclass(frozen=True)
class GroupRecord:
    """Samples unlike anything known that are alike."""

    size: int
    examples: list[ExampleRecord]
    """The middle one first."""
    like: Label | None = None
    """A known class that it may be the rim of: then it does not count as a group."""


@dataclass(frozen=True)
class GroupsRecord:
    """Which groups the waiting samples form that are unlike anything known.

    >>> new, rim = GroupRecord(40, []), GroupRecord(12, [], like="owl")
    >>> [group.size for group in GroupsRecord(datetime(2026, 3, 1), 60, 52, [new, rim]).new]
    [40]
    """

    at: datetime
    waiting: int
    """Samples unlike anything known that wait in the pool which is being filled."""
    looked_at: int
    """The latest of them, which were looked at."""
    groups: list[GroupRecord] = field(default_factory=list[GroupRecord])
    """The largest first."""

    @property
    def new(self) -> list[GroupRecord]:
        """Those that are no rim of a known class."""
        return [group for group in self.groups if group.like is None]


@dataclass(frozen=True)
class ProposalRecord:
    """That an adaptation would be worth it."""

    at: datetime
    groups: int
    settled: int
    """Samples that it would probably settle."""
    questions: int
    """What it would cost: its budget."""
    pool: int | None = None
    """The pool that what waited has become, once the adaptation is to begin."""
    adaptation: int | None = None
    """The adaptation, once that pool is ready."""
    person: int | None = None
    """In whose name it begins."""


@dataclass(frozen=True)
class WatchRecord:
    """How the predictions of an agent's current version go.

    Attributes
    ----------
    seen, unlike
        The last thousand samples or so: what is meant by now.
    share
        Those unlike anything known.
    false_alarms, false_alarms_at_most
        What share of known samples that should be, and at most may be.
    novelty_since, drift_since
        When the alert began; None while there is none.
    shift
        How far samples that look known have moved off their classes, in deviations of validation samples.
    mix_change
        Which share of them has changed class since the version's first samples.
    starts
        Whether adaptations that are worth it begin by themselves.
    most_questions, least_gain
        What they may cost, and how many samples a question must settle.
    """

    agent: int
    version: int
    seen: int = 0
    unlike: int = 0
    share: Interval | None = None
    false_alarms: float | None = None
    false_alarms_at_most: float | None = None
    novelty_since: datetime | None = None
    drift_since: datetime | None = None
    shift: Interval | None = None
    mix_change: Interval | None = None
    mix: list[ClassShare] = field(default_factory=list[ClassShare])
    groups: GroupsRecord | None = None
    proposal: ProposalRecord | None = None
    starts: bool = False
    most_questions: int = 50
    least_gain: float = 5.0
    points: list[WatchPoint] = field(default_factory=list[WatchPoint])
    """The oldest first."""


@dataclass(frozen=True)
class WebhookRecord:
    """Whom an agent's events are told to. The secret is told to nobody."""

    id: int
    agent: int
    url: str
    events: list[str]
    active: bool
    created_at: datetime
    waiting: int
    """Deliveries that are still to be made."""
    delivered_at: datetime | None
    """When the last one was made."""
    error: str | None
    """Why the latest one that waits could not be made so far, or was given up."""


@dataclass(frozen=True)
class Due:
    """A delivery that is to be made now."""

    id: int
    url: str
    secret: str
    event: str
    body: str
    attempts: int
