"""Agents and pools renamed and deleted; what depends on them is told first.

Nothing that people answered goes with them. While an adaptation is under way, what it needs cannot be deleted.
Once all that used it are over, its files are removed and its row stays, in the state "removed", for whoever
reads the answers. What nothing ever used goes altogether.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.errors import Conflict
from cual.serve.rules import agents, audit, jobs, pools
from cual.serve.rules.checks import check_name, needs
from cual.serve.rules.inbox import closing, files
from cual.serve.rules.records import AgentRecord, DependentsRecord, Person, PoolRecord, Role
from cual.serve.rules.watching import noting
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row

OVER = ("finished", "dropped")
a = db.adaptations.c
_FOLDERS: dict[str, tuple[sa.Table, Callable[[Home, int], Path]]] = {
    "agents": (db.agents, Home.agent_folder),
    "pools": (db.pools, Home.pool_folder),
}


# -- names -----------------------------------------------------------------------------------------------------


def rename_agent(home: Home, agent: int, name: str, person: Person) -> AgentRecord:
    _rename(home, db.agents, "agent", agent, name, person)
    return agents.one(home, agent)


def rename_pool(home: Home, pool: int, name: str, person: Person) -> PoolRecord:
    _rename(home, db.pools, "pool", pool, name, person)
    return pools.one(home, pool)


def _rename(home: Home, table: sa.Table, kind: Any, thing: int, name: str, person: Person) -> None:
    needs(person, Role.admin)
    name = check_name(name, f"{'an' if kind == 'agent' else 'a'} {kind}'s name")
    with home.database.writing() as connection:
        row = _locked(connection, table, thing)
        if row.name != name:
            connection.execute(sa.update(table).where(table.c.id == thing).values(name=name))
            audit.write(connection, person, "rename", kind, thing, name=name, before=row.name)


# -- what depends on it ----------------------------------------------------------------------------------------


def of_agent(home: Home, agent: int) -> DependentsRecord:
    with home.database.reading() as connection:
        one_row(connection, sa.select(db.agents.c.id).where(db.agents.c.id == agent), f"agent {agent}")
        return _of_agent(connection, agent)


def of_pool(home: Home, pool: int) -> DependentsRecord:
    with home.database.reading() as connection:
        pools.get(connection, pool)
        return _of_pool(connection, pool)


def _of_agent(connection: Connection, agent: int) -> DependentsRecord:
    p, v = db.pools.c, db.versions.c
    prepared = sa.select(p.id).where(p.agent == agent, p.state == "preparing").order_by(p.id)
    versions = sa.select(sa.func.count()).select_from(db.versions).where(v.agent == agent)
    return _dependents(
        connection,
        a.agent == agent,
        list(connection.execute(prepared).scalars()),
        connection.execute(versions).scalar_one(),
    )


def _of_pool(connection: Connection, pool: int) -> DependentsRecord:
    return _dependents(connection, a.pool == pool, [], 0)


def _dependents(
    connection: Connection, used: sa.ColumnElement[bool], preparing: list[int], versions: int
) -> DependentsRecord:
    users = connection.execute(sa.select(a.id, a.state).where(used).order_by(a.id)).all()
    q = db.questions.c
    answered = sa.select(sa.func.count()).select_from(db.questions.join(db.adaptations, a.id == q.adaptation))
    return DependentsRecord(
        going=[row.id for row in users if row.state not in OVER],
        over=[row.id for row in users if row.state in OVER],
        answers=connection.execute(answered.where(used, q.answered)).scalar_one(),
        preparing=preparing,
        versions=versions,
    )


# -- deleted ---------------------------------------------------------------------------------------------------


def delete_agent(home: Home, agent: int, person: Person) -> None:
    """Delete an agent with all its versions; refused while an adaptation or a pool is made with it."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = _with_jobs(connection, db.agents, db.jobs.c.agent, agent)
        dependents = _of_agent(connection, agent)
        _refuse(f"the agent {row.name!r}", dependents)
        used = db.pools.c.agent == agent
        made_for = connection.execute(sa.select(db.pools.c.id).where(used).limit(1)).one_or_none()
        audit.write(connection, person, "delete agent", "agent", agent, name=row.name)
        for table in (db.shadow_examples, db.shadows):
            connection.execute(sa.delete(table).where(table.c.agent == agent))
        mine = sa.select(db.repairs.c.id).where(db.repairs.c.agent == agent)
        connection.execute(sa.delete(db.jobs).where(db.jobs.c.repair.in_(mine)))
        connection.execute(sa.delete(db.repairs).where(db.repairs.c.agent == agent))
        noting.forget(connection, agent)
        closing.forget_agent(connection, agent)
        if dependents.over or made_for is not None:
            _keep_row(connection, db.agents, agent)
        else:
            for table in (db.versions, db.class_notes, db.class_keys, db.keyless_classes):
                connection.execute(sa.delete(table).where(table.c.agent == agent))
            connection.execute(sa.delete(db.agents).where(db.agents.c.id == agent))
        _mark(home, "agents", agent)
    sweep(home)


def delete_pool(home: Home, pool: int, person: Person) -> None:
    """Delete a pool; refused while an adaptation is under way on it."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = _with_jobs(connection, db.pools, db.jobs.c.pool, pool)
        dependents = _of_pool(connection, pool)
        _refuse(f"the pool {row.name!r}", dependents)
        audit.write(connection, person, "delete pool", "pool", pool, name=row.name)
        emptied = closing.forget_pool(connection, pool)
        g, told = db.gold.c, db.gold_questions.c
        connection.execute(
            sa.delete(db.gold_questions).where(told.gold.in_(sa.select(g.id).where(g.pool == pool)))
        )
        connection.execute(sa.delete(db.gold).where(g.pool == pool))
        if dependents.over:
            _keep_row(connection, db.pools, pool)
        else:
            connection.execute(sa.delete(db.pools).where(db.pools.c.id == pool))
        _mark(home, "pools", pool)
    if emptied is not None:
        files.remove(home, *emptied)
    sweep(home)


def sweep(home: Home) -> None:
    """Remove what is left of agents and pools that were deleted.

    A folder goes only if it is marked and has no row that needs it. That a database knows nothing of it is not
    enough: it may have been given by mistake.
    """
    for part, (table, folder_of) in _FOLDERS.items():
        for marker in (home.folder / part).glob("[0-9]*.deleted"):
            folder = folder_of(home, int(marker.stem))
            if not _is_there(home, table, int(marker.stem)):
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    marker.unlink(missing_ok=True)


def forget(home: Home, claim: jobs.Claim) -> None:
    """Remove what a worker wrote for an agent or a pool that was deleted meanwhile."""
    for part, thing in (("agents", claim.agent), ("pools", claim.pool)):
        table, folder_of = _FOLDERS[part]
        if thing is not None and not _is_there(home, table, thing):
            shutil.rmtree(folder_of(home, thing), ignore_errors=True)


def _refuse(what: str, dependents: DependentsRecord) -> None:
    needed = [f"adaptation {id}, which is under way" for id in dependents.going]
    needed += [f"pool {id}, which is being prepared" for id in dependents.preparing]
    if needed:
        raise Conflict(f"{what} is needed by {'; '.join(needed)}: finish, drop or delete that first")


def _with_jobs(connection: Connection, table: sa.Table, owner: Any, thing: int) -> Row[Any]:
    """The row of what is to be deleted, locked; its jobs are gone. Jobs are locked first, as always."""
    connection.execute(sa.select(db.jobs.c.id).where(owner == thing).with_for_update())
    row = _locked(connection, table, thing)
    if row.state == "removed":
        raise Conflict(f"{row.name!r} was deleted already")
    connection.execute(sa.delete(db.jobs).where(owner == thing))
    return row


def _keep_row(connection: Connection, table: sa.Table, thing: int) -> None:
    connection.execute(sa.update(table).where(table.c.id == thing).values(state="removed", error=None))


def _mark(home: Home, part: str, thing: int) -> None:
    """Leave word for `sweep`, should somebody be killed before the folder is gone."""
    (home.folder / part / f"{int(thing)}.deleted").touch()


def _locked(connection: Connection, table: sa.Table, thing: int) -> Row[Any]:
    wanted = sa.select(table).where(table.c.id == thing).with_for_update()
    return one_row(connection, wanted, f"{table.name.removesuffix('s')} {thing}")


def _is_there(home: Home, table: sa.Table, thing: int) -> bool:
    """Whether there is a row that needs its files."""
    wanted = sa.select(table.c.id).where(table.c.id == thing, table.c.state != "removed")
    with home.database.reading() as connection:
        return connection.execute(wanted).one_or_none() is not None
