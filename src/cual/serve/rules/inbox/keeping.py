"""Keeping what arrives: files first, then one transaction: a kill at any moment loses and doubles nothing.

What is kept is decided in `planning`, what goes again in `limits`. Making pools of it is in `closing`.
"""

import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import groupby

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from cual.errors import Conflict, CualError
from cual.serve.rules import agents
from cual.serve.rules.checks import may_send
from cual.serve.rules.inbox import files, policies, writing
from cual.serve.rules.inbox.compacting import compact
from cual.serve.rules.inbox.near import COMPARED, Latest, unit
from cual.serve.rules.inbox.planning import Plan, plan
from cual.serve.rules.inbox.records import Arrivals, Key, Policy
from cual.serve.rules.inbox.writing import Answer, Outdated, Request
from cual.serve.rules.records import Person
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

INDEXES = 4
"""Agents whose latest samples are held in memory."""
TRIES = 20
"""How often a request is planned anew because another process kept something meanwhile."""
_AT_ONCE = 500
s, b = db.inbox_samples.c, db.inbox_batches.c


class Inboxes:
    """All inboxes of a workspace, for one process. Thread-safe: those who send to one agent take turns."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._turns: OrderedDict[int, threading.Lock] = OrderedDict()
        self._latest: OrderedDict[int, Latest] = OrderedDict()

    @contextmanager
    def turn(self, agent: int) -> Generator[None]:
        """Nobody else of this process keeps or closes anything of the agent meanwhile."""
        with self._lock:
            lock = self._turns.setdefault(agent, threading.Lock())
        with lock:
            yield

    def answered(self, agent: int, person: Person, key: Key) -> bytes | None:
        """What was answered to a request with this key; `Conflict` if it was another request."""
        with self._home.database.reading() as connection:
            return writing.answered(connection, agent, person, key)

    def keep(
        self, agent: int, arrivals: Arrivals, person: Person, answer: Answer, key: Key | None = None
    ) -> bytes:
        """Keep what arrived; the answer, which is the one that was given before where the key is known."""
        may_send(person)
        with self.turn(agent):
            for _ in range(TRIES):
                try:
                    return self._kept(agent, arrivals, person, answer, key)
                except Outdated:
                    self._forget(agent)
            raise Conflict("others keep samples of this agent too quickly; try again")

    def _kept(self, agent: int, arrivals: Arrivals, person: Person, answer: Answer, key: Key | None) -> bytes:
        with self._home.database.reading() as connection:
            agents.ready(connection, agent)
            policy = policies.of(connection, agent)
            inbox = writing.open_inbox(connection, agent)
            latest = self._of(agent, None if inbox is None else inbox.id)
            self._catch_up(connection, agent, latest)
            kept = {} if inbox is None else _kept_before(connection, inbox.id, arrivals.digests)
        planned = plan(arrivals, kept, latest, policy)
        file = self._write(agent, arrivals, planned, policy)
        try:
            with self._home.database.writing() as connection:
                request = Request(agent, arrivals, person, answer, key)
                done = writing.write(connection, request, planned, policy, file, latest)
        except CualError:  # raised within: nothing refers to the file. Of other errors nobody knows.
            files.remove(self._home, agent, [file] if file else [])
            raise
        if done.inbox is None:
            files.remove(self._home, agent, [file] if file else [])
        else:
            latest.inbox = done.inbox
            latest.add(list(done.ids), np.stack(planned.units) if planned.units else np.empty((0, 0)))
            latest.drop(list(done.gone.samples))
            files.remove(self._home, agent, done.gone.files)
            compact(self._home, agent, done.gone.batches)
        return done.answer

    def _write(self, agent: int, arrivals: Arrivals, planned: Plan, policy: Policy) -> str | None:
        if not planned.new:
            return None
        keeps = policy.originals and arrivals.originals
        originals = [arrivals.originals[row] for row in planned.new] if keeps else []
        return files.write(self._home, agent, arrivals.X[planned.new], originals)

    # -- what is compared with ---------------------------------------------------------------------------------

    def _of(self, agent: int, inbox: int | None) -> Latest:
        with self._lock:
            latest = self._latest.setdefault(agent, Latest(inbox))
            if latest.inbox != inbox:
                latest = self._latest[agent] = Latest(inbox)
            self._latest.move_to_end(agent)
            while len(self._latest) > INDEXES:
                self._latest.popitem(last=False)
        return latest

    def _forget(self, agent: int) -> None:
        with self._lock:
            self._latest.pop(agent, None)

    def _catch_up(self, connection: Connection, agent: int, latest: Latest) -> None:
        """Read what is kept and not in memory: after a start, or where another process kept it."""
        if latest.inbox is None:
            return
        wanted = sa.select(s.id, s.row, b.file).join(db.inbox_batches, b.id == s.batch)
        newest = wanted.where(s.inbox == latest.inbox, s.id > latest.last).order_by(s.id.desc()).limit(COMPARED)
        rows = connection.execute(newest).all()[::-1]
        for file, here in groupby(rows, key=lambda row: row.file):  # of a batch, ids follow each other
            part = list(here)
            X = files.read(self._home, agent, file).X
            latest.add([row.id for row in part], unit(X[[row.row for row in part]]))


def _kept_before(connection: Connection, inbox: int, digests: Sequence[str]) -> dict[str, int]:
    """Ids of those samples that are kept already."""
    kept: dict[str, int] = {}
    for start in range(0, len(digests), _AT_ONCE):
        some = s.digest.in_(digests[start : start + _AT_ONCE])
        found = connection.execute(sa.select(s.digest, s.id).where(s.inbox == inbox, some))
        kept |= {row.digest: row.id for row in found}
    return kept
