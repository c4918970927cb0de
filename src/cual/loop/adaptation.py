"""The Adaptation: one pool and one budget, from the first question to the next Agent (the paper's inner loop).

A machine of two steps, opening a round and closing it, that leaves one event each. Everything else that happens
is an event of people; `state` says what they imply. Scores come from the method's learner, choices from its
other parts. The arrays that a step computed are kept in `rounds`: a cache, which can be computed again.
"""

import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import torch

from cual import storage
from cual.acquisition import PoolView
from cual.errors import AlreadyFinished, BadFile, DamagedFile, LabelsMissing, UnknownSample
from cual.labels import SKIP, Answer, ClassNames, made_up
from cual.learners import Accepted, Knowledge, ShortTerm
from cual.loop import earlier, events
from cual.loop.budget import allotment, count_labels
from cual.loop.journal import Journal
from cual.loop.outlook import Outlook, novel_samples, outlook
from cual.loop.rounds import Round
from cual.loop.state import State
from cual.loop.timing import Timings
from cual.methods import Method
from cual.pool import Pool
from cual.seeds import generator
from cual.types import IntArray, Label, Progress, Row
from cual.uncertainty import Zone, t_inner

AGENT = "agent.safetensors"
POOL = "pool.safetensors"
JOURNAL = "journal.jsonl"
CACHE = "cache.safetensors"

log = logging.getLogger(__name__)


class Adapts(Knowledge, Protocol):
    """What an adaptation needs of the agent that it starts from."""

    @property
    def method(self) -> Method: ...

    def consolidated(
        self,
        pool: Pool,
        accepted: Accepted,
        names: ClassNames,
        outcome: Row,
        timings: Timings,
        progress: Progress | None = None,
    ) -> Any: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...


@dataclass(frozen=True)
class Query:
    """Samples that a person should label; answer with ``tell(query.id, {sample: label, …})``.

    Attributes
    ----------
    suggestions
        The likeliest class of each sample; None where it looks novel and no novel class is known yet.
    """

    id: str
    round: int
    ids: tuple[Label, ...]
    scores: tuple[float, ...]
    zones: tuple[str, ...]
    suggestions: tuple[Label | None, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def iteration(self) -> int:
        """The round, by its earlier name."""
        return self.round


class Adaptation:
    """Ask, be told, believe, and end in the next agent. Made by `Agent.adapt` and by `load`.

    >>> rng = np.random.default_rng(0)
    >>> old, new = rng.normal(0, 1, (60, 8)), rng.normal(5, 1, (30, 8))
    >>> from cual import Agent
    >>> agent = Agent.fit(old[:40], [0] * 40)
    >>> task = agent.adapt(np.concatenate([old[40:], new]), budget=4)
    >>> while query := task.ask():
    ...     task.tell(query.id, {i: 1 if i >= 20 else 0 for i in query.ids})
    >>> task.finish().classes_.tolist()
    [0, 1]
    """

    def __init__(
        self,
        agent: Any,
        pool: Pool,
        budget: float | int | None = None,
        progress: Progress | None = None,
        journal: Iterable[Row] | None = None,
    ) -> None:
        """A new adaptation of `budget`, or the one whose events `journal` gives."""
        self.agent: Any = agent
        self.pool = pool
        self.progress = progress
        self.timings = Timings(agent.device)
        self._rounds: list[Round] = []
        self._method: Method = agent.method
        self._row_of = {sample: row for row, sample in enumerate(pool.ids)}
        self._short: ShortTerm = self._method.learner.begin(agent, pool)
        self._next: Any = None
        self._folder: Path | None = None
        self._cached = -1  # steps that the cache on disk holds
        self._computing = False
        if journal is None:
            labels = count_labels(budget, len(pool), self._method.budget_factor)
            unnamed = made_up(agent.names) if self._method.learner.unnamed else None
            journal = [events.begun(labels, agent.names.names, unnamed)]
        self._journal = Journal(journal)

    @property
    def rounds(self) -> list[Round]:
        """What was computed in each round, as arrays; `history` has it as JSON rows."""
        self._compute()
        return self._rounds

    @property
    def state(self) -> State:
        """What the events so far imply."""
        return self._journal.state

    @property
    def budget(self) -> int:
        """Labels that people may be asked for."""
        return self.state.budget

    @property
    def ended(self) -> str | None:
        """Why the loop is over; None while it goes on."""
        return self.state.ended

    # -- the contract: ask, tell, stop, finish -----------------------------------------------------------------

    def ask(self) -> Query | None:
        """What should be labelled next, or what is still open of it; None when the loop is over.

        The learner computes in here: `tell` only writes down.
        """
        self._compute()
        while self.state.ended is None:
            if self.state.opened > self.state.closed and self.state.open:
                return self._query()
            self._journal.add(self._step())
        return None

    def tell(self, query_id: str, answers: Mapping[Any, Any], person: Any = None) -> None:
        """Answer a query, in whole or in part: a label, known or new, or `SKIP`, for each sample id.

        Telling the same again changes nothing; telling something else corrects, until `finish`. A correction
        counts from then on: pseudo-labels of a class that nobody vouches for any more go back to the pool.
        """
        self.state.check_going()
        plain: dict[Label, Answer] = {}
        for key, value in answers.items():
            sample = key.item() if isinstance(key, np.generic) else key
            plain[sample] = value if value is SKIP else self.agent.names.check(value)
        for event in self.state.answering(query_id, plain, person):
            self._journal.add(event)

    def stop(self, person: Any = None) -> None:
        """Ask no more questions: what is open is left unanswered, and pseudo-labelling goes on by itself."""
        if not self.state.stopped:
            self._journal.add(events.stopped(person))

    def finish(self, person: Any = None) -> Any:
        """The next version of the agent, which has learned what was accepted. The old one is unchanged."""
        if self._next is None:
            query = self.ask()
            if query is not None:
                raise LabelsMissing(
                    f"query {query.id!r} still waits for {len(query)} answers; tell them, "
                    "tell SKIP for those nobody knows, or call stop() to ask no more"
                )
            names, accepted = self._settled()
            self._next = self.agent.consolidated(
                self.pool, accepted, names, self.outcome, self.timings, self.progress
            )
            if not self.state.finished:
                self._journal.add(events.finished(person))
        return self._next

    # -- review of what was believed ---------------------------------------------------------------------------

    def reject(self, samples: Iterable[Any], person: Any = None) -> None:
        """Send pseudo-labels back to the pool. They are not believed again, but may be asked about."""
        self._judge(samples, right=False, person=person)

    def confirm(self, samples: Iterable[Any], person: Any = None) -> None:
        """Write down that pseudo-labels are right. Nobody was asked, so nothing is charged."""
        self._judge(samples, right=True, person=person)

    def _judge(self, samples: Iterable[Any], right: bool, person: Any) -> None:
        if self.state.finished:
            raise AlreadyFinished("this adaptation is finished; its pseudo-labels are learned")
        plain = [s.item() if isinstance(s, np.generic) else s for s in samples]
        believed = self.state.believed
        unknown = next((s for s in plain if s not in believed), None)
        if unknown is not None:
            raise UnknownSample(f"sample {unknown!r} has no pseudo-label")
        new = [s for s in dict.fromkeys(plain) if self.state.verdicts.get(s) is not right]
        if new:
            self._journal.add(events.judged(new, right, person))

    @property
    def doubts(self) -> dict[Label, float]:
        """How doubtful each pseudo-label is, 0 … 1."""
        doubt_of = dict[int, float]()
        for round_ in self.rounds:
            rows = round_.pseudo_rows.tolist()
            doubt_of |= dict(zip(rows, round_.pseudo_doubts.tolist(), strict=True))
        return {sample: doubt_of[self._row_of[sample]] for sample in self.state.believed}

    # -- what happened -----------------------------------------------------------------------------------------

    @property
    def answers(self) -> dict[Label, Answer]:
        """What people said of each sample, corrections applied."""
        return dict(self.state.answers)

    @property
    def pseudo_labels(self) -> dict[Label, Label]:
        """What is believed without asking."""
        return self.state.believed

    @property
    def labels_used(self) -> int:
        return self.state.charged

    @property
    def journal(self) -> list[Row]:
        """Everything that happened, in order, as JSON rows (`cual.loop.events`)."""
        return list(self._journal.rows)

    @property
    def ledger(self) -> list[Row]:
        """One JSON row per sample asked about: when, its score, zone and answer, and what it cost."""
        rows = self.state.ledger()
        if all(row["person"] is None for row in rows):
            rows = [{k: v for k, v in row.items() if k not in _OF_PEOPLE} for row in rows]
        return rows

    @property
    def history(self) -> list[Row]:
        """One JSON row per round: T_inner, how many samples lay in each zone, were asked, were believed."""
        return [round_.summary() for round_ in self.rounds]

    @property
    def outlook(self) -> Outlook:
        """How many novel samples are probably still unlabelled, and whether to ask about another one."""
        if not self.rounds:
            return outlook(math.nan, 0, 0, 0, 0)
        known = self.agent.names
        labels = {sample: answer for sample, answer in self.state.answers.items() if answer is not SKIP}
        novel = [self._row_of[sample] for sample, answer in labels.items() if answer not in known]
        rows, classes = self._believed()
        believed = rows[classes >= len(known)]
        labelled = np.concatenate([np.array(novel, dtype=np.int64), believed, self._foreseen()])
        last = self.rounds[-1]
        since = int(np.isin(labelled, last.rows).sum())
        # Of those believed since, some are old: as many as old samples lie above the threshold, in proportion.
        above = int((last.scores > last.threshold.value).sum())
        taken = int((last.pseudo_classes >= len(known)).sum())
        wrong = last.taken_for_novel * min(1.0, taken / max(1, above))
        return outlook(last.novel, len(labelled) - since, max(0.0, since - wrong), len(novel), len(labels))

    @property
    def outcome(self) -> Row:
        """What came of it, as one JSON row."""
        state = self.state
        return {
            "ended": state.ended,
            "new_classes": state.new_classes,
            "labels_used": state.charged,
            "budget": state.budget,
            "unspent": state.budget - state.charged,
            "skipped": state.skipped,
            "pseudo_labels": len(state.believed),
            "iterations": len(self.rounds),
            "pool_size": len(self.pool),
        }

    # -- one round ---------------------------------------------------------------------------------------------

    def _step(self) -> Row:
        """Open the next round, or close the one that is open."""
        return self._open_round() if self.state.opened == self.state.closed else self._close_round()

    def _open_round(self) -> Row:
        """Score what is left, set T_inner, and choose whom to ask."""
        method, i, rows = self._method, self.state.opened, self._remaining()
        n = self._allotment(i) if i < method.rounds else 0
        if not len(rows):
            return events.ended("the pool is used up")
        if i >= method.rounds and not method.believes_last:
            return events.ended("all iterations are used")
        if not n and method.believe is None:
            return events.ended("the budget is spent")
        if self.progress is not None:
            self.progress("adapting", i, method.rounds)
        with self.timings.stage("scoring"):
            scored = self._short.score(rows, last=method.believes_last and not n)
        threshold = scored.threshold or t_inner(scored.validation, method.stds)
        novel = novel_samples(scored)
        mistaken = float((scored.validation > threshold.value).double().mean()) * (len(rows) - novel)
        current = Round(
            i, rows, scored.scores, scored.classes, threshold, novel=novel, taken_for_novel=mistaken
        )
        self._rounds.append(current)
        if method.ends_below_threshold and not (scored.scores > threshold.value).any():
            return events.asked(i, current.query_id, [], ended="nothing lies above T_inner")
        if n:
            strategy = method.then if self._novel_alive() else method.first
            rng = generator(self.agent.seed, self.agent.version + 1, i, "queries")
            view = replace(self._view(current, slice(None)), validation=scored.validation.cpu().numpy())
            current.asked = rows[strategy.choose(view, n, rng)]
        return events.asked(i, current.query_id, self._questions(current))

    def _close_round(self) -> Row:
        """All is answered: believe the most certain of the rest, and learn from everything accepted."""
        method, current, names = self._method, self._rounds[-1], self.state.numbered
        last = method.believes_last and not len(current.asked)
        if method.believe is not None and last == method.believes_last:
            judged = np.concatenate([self._answered_rows(), self._rejected_rows()])
            left = np.flatnonzero(~np.isin(current.rows, judged))
            chosen = left[method.believe.choose(self._view(current, left))]
            chosen = chosen[np.isin(current.classes[chosen], self._vouched(names))]
            current.pseudo_rows = current.rows[chosen]
            current.pseudo_classes = current.classes[chosen]
            current.pseudo_doubts = method.believe.doubts(self._view(current, chosen))
        closed = events.believed(
            current.round,
            [self.pool.ids[row] for row in current.pseudo_rows.tolist()],
            [names.names[c] for c in current.pseudo_classes.tolist()],
        )
        if last:
            return {**closed, "ended": "the pool is labelled"}
        rounds = current.round + 1
        more = method.believes_last or (
            rounds < method.rounds and (method.believe is not None or self._allotment(rounds))
        )
        if not more:
            return closed
        if not len(current.asked) and not len(current.pseudo_rows):
            return {**closed, "ended": "nothing more to ask or to believe"}
        with self.timings.stage("short head"):
            self._short.learn(self._accepted(closed), current.round)
        return closed

    def _allotment(self, round: int) -> int:
        """Questions of a round: none once it was stopped, or where the learner asks nothing."""
        silent = self.state.stopped or self.state.unnamed is not None
        left = 0 if silent else self.budget - self.state.charged
        method = self._method
        first = None if self._novel_alive() else method.first_share
        return allotment(left, self.budget, method.rounds - round, first)

    def _view(self, current: Round, positions: IntArray | slice) -> PoolView:
        rows = current.rows[positions]
        return PoolView(
            scores=current.scores[positions],
            threshold=current.threshold.value,
            classes=current.classes[positions],
            n_old=len(self.agent.names),
            learning=self._short.learning(),
            probabilities=lambda: self._short.probabilities(rows),
            features=lambda at: self._short.features(rows[at]),
        )

    def _questions(self, current: Round) -> list[Row]:
        """What is written down of each sample that is asked about."""
        position = {row: p for p, row in enumerate(current.rows.tolist())}
        places = np.array([position[row] for row in current.asked.tolist()], dtype=np.int64)
        if not len(places):
            return []
        zone_of, nearest = current.zones[places], self._short.nearest_old(current.asked)
        names = self.state.names.names
        samples: list[Row] = []
        for row, place, zone, old in zip(current.asked, places, zone_of, nearest, strict=True):
            c = int(old) if zone == Zone.OLD else int(current.classes[place])
            samples.append(
                {
                    "sample": self.pool.ids[row],
                    "iteration": current.round,
                    "score": float(current.scores[place]),
                    "threshold": current.threshold.value,
                    "zone": Zone(int(zone)).name.lower(),
                    "suggestion": names[c] if c >= 0 else None,
                }
            )
        return samples

    def _query(self) -> Query:
        open_ids = set(self.state.open)
        current = self.rounds[-1]
        asked = self.state.of_query(current.query_id)
        rows = [question.asked for sample, question in asked.items() if sample in open_ids]
        columns = ([r[key] for r in rows] for key in ("sample", "score", "zone", "suggestion"))
        return Query(current.query_id, current.round, *(tuple(column) for column in columns))

    # -- what is believed, as rows of the pool -----------------------------------------------------------------

    def _rows(self, samples: Iterable[Label]) -> IntArray:
        return np.array([self._row_of[sample] for sample in samples], dtype=np.int64)

    def _answered_rows(self) -> IntArray:
        return self._rows(self.state.answers)

    def _rejected_rows(self) -> IntArray:
        return self._rows(self.state.rejected)

    def _remaining(self) -> IntArray:
        taken = np.zeros(len(self.pool), dtype=np.bool_)
        taken[self._answered_rows()] = True
        taken[self._believed()[0]] = True
        return np.flatnonzero(~taken)

    def _vouched(self, names: ClassNames) -> list[int]:
        vouched = self.state.vouched
        return [c for c, name in enumerate(names.names) if name in vouched]

    def _novel_alive(self) -> list[int]:
        """Novel classes that somebody vouches for and that have a number."""
        return [c for c in self._vouched(self.state.names) if c >= len(self.agent.names)]

    def _believed(self) -> tuple[IntArray, IntArray]:
        """Rows and classes of the pseudo-labels that stand."""
        return self._encoded(self.state.believed, self.state.names)

    def _encoded(self, labels: Mapping[Label, Label], names: ClassNames) -> tuple[IntArray, IntArray]:
        return self._rows(labels), names.encode(labels.values())

    def _foreseen(self) -> IntArray:
        """Rows that a method which believes only at the end would believe if nobody were asked any more."""
        if self.state.ended is not None or not self._method.believes_last:
            return np.empty(0, np.int64)
        last = self.rounds[-1]
        taken = np.isin(last.classes, self._novel_alive())
        rows = last.rows[taken & (last.scores > last.threshold.value)]
        return np.setdiff1d(rows, np.concatenate([self._answered_rows(), self._rejected_rows()]))

    def _accepted(self, closed: Row | None = None) -> Accepted:
        """What is accepted so far; `closed` is the event of a round that is just being closed."""
        names = self.state.numbered
        answers = [
            (self._row_of[s], names.index(a)) for s, a in self.state.answers.items() if a is not SKIP
        ]
        answered = np.array(sorted(answers), dtype=np.int64).reshape(-1, 2)
        believed = self.state.believed
        if closed is not None:
            believed |= dict(zip(closed["samples"], closed["labels"], strict=True))
        rows, classes = self._encoded(believed, names)
        human = np.concatenate([np.ones(len(answered), np.int64), np.zeros(len(rows), np.int64)])
        return Accepted(
            np.concatenate([answered[:, 0], rows]), np.concatenate([answered[:, 1], classes]), human
        )

    def _settled(self) -> tuple[ClassNames, Accepted]:
        """What was accepted, with classes that it leaves empty left out and the numbers closed up."""
        accepted, names = self._accepted(), self.state.numbered
        kept = sorted({*range(len(self.agent.names)), *accepted.classes.tolist()})
        number = np.full(len(names), -1)
        number[kept] = np.arange(len(kept))
        closed_up = ClassNames(tuple(names.names[c] for c in kept))
        return closed_up, Accepted(accepted.rows, number[accepted.classes], accepted.human)

    # -- the cache ---------------------------------------------------------------------------------------------

    def _compute(self) -> None:
        """Compute again what the journal says was computed and is not at hand."""
        if self._computing or len(self._rounds) == self.state.opened:
            return
        journal = self._journal
        first, *rest = journal.rows
        self._computing = True
        self._journal = Journal([first])
        self._rounds = []
        try:
            for event in rest:
                if event["event"] in events.COMPUTED and not events.same_step(self._step(), event):
                    raise DamagedFile(
                        f"computing round {event.get('round')} again gave something else than the journal says: "
                        "the agent, the pool or the machine has changed since"
                    )
                self._journal.add(event)
        finally:
            self._journal = journal
            self._computing = False

    # -- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the adaptation to a folder: agent and pool once, the journal line by line.

        What was computed lies beside it as a cache, which may be deleted: it is computed again then.
        """
        folder = Path(path).resolve()
        if self._folder != folder:
            for name in (JOURNAL, CACHE, earlier.STATE):
                (folder / name).unlink(missing_ok=True)
            self.agent.save(folder / AGENT)
            self.pool.save(folder / POOL)
            self._journal.begin(folder / JOURNAL)
            self._folder = folder
            self._cached = -1
        self._journal.flush()
        steps = self.state.opened + self.state.closed
        if self._cached != steps and len(self._rounds) == self.state.opened:
            tensors = {f"short.{k}": v for k, v in self._short.state().items()}
            for round_ in self._rounds:
                tensors |= {f"round.{round_.round}.{k}": v for k, v in round_.state().items()}
            body = {"rounds": len(self._rounds), "closed": self.state.closed}
            storage.write(folder / CACHE, "cache", body, tensors)
            self._cached = steps

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        device: str | torch.device = "cpu",
        progress: Progress | None = None,
    ) -> Self:
        """Read an adaptation that `save` wrote; it goes on exactly where it was."""
        import cual  # an agent makes adaptations, so its module is above this one; the package knows where it is

        folder = Path(path).resolve()
        agent = cual.Agent.load(folder / AGENT, device)
        if not (folder / JOURNAL).exists() and (folder / earlier.STATE).exists():
            return earlier.load(cls, folder, agent, Pool.load(folder / POOL), progress)
        journal = Journal.open(folder / JOURNAL)
        with storage.rebuilding(folder):
            task = cls(agent, Pool.load(folder / POOL), progress=progress, journal=journal.rows)
        task._journal = journal
        task._folder = folder
        task._read_cache()
        return task

    def _read_cache(self) -> None:
        """Take over what was computed before, if it is there and whole; else it is computed again."""
        assert self._folder is not None
        file = self._folder / CACHE
        if not file.exists():
            return
        try:
            body, tensors = storage.read(file, "cache")
            if (body["rounds"], body["closed"]) == (self.state.opened, self.state.closed):
                with storage.rebuilding(file):
                    self.restore(body["rounds"], tensors)
                self._cached = self.state.opened + self.state.closed
        except BadFile as error:
            log.warning("%s; it is computed again", error)

    def restore(self, rounds: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over what was computed before, as `save` wrote it."""
        self._short.restore(storage.section(tensors, "short."))
        self._rounds = [
            Round.from_state(i, storage.section(tensors, f"round.{i}.")) for i in range(rounds)
        ]


def is_saved(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder holds an adaptation that `Adaptation.load` reads, of this release or an earlier one."""
    return any((Path(folder) / name).exists() for name in (JOURNAL, earlier.STATE))


_OF_PEOPLE = ("person", "answers", "disagreement")
