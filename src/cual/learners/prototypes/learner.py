"""A_s of cual-plus: the whole pool is labelled at once. The contract; the formulas are beside this file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cual.acquisition.base import Holdings
from cual.data.pool import Pool, chunks
from cual.errors import BadOption
from cual.heads import Head, Whitens
from cual.learners.base import Accepted, Detector, Knowledge, Scored, ShortTerm, learners
from cual.learners.prototypes.calibration import Sureness, measured, winning
from cual.learners.prototypes.competition import ClassPrototypes, Competition, Rules, novel_classes, outcomes
from cual.learners.prototypes.drift import drift_size
from cual.learners.prototypes.options import PrototypeOptions
from cual.learners.prototypes.space import KnownSpace, Scale, Seen, Space, joined
from cual.types import AnyArray, BoolArray, FloatArray, IntArray
from cual.uncertainty import Threshold, at_rate

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
        """Novelty of samples that are looked at together: novel ones have each other for neighbours.

        The validation samples are looked at in the same company, as if they had arrived too: only so does the
        rate of false alarms on them hold for known samples of the pool. A pool too large for `keep_bytes` is
        compared with them as they look from outside, where somewhat more known samples lie above.
        """
        n, held_out = len(pool), agent.validation.X
        if 4 * pool.width * (n + len(held_out)) > self.keep_bytes:
            space = Space(whitening(agent), agent, pool, self)
            return space.novelty_of_pool(), at_rate(space.novelty_of_validation(), self.false_alarms)
        company = Pool(torch.cat([pool.take(np.arange(n), agent.device), held_out.float()]))
        novelty = Space(whitening(agent), agent, company, self).novelty_of_pool()
        novelty = Scale.of(novelty[n:]).deviations(novelty)
        return novelty[:n], at_rate(novelty[n:], self.false_alarms)


def whitening(agent: Knowledge) -> Whitens:
    return cast("Whitens", agent.head)


@dataclass(frozen=True)
class _Outcome:
    """What came of a competition for each row of the pool: a few bytes, whatever the number of classes.

    Attributes
    ----------
    shares
        What each class holds of samples, computed again.
    winners
        The class that wins each row, −1 for one without a name.
    held
        What classes hold of each row, in short.
    margins
        By how much the winner beats all others together, in logits.
    known
        What no old class holds of the validation samples.
    """

    shares: Callable[[Seen], FloatArray]
    winners: NDArray[np.int32]
    held: Holdings
    margins: FloatArray
    known: Tensor

    @classmethod
    def of(cls, n: int, shares: Callable[[Seen], FloatArray], known: Tensor) -> "_Outcome":
        """Room for a pool of `n` rows."""
        held = Holdings(*(np.empty(n, np.float32) for _ in range(3)))
        margins = np.empty(n, np.float32)
        return cls(shares, np.empty(n, np.int32), held, margins, known)

    def put(self, rows: slice, part: "_Won") -> None:
        """Take over what came of some rows."""
        self.winners[rows] = part.winners
        self.held.old[rows] = part.held.old
        self.held.likeliest_old[rows] = part.held.likeliest_old
        self.held.likeliest_novel[rows] = part.held.likeliest_novel
        self.margins[rows] = part.margins

    def classes(self, rows: IntArray) -> IntArray:
        """The class that wins each of some rows."""
        return self.winners[rows].astype(np.int64)


@dataclass(frozen=True)
class _Won:
    """What came of a competition for some samples; attributes as in `_Outcome`."""

    winners: IntArray
    held: Holdings
    margins: FloatArray


@dataclass(frozen=True)
class _Referee:
    """Says what came of a competition for samples. Knows no pool, so that it can be sent to other processes."""

    rules: Rules
    prototypes: ClassPrototypes
    sure: Sureness

    def __call__(self, seen: Seen) -> _Won:
        logits = self.rules.logits(seen, self.prototypes)
        shares = self._shared(logits)
        n_old = self.rules.n_old
        _, margins, _ = winning(outcomes(logits, n_old))
        return _Won(self.rules.winners(logits), Holdings.of(shares, n_old), margins.cpu().numpy())

    def shares(self, seen: Seen) -> FloatArray:
        """What each class that has a name holds of samples."""
        return self._shared(self.rules.logits(seen, self.prototypes))

    def _shared(self, logits: Tensor) -> FloatArray:
        return np.ascontiguousarray(self.sure.shares(logits, self.rules.n_old)[:, :-1].cpu().numpy())


class PrototypeLearner:
    """Novelty: how strange a sample's surroundings are; later, the share of it that no old class holds."""

    def __init__(self, part: Prototypes, agent: Knowledge, pool: Pool) -> None:
        self._part = part
        self._agent = agent
        self._pool = pool
        self._n_old = len(agent.names)
        self._accepted = Accepted.nothing()
        self._last = False
        self._outcome: _Outcome | None = None

    def score(self, rows: IntArray, last: bool = False) -> Scored:
        self._last, space = last, self._home
        if self._novel() or self._drifted():
            outcome = self._compete()
            return Scored(1 - outcome.held.old[rows], outcome.classes(rows), outcome.known, EVEN)
        novelty = space.novelty_of_pool().cpu().numpy()
        classes = np.full(len(rows), -1)
        if last and len(self.learning()):
            classes = (self._outcome or self._compete()).classes(rows)
        return Scored(novelty[rows], classes, space.novelty_of_validation())

    def _compete(self) -> "_Outcome":
        """What classes hold of the pool, and what no old one holds of the validation set."""
        space = self._home
        counts = whitening(self._agent).counts[: self._n_old]
        competition = Competition(self._part, space, self._accepted, self.learning(), counts)
        prototypes = competition.refined()
        sure = Sureness.unchecked()
        if self._last:
            sure = measured(space, competition, prototypes)
        known = competition.logits(space.anchors_and_validation, prototypes)[len(space.anchors) :]
        known = 1 - sure.shares(known, self._n_old)[:, : self._n_old].sum(dim=1)
        referee = _Referee(competition.rules, prototypes, sure)
        outcome = _Outcome.of(len(self._pool), referee.shares, known)
        for rows, part in space.map_seen(referee):
            outcome.put(rows, part)
        self._outcome = outcome
        return outcome

    def _looks_novel(self) -> BoolArray:
        """Which rows of the pool looked more novel, at first, than nearly all known samples."""
        return self._first_novelty() >= 1 - self._part.false_alarms

    @cached_property
    def _home(self) -> Space:
        """The space of the agent as it is."""
        drifted = self._drift is not None
        return Space(whitening(self._agent), self._agent, self._pool, self._part, drifted)

    @cached_property
    def _drift(self) -> float | None:
        part = self._part
        if not part.drift:
            return None
        size = drift_size(whitening(self._agent).shrunk(part.shrink), self._agent, self._pool)
        return size if size >= part.drift else None

    def _novel(self) -> list[int]:
        return novel_classes(self._accepted, self._n_old)

    def _drifted(self) -> bool:
        """Whether answers say what known classes look like by now."""
        return self._drift is not None and len(self._accepted.rows) > 0

    def drift(self) -> float | None:
        """How far the pool has drifted, in deviations of known samples; None if it has not."""
        return self._drift

    def learning(self) -> IntArray:
        """Old classes in the pool of which too little is known, or something that the answers contradict.

        In a drifted pool these are all of them.
        """
        if self._drifted():
            return np.arange(self._n_old)
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
        self._accepted, self._outcome = accepted, None

    def _competed(self) -> "_Outcome | None":
        """What came of the last competition, if there is anything to compete for."""
        if self._outcome is None and (
            self._novel() or self._drifted() or (self._last and len(self.learning()))
        ):
            return self._compete()
        return self._outcome

    def probabilities(self, rows: IntArray) -> FloatArray:
        """The share of each row that each class holds; the rest is held by classes that nobody has named."""
        outcome, space = self._competed(), self._home

        def shares(seen: Seen) -> FloatArray:
            if outcome is not None:
                return outcome.shares(seen)
            return torch.softmax(space.sharpness * seen.to_old, dim=1).cpu().numpy()

        parts = chunks(len(rows), space.old.shape[1]) if len(rows) else [slice(0, 0)]
        return np.concatenate([shares(space.look(rows[part])) for part in parts])

    def holdings(self, rows: IntArray) -> Holdings:
        outcome = self._competed()
        return (
            Holdings.of(self.probabilities(rows), self._n_old) if outcome is None else outcome.held.take(rows)
        )

    def margins(self, rows: IntArray) -> FloatArray:
        outcome = self._competed()
        return np.zeros(len(rows), np.float32) if outcome is None else outcome.margins[rows]

    def first_novelty(self, rows: IntArray) -> FloatArray:
        """Of pool rows, the share of known validation samples whose surroundings are less strange."""
        return self._first_novelty()[rows]

    def _first_novelty(self) -> FloatArray:
        known = self._home.novelty_of_validation().sort().values
        below = torch.searchsorted(known, self._home.novelty_of_pool(), out_int32=True)
        return (below / max(1, len(known))).cpu().numpy()

    def unexplained(self, rows: IntArray) -> IntArray:
        """Rows that a class without a name wins, and which looked novel at first."""
        novel = rows[self._looks_novel()[rows]]
        outcome = self._competed() if self._novel() else None
        return novel if outcome is None else novel[outcome.winners[novel] < 0]

    def met_before(self, rows: IntArray) -> FloatArray:
        return self._home.met_before(rows).cpu().numpy()

    def features(self, rows: IntArray) -> FloatArray:
        features = np.empty((len(rows), self._home.old.shape[1]), np.float32)
        for part, U in self._home.chunks(rows):
            features[part] = U.cpu().numpy()
        return features

    def nearest_old(self, rows: IntArray) -> IntArray:
        space = self._home
        return joined([(U @ space.old.T).argmax(dim=1) for _, U in space.chunks(rows)]).cpu().numpy()

    def state(self) -> dict[str, Tensor]:
        accepted = self._accepted
        arrays: dict[str, AnyArray] = {
            "rows": accepted.rows,
            "classes": accepted.classes,
            "human": accepted.human,
            "last": np.array([self._last], np.int64),
        }
        if accepted.weights is not None:
            arrays["weights"] = accepted.weights
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        names = ("rows", "classes", "human", *(("weights",) if "weights" in state else ()))
        self._accepted = Accepted(*(state[name].cpu().numpy() for name in names))
        self._last = bool(state["last"].item())
