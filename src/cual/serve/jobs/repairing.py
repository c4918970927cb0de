"""Repairs of an agent as a worker does them: teaching, splitting, merging, removing.

Forgetting is beside this file; what a head does in closed form takes no worker (`cual.serve.rules.repairing`).
Each ends in one version. Killed before that, it is done again.
"""

import json
import shutil
from contextlib import suppress
from typing import Any

import numpy as np
import sqlalchemy as sa
import torch
from sqlalchemy import Row

from cual import storage
from cual.agent import Agent
from cual.data.labels import read_label
from cual.errors import BadLabels, Conflict
from cual.learned import marks_of
from cual.repair import Split
from cual.repair.base import number_of
from cual.serve.jobs import forgetting, founding
from cual.serve.jobs.repaired import commit, current
from cual.serve.rules import agents, jobs, pools
from cual.serve.rules.checks import check_label
from cual.serve.rules.founding import SKIPPED
from cual.serve.rules.jobs import Claim
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.storage import write_bytes
from cual.types import AnyArray, IntArray, Label, Progress

EXAMPLES = 6
"""Samples that show what a group is."""
PROPOSAL = "split.safetensors"
r = db.repairs.c


def repair(home: Home, claim: Claim, progress: Progress) -> None:
    """Do one repair."""
    assert claim.repair is not None
    with home.database.reading() as connection:
        wanted = sa.select(db.repairs, db.people.c.name).outerjoin(db.people, db.people.c.id == r.person)
        row = connection.execute(wanted.where(r.id == claim.repair)).one()
    try:
        if row.kind == "teach":
            _teach(home, claim, row, progress)
        elif row.kind == "forget":
            forgetting.forget(home, claim, row, progress)
        elif row.kind == "merge":
            _merge(home, claim, row, progress)
        elif row.kind == "remove":
            _remove(home, claim, row, progress)
        elif row.answers is None:
            _propose(home, claim, row, progress)
        else:
            _split(home, claim, row, progress)
        agents.clear_unfinished(home, claim.job)
    finally:
        _tidy(home, row)


def _tidy(home: Home, row: Row[Any]) -> None:
    """Remove what was written for a repair whose agent was deleted meanwhile."""
    with home.database.reading() as connection:
        there = connection.execute(sa.select(r.id).where(r.id == row.id)).one_or_none() is not None
    if not there:
        shutil.rmtree(home.repair_folder(row.agent, row.id), ignore_errors=True)
        with suppress(OSError):  # it holds something else
            home.agent_folder(row.agent).rmdir()


# -- teaching --------------------------------------------------------------------------------------------------


def _teach(home: Home, claim: Claim, row: Row[Any], progress: Progress) -> None:
    folder = home.repair_folder(row.agent, row.id)
    folder.mkdir(parents=True, exist_ok=True)
    base, before = current(home, row.agent)
    table, skipped = founding.labelled(folder, row.wanted, progress, before.encoder, fewest=1)
    before.check_encoder(table.encoder, "the data")
    labels = _as_known(before, table.labels())
    after = before.teach(table.X, labels, table.ids, row.name, row.wanted["why"] or None, progress)
    write_bytes(folder / SKIPPED, json.dumps(skipped).encode())
    if commit(home, claim, row, base, after, skipped=len(skipped)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _as_known(agent: Agent, labels: AnyArray) -> list[Label]:
    """Labels of the type that the agent's classes have: folders have text. New ones must be readable."""
    names = agent.names
    plain: list[Label] = labels.tolist()
    numbers = isinstance(names.names[0], int)
    of = {
        label: check_label(_number(label, agent) if numbers else label, names, meant=True)
        for label in set(plain)
    }
    return [of[label] for label in plain]


def _number(label: Label, agent: Agent) -> Label:
    try:
        return read_label(label, agent.names) if isinstance(label, str) else label
    except BadLabels:
        raise BadLabels(f"the agent's classes are whole numbers, but a label is {label!r}") from None


# -- merging and removing, where the head has to be trained again ----------------------------------------------


def _merge(home: Home, claim: Claim, row: Row[Any], progress: Progress) -> None:
    base, before = current(home, row.agent)
    into, others, why = row.wanted["into"], row.wanted["others"], row.wanted["why"] or None
    after = before.merge_classes(into, *others, person=row.name, why=why, progress=progress)
    commit(home, claim, row, base, after)


def _remove(home: Home, claim: Claim, row: Row[Any], progress: Progress) -> None:
    base, before = current(home, row.agent)
    label, why = row.wanted["label"], row.wanted["why"] or None
    after = before.remove_class(label, person=row.name, why=why, progress=progress)
    commit(home, claim, row, base, after)


# -- splitting -------------------------------------------------------------------------------------------------


def _propose(home: Home, claim: Claim, row: Row[Any], progress: Progress) -> None:
    """Group the samples of a class, and leave what people are asked."""
    base, agent = current(home, row.agent)
    c = number_of(agent.names, row.wanted["label"])
    X, places = _in_pools(home, row.agent, agent, c, progress)
    given = X if len(places) else None
    split = agent.propose_split(
        row.wanted["label"], row.wanted["parts"], given, places if len(places) else None
    )
    arrays = {"X": split.X, "groups": split.groups, "margins": split.margins}
    body = {"name": split.name, "ids": list(split.ids), "missing": split.missing}
    file = home.repair_folder(row.agent, row.id) / PROPOSAL
    storage.write(file, "split", body, {k: torch.from_numpy(v) for k, v in arrays.items()})
    groups = [
        {
            "size": int((split.groups == group).sum()),
            "examples": [_shown(split, sample) for sample in split.examples(group, EXAMPLES)],
        }
        for group in range(split.parts)
    ]
    proposal = {
        "label": split.name,
        "size": len(split),
        "missing": split.missing,
        "groups": groups,
        "questions": [_shown(split, sample) for sample in split.doubtful(row.wanted["questions"])],
    }
    with home.database.writing() as connection:
        if not jobs.holds(connection, claim):
            return
        values = {"state": "asking", "proposal": proposal, "error": None}
        values["wanted"] = row.wanted | {"base": base}
        connection.execute(sa.update(db.repairs).where(r.id == row.id).values(**values))
        jobs.finished(connection, claim)


def _shown(split: Split, sample: int) -> dict[str, int | None]:
    place = split.ids[sample]
    pool, row = (None, None) if place is None else map(int, str(place).split(":"))
    return {"sample": sample, "group": int(split.groups[sample]), "pool": pool, "row": row}


def _in_pools(
    home: Home, agent: int, loaded: Agent, c: int, progress: Progress
) -> tuple[torch.Tensor, list[str]]:
    """Samples of a class that lie in pools of the agent, found by their marks; and where each lies."""
    kept = [loaded.replay.X[loaded.replay.y == c], loaded.validation.X[loaded.validation.y == c]]
    record = loaded.learned
    marks = np.concatenate([record.marks[record.classes == c], *(marks_of(part.float()) for part in kept)])
    found, places = [torch.zeros(0, loaded.width)], list[str]()
    for pool, size in pools_of(home, agent):
        features = pools.open_pool(home, pool)
        if features.width != loaded.width:
            continue
        for part, X in features.chunks():
            progress("looking for samples", part.start, size)
            here: IntArray = np.flatnonzero(np.isin(marks_of(X), marks))
            found.append(X[torch.from_numpy(here)])
            places += [f"{pool}:{part.start + row}" for row in here.tolist()]
    return torch.cat(found), places


def pools_of(home: Home, agent: int) -> list[tuple[int, int]]:
    """Pools of an agent that are ready, and how many samples each has."""
    p = db.pools.c
    wanted = sa.select(p.id, p.size).where(p.agent == agent, p.state == "ready").order_by(p.id)
    with home.database.reading() as connection:
        return [(row.id, row.size) for row in connection.execute(wanted)]


def _split(home: Home, claim: Claim, row: Row[Any], progress: Progress) -> None:
    """Make the version in which the class is split as people have said."""
    folder = home.repair_folder(row.agent, row.id)
    body, tensors = storage.read(folder / PROPOSAL, "split")
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    split = Split(
        body["name"],
        arrays["X"],
        tuple(body["ids"]),
        arrays["groups"],
        arrays["margins"],
        body["missing"],
    )
    base, before = current(home, row.agent)
    if base != row.wanted["base"]:
        raise Conflict("another version has become the current one since; split the class of that one")
    answers = {int(sample): label for sample, label in row.answers["answers"]}
    after = before.split_class(
        split.name,
        split.X,
        split.labels(row.answers["names"], answers),
        list(answers),
        not row.answers["leave_rest"],
        person=row.name,
        why=row.wanted["why"] or None,
        progress=progress,
    )
    if commit(home, claim, row, base, after) is not None:
        shutil.rmtree(folder, ignore_errors=True)
