"""What waits in inboxes, for whoever looks: counts, features, originals. Nothing is changed here."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

import numpy as np
import sqlalchemy as sa

from cual.errors import Conflict, NotFound
from cual.serve.rules import agents
from cual.serve.rules.inbox import counts, files, policies
from cual.serve.rules.inbox.records import VERDICTS, InboxRecord, Verdict, WaitingSamples
from cual.serve.rules.inbox.writing import open_inbox
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

TRIES = 20
s, i, b = db.inbox_samples.c, db.inboxes.c, db.inbox_batches.c


def one(home: Home, agent: int) -> InboxRecord:
    """What waits for an agent, and what came since its last pool."""
    with home.database.reading() as connection:
        agents.record(connection, agent)
        policy, inbox = policies.of(connection, agent), open_inbox(connection, agent)
        if inbox is None:
            return InboxRecord(agent, 0, dict.fromkeys(VERDICTS, 0), 0, None, [], policy)
        wanted = sa.select(s.verdict, sa.func.count(), sa.func.sum(s.size)).where(s.inbox == inbox.id)
        rows = connection.execute(wanted.group_by(s.verdict)).all()
        told = counts.of(connection, inbox.id)
    by_verdict: dict[str, int] = {**dict.fromkeys(VERDICTS, 0), **{row[0]: row[1] for row in rows}}
    size = sum(int(row[2]) for row in rows)
    return InboxRecord(agent, sum(by_verdict.values()), by_verdict, size, inbox.created_at, told, policy)


def waiting(home: Home, agent: int, verdicts: Sequence[Verdict] = VERDICTS) -> WaitingSamples:
    """Kept samples of an agent's open inbox with one of these verdicts, the oldest first."""
    for _ in range(TRIES):
        with suppress(FileNotFoundError):  # a file has just gone: the rows say so now
            return _waiting(home, agent, verdicts)
    raise Conflict("the inbox changes too quickly to be read; try again")


def _waiting(home: Home, agent: int, verdicts: Sequence[Verdict]) -> WaitingSamples:
    with home.database.reading() as connection:
        record = agents.record(connection, agent)
        inbox = open_inbox(connection, agent)
        rows: Sequence[Any] = []
        if inbox is not None:
            joined = db.inbox_samples.join(db.inbox_batches, b.id == s.batch)
            wanted = sa.select(db.inbox_samples, b.file).select_from(joined)
            rows = connection.execute(
                wanted.where(s.inbox == inbox.id, s.verdict.in_(verdicts)).order_by(s.id)
            ).all()
    parts = [np.empty((0, record.width), np.float32)]
    for file, here in groupby(rows, key=lambda row: row.file):
        parts.append(files.read(home, agent, file).X[[row.row for row in here]])
    return WaitingSamples(
        np.concatenate(parts),
        [row.id for row in rows],
        [row.arrived_at for row in rows],
        [row.times for row in rows],
        [row.label for row in rows],
        [row.score for row in rows],
        [row.original is not None for row in rows],
    )


def original(home: Home, agent: int, sample: int) -> bytes:
    """The picture's file or the text of a sample that waits; `NotFound` where it was not kept."""
    for _ in range(TRIES):
        with suppress(FileNotFoundError):
            return _original(home, agent, sample)
    raise Conflict("the inbox changes too quickly to be read; try again")


def _original(home: Home, agent: int, sample: int) -> bytes:
    joined = db.inbox_samples.join(db.inbox_batches, b.id == s.batch).join(db.inboxes, i.id == s.inbox)
    wanted = sa.select(s.row, s.original, b.file).select_from(joined).where(s.id == sample, i.agent == agent)
    with home.database.reading() as connection:
        row = connection.execute(wanted).one_or_none()
    if row is None or row.original is None:
        raise NotFound(f"sample {sample} of agent {agent} has no original")
    return files.read(home, agent, row.file, originals=True).originals[row.row]
