"""A_s of cual-plus: the whole pool is labelled at once. The contract; the formulas are beside this file."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor

from cual.data.pool import Pool
from cual.errors import BadOption
from cual.heads import Head, Whitens
from cual.learners.base import Accepted, Detector, Knowledge, Scored, ShortTerm, learners
from cual.learners.prototypes.calibration import Sureness, measured, outcomes
from cual.learners.prototypes.competition import Competition, novel_classes
from cual.learners.prototypes.options import PrototypeOptions
from cual.learners.prototypes.space import KnownSpace, Space, at_rate, joined
from cual.types import BoolArray, FloatArray, IntArray
from cual.uncertainty import Threshold

EVEN = Threshold(value=0.5, mean=0.0, std=0.2)
"""Where old and novel classes hold the same share of a sample, and how far around that is ambiguous."""


@learners.add("prototypes")
@dataclass(frozen=True, kw_only=True)
class Prototypes(PrototypeOptions):
    """Classes are directions in the space that the head whitens, and compete for every sample of the pool."""

    @property
    def unnamed(self) -> bool:
        return False

    def check(self, head: Head) -> None:
        if not isinstance(head, Whitens):
            raise BadOption(
                f"prototypes live in the space that a head whitens; {type(head).__name__} has none: use ridge"
            )

    def begin(self, agent: Knowledge, pool: Pool) -> ShortTerm:
        return PrototypeLearner(self, agent, pool)

    def detector(self, agent: Knowledge, stds: float) -> Detector:
        """Distances to what is known; the threshold keeps to the rate of false alarms on the validation set."""
        del stds
        return KnownSpace(whitening(agent), agent, self)

    def novelty_together(self, agent: Knowledge, pool: Pool) -> tuple[Tensor, Threshold]:
        """Novelty of samples that are looked at together: novel ones have each other for neighbours."""
        space = Space(whitening(agent), agent, pool, self)
        return space.novelty_of_pool(), at_rate(space.novelty_of_validation(), self.false_alarms)


def whitening(agent: Knowledge) -> Whitens:
    return cast("Whitens", agent.head)


class PrototypeLearner:
    """Novelty: how strange a sample's surroundings are; later, the share of it that no old class holds."""

    def __init__(self, part: Prototypes, agent: Knowledge, pool: Pool) -> None:
        self._part = part
        self._agent = agent
        self._pool = pool
        self._n_old = len(agent.names)
        self._accepted = Accepted.nothing()
        self._last = False
        self._shares: FloatArray | None = None
        self._winners: IntArray | None = None

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        self._last, space = last, self._home
        if self._novel():
            shares, known = self._compete()
            return Scored(1 - shares[rows][:, : self._n_old].sum(axis=1), self._classes(rows), known, EVEN)
        novelty = space.novelty_of_pool().cpu().numpy()
        classes = self._classes(rows) if last and len(self.learning()) else np.full(len(rows), -1)
        return Scored(novelty[rows], classes, space.novelty_of_validation())

    def _compete(self) -> tuple[FloatArray, Tensor]:
        """What each class holds of the pool, and what no old one holds of the validation set."""
        space = self._home
        counts = whitening(self._agent).counts[: self._n_old]
        competition = Competition(self._part, space, self._accepted, self.learning(), counts)
        prototypes = competition.refined()
        sure = Sureness.unchecked()
        if self._last:
            answers = self._accepted.only(self._accepted.human == 1)
            sure = measured(space, answers, competition, prototypes, self._looks_novel())
        logits = joined([competition.logits(seen, prototypes) for seen in space.seen()])
        self._winners = self._won(logits)
        self._shares = sure.shares(logits, self._n_old)[:, :-1].cpu().numpy()
        known = competition.logits(space.anchors_and_validation, prototypes)[len(space.anchors) :]
        return self._shares, 1 - sure.shares(known, self._n_old)[:, : self._n_old].sum(dim=1)

    def _won(self, logits: Tensor) -> IntArray:
        """The class that wins each sample, −1 for one without a name; old ones count together."""
        n_old = self._n_old
        numbers = torch.tensor([*range(n_old), *self._novel(), -1], device=logits.device)
        outcome = outcomes(logits, n_old).argmax(dim=1)
        old = logits[:, :n_old].argmax(dim=1)
        return torch.where(outcome == 0, numbers[old], numbers[outcome + n_old - 1]).cpu().numpy()

    def _looks_novel(self) -> BoolArray:
        """Which rows of the pool looked more novel, at first, than nearly all known samples."""
        every = np.arange(len(self._pool))
        return self.first_novelty(every) >= 1 - self._part.false_alarms

    def _classes(self, rows: IntArray) -> IntArray:
        """The likeliest class of each row, −1 where that is one without a name."""
        probabilities = self.probabilities(rows)
        return probabilities.argmax(axis=1) if self._winners is None else self._winners[rows]

    @cached_property
    def _home(self) -> Space:
        """The space of the agent as it is."""
        return Space(whitening(self._agent), self._agent, self._pool, self._part)

    def _novel(self) -> list[int]:
        return novel_classes(self._accepted, self._n_old)

    def learning(self) -> IntArray:
        """Old classes in the pool of which too little is known, or something that the answers contradict."""
        rows, classes = self._accepted.old(self._n_old)
        if not len(rows):
            return np.empty(0, np.int64)
        counts = whitening(self._agent).counts[: self._n_old].cpu().numpy()
        few = counts < min(self._part.few, counts.max() / 4)
        surprising = (self._home.strangeness(rows) > self._part.looks_novel).cpu().numpy()
        named, contradicted = (np.bincount(c, minlength=self._n_old) for c in (classes, classes[surprising]))
        return np.flatnonzero((few & (named > 0)) | (contradicted >= self._part.contradicted))

    def learn(self, accepted: Accepted, round: int) -> None:
        """Take over the answers; prototypes are refined when the pool is scored."""
        del round
        self._accepted, self._shares, self._winners = accepted, None, None

    def probabilities(self, rows: IntArray) -> FloatArray:
        """The share of each row that each class holds; the rest is held by classes that nobody has named."""
        if self._shares is not None:
            return self._shares[rows]
        if self._novel() or (self._last and len(self.learning())):
            return self._compete()[0][rows]
        space = self._home
        parts = [torch.softmax(space.sharpness * seen.to_old, dim=1) for seen in space.seen()]
        return joined(parts).cpu().numpy()[rows]

    def first_novelty(self, rows: IntArray) -> FloatArray:
        """Of pool rows, the share of known validation samples whose surroundings are less strange."""
        known = self._home.novelty_of_validation().sort().values
        below = torch.searchsorted(known, self._home.novelty_of_pool())
        return (below / max(1, len(known))).cpu().numpy()[rows]

    def unexplained(self, rows: IntArray) -> IntArray:
        """Rows of which classes without a name hold more than half, and which looked novel at first."""
        novel = rows[self._looks_novel()[rows]]
        if not self._novel():
            return novel
        return novel[self.probabilities(novel).sum(axis=1) < 0.5]

    def met_before(self, rows: IntArray) -> FloatArray:
        return self._home.met_before(rows).cpu().numpy()

    def features(self, rows: IntArray) -> FloatArray:
        parts = [U for _, U in self._home.chunks(rows)]
        return joined(parts).reshape(len(rows), self._home.old.shape[1]).cpu().numpy()

    def nearest_old(self, rows: IntArray) -> IntArray:
        space = self._home
        return joined([(U @ space.old.T).argmax(dim=1) for _, U in space.chunks(rows)]).cpu().numpy()

    def state(self) -> dict[str, Tensor]:
        accepted = self._accepted
        arrays = {
            "rows": accepted.rows,
            "classes": accepted.classes,
            "human": accepted.human,
            "last": np.array([self._last], np.int64),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._accepted = Accepted(*(state[name].cpu().numpy() for name in ("rows", "classes", "human")))
        self._last = bool(state["last"].item())
