"""One step of an adaptation, as a worker takes it: read the events, ask (or finish), and commit what it left.

Everything before the commit can be done again to the same bits. The commit appends the learner's events, and
only if the attempt is still the last one and no answer has come in between. A kill at any moment changes
nothing. What was computed is kept in a folder of this attempt's own, as a cache: without it, it is computed
again.
"""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.pool import Elsewhere
from cual.loop import safety
from cual.loop.adaptation import Adaptation
from cual.loop.journal import Journal
from cual.serve.rules import adaptations, agents, jobs, pools, views
from cual.serve.rules.jobs import Claim
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Progress
from cual.types import Row as Event


@dataclass(frozen=True)
class Work:
    """What a step is about: the adaptation's row and events when it began, the learner, where to keep it."""

    row: Row[Any]
    events: int
    """How many events there were."""
    task: Adaptation
    folder: Path

    @property
    def left(self) -> list[Event]:
        """The events that the step has left."""
        return self.task.journal[self.events :]


def advance(home: Home, claim: Claim, progress: Progress, elsewhere: Elsewhere | None = None) -> None:
    """Let the learner go on with what was answered, to its next questions or to the end."""
    work = _begun(home, claim, progress, elsewhere)
    query = work.task.ask()
    merges = _merges(work.task) if query is None else None
    _keep(work)
    with home.database.writing() as connection:
        if not _still(connection, claim, work):
            return
        _ask(connection, work)
        state = "review" if query is None else "asking"
        _commit(connection, claim, work, state=state, round=work.task.state.opened - 1, merges=merges)
    _drop_earlier(work.folder)


def finish(home: Home, claim: Claim, progress: Progress, elsewhere: Elsewhere | None = None) -> None:
    """Make the next version of the agent."""
    work = _begun(home, claim, progress, elsewhere)
    task, row = work.task, work.row
    evidence = task.evidence()
    merges = _merges(task)
    agent = task.finish()
    _keep(work)
    file = agents.unfinished(home, agent, f"{claim.job}-{claim.attempt}")
    values = agents.values_of(agent) | {
        "parent": row.base_version,
        "adaptation": row.id,
        "new_classes": [name for name in agent.names.names if name not in task.agent.names],
        "labels_used": task.labels_used,
        "pseudo_labels": len(task.pseudo_labels),
        **agents.accuracy(evidence.after(agent), evidence.before(task.agent)),
    }
    try:
        with home.database.writing() as connection:
            if not _still(connection, claim, work):
                return
            unlearned = safety.told_of(agent.history[-1])
            values |= {"suggestions_right": _suggestions_right(connection, row.id), "safety": unlearned}
            number = agents.add_version(home, connection, row.agent, file, values)
            _commit(connection, claim, work, unlearned, state="finished", result_version=number, merges=merges)
    finally:
        file.unlink(missing_ok=True)
    agents.clear_unfinished(home, claim.job)
    _drop_earlier(work.folder)


# -- before the commit -----------------------------------------------------------------------------------------


def _begun(home: Home, claim: Claim, progress: Progress, elsewhere: Elsewhere | None) -> Work:
    """The adaptation as its events tell of it, and a folder to keep what is computed."""
    assert claim.adaptation is not None
    with home.database.writing() as connection:  # so that no event comes between the row and the events
        row = adaptations.locked(connection, claim.adaptation)
        journal = [event for _, event in events.read(connection, row.id)]
    every = home.adaptation_folder(row.id)
    folder = every / f"{claim.job}-{claim.attempt}"
    _drop_earlier(folder, but=row.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    agent, pool = agents.load(home, row.agent, row.base_version), pools.open_pool(home, row.pool)
    pool.elsewhere = elsewhere
    task = Adaptation(agent, pool, progress=progress, journal=Journal(journal))
    if row.folder is not None:
        task.load_cache(every / row.folder)
    return Work(row, len(journal), task, folder)


def _merges(task: Adaptation) -> list[dict[str, Any]]:
    """What is kept of names that are probably one class."""
    return [asdict(merge) | {"text": str(merge)} for merge in task.merges()]


def _keep(work: Work) -> None:
    work.task.save_cache(work.folder)
    views.write(work.folder, work.task)


# -- the commit ------------------------------------------------------------------------------------------------


def _still(connection: Connection, claim: Claim, work: Work) -> bool:
    """Whether this attempt's work counts; if only an answer came in between, the job is to be done again."""
    row = adaptations.locked(connection, work.row.id)
    if not jobs.holds(connection, claim):
        return False
    if row.revision != work.row.revision:
        jobs.again(connection, claim)
        return False
    return True


def _commit(
    connection: Connection, claim: Claim, work: Work, unlearned: str | None = None, **values: Any
) -> None:
    events.append(connection, work.row.id, work.left)
    ahead = work.task.outlook
    sentences = [] if ahead.novel is None and ahead.drift is None else [str(ahead)]
    sentences += [] if unlearned is None else [unlearned]
    values |= {"folder": work.folder.name, "error": None, "ended": work.task.ended}
    values |= {"outlook": " ".join(sentences) or None}
    connection.execute(sa.update(db.adaptations).where(db.adaptations.c.id == work.row.id).values(**values))
    jobs.finished(connection, claim)


def _ask(connection: Connection, work: Work) -> None:
    """Write down the questions of the events that the step has left."""
    row_of = {sample: row for row, sample in enumerate(work.task.pool.ids)}
    same = ("sample", "score", "threshold", "zone", "suggestion")
    rows = [
        {
            **{name: sample[name] for name in same},
            "adaptation": work.row.id,
            "query": event["query"],
            "round": event["round"],
            "position": position,
            "row": row_of[sample["sample"]],
            "missing": work.task.state.overlap,
            "created_at": db.now(),
        }
        for event in work.left
        if event["event"] == "asked"
        for position, sample in enumerate(event["samples"])
    ]
    if rows:
        connection.execute(sa.insert(db.questions), rows)


def _suggestions_right(connection: Connection, adaptation: int) -> float | None:
    q = db.questions.c
    wanted = sa.select(q.suggestion, q.label).where(q.adaptation == adaptation)
    rows = connection.execute(wanted.where(q.suggestion.is_not(None), q.label.is_not(None))).all()
    return sum(row.suggestion == row.label for row in rows) / len(rows) if rows else None


def _drop_earlier(folder: Path, but: str | None = None) -> None:
    """Remove the folders of earlier steps and attempts. Later ones are those of another worker."""
    mine = _order(folder)
    for other in folder.parent.iterdir() if folder.parent.exists() else ():
        if other.name != but and _order(other) < mine:
            shutil.rmtree(other, ignore_errors=True)


def _order(folder: Path) -> tuple[int, int]:
    job, attempt = folder.name.split("-")
    return int(job), int(attempt)
