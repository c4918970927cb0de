"""Renaming, joining and removing classes."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch

from cual.data.labels import ClassNames
from cual.errors import BadLabels, SamplesMissing
from cual.heads import Head, JoinsClasses, Samples
from cual.learned import marks_of
from cual.repair.base import A, By, Draft, Repairable, check_kept, number_of, targets, version_of
from cual.repair.samples import NOTHING_LEFT, Given, entries_of
from cual.types import Progress, Row


def renamed(agent: A, old: Any, new: Any, by: By) -> A:
    """The next version, in which a class has another name, and nothing else is different."""
    c, label = number_of(agent.names, old), agent.names.check(new)
    if label in agent.names:
        raise BadLabels(f"there is a class {label!r} already; merge_classes makes one class of two")
    names = ClassNames(tuple(label if i == c else name for i, name in enumerate(agent.names.names)))
    change = {"change": "renamed", "class": agent.names.names[c], "to": label}
    return version_of(agent, replace(Draft.of(agent), names=names), change, by)


def merged(agent: A, into: Any, others: tuple[Any, ...], by: By, progress: Progress | None = None) -> A:
    """The next version, for which some classes were always one."""
    draft, change = _joined(agent, into, others)
    return version_of(agent, draft, change, by, progress)


def check_merge(agent: Repairable, into: Any, others: tuple[Any, ...]) -> None:
    """Refuse what `merged` would of an agent whose head has to be trained again; nothing is trained."""
    check_kept(_joined(agent, into, others)[0])


def check_removal(agent: Repairable, name: Any) -> None:
    """Refuse what `removed` would of an agent whose head has to be trained again; nothing is trained."""
    check_kept(Draft.of(agent).without_classes([number_of(agent.names, name)]))


def _joined(agent: Repairable, into: Any, others: tuple[Any, ...]) -> tuple[Draft, Row]:
    """What a version knows in which some classes are one, and what its history says of it."""
    kept, gone = number_of(agent.names, into), [number_of(agent.names, name) for name in others]
    if not gone or kept in gone or len(set(gone)) < len(gone):
        raise BadLabels("name the class that stays, and others than it that become part of it, each once")
    numbers = np.arange(len(agent.names))
    numbers[gone] = kept
    numbers = np.searchsorted(np.unique(numbers), numbers)
    names = ClassNames(tuple(name for c, name in enumerate(agent.names.names) if c not in set(gone)))
    change = {
        "change": "merged",
        "into": agent.names.names[kept],
        "classes": [agent.names.names[c] for c in gone],
    }
    return Draft.of(agent).renumbered(numbers.tolist(), names), change


def removed(
    agent: A, name: Any, given: Given | None, exact: bool, by: By, progress: Progress | None = None
) -> A:
    """The next version, which never knew a class."""
    c = number_of(agent.names, name)
    draft, how = Draft.of(agent), {}
    if isinstance(draft.head, JoinsClasses):
        available = _features_of(draft, c, given)
        head = _emptied(draft.head, draft, c, available)
        if head is None and exact:
            raise _missing(draft, c, available)
        if head is None:
            head, how = draft.head.without_class(c), {"how": "but for its spread"}
        draft = replace(draft, head=cast("Head", head))
    change = {
        "change": "removed",
        "class": agent.names.names[c],
        "samples": int((agent.learned.classes == c).sum()),
        **how,
    }
    return version_of(agent, draft.without_classes([c]), change, by, progress)


def _features_of(draft: Draft, c: int, given: Given | None) -> Given:
    """What there is of a class: what the memory keeps of it, and those of the given samples that are of it."""
    memory = draft.replay.X[draft.replay.y == c].float()
    if given is None:
        return Given.of(memory)
    record = draft.learned
    other = np.isin(given.marks, record.marks[record.classes != c])
    known = np.isin(given.marks, record.marks[record.classes == c])
    chosen = known if record.complete else ~other & ~given.within(draft.validation.X)
    chosen &= ~np.isin(given.marks, marks_of(memory))
    _, first = np.unique(given.marks, return_index=True)
    rows = np.intersect1d(np.flatnonzero(chosen), first)
    return Given.of(torch.cat([memory, given.X[torch.from_numpy(rows).to(memory.device)]]))


def _emptied(head: JoinsClasses, draft: Draft, c: int, available: Given) -> JoinsClasses | None:
    """A head without all samples of a class; None where some of them are missing."""
    entries = entries_of(draft, available)
    mine = entries.classes == c
    rows, weights = entries.rows[mine], entries.weights[mine]
    if not draft.learned.complete:  # what neither record nor memory knows is taken for samples of the class
        more = np.setdiff1d(np.arange(len(available.marks)), entries.rows)
        rows = np.concatenate([rows, more])
        weights = np.concatenate([weights, np.ones(len(more), np.float32)])
    surplus = float(weights.sum()) - draft.left(c)
    if surplus > NOTHING_LEFT:
        raise BadLabels(
            f"{draft.names.names[c]!r} was learned from {round(draft.left(c))} samples, but {len(rows)} are "
            "given or kept: some of them were never learned as it"
        )
    if surplus < -NOTHING_LEFT:
        return None
    X = available.X[torch.from_numpy(rows).to(available.X.device)]
    return head.without(Samples(X, targets(np.full(len(rows), c), weights, len(draft.names), X.device)))


def _missing(draft: Draft, c: int, available: Given) -> SamplesMissing:
    name, n = draft.names.names[c], round(draft.left(c))
    return SamplesMissing(
        f"{name!r} was learned from {n} samples, of which {len(available.marks)} are in the agent's memory or "
        "were given. Give the features of all of them and it is taken back exactly; or leave in the agent what "
        "they said of how classes spread (exact=False, on the command line --leave-spread)"
    )
