"""What a candidate would have said where the live version answered: counts, and few examples.

Kept and read here; who predicts it, and when, is in `cual.serve.web.predictions.shadow`.
"""

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import NotFound
from cual.serve.rules import agents, stages
from cual.serve.rules.records import VersionRecord
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label

MOST_PAIRS = 1000
"""Pairs of labels that are counted one by one; an agent of a thousand classes has a million."""
PER_PAIR, MOST_EXAMPLES = 3, 150
"""Examples of a pair of labels, and of all."""
LONGEST_TEXT = 500
s, e = db.shadows.c, db.shadow_examples.c
_COUNTS = ("compared", "agreed", "judged", "live_unlike", "unlike", "dropped", "failed")


@dataclass(frozen=True)
class Plan:
    """Which version is live, and which one predicts in its shadow."""

    live: int
    candidate: int | None
    share: float


@dataclass(frozen=True)
class Example:
    """A sample of which two versions say different things, to be kept."""

    live_label: Label
    label: Label
    digest: str
    picture: bytes | None = None
    """A small WebP."""
    text: str | None = None


@dataclass
class Counts:
    """What is added up of one candidate and one live version."""

    compared: int = 0
    """Samples with a label of both."""
    agreed: int = 0
    judged: int = 0
    """Samples of which both say whether they are like anything known."""
    live_unlike: int = 0
    unlike: int = 0
    dropped: int = 0
    """Samples that were not predicted, since too many waited."""
    failed: int = 0
    pairs: Counter[tuple[Label, Label]] = field(default_factory=Counter[tuple[Label, Label]])
    examples: list[Example] = field(default_factory=list[Example])


@dataclass(frozen=True)
class PairRecord:
    """How often the live version said one thing and the candidate another, or the same."""

    live_label: Label
    label: Label
    samples: int


@dataclass(frozen=True)
class ExampleRecord:
    id: int
    live_label: Label
    label: Label
    digest: str
    """SHA-256 of the features as float32, little-endian."""
    picture: bool
    """Whether there is a small picture of it."""
    text: str | None
    at: datetime


@dataclass(frozen=True)
class ShadowRecord:
    """Where a candidate and the live version differ."""

    candidate: VersionRecord
    live: VersionRecord
    """What it was compared with: the live version; where it is no candidate any more, the last that was."""
    compared: int
    agreed: int
    agreement: float | None
    """Share of equal labels."""
    judged: int
    live_unlike: float | None
    """Share of samples that the live version calls unlike anything known."""
    unlike: float | None
    """The same of the candidate."""
    dropped: int
    failed: int
    pairs: list[PairRecord]
    """The most frequent first; those that differ before those that agree."""
    uncounted: int
    """Samples whose pair is not among them, since there were too many pairs."""
    examples: list[ExampleRecord]
    since: datetime | None
    """None where nothing was compared yet."""
    until: datetime | None


def plan(home: Home, agent: int) -> Plan:
    """Who predicts in whose shadow, now."""
    record = agents.one(home, agent)
    return Plan(record.version, record.candidate if record.state == "ready" else None, record.shadow_share)


def example_counts(home: Home, agent: int, version: int, live: int) -> Counter[tuple[Label, Label]]:
    """How many examples there are of each pair of labels."""
    wanted = sa.select(e.live_label, e.label).where(e.agent == agent, e.version == version, e.live == live)
    with home.database.reading() as connection:
        return Counter((row.live_label, row.label) for row in connection.execute(wanted))


def add(home: Home, agent: int, version: int, live: int, new: Counts) -> bool:
    """Add counts; False, and nothing is added, where they are of a candidate or a live version no more."""
    with home.database.writing() as connection:
        locked = sa.select(db.agents.c.current).where(db.agents.c.id == agent).with_for_update()
        current = connection.execute(locked).scalar_one_or_none()
        if current != live or stages.of(connection, agent, version) != "candidate":
            return False
        key = {"agent": agent, "version": version, "live": live}
        mine = [db.shadows.c[name] == value for name, value in key.items()]
        row = connection.execute(sa.select(db.shadows).where(*mine)).one_or_none()
        values: dict[str, Any] = {
            name: getattr(new, name) + (getattr(row, name) if row is not None else 0) for name in _COUNTS
        }
        values |= {"pairs": _summed([] if row is None else row.pairs, new.pairs), "updated_at": db.now()}
        if row is None:
            connection.execute(sa.insert(db.shadows).values(**key, **values))
        else:
            connection.execute(sa.update(db.shadows).where(*mine).values(**values))
        if new.examples:
            connection.execute(sa.insert(db.shadow_examples), [key | _kept(one) for one in new.examples])
    return True


def read(home: Home, agent: int, version: int | None = None) -> ShadowRecord:
    """How a candidate differs from the live version, the latest candidate by default."""
    with home.database.reading() as connection:
        record = agents.record(connection, agent)
        version = record.candidate if version is None else version
        if version is None:
            raise NotFound(f"the agent {record.name!r} has no candidate")
        candidate = _version(connection, agent, version, record.version)
        mine = sa.select(db.shadows).where(s.agent == agent, s.version == version)
        if candidate.stage == "candidate":
            mine = mine.where(s.live == record.version)
        row = connection.execute(mine.order_by(s.updated_at.desc()).limit(1)).one_or_none()
        if row is None and candidate.stage != "candidate":
            raise NotFound(f"version {version} was never compared with the live one")
        live = _version(connection, agent, record.version if row is None else row.live, record.version)
        kept = sa.select(db.shadow_examples).where(
            e.agent == agent, e.version == version, e.live == live.number
        )
        examples = connection.execute(kept.order_by(e.id)).all()
    return _record(candidate, live, row, examples)


def picture(home: Home, agent: int, example: int) -> bytes:
    """The small picture of an example, as WebP."""
    wanted = sa.select(e.picture).where(e.agent == agent, e.id == example, e.picture.is_not(None))
    with home.database.reading() as connection:
        text = one_row(connection, wanted, f"picture of example {example}")[0]
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # a backup may come from anybody
        raise NotFound(f"the picture of example {example} is damaged") from None


def _summed(kept: list[list[Any]], new: Counter[tuple[Label, Label]]) -> list[list[Any]]:
    """Counts of pairs with the new ones; those that there is no room for are left out."""
    counts = {(live, label): n for live, label, n in kept}
    for pair, n in new.most_common():
        if pair in counts or len(counts) < MOST_PAIRS:
            counts[pair] = counts.get(pair, 0) + n
    return [[live, label, n] for (live, label), n in counts.items()]


def _kept(example: Example) -> dict[str, Any]:
    return {
        "live_label": example.live_label,
        "label": example.label,
        "digest": example.digest,
        "picture": None if example.picture is None else base64.b64encode(example.picture).decode(),
        "text": example.text,
        "created_at": db.now(),
    }


def _version(connection: Connection, agent: int, number: int, current: int) -> VersionRecord:
    v = db.versions.c
    wanted = sa.select(db.versions).where(v.agent == agent, v.number == number)
    row = one_row(connection, wanted, f"version {number} of agent {agent}")
    return agents.version_record(row._mapping, current)  # pyright: ignore[reportPrivateUsage]


def _record(
    candidate: VersionRecord, live: VersionRecord, row: Row[Any] | None, examples: Sequence[Row[Any]]
) -> ShadowRecord:
    pairs = [] if row is None else [PairRecord(*pair) for pair in row.pairs]
    pairs.sort(key=lambda pair: (pair.live_label == pair.label, -pair.samples))
    counts = {name: 0 if row is None else getattr(row, name) for name in _COUNTS}
    return ShadowRecord(
        candidate=candidate,
        live=live,
        compared=counts["compared"],
        agreed=counts["agreed"],
        agreement=_share(counts["agreed"], counts["compared"]),
        judged=counts["judged"],
        live_unlike=_share(counts["live_unlike"], counts["judged"]),
        unlike=_share(counts["unlike"], counts["judged"]),
        dropped=counts["dropped"],
        failed=counts["failed"],
        pairs=pairs,
        uncounted=counts["compared"] - sum(pair.samples for pair in pairs),
        examples=[
            ExampleRecord(r.id, r.live_label, r.label, r.digest, r.picture is not None, r.text, r.created_at)
            for r in examples
        ],
        since=None if row is None else row.created_at,
        until=None if row is None else row.updated_at,
    )


def _share(n: int, of: int) -> float | None:
    return n / of if of else None
