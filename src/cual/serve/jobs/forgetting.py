"""Samples and answers taken back from an agent, as a worker does it; where it is wished, from all its versions.

First the next version is made. Then, if that was asked for, every other version that has learned any of it is
written anew without it, under its number and with its history, or removed where that cannot be done; and what
was computed in adaptations of the agent is deleted. Killed anywhere, it goes on: a version without it stays.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
import torch
from sqlalchemy import Row

from cual.agent import Agent
from cual.data.lines import Lines, starts_of, write_lines
from cual.errors import BadFile, CualError, FileLost, UnknownSample
from cual.loop.adaptation import Adaptation
from cual.loop.files import CACHE
from cual.loop.journal import Journal
from cual.repair.answers import answers_forgotten
from cual.repair.base import By, Draft
from cual.repair.samples import Given, known_to
from cual.serve.jobs.repaired import commit, current
from cual.serve.rules import agents, audit, jobs, pool_columns, pools
from cual.serve.rules.jobs import Claim
from cual.serve.rules.records import OPERATOR, Person, Role
from cual.serve.rules.repairing import free
from cual.serve.storage import events, sums
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import IntArray, Progress

r, v, a = db.repairs.c, db.versions.c, db.adaptations.c


def forget(home: Home, claim: Claim, row: Row[Any], progress: Progress) -> None:
    """Take back what a repair asks for."""
    work = Forgetting(home, row, progress, f"{claim.job}-{claim.attempt}")
    made = row.result_version
    if made is None:
        base, before = current(home, row.agent)
        after = work.without(before, base)
        if after is None:
            raise UnknownSample("nothing of it is in the current version: not learned, or taken back already")
        made = commit(home, claim, row, base, after, over=False)
        if made is None:
            return
    rewritten, removed = work.rewrite(made) if row.wanted["earlier"] else ([], [])
    if row.wanted["originals"]:
        work.erase()
    with home.database.writing() as connection:
        if not jobs.holds(connection, claim):
            return
        values = {"state": "done", "wanted": {"why": row.wanted["why"]}, "error": None}
        connection.execute(sa.update(db.repairs).where(r.id == row.id).values(**values))
        if rewritten or removed:
            person = OPERATOR if row.person is None else Person(row.person, row.name, Role.admin)
            told = {"repair": row.id, "rewritten": rewritten, "removed": removed}
            audit.write(connection, person, "forget in versions", "agent", row.agent, **told)
        jobs.finished(connection, claim)


@dataclass(frozen=True)
class Forgetting:
    """What is taken back, of which agent."""

    home: Home
    row: Row[Any]
    progress: Progress
    attempt: str
    """What files are called that are not whole yet."""

    def without(self, agent: Agent, version: int, known_only: bool = False) -> Agent | None:
        """An agent of some version without it, one version further; None where it has nothing of it.

        Of samples of which it does not know all, `known_only` takes back those that it knows.
        """
        if self.row.wanted["samples"] is not None:
            return self._without_samples(agent, known_only)
        return self._without_answers(agent, version)

    @property
    def _by(self) -> By:
        return By(self.row.name, self.row.wanted["why"] or None)

    def _rows(self) -> tuple[list[Any], IntArray]:
        """The samples, by their ids, and their rows in the pool."""
        pool = pools.open_pool(self.home, self.row.wanted["pool"])
        of_pool = {str(sample): (row, sample) for row, sample in enumerate(pool.ids)}
        wanted = [str(sample) for sample in self.row.wanted["samples"]]
        missing = [sample for sample in wanted if sample not in of_pool]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise UnknownSample(f"the pool has no sample {missing[0]!r}{more}")
        places = dict(of_pool[sample] for sample in wanted)
        return list(places.values()), np.array(list(places), np.int64)

    def _without_samples(self, agent: Agent, known_only: bool) -> Agent | None:
        ids, rows = self._rows()
        features = pools.open_pool(self.home, self.row.wanted["pool"]).take(rows)
        known = known_to(Draft.of(agent), Given.of(features))
        if not known.any():
            return None
        chosen = np.flatnonzero(known) if known_only else np.arange(len(ids))
        X, ids = features[torch.from_numpy(chosen)], [ids[row] for row in chosen.tolist()]
        by = self._by
        return agent.forget(X, ids=ids, person=by.person, why=by.why, progress=self.progress)

    def _without_answers(self, agent: Agent, version: int) -> Agent | None:
        """Without the answers of all adaptations that led to a version; one step further, however many."""
        after, of = agent, self.row.wanted["of"]
        for task in self._tasks(version):
            if of is None or any(event.get("person") == of for event in task.journal):
                with suppress(UnknownSample):  # somebody who passed questions on has answered none
                    after = answers_forgotten(after, task, of, None, self._by, self.progress, checked=True)
        return _as_one(agent, after)

    def _tasks(self, version: int) -> Iterator[Adaptation]:
        """Adaptations that led to a version, of those that are wanted; the latest first."""
        one: int | None = self.row.wanted["adaptation"]
        with self.home.database.reading() as connection:
            rows = connection.execute(sa.select(db.versions).where(v.agent == self.row.agent)).all()
        by_number = {row.number: row for row in rows}
        number: int | None = version
        while number is not None and number in by_number:
            row = by_number[number]
            if row.adaptation is not None and one in (None, row.adaptation):
                yield self._task(row.adaptation)
            number = row.parent

    def _task(self, adaptation: int) -> Adaptation:
        with self.home.database.reading() as connection:
            row = connection.execute(sa.select(db.adaptations).where(a.id == adaptation)).one()
            journal = [event for _, event in events.read(connection, adaptation)]
        agent = agents.load(self.home, row.agent, row.base_version)
        return Adaptation(agent, pools.open_pool(self.home, row.pool), journal=Journal(journal))

    # -- other versions ----------------------------------------------------------------------------------------

    def rewrite(self, made: int) -> tuple[list[int], list[int]]:
        """Take it back from all versions but the one that was made; those rewritten, and those removed.

        The latest first: what an adaptation started from is still as it was when its answers are read.
        """
        with self.home.database.reading() as connection:
            kept = (v.agent == self.row.agent, v.number != made, v.stage != "discarded")
            wanted = sa.select(v.number).where(*kept)
            numbers = list(connection.execute(wanted.order_by(v.number.desc())).scalars())
        rewritten, removed = list[int](), list[int]()
        for done, number in enumerate(numbers):
            self.progress("earlier versions", done, len(numbers))
            with self.home.database.reading() as connection:
                free(connection, self.row.agent)  # what an adaptation works with must not change under it
            before = agents.load(self.home, self.row.agent, number)
            try:
                after = self.without(before, number, known_only=True)
            except (BadFile, FileLost):  # that nothing can be read is no reason to remove it
                raise
            except CualError:
                self._remove(number)
                removed.append(number)
                continue
            if after is not None:
                self._replace(number, replace(after, version=before.version, history=before.history))
                rewritten.append(number)
        self._drop_caches()
        return rewritten, removed

    def _replace(self, number: int, agent: Agent) -> None:
        values = agents.values_of(agent)
        same = ("classes", "held_out_accuracy", "held_out", "accuracy_low", "accuracy_high")
        mine = sa.and_(v.agent == self.row.agent, v.number == number)
        file = agents.unfinished(self.home, agent, self.attempt)
        try:
            with self.home.database.writing() as connection:
                connection.execute(
                    sa.update(db.versions).where(mine).values(**{name: values[name] for name in same})
                )
                file.replace(self.home.agent_file(self.row.agent, number))
        finally:
            file.unlink(missing_ok=True)

    def _remove(self, number: int) -> None:
        """Remove a version; the row first, so that nobody looks for a file that is gone."""
        with self.home.database.writing() as connection:
            connection.execute(sa.delete(db.versions).where(v.agent == self.row.agent, v.number == number))
        self.home.agent_file(self.row.agent, number).unlink(missing_ok=True)

    def _drop_caches(self) -> None:
        """Delete what was computed in adaptations that are over: it may hold features."""
        with self.home.database.reading() as connection:
            numbers = connection.execute(sa.select(a.id).where(a.agent == self.row.agent)).scalars().all()
        for number in numbers:
            for file in self.home.adaptation_folder(number).glob(f"*/{CACHE}"):
                file.unlink(missing_ok=True)

    # -- pools -------------------------------------------------------------------------------------------------

    def erase(self) -> None:
        """Remove pictures, texts and columns of the samples from their pool. Rows and features stay."""
        rows = self._rows()[1].tolist()
        folder = self.home.pool_folder(self.row.wanted["pool"])
        changed = [name for name in (pools.TEXTS, pool_columns.FILE) if (folder / name).exists()]
        shown = [name for row in rows for name in (f"{row}.webp", pools.LARGE.format(row=row))]
        pictures = [f"{pools.PICTURES}/{name}" for name in shown]
        with self._listed_anew(
            folder, [both for name in changed for both in (name, starts_of(name))], pictures
        ):
            size = len(pools.open_pool(self.home, self.row.wanted["pool"]))
            for name in changed:
                _without_lines(folder / name, set(rows), size)
            for name in pictures:
                (folder / name).unlink(missing_ok=True)

    @contextmanager
    def _listed_anew(self, folder: Path, changed: list[str], gone: list[str]) -> Generator[None]:
        """While files of a pool change: nobody compares them meanwhile, and others keep their checksums."""
        if not (folder / sums.NAME).exists():  # of an earlier release
            yield
            return
        mine = sa.update(db.pools).where(db.pools.c.id == self.row.wanted["pool"])
        with self.home.database.writing() as connection:
            connection.execute(mine.values(sums=None))
        kept = {name: digest for name, digest in sums.read(folder).items() if name not in {*changed, *gone}}
        sums.put(folder, kept)
        yield
        digest = sums.put(folder, kept | {name: sums.sha256(folder / name) for name in changed})
        with self.home.database.writing() as connection:
            connection.execute(mine.values(sums=digest))


def _without_lines(file: Any, gone: set[int], n: int) -> None:
    with Lines(file) as lines:
        values = ((row, lines.get(row)) for row in range(n) if row not in gone)
        write_lines(file, ((row, value) for row, value in values if value is not None), n)


def _as_one(before: Agent, after: Agent) -> Agent | None:
    """Several steps back as one version; None where nothing was taken back."""
    rows = after.history[len(before.history) :]
    samples = sum(row["samples"] for row in rows)
    if not samples:
        return None
    if len(rows) == 1:
        return after
    last = {name: value for name, value in rows[-1].items() if name != "adaptation"}
    whole = last | {
        "version": before.version + 1,
        "samples": samples,
        "learned_otherwise": sum(row["learned_otherwise"] for row in rows),
        "new_classes": [name for row in rows for name in row["new_classes"]],
        "removed_classes": [name for row in rows for name in row["removed_classes"]],
        "how": next((row["how"] for row in rows if row["how"] != "exact"), "exact"),
    }
    return replace(after, version=before.version + 1, history=(*before.history, whole))
