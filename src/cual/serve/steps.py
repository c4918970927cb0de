"""One step of an adaptation, as a worker takes it: load, tell, ask (or finish), save, and commit in one go.

Everything before the commit happens in a folder of this attempt's own and can be done again to the same bits.
The commit names that folder in the database, and only if the attempt is still the last one and no answer has
come in between. A kill at any moment changes nothing.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.loop.adaptation import STATE, Adaptation, Query
from cual.labels import SKIP, Answer
from cual.serve import adaptations, agents, jobs, pools, views
from cual.serve import tables as db
from cual.serve.home import Home, link
from cual.serve.jobs import Claim
from cual.types import Label, Progress


@dataclass(frozen=True)
class Said:
    """What people said up to a moment: the row of the adaptation then, and all that is to be told."""

    held: Row[Any]
    answers: dict[str, dict[Label, Answer]]
    """By query."""
    verdicts: dict[int, str]
    """Of rows of the pool; only those that the learner has not been told."""
    last_answer: int
    last_review: int


def advance(home: Home, claim: Claim, progress: Progress) -> None:
    """Tell the learner what was answered and let it go on to its next questions, or to the end."""
    said = _read(home, claim)
    task, folder = _resumed(home, claim, said, progress)
    query = task.ask()
    _save(task, folder)
    with home.database.writing() as c:
        if not _still(c, claim, said):
            return
        if query is not None:
            _ask(c, said.held.id, task, query)
        values = {"state": "review" if query is None else "asking", "round": len(task.rounds) - 1}
        _commit(c, claim, said, folder.name, task, **values)
    _drop_earlier(folder)


def finish(home: Home, claim: Claim, progress: Progress) -> None:
    """Make the next version of the agent."""
    said = _read(home, claim)
    task, folder = _resumed(home, claim, said, progress)
    agent = task.finish()
    _save(task, folder)
    file = agents.unfinished(home, agent, f"{claim.job}-{claim.attempt}")
    values = agents.values_of(agent) | {
        "parent": said.held.base_version,
        "adaptation": said.held.id,
        "new_classes": [name for name in agent.names.names if name not in task.agent.names],
        "labels_used": task.labels_used,
        "pseudo_labels": len(task.pseudo_labels),
    }
    try:
        with home.database.writing() as c:
            if not _still(c, claim, said):
                return
            values["suggestions_right"] = _suggestions_right(c, said.held.id)
            number = agents.add_version(home, c, said.held.agent, file, values)
            _commit(c, claim, said, folder.name, task, state="finished", result_version=number)
    finally:
        file.unlink(missing_ok=True)
    for left in file.parent.iterdir():  # of attempts that were killed, whole or half written
        if left.name.startswith((f".{claim.job}-", f"..{claim.job}-")):
            left.unlink(missing_ok=True)
    _drop_earlier(folder)


# -- before the commit -----------------------------------------------------------------------------------------


def _read(home: Home, claim: Claim) -> Said:
    assert claim.adaptation is not None
    q, r = db.questions.c, db.reviews.c
    with home.database.writing() as c:  # so that no answer comes between the row and the answers
        held = adaptations.locked(c, claim.adaptation)
        answers: dict[str, dict[Label, Answer]] = {}
        wanted = sa.select(q.query, q.sample, q.label).where(q.adaptation == held.id, q.answered)
        for row in c.execute(wanted.order_by(q.round, q.position)):
            answers.setdefault(row.query, {})[row.sample] = SKIP if row.label is None else row.label
        reviews = sa.select(r.id, r.row, r.verdict).where(r.adaptation == held.id, r.id > held.reviewed)
        rows = c.execute(reviews.order_by(r.id)).all()
        a = db.answers.c
        last = c.execute(sa.select(sa.func.max(a.id)).where(a.adaptation == held.id)).scalar_one() or 0
    verdicts = {row.row: row.verdict for row in rows}
    return Said(held, answers, verdicts, last, max((row.id for row in rows), default=held.reviewed))


def _resumed(home: Home, claim: Claim, said: Said, progress: Progress) -> tuple[Adaptation, Path]:
    """The adaptation as it was at the last commit, told what people said since, and a folder to save it in."""
    held = said.held
    every = home.adaptation_folder(held.id)
    folder = every / f"{claim.job}-{claim.attempt}"
    _drop_earlier(folder, but=held.folder)
    if held.folder is None:
        agent = agents.load(home, held.agent, held.base_version)
        task = agent.adapt(pools.open_pool(home, held.pool), held.budget, progress=progress)
        task.budget = held.budget  # a method may multiply what it is given; that was done at the start
    else:
        _copy(every / held.folder, folder)
        pools.point_to(home, held.pool, folder / "pool.safetensors")
        task = Adaptation.load(folder, progress=progress)
    _tell(task, said)
    return task, folder


def _tell(task: Adaptation, said: Said) -> None:
    """Tell everything; what is not charged comes first, so that the budget is never passed on the way."""
    for charged in (False, True):
        for query, answers in said.answers.items():
            some = {sample: answer for sample, answer in answers.items() if (answer is not SKIP) == charged}
            if some:
                task.tell(query, some)
    believed = task.pseudo_labels
    for verdict, apply in (("reject", task.reject), ("confirm", task.confirm)):
        chosen = [task.pool.ids[row] for row, given in said.verdicts.items() if given == verdict]
        apply([sample for sample in chosen if sample in believed])
    if said.held.stopped:
        task.stop()


def _copy(source: Path, target: Path) -> None:
    """Link the files of a saved adaptation: they are replaced, never written to, so the source stays."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("agent.safetensors", STATE):
        link(source / name, target / name)


def _save(task: Adaptation, folder: Path) -> None:
    task.save(folder)
    views.write(folder, task)


# -- the commit ------------------------------------------------------------------------------------------------


def _still(c: Connection, claim: Claim, said: Said) -> bool:
    """Whether this attempt's work counts; if only an answer came in between, the job is to be done again."""
    held = adaptations.locked(c, said.held.id)
    if not jobs.holds(c, claim):
        return False
    if held.revision != said.held.revision:
        jobs.again(c, claim)
        return False
    return True


def _commit(c: Connection, claim: Claim, said: Said, folder: str, task: Adaptation, **values: Any) -> None:
    told = {"folder": folder, "told": said.last_answer, "reviewed": said.last_review, "error": None}
    ahead = task.outlook
    told |= {"ended": task.ended, "outlook": None if ahead.novel is None else str(ahead)}
    c.execute(sa.update(db.adaptations).where(db.adaptations.c.id == said.held.id).values(**told, **values))
    jobs.finished(c, claim)


def _ask(c: Connection, adaptation: int, task: Adaptation, query: Query) -> None:
    """Write down the questions that are not there yet."""
    row_of = {sample: row for row, sample in enumerate(task.pool.ids)}
    q = db.questions.c
    there = set(c.execute(sa.select(q.row).where(q.adaptation == adaptation)).scalars())
    threshold = task.rounds[-1].threshold.value
    rows: list[dict[str, Any]] = []
    parts = zip(query.ids, query.scores, query.zones, query.suggestions, strict=True)
    for position, (sample, score, zone, suggestion) in enumerate(parts):
        row = {"sample": sample, "row": row_of[sample], "score": score, "zone": zone, "suggestion": suggestion}
        row |= {"adaptation": adaptation, "query": query.id, "round": query.iteration, "position": position}
        if row["row"] not in there:
            rows.append({**row, "threshold": threshold, "created_at": db.now()})
    if rows:
        c.execute(sa.insert(db.questions), rows)


def _suggestions_right(c: Connection, adaptation: int) -> float | None:
    q = db.questions.c
    wanted = sa.select(q.suggestion, q.label).where(q.adaptation == adaptation)
    rows = c.execute(wanted.where(q.suggestion.is_not(None), q.label.is_not(None))).all()
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
