"""The Adaptation: one pool and one budget, from the first question to the next Agent (the paper's inner loop).

A state machine driven by `ask` and `tell`. What people said is kept in a journal that only grows; the rounds
hold what was computed between. Scores come from `cual.short_term`, choices from the axes of the method.
"""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cual import storage
from cual.acquisition import PoolView, acquisitions
from cual.budget import count_labels
from cual.errors import AlreadyFinished, BudgetExceeded, LabelsMissing, UnknownQuery, UnknownSample
from cual.journal import Journal
from cual.labels import SKIP, Answer, ClassNames, made_up
from cual.outlook import Outlook, novel_samples, outlook
from cual.pool import Pool
from cual.pseudo_labels import pseudo_labels
from cual.rounds import Round
from cual.seeds import generator
from cual.short_term import Accepted, part, short_term
from cual.timing import Timings
from cual.types import IntArray, Label, Progress, Row
from cual.uncertainty import Zone, t_inner

if TYPE_CHECKING:
    from cual.agent import Agent


@dataclass(frozen=True)
class Query:
    """Samples that a person should label; answer with ``tell(query.id, {sample: label, …})``.

    Attributes
    ----------
    suggestions
        The likeliest class of each sample; None where it looks novel and no novel class is known yet.
    """

    id: str
    iteration: int
    ids: tuple[Label, ...]
    scores: tuple[float, ...]
    zones: tuple[str, ...]
    suggestions: tuple[Label | None, ...]

    def __len__(self) -> int:
        return len(self.ids)


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
        self, agent: "Agent", pool: Pool, budget: float | int, progress: Progress | None = None
    ) -> None:
        self.agent, self.pool = agent, pool
        self.budget = count_labels(budget, len(pool), agent.method.budget_factor)
        self.rounds: list[Round] = []
        """What happened in each iteration, as arrays; `history` has it as JSON rows."""
        self.timings = Timings(agent.device)
        self.ended: str | None = None
        """Why the loop is over; None while it goes on."""
        self.progress = progress
        self._journal = Journal()
        self._unnamed = made_up(agent.names) if agent.method.unnamed else None
        self._names = agent.names if self._unnamed is None else agent.names.plus(self._unnamed)
        self._short = short_term(agent, pool)
        self._closed = 0
        self._next: Agent | None = None
        self._row_of = {sample: row for row, sample in enumerate(pool.ids)}
        self._saved_in: Path | None = None

    # -- the contract: ask, tell, stop, finish -----------------------------------------------------------------

    def ask(self) -> Query | None:
        """What should be labelled next, or what is still open of it; None when the loop is over.

        The learner computes in here: `tell` only writes down.
        """
        while self.ended is None:
            if self._closed == len(self.rounds):
                self._open_round()
                continue
            waiting = self._waiting()
            if len(waiting):
                return self._query(self.rounds[-1], waiting)
            self._close_round()
        return None

    def tell(self, query_id: str, answers: Mapping[Any, Any]) -> None:
        """Answer a query, in whole or in part: a label, known or new, or `SKIP`, for each sample id.

        Telling the same again changes nothing; telling something else corrects, until `finish`. A correction
        counts from then on: pseudo-labels of a class that nobody vouches for any more go back to the pool.
        """
        if self._next is not None:
            raise AlreadyFinished("this adaptation is finished; start another one with the new agent")
        changes = self._checked(query_id, answers)
        for sample, answer in changes.items():
            self._journal.told(query_id, sample, answer)

    def stop(self) -> None:
        """Ask no more questions: what is open is left unanswered, and pseudo-labelling goes on by itself."""
        if not self._journal.stopped:
            self._journal.stop()

    def finish(self) -> "Agent":
        """The next version of the agent, which has learned what was accepted. The old one is unchanged."""
        if self._next is None:
            open_query = self.ask()
            if open_query is not None:
                raise LabelsMissing(
                    f"query {open_query.id!r} still waits for {len(open_query)} answers; tell them, "
                    "tell SKIP for those nobody knows, or call stop() to ask no more"
                )
            self._number_classes()
            names, accepted = self._settled()
            self._next = self.agent.consolidated(
                self.pool, accepted, names, self.outcome, self.timings, self.progress
            )
        return self._next

    # -- review of what was believed ---------------------------------------------------------------------------

    def reject(self, samples: Iterable[Any]) -> None:
        """Send pseudo-labels back to the pool. They are not believed again, but may be asked about."""
        self._judge(samples, right=False)

    def confirm(self, samples: Iterable[Any]) -> None:
        """Write down that pseudo-labels are right. Nobody was asked, so nothing is charged."""
        self._judge(samples, right=True)

    def _judge(self, samples: Iterable[Any], right: bool) -> None:
        if self._next is not None:
            raise AlreadyFinished("this adaptation is finished; its pseudo-labels are learned")
        plain = [s.item() if isinstance(s, np.generic) else s for s in samples]
        believed = self.pseudo_labels
        unknown = next((s for s in plain if s not in believed), None)
        if unknown is not None:
            raise UnknownSample(f"sample {unknown!r} has no pseudo-label")
        new = [s for s in dict.fromkeys(plain) if self._journal.verdicts.get(s) is not right]
        if new:
            self._journal.judged(new, right)

    @property
    def doubts(self) -> dict[Label, float]:
        """How doubtful each pseudo-label is, 0 … 1."""
        found = dict[int, float]()
        for this in self.rounds:
            found |= dict(zip(this.pseudo_rows.tolist(), this.pseudo_doubts.tolist(), strict=True))
        return {sample: found[self._row_of[sample]] for sample in self.pseudo_labels}

    # -- what happened -----------------------------------------------------------------------------------------

    @property
    def answers(self) -> dict[Label, Answer]:
        """What people said of each sample, corrections applied."""
        return dict(self._journal.answers)

    @property
    def pseudo_labels(self) -> dict[Label, Label]:
        """What is believed without asking."""
        rows, classes = self._believed()
        labels = self._names.names
        return {self.pool.ids[r]: labels[c] for r, c in zip(rows.tolist(), classes.tolist(), strict=True)}

    @property
    def labels_used(self) -> int:
        return self._journal.charged

    @property
    def journal(self) -> list[Row]:
        """Everything that was asked and told, in order, as JSON rows."""
        return list(self._journal.rows)

    @property
    def ledger(self) -> list[Row]:
        """One JSON row per sample asked about: when, its score, zone and answer, and what it cost."""
        return self._journal.ledger()

    @property
    def history(self) -> list[Row]:
        """One JSON row per iteration: T_inner, how many samples lay in each zone, were asked, were believed."""
        return [r.summary() for r in self.rounds]

    @property
    def outlook(self) -> Outlook:
        """How many novel samples are probably still unlabelled, and whether to ask about another one."""
        if not self.rounds:
            return outlook(math.nan, 0, 0, 0, 0)
        said = {sample: answer for sample, answer in self._journal.answers.items() if answer is not SKIP}
        novel = [self._row_of[sample] for sample, answer in said.items() if answer not in self.agent.names]
        rows, classes = self._believed()
        believed = rows[classes >= len(self.agent.names)]
        labelled = np.concatenate([np.array(novel, dtype=np.int64), believed, self._foreseen()])
        last = self.rounds[-1]
        since = int(np.isin(labelled, last.rows).sum())
        # Of those believed since, some are old: as many as old samples lie above the threshold, in proportion.
        above = int((last.scores > last.threshold.value).sum())
        taken = int((last.pseudo_classes >= len(self.agent.names)).sum())
        wrong = last.taken_for_novel * min(1.0, taken / max(1, above))
        return outlook(last.novel, len(labelled) - since, max(0.0, since - wrong), len(novel), len(said))

    @property
    def outcome(self) -> Row:
        """What came of it, as one JSON row."""
        told = dict.fromkeys(row["answer"] for row in self._journal.ledger() if row["answer"] is not None)
        told |= dict.fromkeys(self.pseudo_labels.values())
        used, skipped = self._journal.charged, sum(a is SKIP for a in self._journal.answers.values())
        return {
            "ended": self.ended,
            "new_classes": [name for name in told if name not in self.agent.names],
            "labels_used": used,
            "budget": self.budget,
            "unspent": self.budget - used,
            "skipped": skipped,
            "pseudo_labels": len(self._believed()[0]),
            "iterations": len(self.rounds),
            "pool_size": len(self.pool),
        }

    # -- one round ---------------------------------------------------------------------------------------------

    def _open_round(self) -> None:
        """Score what is left, set T_inner, and choose whom to ask."""
        method, i, rows = self.agent.method, len(self.rounds), self._remaining()
        n = self._allotment(i) if i < method.iterations else 0
        if not len(rows):
            self.ended = "the pool is used up"
        elif i >= method.iterations and not method.believes_last:
            self.ended = "all iterations are used"
        elif not n and not method.pseudo:
            self.ended = "the budget is spent"
        if self.ended:
            return
        self._report(i)
        with self.timings.stage("scoring"):
            scored = self._short.score(rows, last=method.believes_last and not n)
        threshold = scored.threshold or t_inner(scored.validation, method.stds)
        novel = novel_samples(scored)
        mistaken = float((scored.validation > threshold.value).double().mean()) * (len(rows) - novel)
        this = Round(i, rows, scored.scores, scored.classes, threshold, novel=novel, taken_for_novel=mistaken)
        self.rounds.append(this)
        if method.ends_below_threshold and not (scored.scores > threshold.value).any():
            self.ended = "nothing lies above T_inner"
            self._closed += 1
        elif n:
            strategy = acquisitions[method.then if self._novel_alive() else method.first]()
            rng = generator(self.agent.seed, self.agent.version + 1, i, "queries")
            view = replace(self._view(this, slice(None)), validation=scored.validation.cpu().numpy())
            this.asked = rows[strategy.choose(view, n, rng)]
            self._write_down_questions(this)

    def _close_round(self) -> None:
        """All is answered: believe the most certain of the rest, and learn from everything accepted."""
        method, this = self.agent.method, self.rounds[-1]
        self._number_classes()
        last = method.believes_last and not len(this.asked)
        if method.pseudo and last == method.believes_last:
            judged = np.concatenate([self._told_rows(), self._rejected_rows()])
            left = np.flatnonzero(~np.isin(this.rows, judged))
            chosen = left[pseudo_labels[method.pseudo]().choose(self._view(this, left), method.alpha)]
            chosen = chosen[np.isin(this.classes[chosen], self._vouched())]
            this.pseudo_rows, this.pseudo_classes = this.rows[chosen], this.classes[chosen]
            this.pseudo_doubts = pseudo_labels[method.pseudo]().doubts(self._view(this, chosen))
        self._closed += 1
        if last:
            self.ended = "the pool is labelled"
            return
        more = method.believes_last or (
            self._closed < method.iterations and (method.pseudo or self._allotment(self._closed))
        )
        if more and (len(this.asked) or len(this.pseudo_rows)):
            with self.timings.stage("short head"):
                self._short.learn(self._accepted(), this.iteration)
        elif more:
            self.ended = "nothing more to ask or to believe"

    def _allotment(self, iteration: int) -> int:
        """Questions of this round: a first share until a novel class is known, then the rest evenly."""
        silent = self._journal.stopped or self._unnamed is not None
        left = 0 if silent else self.budget - self._journal.charged
        if left and not self._novel_alive():
            return min(left, max(1, round(self.agent.method.first_share * self.budget)))
        return math.ceil(left / (self.agent.method.iterations - iteration))

    def _view(self, this: Round, positions: IntArray | slice) -> PoolView:
        rows = this.rows[positions]
        return PoolView(
            scores=this.scores[positions],
            threshold=this.threshold.value,
            classes=this.classes[positions],
            n_old=len(self.agent.names),
            learning=self._short.learning(),
            probabilities=lambda: self._short.probabilities(rows),
            features=lambda at: self._short.features(rows[at]),
        )

    def _write_down_questions(self, this: Round) -> None:
        position = {row: p for p, row in enumerate(this.rows.tolist())}
        places = np.array([position[row] for row in this.asked.tolist()], dtype=np.int64)
        zone_of, nearest = this.zones[places], self._short.nearest_old(this.asked)
        samples: list[Row] = []
        for row, place, zone, old in zip(this.asked, places, zone_of, nearest, strict=True):
            c = int(old) if zone == Zone.OLD else int(this.classes[place])
            samples.append(
                {
                    "sample": self.pool.ids[row],
                    "iteration": this.iteration,
                    "score": float(this.scores[place]),
                    "threshold": this.threshold.value,
                    "zone": Zone(int(zone)).name.lower(),
                    "suggestion": self._names.names[c] if c >= 0 else None,
                }
            )
        self._journal.asked(this.query_id, samples)

    def _query(self, this: Round, waiting: IntArray) -> Query:
        open_ids = {self.pool.ids[row] for row in waiting.tolist()}
        rows = [r for r in self._journal.question(this.query_id) if r["sample"] in open_ids]
        columns = ([r[key] for r in rows] for key in ("sample", "score", "zone", "suggestion"))
        return Query(this.query_id, this.iteration, *(tuple(column) for column in columns))

    def _checked(self, query_id: str, answers: Mapping[Any, Any]) -> dict[Label, Answer]:
        """The answers that change something, or an error before anything is written down."""
        asked = next((r.asked for r in self.rounds if r.query_id == query_id and len(r.asked)), None)
        if asked is None:
            known = ", ".join(r.query_id for r in self.rounds if len(r.asked)) or "none"
            raise UnknownQuery(f"no query {query_id!r} was asked; asked so far: {known}")
        allowed = {self.pool.ids[row] for row in asked.tolist()}
        changes: dict[Label, Answer] = {}
        for key, value in answers.items():
            sample = key.item() if isinstance(key, np.generic) else key
            if sample not in allowed:
                raise UnknownSample(f"query {query_id!r} did not ask about sample {sample!r}")
            answer = value if value is SKIP else self.agent.names.check(value)
            if self._journal.answers.get(sample, None) != answer:
                changes[sample] = answer
        told = self._journal.answers | changes
        charged = sum(answer is not SKIP for answer in told.values())
        open_after = sum(self.pool.ids[row] not in told for row in self._waiting().tolist())
        if charged + open_after > self.budget:
            raise BudgetExceeded(
                f"the budget of {self.budget} labels has no room for an answer in place of a skip: "
                f"{self._journal.charged} are used and {open_after} are promised to open questions"
            )
        return changes

    def _number_classes(self) -> None:
        """Number classes that answers named since: in the order asked, whatever the order told."""
        for row in self._journal.ledger():
            if row["answer"] is not None:
                self._names = self._names.plus(row["answer"])

    # -- what is believed --------------------------------------------------------------------------------------

    def _told_rows(self) -> IntArray:
        return np.array([self._row_of[sample] for sample in self._journal.answers], dtype=np.int64)

    def _rejected_rows(self) -> IntArray:
        rejected = [self._row_of[sample] for sample, right in self._journal.verdicts.items() if not right]
        return np.array(rejected, dtype=np.int64)

    def _waiting(self) -> IntArray:
        """Rows of the last round that were asked and not told."""
        if not self.rounds or self._journal.stopped:
            return np.empty(0, np.int64)
        asked = self.rounds[-1].asked
        return asked[~np.isin(asked, self._told_rows())]

    def _remaining(self) -> IntArray:
        taken = np.zeros(len(self.pool), dtype=np.bool_)
        taken[self._told_rows()] = True
        taken[self._believed()[0]] = True
        return np.flatnonzero(~taken)

    def _vouched(self) -> list[int]:
        """Classes that at least one answer names, and the unnamed one."""
        said = {answer for answer in self._journal.answers.values() if answer is not SKIP} | {self._unnamed}
        return [c for c, name in enumerate(self._names.names) if name in said]

    def _novel_alive(self) -> list[int]:
        return [c for c in self._vouched() if c >= len(self.agent.names)]

    def _believed(self) -> tuple[IntArray, IntArray]:
        """Rows and classes of pseudo-labels that nobody answered or rejected, their class still vouched for."""
        rows = np.concatenate([np.empty(0, np.int64), *(r.pseudo_rows for r in self.rounds)])
        classes = np.concatenate([np.empty(0, np.int64), *(r.pseudo_classes for r in self.rounds)])
        kept = np.isin(classes, self._vouched())
        kept &= ~np.isin(rows, np.concatenate([self._told_rows(), self._rejected_rows()]))
        return rows[kept], classes[kept]

    def _foreseen(self) -> IntArray:
        """Rows that a method which believes only at the end would believe if nobody were asked any more."""
        if self.ended is not None or not self.agent.method.believes_last:
            return np.empty(0, np.int64)
        this = self.rounds[-1]
        taken = np.isin(this.classes, self._novel_alive())
        rows = this.rows[taken & (this.scores > this.threshold.value)]
        return np.setdiff1d(rows, np.concatenate([self._told_rows(), self._rejected_rows()]))

    def _accepted(self) -> Accepted:
        said = [
            (self._row_of[s], self._names.index(a)) for s, a in self._journal.answers.items() if a is not SKIP
        ]
        told = np.array(sorted(said), dtype=np.int64).reshape(-1, 2)
        rows, classes = self._believed()
        human = np.concatenate([np.ones(len(told), np.int64), np.zeros(len(rows), np.int64)])
        return Accepted(np.concatenate([told[:, 0], rows]), np.concatenate([told[:, 1], classes]), human)

    def _settled(self) -> tuple[ClassNames, Accepted]:
        """What was accepted, with classes that it leaves empty left out and the numbers closed up."""
        accepted = self._accepted()
        kept = sorted({*range(len(self.agent.names)), *accepted.classes.tolist()})
        number = np.full(len(self._names), -1)
        number[kept] = np.arange(len(kept))
        names = ClassNames(tuple(self._names.names[c] for c in kept))
        return names, Accepted(accepted.rows, number[accepted.classes], accepted.human)

    def _report(self, iteration: int) -> None:
        if self.progress is not None:
            self.progress("adapting", iteration, self.agent.method.iterations)

    # -- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the adaptation to a folder. The agent and the pool are written once, the rest at every save."""
        folder = Path(path).resolve()
        if self._saved_in != folder:
            (folder / STATE).unlink(missing_ok=True)
            self.agent.save(folder / "agent.safetensors")
            self.pool.save(folder / "pool.safetensors")
            self._saved_in = folder
        body = {
            "budget": self.budget,
            "closed": self._closed,
            "ended": self.ended,
            "journal": self._journal.rows,
        }
        tensors = {f"short.{k}": v for k, v in self._short.state().items()}
        for r in self.rounds:
            tensors |= {f"round.{r.iteration}.{k}": v for k, v in r.state().items()}
        body |= {"rounds": len(self.rounds), "names": list(self._names.names)}
        storage.write(folder / STATE, "adaptation", body, tensors)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        device: str | torch.device = "cpu",
        progress: Progress | None = None,
    ) -> "Adaptation":
        """Read an adaptation that `save` wrote; it goes on exactly where it was."""
        from cual.agent import Agent

        folder = Path(path).resolve()
        body, tensors = storage.read(folder / STATE, "adaptation")
        agent = Agent.load(folder / "agent.safetensors", device)
        with storage.rebuilding(folder):
            task = cls(agent, Pool.load(folder / "pool.safetensors"), 1, progress)
            task.budget, task._closed, task.ended = body["budget"], body["closed"], body["ended"]
            task._journal, task._saved_in = Journal(body["journal"]), folder
            task._names = ClassNames(tuple(body["names"]))
            task._short.restore(part(tensors, "short.", torch.device("cpu")))
            cpu = torch.device("cpu")
            task.rounds = [
                Round.from_state(i, part(tensors, f"round.{i}.", cpu)) for i in range(body["rounds"])
            ]
        return task


STATE = "state.safetensors"
