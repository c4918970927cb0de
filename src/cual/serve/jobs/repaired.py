"""The version that a repair starts from, and the one that it makes: how it becomes the current one.

Only if the attempt still counts, no adaptation is under way and no other version has come meanwhile.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from cual.agent import Agent
from cual.errors import Conflict
from cual.serve.rules import agents, jobs
from cual.serve.rules.jobs import Claim
from cual.serve.rules.repairing import free
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

r = db.repairs.c


def current(home: Home, agent: int) -> tuple[int, Agent]:
    """The current version of an agent that no adaptation is under way with, and its number."""
    with home.database.reading() as connection:
        number = free(connection, agent)
    return number, agents.load(home, agent, number)


def commit(
    home: Home, claim: Claim, row: Row[Any], base: int, after: Agent, skipped: int = 0, over: bool = True
) -> int | None:
    """Make it the current version, if this attempt still counts; its number. With `over`, that is all."""
    file = agents.unfinished(home, after, f"{claim.job}-{claim.attempt}")
    change = {name: value for name, value in after.history[-1].items() if name != "version"}
    values = agents.values_of(after) | {"parent": base, "change": change}
    values["new_classes"] = change.get("new_classes", [])
    try:
        with home.database.writing() as connection:
            if not jobs.holds(connection, claim):
                return None
            connection.execute(sa.select(db.agents.c.id).where(db.agents.c.id == row.agent).with_for_update())
            if free(connection, row.agent) != base:
                raise Conflict("another version has become the current one meanwhile; try again")
            number = agents.add_version(home, connection, row.agent, file, values, at_once=True)
            told: dict[str, Any] = {"result_version": number, "skipped": skipped, "error": None}
            if over:
                told |= {
                    "state": "done",
                    "wanted": {"why": row.wanted["why"]},
                    "proposal": None,
                    "answers": None,
                }
                jobs.finished(connection, claim)
            connection.execute(sa.update(db.repairs).where(r.id == row.id).values(**told))
            return number
    finally:
        file.unlink(missing_ok=True)
