"""A_s of the ER baselines: the classifier's own hesitation, as it learns by replay while answers come.

Paper, section 3.1 and appendix 4.2.3. The formulas of entropy and margin are in `cual.acquisition`.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from cual import options
from cual.acquisition.classifier import closeness, entropy
from cual.data.pool import Pool
from cual.errors import BadOption
from cual.graph import Value, cannot
from cual.heads import DrawsLogits, Head
from cual.learners.base import (
    Accepted,
    ByScore,
    Detector,
    Knowledge,
    Scored,
    ShortTerm,
    head_probabilities,
    learners,
    long_term_lesson,
    softmax,
)
from cual.registry import options_of
from cual.seeds import generator
from cual.storage import section
from cual.types import FloatArray, IntArray

MEASURES = {"entropy": entropy, "margin": closeness}


def _draw_entropy(probabilities: Value, n_classes: int) -> Value:
    p = probabilities.to(np.float64)
    least = np.finfo(np.float64).tiny  # times its logarithm, what is never likely counts nothing
    return ((p * p.at_least(least).log()).sum(1) * -1.0).to(np.float32)


def _draw_closeness(probabilities: Value, n_classes: int) -> Value:
    if n_classes < 2:
        return probabilities.sum(1) * 0.0
    two, _ = probabilities.top(2)
    return two.take(np.array(1), axis=1) - two.take(np.array(0), axis=1) + 1.0


GRAPHS = {"entropy": _draw_entropy, "margin": _draw_closeness}
"""The measures as graphs."""


@learners.add("hesitation")
class Hesitation:
    """Novel is what the classifier hesitates about.

    Parameters
    ----------
    measure
        "entropy" of its probabilities, or "margin", one minus that between the two likeliest classes.
    epochs
        Of the working copy of A that learns by replay as answers come.

    >>> p = np.array([[0.5, 0.5], [0.9, 0.1]], np.float32)
    >>> print(Hesitation("entropy").of(p).round(2), Hesitation("margin").of(p).round(2))
    [0.69 0.33] [1.  0.2]
    """

    unnamed = False

    def __init__(self, measure: str = "entropy", epochs: int = 5) -> None:
        self.measure = options.text("measure", measure)
        self.epochs = options.whole("epochs", epochs)
        if measure not in MEASURES:
            raise BadOption(f"measure is one of {', '.join(MEASURES)}, not {measure!r}")

    def check(self, head: Head) -> None:
        if "epochs" not in options_of(head):
            raise BadOption(f"hesitation needs a head that is trained in epochs, not {type(head).__name__}")

    def begin(self, agent: Knowledge, pool: Pool) -> ShortTerm:
        return HesitationLearner(self, agent, pool)

    def detector(self, agent: Knowledge, stds: float) -> Detector:
        """The measure of what the long-term head says, and its T_inner."""

        def novelty(X: Tensor) -> Tensor:
            return torch.from_numpy(self.of(softmax(agent.head.logits(X))))

        def formula(X: Value) -> Value:
            if not isinstance(agent.head, DrawsLogits):
                raise cannot(agent.head)
            return GRAPHS[self.measure](agent.head.draw(X).softmax(), agent.head.n_classes)

        return ByScore(novelty, agent.validation.X, stds, formula)

    def of(self, probabilities: FloatArray) -> FloatArray:
        """How much each row of class probabilities hesitates."""
        return MEASURES[self.measure](probabilities)


class HesitationLearner:
    """A working copy of the long-term head."""

    def __init__(self, part: Hesitation, agent: Knowledge, pool: Pool) -> None:
        self._part = part
        self._agent = agent
        self._pool = pool
        self._n_old = len(agent.names)
        self._options = {**options_of(agent.head), "epochs": part.epochs}
        self._head = type(agent.head).from_state(agent.head.state(), **self._options)
        self._alive = list(range(self._n_old))

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        del last
        p = self.probabilities(rows)
        of_validation = softmax(self._head.logits(self._agent.validation.X)[:, self._alive])
        validation = torch.from_numpy(self._part.of(of_validation))
        classes = np.array(self._alive)[p.argmax(axis=1)] if len(rows) else np.empty(0, np.int64)
        return Scored(self._part.of(p), classes, validation)

    def learn(self, accepted: Accepted, round: int) -> None:
        present = np.unique(accepted.classes[accepted.classes >= self._n_old]).tolist()
        self._alive = [*range(self._n_old), *present]
        n_classes = max(self._head.n_classes, self._alive[-1] + 1)
        lesson = long_term_lesson(self._agent, self._pool, accepted, n_classes)
        rng = generator(self._agent.seed, self._agent.version + 1, round, "working head")
        self._head = self._head.learn(lesson, rng)

    def probabilities(self, rows: IntArray) -> FloatArray:
        return head_probabilities(self._head, self._pool, rows, self._agent.device, self._alive)

    def features(self, rows: IntArray) -> FloatArray:
        return self._pool.take(rows).numpy()

    def nearest_old(self, rows: IntArray) -> IntArray:
        return self.probabilities(rows)[:, : self._n_old].argmax(axis=1)

    def learning(self) -> IntArray:
        return np.empty(0, np.int64)

    def state(self) -> dict[str, Tensor]:
        return {"alive": torch.tensor(self._alive)} | {f"head.{k}": v for k, v in self._head.state().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._alive = state["alive"].tolist()
        head = section(state, "head.", self._agent.device)
        self._head = type(self._head).from_state(head, **self._options)
