"""What one round of the inner loop came to: a plain record, as arrays, as a JSON row and as tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from cual.types import AnyArray, FloatArray, IntArray, Row
from cual.uncertainty import Threshold, Zone, zones


def _no_rows() -> IntArray:
    return np.empty(0, np.int64)


@dataclass
class Round:
    """One round of the inner loop: what was scored, asked and believed. Rows are rows of the pool."""

    round: int
    rows: IntArray
    scores: FloatArray
    classes: IntArray
    threshold: Threshold
    asked: IntArray = field(default_factory=_no_rows)
    pseudo_rows: IntArray = field(default_factory=_no_rows)
    pseudo_classes: IntArray = field(default_factory=_no_rows)
    pseudo_doubts: FloatArray = field(default_factory=lambda: np.empty(0, np.float32))
    """How doubtful each pseudo-label is, 0 … 1."""
    novel: float = math.nan
    """How many of `rows` are probably novel."""
    taken_for_novel: float = 0.0
    """How many of `rows` are probably old and lie above the threshold all the same."""

    @property
    def zones(self) -> AnyArray:
        """`Zone` of each of `rows`."""
        return zones(torch.from_numpy(self.scores), self.threshold).numpy()

    @property
    def query_id(self) -> str:
        return f"q{self.round}"

    def summary(self) -> Row:
        """This round as one JSON row, with a histogram of its scores."""
        inside = self.zones
        counts, edges = np.histogram(self.scores, bins=40)
        return {
            "iteration": self.round,
            "t_inner": self.threshold.value,
            "validation_mean": self.threshold.mean,
            "validation_std": self.threshold.std,
            "scored": len(self.rows),
            "above": int((self.scores > self.threshold.value).sum()),
            "zones": {zone.name.lower(): int((inside == zone).sum()) for zone in Zone},
            "novel": None if math.isnan(self.novel) else self.novel,
            "asked": len(self.asked),
            "pseudo_labels": len(self.pseudo_rows),
            "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        }

    def state(self) -> dict[str, Tensor]:
        t = self.threshold
        arrays = {name: torch.from_numpy(getattr(self, name)) for name in _ARRAYS}
        numbers = torch.tensor([t.value, t.mean, t.std, self.novel, self.taken_for_novel], dtype=torch.float64)
        return {**arrays, "threshold": numbers}

    @classmethod
    def from_state(cls, round: int, state: Mapping[str, Tensor]) -> "Round":
        arrays = {name: state[name].numpy() for name in _ARRAYS if name in state}
        if "pseudo_doubts" not in arrays:  # saved before there were doubts
            arrays["pseudo_doubts"] = np.ones(len(arrays["pseudo_rows"]), np.float32)
        value, mean, std, *rest = state["threshold"].tolist()
        estimates = dict(zip(_ESTIMATES, rest, strict=False))  # earlier versions saved none
        return cls(round, threshold=Threshold(value, mean, std), **arrays, **estimates)


_ESTIMATES = ("novel", "taken_for_novel")
_ARRAYS = ("rows", "scores", "classes", "asked", "pseudo_rows", "pseudo_classes", "pseudo_doubts")
