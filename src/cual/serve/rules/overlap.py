"""How people share the work of an adaptation: how many are asked a question, who settles, how much is gold."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import Conflict
from cual.loop import events as loop_events
from cual.loop.budget import check_overlap
from cual.serve.rules import adaptations, audit, gold, jobs, questions
from cual.serve.rules.checks import needs
from cual.serve.rules.records import AdaptationRecord, Person, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home


def change(
    home: Home,
    adaptation: int,
    person: Person,
    overlap: int | None = None,
    own_disputes: bool | None = None,
    gold_share: float | None = None,
) -> AdaptationRecord:
    """Change what is given.

    Parameters
    ----------
    overlap
        Questions that are asked from now on are put to so many people; open ones wait for no more than that.
    own_disputes
        Whether people may settle disagreements that they are a party to.
    gold_share
        Share of the questions lent to a person whose answer is known.
    """
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = adaptations.locked(connection, adaptation)
        adaptations.check_going(row)
        told: dict[str, float] = {}
        if overlap is not None and overlap != row.overlap:
            _put_to(home, connection, row, check_overlap(overlap, row.budget), person)
            told["overlap"] = overlap
        if own_disputes is not None and own_disputes != row.own_disputes:
            told["own_disputes"] = own_disputes
        if gold_share is not None and gold_share != row.gold_share:
            told["gold_share"] = gold.check_share(gold_share)
        if told:
            wanted = sa.update(db.adaptations).where(db.adaptations.c.id == adaptation)
            connection.execute(wanted.values(**told))
            audit.write(connection, person, "share work", "adaptation", adaptation, **told)
        return adaptations.record(connection, adaptations.get(connection, adaptation))


def _put_to(home: Home, connection: Connection, row: Row[Any], overlap: int, person: Person) -> None:
    """Change the overlap; where open questions have enough answers with it, the learner goes on."""
    job = jobs.active(connection, row.id)
    if job is not None and job.kind == "finish":
        raise Conflict("the next version is being made of the answers; nobody is asked any more")
    state = home.states.of(connection, row.id)
    new = [loop_events.overlapped(overlap, person.id or None)]  # the operator has no row
    after = state.after(new)
    after.check_budget()
    events.append(connection, row.id, new)
    questions.index(connection, row.id, state, after, state.open)
    adaptations.changed(connection, row, overlap=overlap)
    if row.state == "asking" and not after.open:
        adaptations.set_state(connection, row.id, "thinking")
        jobs.add(connection, "advance", adaptation=row.id)


def annotators(home: Home) -> int:
    """How many people can answer questions."""
    p = db.people.c
    roles = [role.value for role in Role if role.may(Role.annotator)]
    with home.database.reading() as connection:
        wanted = sa.select(sa.func.count()).where(p.active, p.role.in_(roles))
        return connection.execute(wanted).scalar_one()
