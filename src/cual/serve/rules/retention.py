"""The rule by which pools and versions go that nobody needs any more, and what would go by it.

Without a rule nothing goes but `leftovers`. Answers, events, rows of versions and the audit trail always stay:
what goes is files, as when somebody deletes a pool or discards a version by hand.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa
from sqlalchemy import Connection

from cual import options
from cual.errors import BadOption, Conflict, NotFound
from cual.serve.rules import audit, leftovers, removing, stages
from cual.serve.rules.checks import needs
from cual.serve.rules.leftovers import OVER, size_of
from cual.serve.rules.records import OPERATOR, Person, Role
from cual.serve.storage import tables as db
from cual.serve.storage.home import DATABASE_FILE, Home

MOST = 1_000_000
a, e, p, v = db.adaptations.c, db.events.c, db.pools.c, db.versions.c


@dataclass(frozen=True)
class Rule:
    """How long what is kept.

    >>> Rule(versions=-1)
    Traceback (most recent call last):
    cual.errors.BadOption: versions is at least 0, not -1
    """

    pools_days: int | None = None
    """Days for which a pool is kept after the last of its adaptations has ended; None: for ever."""
    versions: int | None = None
    """Retired versions of an agent that are kept, the latest; None: all."""

    def __post_init__(self) -> None:
        for name in ("pools_days", "versions"):
            if (value := getattr(self, name)) is not None and options.whole(name, value, 0) > MOST:
                raise BadOption(f"{name} is at most {MOST}, not {value}")


@dataclass(frozen=True)
class Going:
    """Something that goes by the rule, or is left over."""

    kind: Literal["pool", "version", "leftover"]
    bytes: int
    why: str
    id: int | None = None
    """Of the pool, or of the version's agent."""
    version: int | None = None
    name: str = ""


@dataclass(frozen=True)
class StorageRecord:
    """What the workspace takes, by what rule something goes, and what that would be now."""

    agents: int
    pools: int
    adaptations: int
    others: int
    """Uploads under way, and the database where it is a file in the folder."""
    retention: Rule
    would_go: list[Going]
    would_free: int


def look(home: Home, person: Person, rule: Rule | None = None) -> StorageRecord:
    """What is there, and what would go by a rule, by default the one that was set. Nothing is changed."""
    needs(person, Role.admin)
    rule = current(home) if rule is None else rule
    going = _going(home, rule)
    files = (home.folder / f"{DATABASE_FILE}{end}" for end in ("", "-wal", "-shm"))
    return StorageRecord(
        **{name: size_of(home.folder / name) for name in ("agents", "pools", "adaptations")},
        others=size_of(home.uploads) + sum(size_of(file) for file in files),
        retention=rule,
        would_go=going,
        would_free=sum(one.bytes for one in going),
    )


def current(home: Home) -> Rule:
    """The rule that was set last; one that keeps everything where none was."""
    with home.database.reading() as connection:
        wanted = sa.select(db.retention).order_by(db.retention.c.id.desc()).limit(1)
        row = connection.execute(wanted).one_or_none()
    return Rule() if row is None else Rule(row.pools_days, row.versions)


def set_rule(home: Home, rule: Rule, person: Person) -> Rule:
    """Say how long what is kept, from now on."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        values = {**asdict(rule), "person": person.id or None}
        connection.execute(sa.insert(db.retention).values(**values))
        audit.write(connection, person, "set retention", "workspace", None, **asdict(rule))
    return rule


def clean_up(home: Home, person: Person, rule: Rule | None = None) -> list[Going]:
    """Let go what goes by a rule, by default the one that was set, and what is left over; what went."""
    needs(person, Role.admin)
    going = _going(home, current(home) if rule is None else rule)
    with home.database.writing() as connection:  # first: nothing goes of which nobody knows who wanted it
        told = {"freed": sum(one.bytes for one in going), "things": len(going)}
        audit.write(connection, person, "clean up", "workspace", None, **told)
    return [one for one in going if _let_go(home, one, person)] + _leftovers(home, gone=True)


def by_itself(home: Home) -> None:
    """The same without anybody asking, for the worker, at times."""
    if any(one.kind != "leftover" for one in _going(home, current(home))):
        clean_up(home, OPERATOR)
    else:
        leftovers.remove(home)


# -- what goes -------------------------------------------------------------------------------------------------


def _going(home: Home, rule: Rule) -> list[Going]:
    with home.database.reading() as connection:
        found = [*_pools(home, connection, rule, db.now()), *_versions(home, connection, rule)]
    return found + _leftovers(home)


def _leftovers(home: Home, gone: bool = False) -> list[Going]:
    every = leftovers.every(home)
    told = [Going("leftover", left.bytes, left.what) for left in every]
    if gone:
        leftovers.remove(home)
    return told


def _pools(home: Home, connection: Connection, rule: Rule, now: datetime) -> Iterator[Going]:
    """Pools that are ready, were adapted to, and whose last adaptation ended long ago."""
    if rule.pools_days is None:
        return
    last = sa.select(a.pool, sa.func.max(e.at).label("at")).join_from(db.adaptations, db.events)
    ended = last.group_by(a.pool).subquery()
    going = sa.exists().where(a.pool == p.id, a.state.not_in(OVER))
    wanted = sa.select(p.id, p.name, sa.type_coerce(ended.c.at, db.Moment).label("at"))
    wanted = wanted.join_from(db.pools, ended, ended.c.pool == p.id)
    needed = _pools_needed(connection)
    for row in connection.execute(wanted.where(p.state == "ready", sa.not_(going)).order_by(p.id)):
        days = (now - row.at) / timedelta(days=1)
        if days >= rule.pools_days and row.id not in needed:
            why = f"its last adaptation ended {int(days)} days ago"
            yield Going("pool", size_of(home.pool_folder(row.id)), why, row.id, name=row.name)


def _pools_needed(connection: Connection) -> set[int]:
    """Pools of which samples are shown as examples of a class, or put to people as gold questions."""
    gold = connection.execute(sa.select(db.gold.c.pool).distinct()).scalars()
    notes = connection.execute(sa.select(db.class_notes.c.examples)).scalars()
    return {*gold, *(int(pool) for examples in notes for pool, _ in examples)}


def _versions(home: Home, connection: Connection, rule: Rule) -> Iterator[Going]:
    """Retired versions but the latest, unless an adaptation that is under way builds on them."""
    if rule.versions is None:
        return
    g = db.agents.c
    going = sa.exists().where(a.agent == v.agent, a.base_version == v.number, a.state.not_in(OVER))
    wanted = sa.select(v.agent, v.number, g.name, going.label("needed")).join_from(db.versions, db.agents)
    retired = wanted.where(g.state == "ready", v.stage == "retired", v.number != g.current)
    kept: dict[int, int] = {}
    for row in connection.execute(retired.order_by(v.agent, v.number.desc())):
        kept[row.agent] = kept.get(row.agent, 0) + 1
        if kept[row.agent] > rule.versions and not row.needed:
            file, why = home.agent_file(row.agent, row.number), f"{rule.versions} retired versions are later"
            yield Going("version", size_of(file), why, row.agent, row.number, row.name)


def _let_go(home: Home, one: Going, person: Person) -> bool:
    """Whether it went: what somebody has begun to use meanwhile stays."""
    try:
        if one.kind == "pool" and one.id is not None:
            removing.delete_pool(home, one.id, person)
        elif one.kind == "version" and one.id is not None and one.version is not None:
            stages.let_go(home, one.id, one.version, one.why, person)
        else:
            return False
    except (Conflict, NotFound):
        return False
    return True
