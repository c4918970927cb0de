"""A_s, the short-term learner of one adaptation: scores the pool, and learns from what was accepted.

Two kinds: by novelty (S⁰ and Sⁱ, the paper's) and by the classifier's own hesitation (the ER baselines). That
of cual-plus is in `cual.transduction`. Whom to ask and what to believe is decided elsewhere, from the scores.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from cual.acquisition.classifier import closeness, entropy
from cual.heads import Head, Lesson, Samples, heads
from cual.pool import Pool
from cual.seeds import generator
from cual.types import FloatArray, IntArray
from cual.uncertainty import ClassModel, Threshold, s0, si

if TYPE_CHECKING:
    from cual.agent import Agent

DENOMINATOR_FLOOR = 1e-3
"""Share of the validation set's mean S⁰ below which a distance to a novel class is not believed."""


@dataclass(frozen=True)
class Scored:
    """One iteration's scores of some pool rows and of the validation set, and the novel class of each row."""

    scores: FloatArray
    classes: IntArray
    validation: Tensor
    threshold: Threshold | None = None
    """Where a score has a natural threshold; else T_inner is set from `validation`."""


@dataclass(frozen=True)
class Accepted:
    """What the adaptation believes so far: rows of the pool and their classes, by where the label came from."""

    rows: IntArray
    classes: IntArray
    human: IntArray
    """1 where a person said so, 0 where it is a pseudo-label."""

    def of(self, human: bool, novel_from: int) -> tuple[IntArray, IntArray]:
        """Rows and classes of the novel samples from people, or of the novel pseudo-labels."""
        chosen = (self.human == human) & (self.classes >= novel_from)
        return self.rows[chosen], self.classes[chosen]

    def believed(self) -> tuple[IntArray, IntArray]:
        """Rows and classes of all pseudo-labels."""
        return self.rows[self.human == 0], self.classes[self.human == 0]

    def old(self, novel_from: int) -> tuple[IntArray, IntArray]:
        """Queried samples that turned out to be of old classes."""
        chosen = (self.human == 1) & (self.classes < novel_from)
        return self.rows[chosen], self.classes[chosen]


class ShortTerm(Protocol):
    """Scores a pool for one adaptation and learns as it goes."""

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        """Scores of pool rows; `last` says that nobody will be asked any more."""
        ...

    def learn(self, accepted: Accepted, iteration: int) -> None: ...

    def probabilities(self, rows: IntArray) -> FloatArray: ...

    def features(self, rows: IntArray) -> FloatArray: ...

    def nearest_old(self, rows: IntArray) -> IntArray: ...

    def learning(self) -> IntArray:
        """Old classes that may be pseudo-labelled as well, because too little is known of them."""
        ...

    def state(self) -> dict[str, Tensor]: ...

    def restore(self, state: Mapping[str, Tensor]) -> None: ...


class NoveltyLearner:
    """S⁰ before a novel class is known, then Sⁱ (eq. 2), routed by a linear head over the novel classes."""

    def __init__(self, agent: "Agent", pool: Pool) -> None:
        self._agent, self._pool, self._n_old = agent, pool, len(agent.names)
        self._options = {"epochs": agent.method.short_epochs, "batch": agent.method.short_batch}
        self._head = heads["linear"](width=agent.width, **self._options)
        self._models: dict[int, ClassModel] = {}
        self._s0 = torch.empty(0)
        self._nearest = torch.empty(0, dtype=torch.int64)
        self._validation_s0 = torch.empty(0)

    def _measure_old(self) -> None:
        """Numerators of eq. 2: once per task, for every sample."""
        if len(self._s0):
            return
        every = np.arange(len(self._pool))
        found = [
            self._agent.old_distances(X).min(dim=1) for _, X in self._pool.chunks(every, self._agent.device)
        ]
        self._s0 = torch.cat([f.values for f in found])
        self._nearest = torch.cat([f.indices for f in found]).cpu()
        self._validation_s0 = s0(self._agent.old_distances(self._agent.validation.X))

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        del last
        self._measure_old()
        numerators = self._s0[torch.from_numpy(rows).to(self._s0.device)]
        if not self._models:
            unknown = self._n_old if self._agent.method.unnamed else -1
            return Scored(numerators.cpu().numpy(), np.full(len(rows), unknown), self._validation_s0)
        floor = DENOMINATOR_FLOOR * float(self._validation_s0.mean())
        routed, novel = torch.empty(len(rows), dtype=torch.int64), torch.empty_like(numerators)
        for part, X in self._pool.chunks(rows, self._agent.device):
            classes, novel[part] = self._to_novel(X)
            routed[part] = classes.cpu()
        _, validation_novel = self._to_novel(self._agent.validation.X)
        scores = si(numerators, novel, floor)
        return Scored(scores.cpu().numpy(), routed.numpy(), si(self._validation_s0, validation_novel, floor))

    def _to_novel(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """m = A_s(u) among the novel classes that are alive, and the distance to it: eq. 2's denominator."""
        logits = self._head.logits(X)
        alive = torch.tensor(sorted(self._models), device=X.device)
        classes = alive[logits[:, alive - self._n_old].argmax(dim=1)]
        distance = torch.empty(len(X), device=X.device)
        for c, model in self._models.items():
            mine = (classes == c).nonzero().flatten()
            if len(mine):
                distance[mine] = self._agent.uncertainty.distances(X[mine], [model])[:, 0]
        return classes, distance

    def learn(self, accepted: Accepted, iteration: int) -> None:
        """Train A_s on all that is accepted, and estimate the novel classes' models anew."""
        human, pseudo = (self._samples(*accepted.of(h, self._n_old)) for h in (True, False))
        present = np.unique(accepted.classes[accepted.classes >= self._n_old]).tolist()
        self._models = {c: self._fit(accepted.rows[accepted.classes == c]) for c in present}
        if not present:
            return
        n_classes = max(max(present) + 1 - self._n_old, self._head.n_classes)
        empty = Samples(human.X[:0], human.y[:0])
        rng = generator(self._agent.seed, self._agent.version + 1, iteration, "short-term head")
        self._head = self._head.learn(Lesson(n_classes, human, pseudo, empty), rng)

    def _fit(self, rows: IntArray) -> ClassModel:
        return self._agent.uncertainty.fit(self._pool.take(rows, self._agent.device))

    def _samples(self, rows: IntArray, classes: IntArray) -> Samples:
        y = torch.from_numpy(classes - self._n_old).to(self._agent.device)
        return Samples(self._pool.take(rows, self._agent.device), y)

    def probabilities(self, rows: IntArray) -> FloatArray:
        """What the long-term head of the agent makes of the rows."""
        return _probabilities(self._agent.head, self._pool, rows, self._agent.device)

    def features(self, rows: IntArray) -> FloatArray:
        return self._pool.take(rows).numpy()

    def nearest_old(self, rows: IntArray) -> IntArray:
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
        head = part(state, "head.", device)
        if head:
            self._head = type(self._head).from_state(head, **self._options)
        classes = sorted({int(key.split(".")[1]) for key in state if key.startswith("model.")})
        self._models = {c: self._agent.uncertainty.load(part(state, f"model.{c}.", device)) for c in classes}


class HesitationLearner:
    """Entropy or margin of a working copy of the long-term head that learns by replay as answers come."""

    def __init__(self, agent: "Agent", pool: Pool, measure: Callable[[FloatArray], FloatArray]) -> None:
        self._agent, self._pool, self._measure = agent, pool, measure
        self._n_old = len(agent.names)
        self._options = {**agent.method.head_options, "epochs": agent.method.short_epochs}
        self._head = type(agent.head).from_state(agent.head.state(), **self._options)
        self._alive = list(range(self._n_old))

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        del last
        p = self.probabilities(rows)
        of_validation = _softmax(self._head.logits(self._agent.validation.X)[:, self._alive])
        validation = torch.from_numpy(self._measure(of_validation))
        classes = np.array(self._alive)[p.argmax(axis=1)] if len(rows) else np.empty(0, np.int64)
        return Scored(self._measure(p), classes, validation)

    def learn(self, accepted: Accepted, iteration: int) -> None:
        present = np.unique(accepted.classes[accepted.classes >= self._n_old]).tolist()
        self._alive = [*range(self._n_old), *present]
        lesson = long_term_lesson(
            self._agent, self._pool, accepted, max(self._head.n_classes, self._alive[-1] + 1)
        )
        rng = generator(self._agent.seed, self._agent.version + 1, iteration, "working head")
        self._head = self._head.learn(lesson, rng)

    def probabilities(self, rows: IntArray) -> FloatArray:
        return _probabilities(self._head, self._pool, rows, self._agent.device, self._alive)

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
        self._head = type(self._head).from_state(part(state, "head.", self._agent.device), **self._options)


def short_term(agent: "Agent", pool: Pool) -> ShortTerm:
    """The short-term learner that the agent's method asks for."""
    if agent.method.score == "prototypes":
        from cual.transduction import PrototypeLearner

        return PrototypeLearner(agent, pool)
    if agent.method.score == "novelty":
        return NoveltyLearner(agent, pool)
    return HesitationLearner(agent, pool, entropy if agent.method.score == "entropy" else closeness)


def long_term_lesson(agent: "Agent", pool: Pool, accepted: Accepted, n_classes: int) -> Lesson:
    """What the long-term head learns from (eq. 4): novel answers, pseudo-labels, replay and old answers."""
    n_old = len(agent.names)

    def samples(rows: IntArray, classes: IntArray) -> Samples:
        return Samples(pool.take(rows, agent.device), torch.from_numpy(classes).to(agent.device))

    rest = np.setdiff1d(np.arange(len(pool)), accepted.rows)
    return Lesson(
        n_classes,
        queried=samples(*accepted.of(True, n_old)),
        pseudo=samples(*accepted.believed()),
        replay=agent.replay.samples(),
        old=samples(*accepted.old(n_old)),
        unlabelled=pool.take(rest, agent.device) if agent.head.WANTS_UNLABELLED else None,
    )


def part(state: Mapping[str, Tensor], prefix: str, device: torch.device) -> dict[str, Tensor]:
    """The entries whose names begin with `prefix`, without it, on `device`."""
    return {k.removeprefix(prefix): v.to(device) for k, v in state.items() if k.startswith(prefix)}


def _softmax(logits: Tensor) -> FloatArray:
    return torch.softmax(logits, dim=1).cpu().numpy()


def _probabilities(
    head: Head, pool: Pool, rows: IntArray, device: torch.device, alive: list[int] | None = None
) -> FloatArray:
    parts = [head.logits(X) for _, X in pool.chunks(rows, device)]
    logits = torch.cat(parts) if parts else torch.empty(0, head.n_classes)
    return _softmax(logits if alive is None else logits[:, alive])
