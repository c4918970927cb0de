"""What requests for predictions get: computed of a block of rows, put together, worded as verdicts.

Who waits for it and when it is computed is in `predicting`.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from cual.agent import Agent
from cual.errors import BadFeatures, TooLarge
from cual.serve.web.predictions.queueing import Kind, Piece
from cual.serve.web.settings import Limits
from cual.types import FloatArray, Label

UNSURE_BELOW = 0.8
"""A sample is "unsure" where its class is wrong with a chance of one in five or more, by what is calibrated."""
Verdict = Literal["known", "unsure", "unlike anything known"]


@dataclass(frozen=True)
class Predictions:
    """What one request gets: of the version that computed it."""

    version: int
    classes: list[Label]
    probabilities: FloatArray
    """(n, classes)"""


@dataclass(frozen=True)
class Novelties:
    version: int
    threshold: float
    scores: FloatArray
    false_alarms: float | None = None
    """The rate that the threshold is set for; None for the method's own threshold."""


@dataclass(frozen=True)
class Judgements:
    """The class of each sample, and whether it is one of those that are known at all.

    >>> rows = [[0, 0.99, 0.97, 0.1], [1, 0.6, 0.4, 0.2], [1, 0.9, 0.9, 7.0]]
    >>> said = Judgements(3, ["cat", "dog"], np.array(rows), True, threshold=1.0, false_alarms=None)
    >>> list(zip(said.labels(slice(None)), said.verdicts(slice(None))))
    [('cat', 'known'), ('dog', 'unsure'), ('dog', 'unlike anything known')]
    """

    version: int
    classes: list[Label]
    best: FloatArray
    """(n, 4): number of the class, its probability, the same calibrated, and novelty."""
    calibrated: bool
    """Whether the agent has anything to calibrate with."""
    threshold: float | None
    """None where it has no validation set: then nothing is called unlike anything known."""
    false_alarms: float | None

    def labels(self, rows: slice) -> list[Label]:
        return [self.classes[int(number)] for number in self.best[rows, 0]]

    def verdicts(self, rows: slice) -> list[Verdict]:
        """By the score first, then by the calibrated probability."""
        novel = np.zeros(len(self.best[rows]), np.bool_)
        if self.threshold is not None:
            novel = self.best[rows, 3] > self.threshold
        unsure = self.best[rows, 2] < UNSURE_BELOW if self.calibrated else np.zeros_like(novel)
        return [
            "unlike anything known" if above else "unsure" if doubtful else "known"
            for above, doubtful in zip(novel.tolist(), unsure.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Shape:
    """What is known of an agent's version before it is loaded."""

    version: int
    width: int
    classes: int
    false_alarms: float | None = None
    """The rate that was set for the agent."""


Outcome = Predictions | Novelties | Judgements | Exception


def numbers_per_row(kind: Kind, shape: Shape) -> int:
    """How many numbers of each row are kept until the answer is written."""
    return {"novelty": 1, "judge": 4, "predict": shape.classes}[kind]


def numbers_of(agent: Agent, kind: Kind, X: torch.Tensor) -> FloatArray:
    """What is kept of each row."""
    if kind == "novelty":
        return agent.novelty(X)
    probabilities = agent.predict_proba(X)
    return probabilities if kind == "predict" else _judged(agent, probabilities, X)


def _judged(agent: Agent, probabilities: FloatArray, X: torch.Tensor) -> FloatArray:
    best = probabilities.argmax(axis=1)
    rows = np.arange(len(best))
    calibrated = agent.calibrated(X)
    has_known = len(agent.validation) > 0
    columns = (
        best,
        probabilities[rows, best],
        probabilities[rows, best] if calibrated is None else calibrated[rows, best],
        agent.novelty(X) if has_known else np.zeros(len(best)),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def kept(piece: Piece, part: FloatArray, agent: Agent, shape: Shape) -> Outcome | None:
    """Keep what was computed of a request; its outcome, if that is all or if it is nonsense."""
    request = piece.request
    if not np.isfinite(part).all():
        return BadFeatures("the features are so large that the arithmetic overflows; use the agent's encoder")
    if request.numbers is None:
        request.numbers = np.empty((len(request.X), *part.shape[1:]), np.float32)
    request.numbers[piece.rows] = part
    rate = shape.false_alarms if request.false_alarms is None else request.false_alarms
    return outcome(request.kind, request.numbers, agent, shape.version, rate) if piece.is_last else None


def outcome(kind: Kind, numbers: FloatArray, agent: Agent, version: int, rate: float | None) -> Outcome:
    """What the numbers of all rows say, at a rate of false alarms; None for the method's own threshold."""
    names = list(agent.names.names)
    if kind == "predict":
        return Predictions(version, names, numbers)
    if kind == "novelty":
        return Novelties(version, _threshold(agent, rate), numbers, rate)
    has_known = len(agent.validation) > 0
    threshold = _threshold(agent, rate) if has_known else None
    return Judgements(version, names, numbers, has_known, threshold, rate)


def _threshold(agent: Agent, rate: float | None) -> float:
    return float((agent.threshold if rate is None else agent.threshold_at(rate)).value)


def check_table(shape: Any, dtype: np.dtype[Any]) -> None:
    """Refuse what is no table of numbers.

    >>> check_table((), np.dtype("f4"))
    Traceback (most recent call last):
    cual.errors.BadFeatures: features have the shape (); they are a table (samples, width) of one row or more
    """
    if dtype.kind not in "fiub":
        raise BadFeatures(f"features are {str(dtype)[:100]}, not real numbers")
    if len(shape) != 2 or min(shape) < 1:
        raise BadFeatures(
            f"features have the shape {str(tuple(shape))[:100]}; "
            "they are a table (samples, width) of one row or more"
        )


def too_many_rows(rows: int, shape: Shape, limits: Limits) -> TooLarge | None:
    """The error, where a request has more rows than are computed at a time."""
    most = max(1, min(limits.numbers // max(1, shape.width), limits.answers // max(1, shape.classes)))
    if rows <= most:
        return None
    return TooLarge(
        f"this agent takes {most} rows at a time ({shape.width} wide, {shape.classes} classes); "
        f"send the {rows} in parts"
    )
