"""Taking single samples back: found by their features, with the label that they were learned with.

Whose samples they are, and which of them are to go, is decided elsewhere.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cual.data.labels import ClassNames, read_labels
from cual.errors import BadFeatures, BadLabels, SamplesMissing, UnknownSample
from cual.heads import Samples, TakesBack
from cual.learned import marks_of
from cual.repair.base import A, By, Draft, counts_by_name, number_of, targets, version_of
from cual.types import BoolArray, FloatArray, IntArray, Label, Progress

log = logging.getLogger(__name__)
NOTHING_LEFT = 1e-3
"""A class that weighs less has no samples: what is left is rounding."""


class Given(NamedTuple):
    """Samples that somebody brings, with their marks.

    >>> given = Given.of(torch.tensor([[1.0, 0], [0, 1]]), ids=["a", "b"])
    >>> kept = torch.tensor([[0.0, 1]], dtype=torch.float16)
    >>> given.within(kept).tolist(), given.without(kept).tolist(), given.named(1)
    ([False, True], [False], "sample 'b'")
    >>> given.rows_of(given.marks[::-1].copy()).tolist()
    [1, 0]
    """

    X: Tensor
    marks: IntArray
    ids: Sequence[Label] | None

    @classmethod
    def of(cls, X: Tensor, ids: Sequence[Label] | None = None) -> "Given":
        return cls(X, marks_of(X), ids)

    def within(self, kept: Tensor) -> BoolArray:
        """Which of these are among kept features, in the precision in which they are kept."""
        return np.isin(self._as_kept(kept), marks_of(kept))

    def without(self, kept: Tensor) -> Tensor:
        """Which of the kept features are none of these, as a bool for each."""
        return torch.from_numpy(~np.isin(marks_of(kept), self._as_kept(kept))).to(kept.device)

    def named(self, row: int) -> str:
        """What an error calls a sample."""
        return f"row {row}" if self.ids is None else f"sample {self.ids[row]!r}"

    def rows_of(self, marks: IntArray) -> IntArray:
        """The row of each mark; all of them are here."""
        order = np.argsort(self.marks, kind="stable")
        return order[np.searchsorted(self.marks[order], marks)]

    def _as_kept(self, kept: Tensor) -> IntArray:
        if kept.dtype == torch.float32:
            return self.marks
        limit = torch.finfo(kept.dtype).max
        return marks_of(self.X.clamp(-limit, limit).to(kept.dtype))


class Entries(NamedTuple):
    """What a head has learned of samples: the row of each in what was given, its class, and what it counted."""

    rows: IntArray
    classes: IntArray
    weights: FloatArray


def entries_of(draft: Draft, given: Given) -> Entries:
    """What was learned of samples, by the record; where that has a gap, by the memory."""
    record = draft.learned.only(np.isin(draft.learned.marks, given.marks))
    rows, classes, weights = given.rows_of(record.marks), record.classes.astype(np.int64), record.weights
    if draft.learned.complete:
        return Entries(rows, classes, weights)
    kept = marks_of(draft.replay.X)
    unrecorded = np.isin(kept, given.marks) & ~np.isin(kept, record.marks)
    more = given.rows_of(kept[unrecorded])
    of = draft.replay.y.cpu().numpy()[unrecorded]
    return Entries(
        np.concatenate([rows, more]),
        np.concatenate([classes, of]),
        np.concatenate([weights, np.ones(len(more), np.float32)]),
    )


def taken_back(draft: Draft, given: Given, entries: Entries) -> Draft:
    """A draft that never learned samples: neither head nor memory nor record has them, nor the validation set.

    A head that cannot take samples back has to be trained again. Models of classes that lose samples are
    fitted again.
    """
    head = draft.head
    if len(entries.rows):
        y = targets(entries.classes, entries.weights, len(draft.names), given.X.device)
        samples = Samples(given.X[torch.from_numpy(entries.rows).to(given.X.device)], y)
        head = head.without(samples) if isinstance(head, TakesBack) else None
    kept = given.without(draft.replay.X)
    lost = {*entries.classes.tolist(), *draft.replay.y[~kept].tolist()}
    after = replace(
        draft,
        head=head,
        replay=draft.replay.only(kept),
        unexplained=draft.unexplained[given.without(draft.unexplained)],
        learned=draft.learned.only(~np.isin(draft.learned.marks, given.marks)),
    )
    return after.outdated(sorted(lost)).held_out(given.without(draft.validation.X))


def without_emptied(draft: Draft, classes: Sequence[int]) -> tuple[Draft, list[Label]]:
    """A draft without those of some classes that have no samples left, and their names."""
    emptied = [c for c in sorted(set(classes)) if draft.left(c) < NOTHING_LEFT]
    names = [draft.names.names[c] for c in emptied]
    return (draft.without_classes(emptied) if emptied else draft), names


def forgotten(agent: A, given: Given, y: Any, by: By, progress: Progress | None = None) -> A:
    """The next version, which never saw some samples."""
    if not len(given.marks):
        raise BadFeatures("there are no samples to take back")
    draft = Draft.of(agent)
    entries = entries_of(draft, given)
    _check_labels(agent.names, given, entries, y)
    found = known_to(draft, given)
    if not found.all() and not draft.learned.complete and not isinstance(draft.head, TakesBack):
        # Nobody knows whether it was learned, and as what: what is made again from the memory has not seen it.
        draft = replace(draft, head=None).outdated(range(len(draft.names)))
    elif not found.all():
        entries = _trusted(draft, given, entries, found, y)
    held_out = draft.validation.y[~given.without(draft.validation.X)].tolist()
    draft, emptied = without_emptied(taken_back(draft, given, entries), entries.classes.tolist())
    for name in emptied:
        log.warning("class %r had no other samples, and is gone", name)
    change = {
        "change": "forgot",
        "samples": len(np.unique(given.marks)),
        "classes": counts_by_name(agent.names, [*entries.classes.tolist(), *held_out]),
        "removed_classes": emptied,
    }
    return version_of(agent, draft, change, by, progress)


def known_to(draft: Draft, given: Given) -> BoolArray:
    """Which samples anything is known of: learned, held out, or remembered as unexplained."""
    found = np.isin(np.arange(len(given.marks)), entries_of(draft, given).rows)
    for kept in (draft.validation.X, draft.replay.X, draft.unexplained):
        found |= given.within(kept)
    return found


def _check_labels(names: ClassNames, given: Given, entries: Entries, y: Any) -> None:
    """Where labels are given, they must be those that were learned."""
    if y is None:
        return
    labels = _codes(names, given, y)
    wrong = np.flatnonzero(labels[entries.rows] != entries.classes)
    if len(wrong):
        row, c = int(entries.rows[wrong[0]]), int(entries.classes[wrong[0]])
        raise BadLabels(
            f"{given.named(row)} was learned as {names.names[c]!r}, not as {names.names[int(labels[row])]!r}; "
            "leave the labels out, and it is taken back as what it was learned as"
        )


def _codes(names: ClassNames, given: Given, y: Any) -> IntArray:
    of, codes = read_labels(y, len(given.marks))
    return np.array([number_of(names, name) for name in of.names], np.int64)[codes]


def _trusted(draft: Draft, given: Given, entries: Entries, found: BoolArray, y: Any) -> Entries:
    """Entries with those samples that only the caller knows of: only where the record may have a gap."""
    unknown = np.flatnonzero(~found)
    first = f"{given.named(int(unknown[0]))} and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    first = first or given.named(int(unknown[0]))
    if draft.learned.complete:
        raise UnknownSample(
            f"{first}: not learned, or taken back already. The features must be, bit by bit, those that were "
            "learned"
        )
    if y is None:
        raise SamplesMissing(
            f"{first}: not in the agent's memory, and there is no record of all that it learned (release 0.1.0 "
            "kept none). Say as what it was learned (labels), and it is taken at your word"
        )
    log.warning("%d samples are taken back at your word: no record says that they were learned", len(unknown))
    codes = _codes(draft.names, given, y)[unknown]
    return Entries(
        np.concatenate([entries.rows, unknown]),
        np.concatenate([entries.classes, codes]),
        np.concatenate([entries.weights, np.ones(len(unknown), np.float32)]),
    )
