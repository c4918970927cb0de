"""What a service tells, as plain records. Fields that a newer service adds are left out."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, cast

Label = str | int
"""As `cual.types.Label`, which cannot be had without torch."""
T = TypeVar("T")


@dataclass(frozen=True)
class RemoteAgent:
    id: int
    name: str
    version: int
    classes: tuple[Label, ...]
    method: str
    encoder: str | None
    width: int
    state: Literal["preparing", "ready", "failed", "removed"] = "ready"
    error: str | None = None
    false_alarms: float | None = None
    """Share of known samples that may be called unlike anything known; None for the method's own threshold."""
    new_versions: Literal["live", "candidate"] = "live"
    """What versions begin as that adaptations make."""
    shadow_share: float = 1.0
    """Of samples that a candidate predicts as well."""
    candidate: int | None = None
    """The latest one."""


@dataclass(frozen=True)
class RemoteVerdict:
    """What a service says of one sample; only `error` of one that cannot be encoded."""

    label: Label | None
    probability: float | None
    calibrated: float | None
    """The same, as likely as labels of the agent's validation set were."""
    verdict: Literal["known", "unsure", "unlike anything known"] | None
    score: float | None
    """How novel it looks; above the threshold it is unlike anything known."""
    threshold: float | None
    version: int
    error: str | None = None
    kept: Literal["kept", "again", "passed over"] | None = None
    """What became of a sample that was sent to be kept."""


@dataclass(frozen=True)
class RemoteInbox:
    """What waits for an agent, to become a pool."""

    agent: int
    waiting: int
    by_verdict: Mapping[str, int]
    bytes: int
    since: str | None
    counts: tuple[Mapping[str, Any], ...]
    """All that came since the last pool, by verdict and class: arrived, kept, again, passed_over, dropped."""
    policy: Mapping[str, Any]
    """What is kept, and how much of it."""


@dataclass(frozen=True)
class RemoteRepair:
    """Something that a worker has taught, taken back, split, merged or removed, or that is under way."""

    id: int
    agent: int
    kind: Literal["teach", "forget", "split", "merge", "remove"]
    state: Literal["preparing", "asking", "done", "failed", "dropped"]
    error: str | None
    by: str
    why: str
    version: int | None
    """The version that it made."""
    skipped: int = 0
    """Items that could not be read."""
    split: Mapping[str, Any] | None = None
    """What a split asks: label, size, missing, groups (size, examples), questions; samples have a number
    (`sample`), a group, and pool and row where they lie in one."""
    change: Mapping[str, Any] | None = None
    """What the version says was changed, once it is made; `how` says whether exactly or by training again."""
    classes: tuple[Label, ...] = ()
    """That are merged (the first stays), removed or split, until it is done."""


@dataclass(frozen=True)
class RemotePool:
    id: int
    name: str
    kind: Literal["pictures", "text", "features"]
    size: int
    state: Literal["preparing", "ready", "failed", "removed"]
    error: str | None
    columns: tuple[str, ...] = ()
    """What its table says of each sample, for people to read."""


@dataclass(frozen=True)
class RemoteState:
    """How an adaptation stands."""

    id: int
    agent: int
    base_version: int
    pool: int
    budget: int
    spent: int
    open: int
    state: Literal["thinking", "asking", "review", "finished", "failed", "dropped"]
    round: int
    next: str
    ended: str | None
    new_classes: tuple[Label, ...]
    result_version: int | None
    error: str | None
    outlook: str | None = None
    """Whether another question is worth it, in words."""
    merges: tuple[Mapping[str, Any], ...] = ()
    """Names that are probably one class: a, b, probability, answers_a, answers_b, text."""
    status: str = ""
    """What is spent, what is left, and why the questions have ended, in words."""


@dataclass(frozen=True)
class RemoteQuery:
    """Samples that whoever asked should label; the same fields as the library's `Query`.

    >>> query = RemoteQuery("q0", 0, ("a.jpg",), (2.5,), ("novel",), (None,), rows=(17,))
    >>> len(query), query.rows
    (1, (17,))
    """

    id: str
    iteration: int
    ids: tuple[Label, ...]
    scores: tuple[float, ...]
    zones: tuple[str, ...]
    suggestions: tuple[Label | None, ...]
    rows: tuple[int, ...]
    """Rows of the pool, for `Client.picture`, `Client.text` and `Client.columns`."""
    columns: tuple[Mapping[str, Any], ...] = ()
    """What the pool's table says of each sample, for people to read."""

    def __len__(self) -> int:
        return len(self.ids)


def read(kind: type[T], row: Mapping[str, Any]) -> T:
    """A record of what the service said; fields that a newer one adds are left out.

    >>> said = {"id": 1, "name": "new", "kind": "text", "size": 9, "state": "ready", "error": None}
    >>> read(RemotePool, {**said, "added_later": True})
    RemotePool(id=1, name='new', kind='text', size=9, state='ready', error=None, columns=())
    """
    names = [field.name for field in fields(cast(Any, kind))]
    values = {name: row[name] for name in names if name in row}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def id_of(thing: int | RemoteAgent | RemotePool) -> int:
    """The number of something that may be given as it is or by its number.

    >>> id_of(RemotePool(3, "new", "text", 9, "ready", None)), id_of(3)
    (3, 3)
    """
    return thing if isinstance(thing, int) else thing.id
