"""Which single key stands for which class: nine digits, each person's own, kept for good on every screen.

Only its owner takes a key away from a class or gives it to another one. What is free goes to the next class
that deserves a key; a class whose key was taken away gets none until its owner gives it one. A slip of the
finger on any other key answers nothing: typing finds a class by its name.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.errors import BadOption, NotFound
from cual.serve.rules import audit, classes
from cual.serve.rules.checks import needs
from cual.serve.rules.records import Person, Role
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.types import Label

KEYS = "123456789"
k, without = db.class_keys.c, db.keyless_classes.c


def of(
    home: Home, agent: int, person: Person, labels: Sequence[Label], likely: Sequence[Label] = ()
) -> dict[str, Label]:
    """The keys of the classes that are offered to a person; free ones are given away, and kept.

    Parameters
    ----------
    labels
        The classes that are offered.
    likely
        Those that get a key, the likeliest first, where there are more classes than keys.
    """
    with home.database.reading() as connection:
        keys = _kept(connection, agent, person)
        keyless = _keyless(connection, agent, person)
    wanted = labels if len(labels) <= len(KEYS) else [label for label in likely if label in set(labels)]
    wanted = [label for label in wanted if label not in keyless]
    if person.role.may(Role.annotator) and assigned(wanted, labels, keys) != keys:
        with home.database.writing() as connection:
            _lock(connection, person)
            there = classes.names(connection, agent) | set(labels)
            before = _kept(connection, agent, person)
            keys = {key: label for key, label in before.items() if label in there}
            keyless = _keyless(connection, agent, person)
            keys = assigned([label for label in wanted if label not in keyless], labels, keys)
            _write(connection, agent, person, before, keys)
    return offered(keys, labels)


def kept(home: Home, agent: int, person: Person) -> dict[str, Label]:
    """The keys that a person has given, or was given, for classes of an agent."""
    with home.database.reading() as connection:
        one_row(connection, sa.select(db.agents.c.id).where(db.agents.c.id == agent), f"agent {agent}")
        return _kept(connection, agent, person)


def give(home: Home, agent: int, person: Person, key: str, label: Label) -> None:
    """Give a key of a person to another class."""
    _check(person, key)
    with home.database.writing() as connection:
        one_row(connection, sa.select(db.agents.c.id).where(db.agents.c.id == agent), f"agent {agent}")
        _lock(connection, person)
        if label not in classes.names(connection, agent):
            raise NotFound(f"agent {agent} has no class {str(label)[:100]!r}")
        before = _kept(connection, agent, person)
        keys = {other: named for other, named in before.items() if named != label} | {key: label}
        mine = (without.agent == agent, without.person == person.id, without.label == label)
        connection.execute(sa.delete(db.keyless_classes).where(*mine))
        if keys != before:
            _write(connection, agent, person, before, keys)
            audit.write(connection, person, "give key", "agent", agent, key=key, label=label)


def take(home: Home, agent: int, person: Person, key: str) -> None:
    """Take a key of a person away from its class, which gets none by itself any more; a free one stays so."""
    _check(person, key)
    with home.database.writing() as connection:
        one_row(connection, sa.select(db.agents.c.id).where(db.agents.c.id == agent), f"agent {agent}")
        _lock(connection, person)
        before = _kept(connection, agent, person)
        if key not in before:
            return
        label = before[key]
        _write(connection, agent, person, before, {other: before[other] for other in before if other != key})
        connection.execute(
            sa.insert(db.keyless_classes).values(agent=agent, person=person.id, label=label)
        )  # it had a key, so it is not among them
        audit.write(connection, person, "take key", "agent", agent, key=key, label=label)


def assigned(wanted: Sequence[Label], labels: Sequence[Label], kept: Mapping[str, Label]) -> dict[str, Label]:
    """Keys that are kept, and a free one for each class that wants one, as long as there are any.

    Where names begin with digits, a digit stands for the class of that name and for no other.

    >>> assigned(["cat", "dog"], ["cat", "dog", "owl"], {"1": "owl"})
    {'1': 'owl', '2': 'cat', '3': 'dog'}
    >>> assigned(["0", "2", "cat"], ["0", "2", "cat"], {})
    {'2': '2'}
    """
    keys = dict(kept)
    waiting = [label for label in dict.fromkeys(wanted) if label not in keys.values()]
    if _numeric(labels):
        return keys | {
            str(label): label for label in waiting if str(label) in tuple(KEYS) and str(label) not in keys
        }
    free = (key for key in KEYS if key not in keys)
    return keys | dict(zip(free, waiting, strict=False))


def offered(kept: Mapping[str, Label], labels: Sequence[Label]) -> dict[str, Label]:
    """Of the keys that are kept those that can be pressed: not where a digit may begin another class's name.

    >>> offered({"1": "1", "2": "2", "3": "cat"}, ["1", "10", "2", "cat"])
    {'2': '2'}
    """
    known = set(labels)
    there = {key: label for key, label in sorted(kept.items()) if label in known}
    if not _numeric(labels):
        return there
    beginnings = [str(label)[0] for label in labels]
    return {key: label for key, label in there.items() if str(label) == key and beginnings.count(key) == 1}


def _numeric(labels: Sequence[Label]) -> bool:
    return any(str(label)[:1].isdigit() for label in labels)


def _check(person: Person, key: str) -> None:
    needs(person, Role.annotator)
    if len(key) != 1 or key not in KEYS:
        raise BadOption(f"a class's key is one of {', '.join(KEYS)}")


def _lock(connection: Connection, person: Person) -> None:
    """Two windows of one person take turns."""
    connection.execute(sa.select(db.people.c.id).where(db.people.c.id == person.id).with_for_update())


def _kept(connection: Connection, agent: int, person: Person) -> dict[str, Label]:
    wanted = sa.select(k.key, k.label).where(k.agent == agent, k.person == person.id).order_by(k.key)
    return {row.key: row.label for row in connection.execute(wanted)}


def _keyless(connection: Connection, agent: int, person: Person) -> set[Label]:
    wanted = sa.select(without.label).where(without.agent == agent, without.person == person.id)
    return set(connection.execute(wanted).scalars())


def _write(
    connection: Connection, agent: int, person: Person, before: Mapping[str, Label], keys: Mapping[str, Label]
) -> None:
    changed = [key for key in KEYS if before.get(key) != keys.get(key)]
    connection.execute(
        sa.delete(db.class_keys).where(k.agent == agent, k.person == person.id, k.key.in_(changed))
    )
    rows = [
        {"agent": agent, "person": person.id, "key": key, "label": keys[key]} for key in changed if key in keys
    ]
    if rows:
        connection.execute(sa.insert(db.class_keys), rows)
