"""What is believed, for people to look at: what would be, by how much it beats the rest, what it is most like.

Nothing here decides; the next agent is the same whether it was asked for or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.learners import Accepted, Knowledge
from cual.types import FloatArray, IntArray, Label


@dataclass(frozen=True)
class Foreseen:
    """What would be believed if nobody were asked any more, and how doubtful each is, 0 … 1, by sample."""

    labels: dict[Label, Label]
    doubts: dict[Label, float]


@dataclass(frozen=True)
class Known:
    """Samples whose class people gave: what the agent replays, and answers about the pool.

    Attributes
    ----------
    X, y
        Features and classes.
    rows
        Rows of the pool, −1 where it is none of it.

    >>> known = Known(torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([0, 1]), rows=np.array([-1, -1]))
    >>> pool = Pool(np.array([[3.0, 0.1], [0.2, 5.0]]))
    >>> [alike.argmax(dim=1).tolist() for _, alike in known.cosines(pool, np.arange(2))]
    [[0, 1]]
    """

    X: Tensor
    y: Tensor
    rows: IntArray

    @classmethod
    def of(cls, agent: Knowledge, pool: Pool, answers: Accepted) -> "Known":
        replayed = agent.replay.samples()
        return cls(
            torch.cat([replayed.X.cpu().float(), pool.take(answers.rows)]),
            torch.cat([replayed.y.cpu(), torch.from_numpy(answers.classes)]),
            np.concatenate([np.full(len(replayed.y), -1), answers.rows]),
        )

    def cosines(self, pool: Pool, rows: IntArray) -> Iterator[tuple[slice, Tensor]]:
        """How alike rows are to each known sample, centred on the mean of those; to itself −∞."""
        middle = self.X.mean(dim=0)
        directions = normalize(self.X - middle, dim=1)
        place_of = np.full(len(pool), -1)
        told = np.flatnonzero(self.rows >= 0)
        place_of[self.rows[told]] = told
        for part, X in pool.chunks(rows, width=len(self.X)):
            alike = normalize(X - middle, dim=1) @ directions.T
            itself = torch.from_numpy(place_of[rows[part]])
            known = (itself >= 0).nonzero()[:, 0]
            alike[known, itself[known]] = -torch.inf
            yield part, alike


def nearest_margins(known: Known, pool: Pool, rows: IntArray, classes: IntArray) -> FloatArray:
    """How much more alike, by the cosine, a row is to a known sample of its class than to one of any other.

    Where a class has no other known sample, the cosine to it counts as −1.

    Parameters
    ----------
    rows, classes
        Rows of the pool, and what is believed of each.

    >>> known = Known(torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([0, 1]), rows=np.array([-1, -1]))
    >>> pool = Pool(np.array([[3.0, 0.1], [2.0, 2.1]]))
    >>> sure, doubtful = nearest_margins(known, pool, np.arange(2), classes=np.array([0, 1]))
    >>> bool(sure > doubtful)
    True
    """
    margins = np.zeros(len(rows), np.float32)
    if not len(known.y) or not len(rows):
        return margins
    for part, alike in known.cosines(pool, rows):
        own = known.y[None, :] == torch.from_numpy(classes[part])[:, None]
        nearest = torch.where(own, alike, -torch.inf).amax(dim=1).clamp(min=-1)
        other = torch.where(own, -torch.inf, alike).amax(dim=1).clamp(min=-1)
        margins[part] = (nearest - other).numpy()
    return margins


def most_alike(
    known: Known, pool: Pool, rows: IntArray, names: ClassNames, n: int
) -> dict[int, list[tuple[Label, float, int | None]]]:
    """Of each row, the `n` classes with the most alike known sample: class, cosine, and the row of that.

    >>> known = Known(torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([0, 1]), rows=np.array([-1, -1]))
    >>> most_alike(known, Pool(np.array([[3.0, 0.1]])), np.array([0]), ClassNames(("cat", "dog")), n=1)
    {0: [('cat', 0.8099, None)]}
    """
    found: dict[int, list[tuple[Label, float, int | None]]] = {}
    if not len(known.y) or not len(rows):
        return found
    for part, alike in known.cosines(pool, rows):
        order = alike.argsort(dim=1, descending=True, stable=True).numpy()
        for row, cosines, places in zip(rows[part].tolist(), alike.numpy(), order, strict=True):
            best = _first_of_each(known.y.numpy(), places, n)
            found[row] = [
                (names.names[int(known.y[p])], round(float(cosines[p]), 4), _row(known, p))
                for p in best
                if np.isfinite(cosines[p])
            ]
    return found


def _first_of_each(classes: IntArray, places: IntArray, n: int) -> list[int]:
    """The first place of each class, of the first `n` classes."""
    _, first = np.unique(classes[places], return_index=True)
    return places[np.sort(first)[:n]].tolist()


def _row(known: Known, place: int) -> int | None:
    row = int(known.rows[place])
    return None if row < 0 else row
