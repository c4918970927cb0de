"""What a workspace says of all that it has since 0.2.0, and how that is gone on with.

Repairs, inboxes, watching, stages, people, notes on classes; the rest is `release`'s. Used by the maker and by
the tests alike, so only methods of the workspace are called.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.inbox.records import Arrivals
from cual.serve.rules.records import OPERATOR, Person
from cual.serve.rules.workspace import Workspace
from upgrades import release
from upgrades.release import Row, Truth, plain

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
"""Before anything in a fixture: counts are told from a day ago on, unless somebody says from when."""
MOMENTS = {*release.TIMES, "since", "until", "arrived_at", "start", "novelty_since", "drift_since"}


def arrivals(X: np.ndarray, verdict: Any, version: int, **more: Any) -> Arrivals:
    """Samples as a program sends them."""
    n = len(X)
    judged: dict[str, Any] = {"labels": ["cat"] * n, "scores": [1.5] * n, "version": version}
    return Arrivals(
        X, [hashlib.sha256(row.tobytes()).hexdigest() for row in X], [verdict] * n, **judged, **more
    )


def said(workspace: Workspace) -> Row:
    """All that the page shows beside questions and answers."""
    agents = [record.id for record in workspace.agents()]
    people = [row.person for row in workspace.audit(OPERATOR, n=1)]  # the audit trail can be read
    assert people
    candidates = [v for a in agents for v in workspace.versions(a) if v.stage == "candidate"]
    ready = [record.id for record in workspace.pools() if record.state == "ready"]
    return plain(
        {
            "repairs": {str(a): workspace.repairs(a) for a in agents},
            "inboxes": {str(a): workspace.inbox(a) for a in agents},
            "waiting": {str(a): waiting(workspace, a) for a in agents},
            "watching": {str(a): workspace.watching(a, LONG_AGO) for a in agents},
            "webhooks": {str(a): workspace.webhooks(a, OPERATOR) for a in agents},
            "stage changes": {str(a): workspace.stage_changes(a) for a in agents},
            "shadows": {f"{v.agent}.{v.number}": workspace.shadow(v.agent, v.number) for v in candidates},
            "classes": {str(a): workspace.classes(a) for a in agents},
            "gold": {str(pool): workspace.gold(pool, OPERATOR) for pool in ready},
            "columns": {str(pool): list(workspace.columns(pool, range(5)).items()) for pool in ready},
        }
    )


def waiting(workspace: Workspace, agent: int) -> Row:
    """Samples of an inbox, with their features and what came with them."""
    samples = workspace.waiting_samples(agent)
    kept = zip(samples.ids, samples.has_original, strict=True)
    return {
        "X": samples.X.tolist(),
        "ids": samples.ids,
        "arrived_at": samples.arrived_at,
        "times": samples.times,
        "labels": samples.labels,
        "originals": [workspace.waiting_original(agent, id).decode() for id, there in kept if there],
    }


def keys(workspace: Workspace, people: Mapping[str, Person]) -> Row:
    """Whose key is which class."""
    agents = [record.id for record in workspace.agents()]
    return plain({f"{n}.{a}": workspace.kept_keys(a, p) for n, p in people.items() for a in agents})


def audited(workspace: Workspace) -> list[Row]:
    return plain(workspace.audit(OPERATOR, n=1000))


def go_on(workspace: Workspace, people: Mapping[str, Person], truths: Mapping[int, Truth]) -> None:
    """Work off what waits, answer what is asked, promote candidates and make pools of inboxes."""
    ann = people["ann"]
    work_until_idle(workspace)
    for record in workspace.agents():
        for repair in workspace.repairs(record.id):
            if repair.state == "asking" and repair.split is not None:
                names = [f"{repair.split.label} {n}" for n in range(len(repair.split.groups))]
                workspace.answer_split(record.id, repair.id, names, {}, ann, leave_rest=True)
    for task in sorted(record.id for record in workspace.adaptations()):
        truth = truths[workspace.adaptation(task).pool]
        while workspace.adaptation(task).state == "asking":
            answer_round(workspace, task, (ann, people["bob"]), truth)
    release.go_on(workspace, ann, truths)
    for record in workspace.agents():
        candidates = [v for v in workspace.versions(record.id) if v.stage == "candidate"]
        if candidates:
            live = workspace.agent(record.id).version
            workspace.promote(record.id, candidates[-1].number, live, "better", ann)
        if workspace.inbox(record.id).waiting:
            workspace.close_inbox(record.id, "what waited", ann)
    work_until_idle(workspace)


def answer_round(workspace: Workspace, task: int, people: Sequence[Person], truth: Truth) -> None:
    """What is open is answered by everybody: where several are asked about a question, one is not enough."""
    for person in people:
        asked = workspace.questions(task, answered=False)
        workspace.answer(task, person, {question.id: truth[question.sample] for question in asked})
    work_until_idle(workspace)


def ended(workspace: Workspace) -> Row:
    """What came of everything, without the moments."""
    return timeless(release.ended(workspace) | said(workspace))


def timeless(value: Any) -> Any:
    """Without the moments at which things happened, and without counts over time, which have them as names."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in MOMENTS and k != "points"}
    return [timeless(v) for v in value] if isinstance(value, list) else value
