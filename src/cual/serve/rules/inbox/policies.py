"""What is kept of what is sent to an agent: read, and set by administrators."""

from dataclasses import asdict, fields

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.serve.rules import agents, audit
from cual.serve.rules.checks import needs
from cual.serve.rules.inbox.records import Policy
from cual.serve.rules.records import Person, Role
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

_FIELDS = [field.name for field in fields(Policy)]
p = db.inbox_policies.c


def of(connection: Connection, agent: int) -> Policy:
    """The policy of an agent; the usual one where nobody has set any."""
    row = connection.execute(sa.select(db.inbox_policies).where(p.agent == agent)).one_or_none()
    return Policy() if row is None else Policy(**{name: getattr(row, name) for name in _FIELDS})


def set_policy(home: Home, agent: int, policy: Policy, person: Person) -> Policy:
    """Keep by another policy from the next sample on; limits are applied when the next one comes."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        agents.ready(connection, agent, stays=True)
        before = of(connection, agent)
        if policy != before:
            connection.execute(sa.delete(db.inbox_policies).where(p.agent == agent))
            connection.execute(sa.insert(db.inbox_policies).values(agent=agent, **asdict(policy)))
            audit.write(connection, person, "set inbox policy", "agent", agent, **asdict(policy))
    return policy
