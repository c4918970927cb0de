"""Files of an inbox made smaller once most of what they held was let go, so that limits hold on disk too."""

import sqlalchemy as sa

from cual.serve.rules.inbox import files
from cual.serve.rules.inbox.writing import locked, open_inbox
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

SPARE = 2**16
"""Bytes that a file may hold in vain, beside as many again as it holds of use."""
s, b = db.inbox_samples.c, db.inbox_batches.c


def compact(home: Home, agent: int, batches: tuple[int, ...]) -> None:
    """Write those of some batches anew that are mostly empty. Whoever calls has the inbox to itself."""
    for batch in batches:
        _compact(home, agent, batch)


def _compact(home: Home, agent: int, batch: int) -> None:
    with home.database.reading() as connection:
        name = connection.execute(sa.select(b.file).where(b.id == batch)).scalar_one_or_none()
        columns = sa.select(s.id, s.row, s.size, s.original).where(s.batch == batch).order_by(s.row)
        rows = connection.execute(columns).all()
    if name is None or not rows:
        return
    if files.size(home, agent, name) <= 2 * sum(row.size for row in rows) + SPARE:
        return
    held = files.read(home, agent, name, originals=True)
    originals = [held.originals[row.row] for row in rows] if held.originals else []
    new = files.write(home, agent, held.X[[row.row for row in rows]], originals)
    with home.database.writing() as connection:
        locked(connection, agent)
        inbox = open_inbox(connection, agent)
        still = sa.select(sa.func.count()).where(
            s.batch == batch, s.inbox == (0 if inbox is None else inbox.id)
        )
        if connection.execute(still).scalar_one() != len(rows):
            name = new  # somebody else has closed it or let more go: it stays as it is
        else:
            connection.execute(sa.update(db.inbox_batches).where(b.id == batch).values(file=new))
            for place, row in enumerate(rows):  # in this order no two rows ever have the same place
                connection.execute(sa.update(db.inbox_samples).where(s.id == row.id).values(row=place))
    files.remove(home, agent, [name])
