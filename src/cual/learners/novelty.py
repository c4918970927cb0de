"""A_s of the paper: S⁰, then Sⁱ (eq. 2), on models of the classes. Whom to ask is decided elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cual import options
from cual.data.pool import Pool
from cual.graph import Value, cannot
from cual.heads import Head, Lesson, Linear, Samples
from cual.learners.base import (
    Accepted,
    ByScore,
    Detector,
    Knowledge,
    Scored,
    ShortTerm,
    head_probabilities,
    learners,
    samples_of,
)
from cual.seeds import generator
from cual.storage import section
from cual.types import FloatArray, IntArray
from cual.uncertainty import FRE, ClassModel, DrawsDistances, Uncertainty, nearest_of, si, uncertainties


@learners.add("novelty")
class Novelty:
    """Novel is what lies far from every known class, and closer to a novel one once there is one.

    Parameters
    ----------
    uncertainty
        How far a sample is from a class; `FRE` (eq. 3) if not given.
    epochs, batch
        Training of the short-term head, which routes samples among novel classes (appendix 4.2.1).
    floor
        Share of the validation set's mean S⁰ below which a distance to a novel class is not believed.
    unnamed
        Ask nothing: what is believed novel is one class, with a made-up name (incDFM).

    >>> Novelty(uncertainty="mahalanobis", epochs=3).uncertainty.variance
    0.995
    >>> Novelty(floor=2)
    Traceback (most recent call last):
    cual.errors.BadOption: floor lies between 0 and 1, but is 2
    """

    def __init__(
        self,
        uncertainty: Uncertainty[Any] | str | None = None,
        epochs: int = 5,
        batch: int = 16,
        floor: float = 1e-3,
        unnamed: bool = False,
    ) -> None:
        self.uncertainty: Uncertainty[Any] = FRE() if uncertainty is None else uncertainties.part(uncertainty)
        self.epochs = options.whole("epochs", epochs)
        self.batch = options.whole("batch", batch)
        self.floor = options.number("floor", floor, 0, 1)
        self.unnamed = options.flag("unnamed", unnamed)

    def check(self, head: Head) -> None:
        """It works beside any head."""

    def begin(self, agent: Knowledge, pool: Pool) -> ShortTerm:
        return NoveltyLearner(self, agent, pool)

    def detector(self, agent: Knowledge, stds: float) -> Detector:
        """S⁰, the distance to the nearest known class, and its T_inner."""

        nearest = nearest_of(self.uncertainty, agent.models)

        def novelty(X: Tensor) -> Tensor:
            return nearest(X)[0]

        def formula(X: Value) -> Value:
            if not isinstance(self.uncertainty, DrawsDistances):
                raise cannot(self.uncertainty)
            return self.uncertainty.draw(X, agent.models).min(1)

        return ByScore(novelty, agent.validation.X, stds, formula)


@dataclass(frozen=True)
class ToNovel:
    """m = A_s(u) among the novel classes that are alive, and the distance to it: eq. 2's denominator."""

    uncertainty: Uncertainty[Any]
    head: Linear
    models: Mapping[int, ClassModel]
    n_old: int

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.head.logits(X)
        alive = torch.tensor(sorted(self.models), device=X.device)
        classes = alive[logits[:, alive - self.n_old].argmax(dim=1)]
        distance = torch.empty(len(X), device=X.device)
        for c, model in self.models.items():
            mine = (classes == c).nonzero().flatten()
            if len(mine):
                distance[mine] = self.uncertainty.distances(X[mine], [model])[:, 0]
        return classes, distance


class NoveltyLearner:
    """S⁰ before a novel class is known, then Sⁱ (eq. 2), routed by a linear head over the novel classes."""

    def __init__(self, part: Novelty, agent: Knowledge, pool: Pool) -> None:
        self._part = part
        self._agent = agent
        self._pool = pool
        self._n_old = len(agent.names)
        self._options = {"epochs": part.epochs, "batch": part.batch}
        self._head = Linear(**self._options)
        self._models: dict[int, ClassModel] = {}
        self._s0 = torch.empty(0)
        self._nearest = torch.empty(0, dtype=torch.int64)
        self._validation_s0 = torch.empty(0)

    def _measure_old(self) -> None:
        """Numerators of eq. 2: once per task, for every sample."""
        if len(self._s0):
            return
        every, find = np.arange(len(self._pool)), nearest_of(self._part.uncertainty, self._agent.models)
        self._validation_s0 = find(self._agent.validation.X)[0]
        s0 = self._validation_s0.new_empty(len(every))
        self._nearest = torch.empty(len(every), dtype=torch.int64)
        for rows, (distances, classes) in self._pool.map(find, every, self._agent.device):
            s0[rows], self._nearest[rows] = distances, classes.cpu()
        self._s0 = s0

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        del last
        self._measure_old()
        numerators = self._s0[torch.from_numpy(rows).to(self._s0.device)]
        if not self._models:
            unknown = self._n_old if self._part.unnamed else -1
            return Scored(numerators.cpu().numpy(), np.full(len(rows), unknown), self._validation_s0)
        floor = self._part.floor * float(self._validation_s0.mean())
        routed, novel = torch.empty(len(rows), dtype=torch.int64), torch.empty_like(numerators)
        to_novel = ToNovel(self._part.uncertainty, self._head, self._models, self._n_old)
        for part, (classes, distances) in self._pool.map(to_novel, rows, self._agent.device):
            routed[part], novel[part] = classes.cpu(), distances
        _, validation_novel = to_novel(self._agent.validation.X)
        scores = si(numerators, novel, floor)
        return Scored(scores.cpu().numpy(), routed.numpy(), si(self._validation_s0, validation_novel, floor))

    def learn(self, accepted: Accepted, round: int) -> None:
        """Train A_s on all that is accepted, and estimate the novel classes' models anew."""
        novel = accepted.only(accepted.classes >= self._n_old)
        present = np.unique(accepted.classes[accepted.classes >= self._n_old]).tolist()
        self._models = {c: self._fit(accepted.rows[accepted.classes == c]) for c in present}
        if not present:
            return
        n_classes = max(max(present) + 1 - self._n_old, self._head.n_classes)
        human, pseudo = (self._samples(novel.only(novel.human == said), n_classes) for said in (1, 0))
        empty = Samples(pseudo.X[:0], pseudo.y[:0])
        rng = generator(self._agent.seed, self._agent.version + 1, round, "short-term head")
        self._head = self._head.learn(Lesson(n_classes, human, pseudo, empty), rng)

    def _fit(self, rows: IntArray) -> ClassModel:
        return self._part.uncertainty.fit(self._pool.take(rows, self._agent.device))

    def _samples(self, accepted: Accepted, n_classes: int) -> Samples:
        return samples_of(self._pool, accepted, self._agent.device, n_classes, first=self._n_old)

    def probabilities(self, rows: IntArray) -> FloatArray:
        """What the long-term head of the agent makes of the rows."""
        return head_probabilities(self._agent.head, self._pool, rows, self._agent.device)

    def features(self, rows: IntArray) -> FloatArray:
        return self._pool.take(rows).numpy()

    def nearest_old(self, rows: IntArray) -> IntArray:
        self._measure_old()
        return self._nearest[torch.from_numpy(rows)].numpy()

    def learning(self) -> IntArray:
        return np.empty(0, np.int64)

    def state(self) -> dict[str, Tensor]:
        """Everything learned so far, so that a resumed adaptation goes on with the same bits."""
        state = {"s0": self._s0, "nearest": self._nearest, "validation_s0": self._validation_s0}
        if self._head.n_classes:
            state |= {f"head.{k}": v for k, v in self._head.state().items()}
        for c, model in self._models.items():
            state |= {f"model.{c}.{k}": v for k, v in model.state().items()}
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        device = self._agent.device
        self._s0, self._validation_s0 = state["s0"].to(device), state["validation_s0"].to(device)
        self._nearest = state["nearest"]
        head = section(state, "head.", device)
        if head:
            self._head = Linear.from_state(head, **self._options)
        classes = sorted({int(key.split(".")[1]) for key in state if key.startswith("model.")})
        self._models = {c: self._part.uncertainty.load(section(state, f"model.{c}.", device)) for c in classes}
