"""A budget that is raised while an adaptation is going on, or after its questions have ended."""

import sqlalchemy as sa

from cual.errors import Conflict
from cual.loop.extending import extending
from cual.methods import Method
from cual.serve.rules import adaptations, audit, jobs
from cual.serve.rules.checks import needs
from cual.serve.rules.records import AdaptationRecord, Person, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row


def raise_budget(
    home: Home, adaptation: int, method: Method, budget: float | int, person: Person
) -> AdaptationRecord:
    """Allow more labels in all; what was asked for and not answered is asked for again."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = adaptations.locked(connection, adaptation)
        adaptations.check_going(row)
        job = jobs.active(connection, adaptation)
        if job is not None and job.kind == "finish":
            raise Conflict(
                "the next version is being made; roll back once it is there, or start another adaptation"
            )
        if row.state == "failed":
            raise Conflict(f"adaptation {adaptation} has failed; try again first")
        pool = one_row(
            connection, sa.select(db.pools.c.size).where(db.pools.c.id == row.pool), f"pool {row.pool}"
        )
        state = home.states.of(connection, adaptation)
        new = extending(state, method, budget, pool.size, person.id or None)  # the operator has no row
        after = state.after(new)
        events.append(connection, adaptation, new)
        values = {"budget": after.budget, "stopped": False, "ended": after.ended}
        if after.reopened > state.reopened:
            values |= {"merges": None, "outlook": None, "round": after.opened - 1}
        adaptations.changed(connection, row, **values)
        audit.write(connection, person, "raise budget", "adaptation", adaptation, labels=after.budget)
        if after.open and row.state != "asking":
            jobs.cancel(
                connection, adaptation, running=True
            )  # what it computes just now, it computes too early
            adaptations.set_state(connection, adaptation, "asking")
        elif row.state == "review":
            adaptations.set_state(connection, adaptation, "thinking")
            jobs.add(connection, "advance", adaptation=adaptation)
        return adaptations.record(connection, adaptations.get(connection, adaptation))
