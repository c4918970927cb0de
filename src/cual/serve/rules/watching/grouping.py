"""Which groups samples form that are unlike anything known: a pure function of features. Nothing is stored.

Two samples belong together if they are as alike as two of one known class are, rather than of two classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import normalize

from cual.agent import Agent
from cual.heads import Whitens
from cual.types import AnyArray, FloatArray, IntArray

MOST = 512
"""Samples that are looked at, the latest ones: every pair of them is compared."""
LEAST = 10
"""Samples of a group: false alarms, a few of each class, form smaller ones (`benchmarks/watching.py`)."""
EXAMPLES = 6
"""Samples that are shown of a group."""
KNOWN = 1024
"""Validation samples that they are compared with, at most."""
PART = 0.5
"""Where between "of two classes" and "of one class" samples begin to belong together (same measurement)."""


@dataclass(frozen=True)
class Group:
    """Samples that are alike.

    Attributes
    ----------
    rows
        All of them, the one in the middle first.
    like
        The number of a known class that they are as like as it is like itself: its rim, not a class of its own.
    """

    rows: list[int]
    like: int | None = None


def groups_of(agent: Agent, X: AnyArray) -> list[Group]:
    """Groups of samples that an agent takes for unlike anything known, the largest first."""
    known = torch.as_tensor(agent.validation.X)[:KNOWN].float()
    numbers = torch.as_tensor(agent.validation.y)[:KNOWN].cpu().numpy()
    return groups(directions(agent, torch.as_tensor(X).float()), directions(agent, known), numbers)


def directions(agent: Agent, X: torch.Tensor) -> FloatArray:
    """Unit vectors, in the space in which every class has the same round spread where the agent has one."""
    here = X.to(agent.device)
    if isinstance(agent.head, Whitens):
        return normalize(agent.head.whiten(here), dim=1).cpu().numpy()
    middle = torch.as_tensor(agent.validation.X).float().to(here).mean(dim=0)
    return normalize(here - middle, dim=1).cpu().numpy()


def groups(unlike: FloatArray, known: FloatArray, classes: IntArray) -> list[Group]:
    """Average linkage of `unlike`, cut where known samples say; groups of fewer than `LEAST` are left out.

    Parameters
    ----------
    unlike, known
        Unit vectors.
    classes
        Numbers of the classes of the known ones.

    >>> rng = np.random.default_rng(0)
    >>> def drawn(axis, n):
    ...     X = np.eye(8)[axis] + rng.normal(0, 0.1, (n, 8))
    ...     return X / np.linalg.norm(X, axis=1, keepdims=True)
    >>> known, numbers = np.concatenate([drawn(0, 9), drawn(1, 9)]), np.repeat([0, 1], 9)
    >>> found = groups(np.concatenate([drawn(4, 12), drawn(5, 10), drawn(6, 9)]), known, numbers)
    >>> [(len(group.rows), group.like) for group in found]
    [(12, None), (10, None)]
    """
    level = alike(known, classes)
    if len(unlike) < LEAST or level is None:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distances = np.clip(1 - unlike.astype(np.float64) @ unlike.T.astype(np.float64), 0, 2)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    numbers = fcluster(tree, 1 - level, "distance")
    found = [_group(np.flatnonzero(numbers == g), unlike, known, classes, level) for g in np.unique(numbers)]
    return sorted((g for g in found if len(g.rows) >= LEAST), key=lambda g: (-len(g.rows), g.rows[0]))


def alike(known: FloatArray, classes: IntArray) -> float | None:
    """The cosine from which on samples belong together; None where the known ones cannot say.

    >>> known = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    >>> alike(known, np.array([0, 0, 1, 1])), alike(known, np.array([0, 0, 0, 0]))
    (0.5, None)
    """
    same = classes[:, None] == classes[None]
    np.fill_diagonal(same, False)
    other = classes[:, None] != classes[None]
    if not same.any() or not other.any():
        return None
    cosines = known @ known.T
    within = float(cosines[same].mean())
    between = max(0.0, float(cosines[other].mean()))  # two classes lie opposite each other, whatever they are
    return None if within <= between else between + PART * (within - between)


def _group(rows: IntArray, unlike: FloatArray, known: FloatArray, classes: IntArray, level: float) -> Group:
    here = unlike[rows]
    middle = here.mean(axis=0)
    order = np.argsort(-(here @ middle), kind="stable")
    likeness = [float((here @ known[classes == number].T).mean()) for number in np.unique(classes)]
    best = int(np.argmax(likeness))
    like = int(np.unique(classes)[best]) if likeness[best] > level else None
    return Group(rows[order].tolist(), like)


def examples(group: Group, ids: Sequence[int]) -> list[int]:
    """Samples to show of a group: the middle one, then some that are spread over it.

    >>> examples(Group(rows=[4, 1]), ids=[10, 11, 12, 13, 14])
    [14, 11]
    """
    rows = group.rows
    if len(rows) <= EXAMPLES:
        return [ids[row] for row in rows]
    places = np.linspace(0, len(rows) - 1, EXAMPLES).round().astype(int)
    return [ids[rows[place]] for place in places]
