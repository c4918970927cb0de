"""Splitting a class: how its samples may be parted, which are doubtful, and the version with new labels.

Grouping is a proposal (`Split`), which knows nothing of names; people name the groups and answer about doubtful
samples, and the rest follows. What the samples become is then taught, which replaces the old label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cual import options as check
from cual.data.listed import listed
from cual.errors import BadLabels, BadOption, SamplesMissing, TooFewSamples, UnknownSample
from cual.learned import marks_of
from cual.repair.base import A, By, Draft, Repairable, counts_by_name, number_of, version_of
from cual.repair.samples import NOTHING_LEFT, Given, entries_of
from cual.repair.teaching import read_taught, relabelled
from cual.seeds import generator
from cual.types import AnyArray, BoolArray, FloatArray, IntArray, Label, Progress

MOST_PARTS = 20
STARTS = 8
"""Groupings that are tried: the tightest is proposed."""
STEPS = 50

Distances = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Split:
    """How a class may be parted: a proposal that changes nothing. Made by `Agent.propose_split`.

    Attributes
    ----------
    X
        (n, d) features of the samples of the class that the agent keeps or was given.
    ids
        Their names; None for samples that only the agent's memory keeps.
    groups
        The group of each, 0 and up; larger groups come first.
    margins
        How clearly it belongs there, 0 … 1: of the lowest nobody knows.
    missing
        Samples that the class was learned from, of which the features are not here.

    >>> X = np.array([[0.0], [1.0], [9.0]])
    >>> split = Split("bird", X, ("a", "b", "c"), np.array([0, 0, 1]), np.array([0.9, 0.2, 0.8]), missing=0)
    >>> split.parts, split.doubtful(1), split.examples(0, n=1)
    (2, [1], [0])
    >>> split.labels(["owl", "gull"]), split.labels(["owl", "gull"], {1: "gull"})
    (['owl', 'owl', 'gull'], ['owl', 'gull', 'gull'])
    """

    name: Label
    X: AnyArray
    ids: tuple[Label | None, ...]
    groups: IntArray
    margins: FloatArray
    missing: int

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def parts(self) -> int:
        return int(self.groups.max()) + 1

    def doubtful(self, n: int) -> list[int]:
        """Rows to ask about, the most doubtful first."""
        return np.argsort(self.margins, kind="stable")[: max(0, n)].tolist()

    def examples(self, group: int, n: int) -> list[int]:
        """Rows that show what a group is, the clearest first."""
        rows = np.flatnonzero(self.groups == group)
        return rows[np.argsort(-self.margins[rows], kind="stable")[:n]].tolist()

    def labels(self, names: Sequence[Label], answers: Mapping[int, Label] | None = None) -> list[Label]:
        """What each sample is: as it was answered, and of the others the group that they are next to then.

        Parameters
        ----------
        names
            What each group is. Groups of one name are one class.
        answers
            By row. They may name classes that no group has.
        """
        if len(names) != self.parts:
            raise BadLabels(f"there are {self.parts} groups, but {len(names)} names")
        given = dict(answers or {})
        unknown = [row for row in given if not 0 <= row < len(self)]
        if unknown:
            raise UnknownSample(f"the class has samples 0 to {len(self) - 1}, not {unknown[0]}")
        return _followed(self.X.astype(np.float64), self.groups, list(names), given)


def proposed(agent: Repairable, name: Any, parts: int, given: Given | None) -> Split:
    """How a class may be parted into groups of alike samples (k-means, the best of a few starts)."""
    c = number_of(agent.names, name)
    available = _samples_of(Draft.of(agent), c, given)
    parts = check.whole("parts", parts, 0)
    if not 2 <= parts <= MOST_PARTS:
        raise BadOption(f"a class is split into 2 to {MOST_PARTS} parts, not {parts}")
    label = agent.names.names[c]
    if len(available.marks) < parts:
        raise TooFewSamples(
            f"of {label!r} {len(available.marks)} samples are in the agent's memory or were given: too few for "
            f"{parts} parts"
        )
    X = available.X.float().cpu().numpy()
    groups, distances = _grouped(X.astype(np.float64), parts, generator(agent.seed, agent.version, c, "split"))
    ids = (None,) * len(X) if available.ids is None else tuple(available.ids)
    missing = _missing(Draft.of(agent), c, available)
    return Split(label, X, ids, groups, _margins(distances), missing)


def split(
    agent: A,
    name: Any,
    given: Given,
    y: Any,
    answered: Sequence[int] | None,
    exact: bool,
    by: By,
    progress: Progress | None = None,
) -> A:
    """The next version, in which samples of a class have other labels, as if taught so from the start."""
    c, draft = number_of(agent.names, name), Draft.of(agent)
    label = agent.names.names[c]
    _check_of_class(draft, c, given, label)
    missing = _missing(draft, c, given)
    if missing and exact:
        raise SamplesMissing(
            f"{missing} samples that {label!r} was learned from have no label here. Give features and labels "
            "of all of them and the split is exact; or leave those in the class as it is (exact=False, on the "
            "command line --leave-rest)"
        )
    lesson, rows = read_taught(agent.names, given, y), _answered_rows(answered, len(given.marks))
    after, outcome = relabelled(agent, lesson, progress)
    if rows is not None:
        after = _unverified(after, given, rows)
    parts = counts_by_name(lesson.names, lesson.codes)
    change = {
        "change": "split",
        "class": label,
        "into": dict(parts),
        "samples": len(lesson.codes),
        "answered": len(lesson.codes) if rows is None else len(rows),
        "left": missing,
        **{key: outcome[key] for key in ("new_classes", "removed_classes")},
        **({"how": outcome["how"]} if "how" in outcome else {}),
    }
    return version_of(agent, after, change, by, progress)


# -- samples of the class --------------------------------------------------------------------------------------


def _samples_of(draft: Draft, c: int, given: Given | None) -> Given:
    """What there is of a class, each sample once: those given that are of it, then what the agent keeps."""
    kept = torch.cat(
        [draft.replay.X[draft.replay.y == c].float(), draft.validation.X[draft.validation.y == c].float()]
    )
    if given is None:
        return _once(Given.of(kept))
    mine = _of_class(draft, c, given)
    rows = torch.from_numpy(np.flatnonzero(mine)).to(given.X.device)
    names: list[Any] = [None] * len(mine) if given.ids is None else list(given.ids)
    ids: list[Any] = [names[row] for row in rows.tolist()] + [None] * len(kept)
    return _once(Given.of(torch.cat([given.X[rows].float(), kept.to(given.X.device)]), ids))


def _once(given: Given) -> Given:
    """The same, where a sample that is there more than once is the first of them."""
    _, first = np.unique(given.marks, return_index=True)
    rows = np.sort(first)
    ids = None if given.ids is None else [given.ids[row] for row in rows.tolist()]
    return Given(given.X[torch.from_numpy(rows).to(given.X.device)], given.marks[rows], ids)


def _of_class(draft: Draft, c: int, given: Given) -> BoolArray:
    """Which samples were learned as a class, or are held out of it."""
    entries = entries_of(draft, given)
    mine = np.isin(np.arange(len(given.marks)), entries.rows[entries.classes == c])
    return mine | given.within(draft.validation.X[draft.validation.y == c])


def _check_of_class(draft: Draft, c: int, given: Given, label: Label) -> None:
    other = np.flatnonzero(~_of_class(draft, c, given))
    if len(other):
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        raise UnknownSample(
            f"{given.named(int(other[0]))}{more}: not learned as {label!r}. The features must be, bit by bit, "
            "those that were learned"
        )


def _missing(draft: Draft, c: int, given: Given) -> int:
    """How many samples of a class are not among those given."""
    entries = entries_of(draft, given)
    _, first = np.unique(entries.rows, return_index=True)
    mine = first[entries.classes[first] == c]
    lacking = draft.left(c) - float(entries.weights[mine].sum())
    held_out = given.without(draft.validation.X) & (draft.validation.y == c)
    return (round(lacking) if lacking > NOTHING_LEFT else 0) + int(held_out.sum())


def _answered_rows(answered: Any, n: int) -> list[int] | None:
    """Rows whose labels people gave, each once; None for all."""
    values = None if answered is None else listed(answered)
    if answered is not None and values is None:
        raise BadOption(f"answered is {answered!r:.200}, but takes a list of rows")
    rows = None if values is None else sorted({check.whole("a row of answered", row, 0) for row in values})
    if rows and rows[-1] >= n:
        raise UnknownSample(f"there are samples 0 to {n - 1}, not {rows[-1]}")
    return rows


def _unverified(draft: Draft, given: Given, answered: list[int]) -> Draft:
    """A draft in which no person has given the labels of samples that only followed the others."""
    guessed = np.delete(given.marks, np.asarray(answered, np.int64))
    record = replace(draft.learned, human=draft.learned.human & ~np.isin(draft.learned.marks, guessed))
    followed = torch.from_numpy(np.isin(marks_of(draft.validation.X), guessed))
    return replace(draft, learned=record, verified=draft.verified & ~followed.to(draft.verified.device))


# -- groups ----------------------------------------------------------------------------------------------------


def _grouped(X: Distances, parts: int, rng: np.random.Generator) -> tuple[IntArray, Distances]:
    """The tightest of a few groupings, the largest group first, and distances to the centres."""
    best: tuple[float, IntArray, Distances] | None = None
    for _ in range(STARTS):
        centres = _spread(X, parts, rng)
        groups = np.zeros(0, np.int64)
        for _ in range(STEPS):
            before, groups = groups, _distances(X, centres).argmin(axis=1)
            if np.array_equal(before, groups):
                break
            centres = _centres(X, groups, centres)
        distances = _distances(X, centres)
        loss = float((distances.min(axis=1) ** 2).sum())
        if best is None or loss < best[0]:
            best = loss, distances.argmin(axis=1), distances
    assert best is not None
    _, groups, distances = best
    order = np.argsort(-np.bincount(groups, minlength=parts), kind="stable")
    used = order[np.bincount(groups, minlength=parts)[order] > 0]
    return np.argsort(order)[groups], distances[:, used]


def _spread(X: Distances, parts: int, rng: np.random.Generator) -> Distances:
    """First centres, each drawn the likelier the farther it lies from those before (k-means++)."""
    centres = X[[int(rng.integers(len(X)))]]
    while len(centres) < parts:
        squares = _distances(X, centres).min(axis=1) ** 2
        total = float(squares.sum())
        chances = squares / total if total > 0 else np.full(len(X), 1 / len(X))
        centres = np.concatenate([centres, X[[int(rng.choice(len(X), p=chances))]]])
    return centres


def _distances(X: Distances, centres: Distances) -> Distances:
    squares = (X**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None] - 2 * X @ centres.T
    return np.sqrt(np.maximum(squares, 0))


def _centres(X: Distances, groups: IntArray, before: Distances) -> Distances:
    """The mean of each group; a group that is empty stays where it was."""
    return np.stack(
        [X[groups == g].mean(axis=0) if (groups == g).any() else centre for g, centre in enumerate(before)]
    )


def _margins(distances: Distances) -> FloatArray:
    """How much farther the next group is, relative to both distances."""
    if distances.shape[1] < 2:
        return np.zeros(len(distances), np.float32)
    nearest = np.sort(distances, axis=1)[:, :2]
    return ((nearest[:, 1] - nearest[:, 0]) / np.maximum(nearest.sum(axis=1), 1e-12)).astype(np.float32)


def _followed(X: Distances, groups: IntArray, names: list[Label], answers: dict[int, Label]) -> list[Label]:
    """Groups that gather around the answers: these stay fixed, the others go to the nearest centre."""
    labels = [*names, *(label for label in dict.fromkeys(answers.values()) if label not in names)]
    allowed = np.ones((len(X), len(labels)), np.bool_)
    for row, label in answers.items():
        allowed[row] = [label == other for other in labels]
    now = np.where(allowed[np.arange(len(X)), groups], groups, allowed.argmax(axis=1))
    centres = _centres(X, now, np.full((len(labels), X.shape[1]), np.inf))
    for _ in range(STEPS):
        reachable: BoolArray = np.asarray(np.isfinite(centres).all(axis=1))
        distances = _distances(X, np.where(reachable[:, None], centres, 0))
        distances[~(allowed & reachable[None])] = np.inf
        before, now = now, distances.argmin(axis=1)
        if np.array_equal(before, now):
            break
        centres = _centres(X, now, centres)
    return [labels[number] for number in now.tolist()]
