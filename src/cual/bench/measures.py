"""What a run is measured by: accuracy per class, confusions, AUROC and AUPR. Pure functions of arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cual.types import AnyArray, BoolArray


def auroc(scores: AnyArray, positive: BoolArray) -> float | None:
    """Chance that a positive scores above a negative, ties counted half; None without both kinds.

    >>> auroc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # ties share their mean rank
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def aupr(scores: AnyArray, positive: BoolArray) -> float | None:
    """Average precision: the sum over thresholds of precision times the recall gained; None without positives.

    >>> round(aupr(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])), 4)
    0.8333
    """
    n = int(positive.sum())
    if not n:
        return None
    values, place = np.unique(-scores, return_inverse=True)  # from the highest score down
    hits = np.cumsum(np.bincount(place, positive, minlength=len(values)))
    flagged = np.cumsum(np.bincount(place, minlength=len(values)))
    gained = np.diff(hits, prepend=0.0) / n
    return min(1.0, float((gained * hits / flagged).sum()))


def calibration_error(confidence: AnyArray, right: BoolArray, bins: int = 10) -> float:
    """How far probabilities are from the share that is right, over bins of equal width (Naeini et al., 2015).

    >>> round(calibration_error(np.array([0.95, 0.95, 0.65, 0.65]), np.array([True, True, True, False])), 3)
    0.1
    """
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins)
    gaps = np.bincount(place, confidence - right, minlength=bins)
    return float(np.abs(gaps).sum() / max(1, counts.sum()))


def class_accuracy(truth: AnyArray, predicted: AnyArray, classes: Sequence[Any]) -> dict[str, float]:
    """Share of each class's samples that were recognised; a class the agent does not know gets 0 by itself.

    >>> class_accuracy(np.array(["a", "a", "b"]), np.array(["a", "b", "a"]), ["a", "b"])
    {'a': 0.5, 'b': 0.0}
    """
    return {str(c): float((predicted[truth == c] == c).mean()) for c in classes}


def confusion(truth: AnyArray, predicted: AnyArray, classes: Sequence[Any]) -> list[list[int]]:
    """Counts of predictions (columns) per true class (rows), in the order of `classes`.

    >>> confusion(np.array(["a", "a", "b"]), np.array(["a", "b", "a"]), ["a", "b"])
    [[1, 1], [1, 0]]
    """
    return [[int(((truth == t) & (predicted == p)).sum()) for p in classes] for t in classes]
