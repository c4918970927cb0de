"""What is computed in an adaptation: a round is opened, and closed. The arrays of each round, and A_s.

A step is a function of the state: it leaves one event (`events`), and `rounds` grows. So what was computed is a
cache of what the events imply, and `compute` makes it again. Who is told what is `adaptation`'s business.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
from torch import Tensor

from cual import storage
from cual.acquisition import PoolView
from cual.data.labels import SKIP, ClassNames
from cual.data.pool import Pool
from cual.errors import DamagedFile
from cual.learners import (
    Accepted,
    Knowledge,
    LooksFirst,
    Remembers,
    SeesDrift,
    TellsInShort,
    TellsMargins,
)
from cual.loop import events
from cual.loop.budget import allotment
from cual.loop.doubting import Foreseen, Known, most_alike, nearest_margins
from cual.loop.outlook import Outlook, drifted, novel_samples, outlook
from cual.loop.rounds import Round
from cual.loop.state import State
from cual.loop.timing import Timings
from cual.methods import Method
from cual.pseudo_labels import PseudoLabels
from cual.seeds import generator
from cual.types import FloatArray, IntArray, Label, Progress, Row
from cual.uncertainty import Zone, t_inner


class Composed(Knowledge, Protocol):
    """An agent, as far as the machine reads it."""

    @property
    def method(self) -> Method: ...


class Machine:
    """Scores the pool, chooses whom to ask and what to believe, and lets A_s learn, one step at a time."""

    def __init__(self, agent: Composed, pool: Pool, timings: Timings, progress: Progress | None) -> None:
        self.rounds: list[Round] = []
        """What was computed in each round."""
        self._agent = agent
        self._pool = pool
        self._timings = timings
        self._progress = progress
        self._method = agent.method
        self._short = agent.method.learner.begin(agent, pool)

    def compute(self, rows: Sequence[Row]) -> None:
        """Compute everything again that the events `rows` say was computed."""
        state = State()
        self.forget()
        withdrawn = events.withdrawn(rows)
        for place, event in enumerate(rows):
            counts = event["event"] in events.COMPUTED and place not in withdrawn
            if counts and not events.same_step(self.step(state), event):
                raise DamagedFile(
                    f"computing round {event.get('round')} again gave something else than the journal says: "
                    "the agent, the pool, the machine or cual itself has changed since"
                )
            state.apply(event)

    def forget(self) -> None:
        """Have nothing computed, as in the beginning."""
        self.rounds = []
        self._short = self._method.learner.begin(self._agent, self._pool)

    def tensors(self) -> Mapping[str, Tensor]:
        """Everything that was computed; what lies in temporary files is read when it is looked at."""
        short = {f"short.{k}": partial(_same, v) for k, v in self._short.state().items()}
        rounds = {f"round.{r.round}.{k}": partial(r.tensor, k) for r in self.rounds for k in r.TENSORS}
        return storage.Late({**short, **rounds})

    def restore(self, rounds: int, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `tensors` gave before."""
        self._short.restore(storage.section(tensors, "short."))
        self.rounds = [Round.from_state(i, storage.section(tensors, f"round.{i}.")) for i in range(rounds)]
        for earlier in self.rounds[:-1]:
            earlier.put_away()

    # -- the two steps -----------------------------------------------------------------------------------------

    def step(self, state: State) -> Row:
        """Open the next round, or close the one that is open."""
        return self._open_round(state) if state.opened == state.closed else self._close_round(state)

    def _open_round(self, state: State) -> Row:
        """Score what is left, set T_inner, and choose whom to ask."""
        for earlier in self.rounds:
            earlier.put_away()
        method, i, rows = self._method, state.opened, self._remaining(state)
        limit = method.rounds + state.rounds_added
        n = self._allotment(state, i) if i < limit else 0
        if not len(rows):
            return events.ended("the pool is used up")
        if i >= limit and not method.believes_last:
            return events.ended("all iterations are used")
        if not n and method.believe is None:
            return events.ended("the budget is spent")
        if self._progress is not None:
            self._progress("adapting", i, limit)
        with self._timings.stage("scoring"):
            scored = self._short.score(rows, last=method.believes_last and not n)
        threshold = scored.threshold or t_inner(scored.validation, method.stds)
        novel = novel_samples(scored)
        mistaken = float((scored.validation > threshold.value).double().mean()) * (len(rows) - novel)
        current = Round(
            i, rows, scored.scores, scored.classes, threshold, novel=novel, taken_for_novel=mistaken
        )
        self.rounds.append(current)
        if method.ends_below_threshold and not (scored.scores > threshold.value).any():
            return events.asked(i, current.query_id, [], ended="nothing lies above T_inner")
        if n:
            strategy = method.then if self._novel_alive(state) else method.first
            rng = generator(self._agent.seed, self._agent.version + 1, i, "queries")
            short = self._short
            view = replace(
                self._view(current, slice(None)),
                validation=scored.validation.cpu().numpy(),
                asked=lambda: short.features(self._answered_rows(state)),
                left=state.affordable,
                first=partial(short.first_novelty, rows) if isinstance(short, LooksFirst) else None,
            )
            if isinstance(short, Remembers):
                view = replace(view, met_before=partial(_at, short.met_before, rows))
            current.asked = rows[strategy.choose(view, n, rng)]
        return events.asked(i, current.query_id, self._questions(state, current))

    def _close_round(self, state: State) -> Row:
        """All is answered: believe the most certain of the rest, and learn from everything accepted."""
        method, current, names = self._method, self.rounds[-1], state.numbered
        last = method.believes_last and not len(current.asked)
        if method.believe is not None and last == method.believes_last:
            chosen = self._believable(method.believe, state, current)
            current.pseudo_rows = current.rows[chosen]
            current.pseudo_classes = current.classes[chosen]
            current.pseudo_doubts = method.believe.doubts(self._view(current, chosen))
        closed = events.believed(
            current.round,
            [self._pool.ids[row] for row in current.pseudo_rows.tolist()],
            [names.names[c] for c in current.pseudo_classes.tolist()],
        )
        if last:
            return {**closed, "ended": "the pool is labelled"}
        rounds = current.round + 1
        more = method.believes_last or (
            rounds < method.rounds + state.rounds_added
            and (method.believe is not None or self._allotment(state, rounds))
        )
        if not more:
            return closed
        if not len(current.asked) and not len(current.pseudo_rows):
            return {**closed, "ended": "nothing more to ask or to believe"}
        with self._timings.stage("short head"):
            self._short.learn(self.accepted(state, closed), current.round)
        return closed

    def _believable(self, rule: PseudoLabels, state: State, current: Round) -> IntArray:
        """Places in a round of what would be believed of it."""
        judged = np.zeros(len(self._pool), np.bool_)
        judged[np.concatenate([self._answered_rows(state), self._rejected_rows(state)])] = True
        taken = judged[current.rows]
        left = np.flatnonzero(~taken) if taken.any() else None
        chosen = rule.choose(self._view(current, slice(None) if left is None else left))
        chosen = chosen if left is None else left[chosen]
        return chosen[np.isin(current.classes[chosen], self._vouched(state, state.numbered))]

    def foreseen(self, state: State) -> Foreseen:
        """What a method that believes only at the end would believe if it ended now; nobody learns of it."""
        method = self._method
        early = state.ended is None and state.opened > state.closed and method.believes_last
        if method.believe is None or not early or not self._novel_alive(state):
            return Foreseen({}, {})
        current = self.rounds[-1]
        chosen = self._believable(method.believe, state, current)
        asked = self._rows(state.questions)
        chosen = chosen[~np.isin(current.rows[chosen], asked)]
        samples = [self._pool.ids[row] for row in current.rows[chosen].tolist()]
        names = state.names.names
        labels = [names[c] for c in current.classes[chosen].tolist()]
        doubts = method.believe.doubts(self._view(current, chosen)).tolist()
        return Foreseen(dict(zip(samples, labels, strict=True)), dict(zip(samples, doubts, strict=True)))

    def margins(self, state: State, labels: Mapping[Label, Label]) -> FloatArray:
        """By how much what is believed of samples beats what else they could be: the higher, the surer."""
        rows, classes = self._encoded(labels, state.numbered)
        if isinstance(self._short, TellsMargins):
            return self._short.margins(rows)
        return nearest_margins(self._known(state), self._pool, rows, classes)

    def alike(self, state: State, rows: IntArray, n: int) -> dict[int, list[tuple[Label, float, int | None]]]:
        """What known samples rows are most like: class, cosine and, where it has one, row."""
        return most_alike(self._known(state), self._pool, rows, state.numbered, n)

    def _known(self, state: State) -> Known:
        accepted = self.accepted(state)
        return Known.of(self._agent, self._pool, accepted.only(accepted.human == 1))

    def _allotment(self, state: State, round: int) -> int:
        """Questions of a round: none once it was stopped, or where the learner asks nothing."""
        silent = state.stopped or state.unnamed is not None
        left = 0 if silent else state.affordable
        method = self._method
        first = None if self._novel_alive(state) else method.first_share
        return allotment(left, state.budget // state.overlap, method.rounds + state.rounds_added - round, first)

    def _view(self, current: Round, positions: IntArray | slice) -> PoolView:
        rows, short = current.rows[positions], self._short
        return PoolView(
            scores=current.scores[positions],
            threshold=current.threshold.value,
            classes=current.classes[positions],
            n_old=len(self._agent.names),
            learning=short.learning(),
            probabilities=lambda: short.probabilities(rows),
            holdings=partial(short.holdings, rows) if isinstance(short, TellsInShort) else None,
            features=lambda at: short.features(rows[at]),
        )

    def about(self, row: int) -> Row:
        """What is known of a row since it was scored last, as it is written down of questions."""
        for round_ in reversed(self.rounds):
            place = int(np.searchsorted(round_.rows, row))
            if place < len(round_.rows) and round_.rows[place] == row:
                (zone,) = round_.zones_at(np.array([place]))
                return {
                    "iteration": round_.round,
                    "score": float(round_.scores[place]),
                    "threshold": round_.threshold.value,
                    "zone": Zone(int(zone)).name.lower(),
                }
        return {}

    def _questions(self, state: State, current: Round) -> list[Row]:
        """What is written down of each sample that is asked about."""
        if not len(current.asked):
            return []
        places = np.searchsorted(current.rows, current.asked)
        zone_of, nearest = current.zones_at(places), self._short.nearest_old(current.asked)
        names = state.names.names
        samples: list[Row] = []
        for row, place, zone, old in zip(current.asked, places, zone_of, nearest, strict=True):
            c = int(old) if zone == Zone.OLD else int(current.classes[place])
            samples.append(
                {
                    "sample": self._pool.ids[int(row)],
                    "iteration": current.round,
                    "score": float(current.scores[place]),
                    "threshold": current.threshold.value,
                    "zone": Zone(int(zone)).name.lower(),
                    "suggestion": names[c] if c >= 0 else None,
                }
            )
        return samples

    def _rows(self, samples: Iterable[Label]) -> IntArray:
        return self._pool.ids.rows_of(samples)

    def _answered_rows(self, state: State) -> IntArray:
        return self._rows(state.answers)

    def _rejected_rows(self, state: State) -> IntArray:
        return self._rows(state.rejected)

    def _remaining(self, state: State) -> IntArray:
        taken = np.zeros(len(self._pool), dtype=np.bool_)
        taken[self._answered_rows(state)] = True
        taken[self._believed(state)[0]] = True
        return np.flatnonzero(~taken)

    def _vouched(self, state: State, names: ClassNames) -> list[int]:
        vouched = state.vouched
        return [c for c, name in enumerate(names.names) if name in vouched]

    def _novel_alive(self, state: State) -> list[int]:
        """Novel classes that somebody vouches for and that have a number."""
        return [c for c in self._vouched(state, state.names) if c >= len(self._agent.names)]

    def _believed(self, state: State) -> tuple[IntArray, IntArray]:
        """Rows and classes of the pseudo-labels that stand."""
        return self._encoded(state.believed, state.names)

    def _encoded(self, labels: Mapping[Label, Label], names: ClassNames) -> tuple[IntArray, IntArray]:
        return self._rows(labels), names.encode(labels.values())

    def _foreseen(self, state: State) -> IntArray:
        """Rows that a method which believes only at the end would believe if nobody were asked any more."""
        if state.ended is not None or not self._method.believes_last:
            return np.empty(0, np.int64)
        last = self.rounds[-1]
        taken = np.isin(last.classes, self._novel_alive(state))
        rows = last.rows[taken & (last.scores > last.threshold.value)]
        return np.setdiff1d(rows, np.concatenate([self._answered_rows(state), self._rejected_rows(state)]))

    def accepted(self, state: State, closed: Row | None = None) -> Accepted:
        """What is accepted so far; `closed` is the event of a round that is just being closed."""
        names = state.numbered
        answers = {sample: answer for sample, answer in state.answers.items() if answer is not SKIP}
        answered = np.stack(self._encoded(answers, names), axis=1)
        order = np.argsort(answered[:, 0])
        answered = answered[order]
        believed = state.believed
        if closed is not None:
            believed |= dict(zip(closed["samples"], closed["labels"], strict=True))
        rows, classes = self._encoded(believed, names)
        human = np.concatenate([np.ones(len(answered), np.int64), np.zeros(len(rows), np.int64)])
        weights = None
        if state.several:
            sure = state.weights
            told = np.array([sure[sample] for sample in answers], np.float32)[order]
            weights = np.concatenate([told, np.ones(len(rows), np.float32)])
        return Accepted(
            np.concatenate([answered[:, 0], rows]),
            np.concatenate([answered[:, 1], classes]),
            human,
            weights,
        )

    def unexplained(self, state: State) -> IntArray:
        """Rows that look novel, have no label, and that nothing explains."""
        short, left = self._short, self._remaining(state)
        return short.unexplained(left) if isinstance(short, Remembers) else left[:0]

    def settled(self, state: State) -> tuple[ClassNames, Accepted]:
        """What was accepted, with classes that it leaves empty left out and the numbers closed up."""
        accepted, names = self.accepted(state), state.numbered
        kept = sorted({*range(len(self._agent.names)), *accepted.classes.tolist()})
        number = np.full(len(names), -1)
        number[kept] = np.arange(len(kept))
        closed_up = ClassNames(tuple(names.names[c] for c in kept))
        return closed_up, replace(accepted, classes=number[accepted.classes])

    def outlook(self, state: State) -> Outlook:
        """How many novel samples are probably still unlabelled, and whether to ask about another one."""
        if not self.rounds:
            return outlook(math.nan, 0, 0, 0, 0)
        known = self._agent.names
        labels = {sample: answer for sample, answer in state.answers.items() if answer is not SKIP}
        novel = self._rows(sample for sample, answer in labels.items() if answer not in known)
        rows, classes = self._believed(state)
        believed = rows[classes >= len(known)]
        labelled = np.concatenate([novel, believed, self._foreseen(state)])
        last = self.rounds[-1]
        since = int(np.isin(labelled, last.rows).sum())
        # Of those believed since, some are old: as many as old samples lie above the threshold, in proportion.
        above = int((last.scores > last.threshold.value).sum())
        taken = int((last.pseudo_classes >= len(known)).sum())
        wrong = last.taken_for_novel * min(1.0, taken / max(1, above))
        tried = not self._method.believes_last or bool((last.classes >= len(known)).any())
        before = len(labelled) - since
        moved = self.drift
        drift = None
        if moved is not None:
            drift = drifted(moved, len(self._pool), last.novel + before, len(novel), len(labels))
        return outlook(last.novel, before, max(0.0, since - wrong), len(novel), len(labels), tried, drift)

    @property
    def drift(self) -> float | None:
        """How far all of the pool has moved, in deviations of known samples; None if it has not."""
        return self._short.drift() if isinstance(self._short, SeesDrift) else None

    def doubts(self) -> dict[Label, float]:
        """How doubtful each sample that was ever believed is, 0 … 1."""
        doubt_of = dict[Label, float]()
        for round_ in self.rounds:
            samples = [self._pool.ids[row] for row in round_.pseudo_rows.tolist()]
            doubt_of |= dict(zip(samples, round_.pseudo_doubts.tolist(), strict=True))
        return doubt_of


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _at(measure: Callable[[IntArray], FloatArray], rows: IntArray, positions: IntArray) -> FloatArray:
    """A measure of rows, by their positions."""
    return measure(rows[positions])
