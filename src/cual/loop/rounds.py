"""What one round of the inner loop came to: a plain record, as arrays, as a JSON row and as tensors."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cual.data.scratch import Scratch
from cual.types import AnyArray, FloatArray, IntArray, Row
from cual.uncertainty import Threshold, Zone, zones

KEPT_ROWS = 2**20
"""What was scored in earlier rounds of more rows lies in temporary files."""


class Round:
    """One round of the inner loop: what was scored, asked and believed. Rows are rows of the pool.

    Attributes
    ----------
    rows, scores, classes
        Rows that were scored, ascending, their scores and the classes they were taken for.
    asked
        Rows that were asked about.
    pseudo_rows, pseudo_classes, pseudo_doubts
        Rows that were believed, their classes, and how doubtful each pseudo-label is, 0 … 1.
    novel
        How many of `rows` are probably novel.
    taken_for_novel
        How many of `rows` are probably old and lie above the threshold all the same.

    >>> from cual.uncertainty import t_inner
    >>> known = torch.tensor([0.9, 1.0, 1.1])
    >>> scores = np.array([0.5, 1.1, 9.0], np.float32)
    >>> round_ = Round(0, np.arange(3), scores, np.full(3, -1), t_inner(known))
    >>> round_.zones.tolist(), round_.scores.tolist()[2], round_.query_id
    ([0, 1, 2], 9.0, 'q0')
    >>> Round.from_state(0, round_.state()).rows.tolist()
    [0, 1, 2]
    """

    TENSORS: ClassVar[tuple[str, ...]] = (
        "rows",
        "scores",
        "classes",
        "asked",
        "pseudo_rows",
        "pseudo_classes",
        "pseudo_doubts",
        "threshold",
    )

    def __init__(
        self,
        round: int,
        rows: IntArray,
        scores: FloatArray,
        classes: IntArray,
        threshold: Threshold,
        asked: IntArray | None = None,
        pseudo_rows: IntArray | None = None,
        pseudo_classes: IntArray | None = None,
        pseudo_doubts: FloatArray | None = None,
        novel: float = math.nan,
        taken_for_novel: float = 0.0,
    ) -> None:
        nothing = np.empty(0, np.int64)
        self.round = round
        self.threshold = threshold
        self.asked = nothing if asked is None else asked
        self.pseudo_rows = nothing if pseudo_rows is None else pseudo_rows
        self.pseudo_classes = nothing if pseudo_classes is None else pseudo_classes
        self.pseudo_doubts = np.empty(0, np.float32) if pseudo_doubts is None else pseudo_doubts
        self.novel = novel
        self.taken_for_novel = taken_for_novel
        self._rows, self._scores, self._classes = _Column(rows), _Column(scores), _Column(classes)

    @property
    def rows(self) -> IntArray:
        return self._rows.array

    @property
    def scores(self) -> FloatArray:
        return self._scores.array

    @property
    def classes(self) -> IntArray:
        return self._classes.array

    def put_away(self) -> None:
        """Keep what was scored out of memory, if that is much; it is read whenever it is asked for."""
        for column in (self._rows, self._scores, self._classes):
            column.put_away()

    @property
    def zones(self) -> AnyArray:
        """`Zone` of each of `rows`."""
        return zones(torch.from_numpy(self.scores), self.threshold).numpy()

    def zones_at(self, places: IntArray) -> AnyArray:
        """`Zone` of some of `rows`, by their places among them."""
        return zones(torch.from_numpy(self.scores[places]), self.threshold).numpy()

    @property
    def query_id(self) -> str:
        return f"q{self.round}"

    def summary(self) -> Row:
        """This round as one JSON row, with a histogram of its scores."""
        scores, inside = self.scores, self.zones
        # in float64: in float32, scores that are next to each other leave no room for edges between them
        low, high = np.float64(scores.min()), np.float64(scores.max())
        around = max(0.5, 1e-9 * abs(low)) if low == high else 0.0  # one score lies in the middle
        counts, edges = np.histogram(scores, bins=40, range=(low - around, high + around))
        return {
            "iteration": self.round,
            "t_inner": self.threshold.value,
            "validation_mean": self.threshold.mean,
            "validation_std": self.threshold.std,
            "scored": len(scores),
            "above": int((scores > self.threshold.value).sum()),
            "zones": {zone.name.lower(): int((inside == zone).sum()) for zone in Zone},
            "novel": None if math.isnan(self.novel) else self.novel,
            "asked": len(self.asked),
            "pseudo_labels": len(self.pseudo_rows),
            "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        }

    def tensor(self, name: str) -> Tensor:
        """One of `TENSORS`, to be saved."""
        if name != "threshold":
            return torch.from_numpy(getattr(self, name))
        t = self.threshold
        return torch.tensor([t.value, t.mean, t.std, self.novel, self.taken_for_novel], dtype=torch.float64)

    def state(self) -> dict[str, Tensor]:
        """Everything, as tensors."""
        return {name: self.tensor(name) for name in self.TENSORS}

    @classmethod
    def from_state(cls, round: int, state: Mapping[str, Tensor]) -> "Round":
        """The round that `state` was taken from."""
        arrays = {name: state[name].numpy() for name in cls.TENSORS if name in state and name != "threshold"}
        if "pseudo_doubts" not in arrays:  # saved before there were doubts
            arrays["pseudo_doubts"] = np.ones(len(arrays["pseudo_rows"]), np.float32)
        value, mean, std, *rest = state["threshold"].tolist()
        estimates = dict(zip(_ESTIMATES, rest, strict=False))  # earlier versions saved none
        return cls(round, threshold=Threshold(value, mean, std), **arrays, **estimates)


class _Column:
    """Numbers in memory, or away."""

    def __init__(self, array: AnyArray) -> None:
        self._n = len(array)
        self._place: AnyArray | Scratch = array

    @property
    def array(self) -> AnyArray:
        return self._place[: self._n][:, 0] if isinstance(self._place, Scratch) else self._place

    def put_away(self) -> None:
        if self._n > KEPT_ROWS and not isinstance(self._place, Scratch):
            away = Scratch(1, self._place.dtype)
            away.append(self._place)
            self._place = away


_ESTIMATES = ("novel", "taken_for_novel")
