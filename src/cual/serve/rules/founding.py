"""Agents that the service makes itself, of labelled data that somebody sends or points to.

Adding one only puts down what came; reading and learning is a job (`cual.serve.jobs.founding`).
"""

import shutil
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from cual.errors import BadOption, Conflict
from cual.serve.rules import agents, audit, jobs, pools, sources
from cual.serve.rules.checks import check_name, needs
from cual.serve.rules.records import AgentRecord, Person, Role
from cual.serve.rules.sources import SOURCE, TableColumns
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row

METHOD = "cual-plus"
"""What `cual fit` takes, too, where nobody says otherwise."""
FEATURES, SKIPPED = "features", "skipped.json"
EXAMPLE = "Digits"


def add(
    home: Home,
    name: str,
    source: Path,
    person: Person,
    encoder: str | None = None,
    columns: TableColumns | None = None,
) -> AgentRecord:
    """Put down labelled data and have an agent made of it.

    Parameters
    ----------
    source
        A zip or a folder with a folder of images per class, a table of text, or features; under an allowed root
        or in `uploads`.
    encoder
        One of the built-in ones; by default the usual one for images or for text.
    columns
        Columns of a table.
    """
    needs(person, Role.admin)
    name = check_name(name, "an agent's name")
    if encoder is not None:
        _check_encoder(encoder)
    where = sources.checked(home, source, columns, labelled=True) | {"encoder": encoder}
    return _put_down(home, name, where, person)


def add_example(home: Home, person: Person) -> AgentRecord:
    """Have the built-in example made: an agent that knows five digits, and then a pool with all ten."""
    needs(person, Role.admin)
    return _put_down(home, EXAMPLE, {"given": True, "example": "digits"}, person)


def retry(home: Home, agent: int, person: Person) -> int:
    """Try again to make an agent that could not be made; the number of the job."""
    needs(person, Role.admin)
    wanted = sa.select(db.agents).where(db.agents.c.id == agent)
    with home.database.writing() as connection:
        row = one_row(connection, wanted.with_for_update(), f"agent {agent}")
        if row.state != "failed":
            raise Conflict(f"the agent {row.name!r} has not failed: it is {row.state}")
        audit.write(connection, person, "retry", "agent", agent)
        anew = {"state": "preparing", "error": None}
        connection.execute(sa.update(db.agents).where(db.agents.c.id == agent).values(**anew))
        return jobs.add(connection, "fit", agent=agent)


def skipped(home: Home, agent: int) -> list[dict[str, str]]:
    """Labelled items that could not be read, and why."""
    agents.one(home, agent)
    return pools.read_skipped(home, home.agent_folder(agent))


def built_in() -> list[str]:
    """Encoders that may be chosen."""
    from cual.encoders import base

    return sorted(base.BUILT_IN)


def _check_encoder(encoder: str) -> None:
    from cual.encoders.base import is_built_in

    if not is_built_in(encoder):
        raise BadOption(f"the service runs the encoders {', '.join(built_in())}, not {encoder!r}")


def _put_down(home: Home, name: str, where: dict[str, Any], person: Person) -> AgentRecord:
    values = {"name": name, "current": 0, "method": METHOD, "width": 0, "state": "preparing", "source": where}
    with home.database.writing() as connection:
        inserted = connection.execute(sa.insert(db.agents).values(**values))
        number: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        folder = home.agent_folder(number)
        shutil.rmtree(folder, ignore_errors=True)  # of one that was never committed
        folder.mkdir(parents=True)
        if where.get("upload"):
            moved = {**where, "path": sources.take_over(Path(where["path"]), folder / SOURCE)}
            connection.execute(sa.update(db.agents).where(db.agents.c.id == number).values(source=moved))
        jobs.add(connection, "fit", agent=number)
        audit.write(connection, person, "make agent", "agent", number, name=name)
        return agents.record(connection, number)
