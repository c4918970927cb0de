"""Teaching: labelled samples go into an agent without questions. A taught label replaces what was learned.

In closed form where the head can; a head that trains is trained once, with replay.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from cual.data.labels import ClassNames, read_labels
from cual.errors import BadLabels, TooFewSamples
from cual.heads import Head, LearnsOnce, Lesson, Samples
from cual.held_out import held_out_of_taught
from cual.learned import marks_of
from cual.learners import ModelsClasses
from cual.repair.base import A, By, Draft, Repairable, at_stage, targets, version_of
from cual.repair.samples import Given, entries_of, taken_back, without_emptied
from cual.seeds import generator
from cual.types import BoolArray, FloatArray, IntArray, Progress, Row
from cual.uncertainty import ClassModel, warn_about

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Taught:
    """Samples with the classes that they are taught as, each sample once.

    Attributes
    ----------
    names
        Known classes, and those that are new.
    weights
        What each counts; None for one each.

    >>> given = Given.of(torch.eye(2), ids=["a", "b"])
    >>> lesson = Taught(given, np.array([0, 1]), ClassNames(("cat", "dog")))
    >>> lesson.only(np.array([False, True])).given.ids, lesson.samples(np.array([True, True])).y.tolist()
    (['b'], [0, 1])
    """

    given: Given
    codes: IntArray
    names: ClassNames
    weights: FloatArray | None = None

    def only(self, chosen: BoolArray) -> "Taught":
        """Some of it."""
        rows = np.flatnonzero(chosen)
        ids = None if self.given.ids is None else [self.given.ids[row] for row in rows.tolist()]
        X = self.given.X[torch.from_numpy(rows).to(self.given.X.device)]
        weights = None if self.weights is None else self.weights[rows]
        return Taught(Given(X, self.given.marks[rows], ids), self.codes[rows], self.names, weights)

    def samples(self, chosen: BoolArray) -> Samples:
        """Some of it, as a head learns it."""
        some = self.only(chosen)
        y = torch.from_numpy(some.codes).to(some.given.X.device)
        if some.weights is None or not len(y):
            return Samples(some.given.X, y)
        return Samples(some.given.X, targets(some.codes, some.weights, len(self.names), y.device))


def read_taught(known: ClassNames, given: Given, y: Any) -> Taught:
    """Check labels, number new classes, and take samples that were given more than once for one.

    >>> given = Given.of(torch.tensor([[1.0, 0], [0, 1], [1, 0]]))
    >>> taught = read_taught(ClassNames(("cat",)), given, ["owl", "cat", "owl"])
    >>> taught.names.names, taught.codes.tolist()
    (('cat', 'owl'), [1, 0])
    """
    if not len(given.marks):
        raise TooFewSamples("there are no samples to learn from")
    of, codes = read_labels(y, len(given.marks))
    for name in of.names:
        known.check(name)
    names = ClassNames((*known.names, *(name for name in of.names if name not in set(known.names))))
    numbers = names.encode(of.names)[codes]
    _, first, place = np.unique(given.marks, return_index=True, return_inverse=True)
    twice = np.flatnonzero(numbers != numbers[first[place]])
    if len(twice):
        one, other = int(first[place][twice[0]]), int(twice[0])
        raise BadLabels(
            f"{given.named(one)} and {given.named(other)} have the same features, but one is "
            f"{names.names[numbers[one]]!r} and the other {names.names[numbers[other]]!r}"
        )
    chosen = np.zeros(len(numbers), np.bool_)
    chosen[first] = True
    return Taught(given, numbers, names).only(chosen)


def taught(agent: A, given: Given, y: Any, by: By, progress: Progress | None = None) -> A:
    """The next version, which has learned labelled samples as well."""
    draft, outcome = relabelled(agent, read_taught(agent.names, given, y), progress)
    return version_of(agent, draft, {"change": "taught", **outcome}, by, progress)


def relabelled(agent: Repairable, lesson: Taught, progress: Progress | None) -> tuple[Draft, Row]:
    """A draft in which samples have the labels that are taught, new or instead of others; and what was done."""
    draft = Draft.of(agent)
    again = _taken_from_others(draft, lesson)
    draft, held, changed = _held_out_again(_released(again.draft, lesson, len(agent.names)), lesson)
    new = ~again.same & ~held
    fresh = new & ~again.other
    held_out = np.zeros(len(new), np.bool_)
    held_out[fresh] = held_out_of_taught(
        lesson.given.marks[fresh],
        lesson.codes[fresh],
        len(agent.names),
        agent.method.validation_share,
        agent.seed,
    )
    draft, how = learned(agent, draft, lesson.only(new & ~held_out), progress)
    draft = _validated(draft, lesson.only(held_out))
    draft, emptied = without_emptied(draft, again.lost)
    outcome: Row = {
        "samples": int(fresh.sum()),
        "held_out": int(held_out.sum()),
        "replaced": int((again.other | changed).sum()),
        "known_before": int(((again.same | held) & ~changed & ~again.other).sum()),
        "new_classes": [name for name in lesson.names.names if name not in set(agent.names.names)],
        "removed_classes": emptied,
        **how,
    }
    return draft, outcome


@dataclass(frozen=True)
class _Again:
    """What was learned before of samples that are taught: `same` as now, or as something `other`."""

    draft: Draft
    same: BoolArray
    other: BoolArray
    lost: list[int]
    """Classes that samples are taken from."""


def _taken_from_others(draft: Draft, lesson: Taught) -> _Again:
    """Take back what samples were learned as before, where it was something else."""
    entries = entries_of(draft, lesson.given)
    n = len(lesson.codes)
    wrong = np.unique(entries.rows[entries.classes != lesson.codes[entries.rows]])
    other, before = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    other[wrong] = True
    before[entries.rows] = True
    same = before & ~other
    by_people = np.isin(draft.learned.marks, lesson.given.marks[same])
    draft = replace(draft, learned=replace(draft.learned, human=draft.learned.human | by_people))
    if not len(wrong):
        return _Again(draft, same, other, [])
    leaving = lesson.only(other).given
    entries = entries_of(draft, leaving)
    held = draft  # those that are held out stay so, under another label
    after = taken_back(draft, leaving, entries)
    after = replace(after, validation=held.validation, verified=held.verified)
    return _Again(after, same, other, entries.classes.tolist())


def _released(draft: Draft, lesson: Taught, n_old: int) -> Draft:
    """A draft that holds out nothing of new classes which only validation samples are taught of."""
    held = lesson.given.within(draft.validation.X)
    alone = held & (lesson.codes >= n_old) & ~np.isin(lesson.codes, lesson.codes[~held])
    return draft.held_out(lesson.only(alone).given.without(draft.validation.X)) if alone.any() else draft


def _held_out_again(draft: Draft, lesson: Taught) -> tuple[Draft, BoolArray, BoolArray]:
    """Give validation samples that are taught their labels; which samples these are, and which had another."""
    kept = marks_of(draft.validation.X)
    here = np.isin(kept, lesson.given.marks)
    held = lesson.given.within(draft.validation.X)
    changed = np.zeros(len(held), np.bool_)
    if not here.any():
        return draft, held, changed
    rows = lesson.given.rows_of(kept[here])
    changed[rows[draft.validation.y.cpu().numpy()[here] != lesson.codes[rows]]] = True
    labels = torch.from_numpy(lesson.codes[rows]).to(draft.validation.y.device)
    places = torch.from_numpy(np.flatnonzero(here)).to(labels.device)
    y = draft.validation.y.index_copy(0, places, labels)
    verified = draft.verified.index_fill(0, places, True)
    return replace(draft, validation=Samples(draft.validation.X, y), verified=verified), held, changed


def learned(
    agent: Repairable, draft: Draft, lesson: Taught, progress: Progress | None
) -> tuple[Draft, dict[str, str]]:
    """A draft that has learned samples, and how, where that was not exact."""
    if not len(lesson.codes):
        return replace(draft, names=lesson.names), {}
    n_old, everything = len(agent.names), np.ones(len(lesson.codes), np.bool_)
    models = _models(agent, draft, lesson)
    head, how = draft.head, {}
    if head is not None:
        head = _head(agent, draft, head, lesson, n_old, progress)
    if not isinstance(agent.head, LearnsOnce):
        how = {"how": "trained with replay" if head is not None else "trained again"}
        log.info("the head is %s: it does not learn in closed form", how["how"])
    replay = draft.replay.updated(
        lesson.given.X,
        torch.from_numpy(lesson.codes).to(agent.device),
        generator(agent.seed, agent.version + 1, 0, "replay"),
        keep=torch.ones(len(lesson.codes), dtype=torch.bool, device=agent.device),
    )
    record = draft.learned.plus(lesson.given.marks, lesson.codes, lesson.weights, everything)
    return replace(draft, names=lesson.names, head=head, models=models, replay=replay, learned=record), how


def _head(
    agent: Repairable, draft: Draft, head: Head, lesson: Taught, n_old: int, progress: Progress | None
) -> Head:
    queried = lesson.samples(lesson.codes >= n_old)
    nothing = Samples(lesson.given.X[:0], torch.from_numpy(lesson.codes[:0]).to(agent.device))
    of_known = lesson.samples(lesson.codes < n_old)
    return head.learn(
        Lesson(len(lesson.names), queried, nothing, draft.replay.samples(), old=of_known),
        generator(agent.seed, agent.version + 1, 0, "long-term head"),
        at_stage(progress, "learning"),
    )


def _models(agent: Repairable, draft: Draft, lesson: Taught) -> tuple[ClassModel | None, ...]:
    """Models of all classes, those that samples were taught of fitted anew from these and the memory."""
    learner = agent.method.learner
    if not isinstance(learner, ModelsClasses):
        return ()
    models: dict[int, ClassModel | None] = dict(enumerate(draft.models))
    grown = np.unique(lesson.codes).tolist()
    fitted: list[ClassModel] = []
    for c in grown:
        known = draft.replay.X[draft.replay.y == c].float()
        model = learner.uncertainty.fit(torch.cat([known, lesson.samples(lesson.codes == c).X]))
        models[c] = model
        fitted.append(model)
    warn_about(learner.uncertainty, fitted)
    return tuple(models[c] for c in range(len(lesson.names)))


def _validated(draft: Draft, held_out: Taught) -> Draft:
    """A draft with further validation samples."""
    y = torch.from_numpy(held_out.codes).to(draft.validation.y.device)
    validation = Samples(torch.cat([draft.validation.X, held_out.given.X]), torch.cat([draft.validation.y, y]))
    verified = torch.cat([draft.verified, torch.ones(len(y), dtype=torch.bool, device=y.device)])
    return replace(draft, validation=validation, verified=verified)
