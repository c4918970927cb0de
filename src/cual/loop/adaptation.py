"""The Adaptation: one pool and one budget, from the first question to the next Agent (the paper's inner loop).

It writes down what happens as events, asks `state` what they imply, and lets `machine` compute.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from cual import options as check
from cual.data.labels import Answer, ClassNames, made_up
from cual.data.pool import Pool
from cual.errors import LabelsMissing, UnknownSample
from cual.learners import Accepted
from cual.loop import events, files
from cual.loop.budget import check_overlap, count_labels
from cual.loop.doubting import Foreseen
from cual.loop.evidence import Evidence, gathered
from cual.loop.extending import extending
from cual.loop.given import plain_answers, plain_labels, plain_samples
from cual.loop.journal import Journal
from cual.loop.machine import Machine
from cual.loop.merges import Merge, compared
from cual.loop.outlook import Outlook
from cual.loop.reviewing import Naming, judging, naming, recording
from cual.loop.rounds import Round
from cual.loop.safety import comparison
from cual.loop.state import State
from cual.loop.timing import Timings
from cual.pseudo_labels import BelievesKnown
from cual.types import IntArray, Label, Progress, Row

_log = logging.getLogger(__name__)
_OF_PEOPLE = ("person", "answers", "disagreement")


@dataclass(frozen=True)
class Query:
    """Samples that a person should label; answer with ``tell(query.id, {sample: label, …})``.

    Attributes
    ----------
    suggestions
        The likeliest class of each sample; None where it looks novel and no novel class is known yet.

    >>> query = Query("q0", 0, ("a.jpg", "b.jpg"), (2.5, 0.9), ("novel", "ambiguous"), (None, "cat"))
    >>> len(query), dict(zip(query.ids, query.suggestions)), query.iteration
    (2, {'a.jpg': None, 'b.jpg': 'cat'}, 0)
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

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> old, new = rng.normal(0, 1, (60, 8)), rng.normal(5, 1, (30, 8))
    >>> from cual import Agent
    >>> agent = Agent.fit(old[:40], [0] * 40)
    >>> task = agent.adapt(np.concatenate([old[40:], new]), budget=4)
    >>> while query := task.ask():
    ...     task.tell(query.id, {i: 1 if i >= 20 else 0 for i in query.ids})
    >>> task.finish().classes_.tolist()
    [0, 1]
    >>> task, task.budget, task.ended
    (<Adaptation: 4 of 4 labels used, 50 samples, finished>, 4, 'the pool is labelled')
    >>> len(task.answers) == task.labels_used == len(task.ledger), set(task.pseudo_labels.values())
    (True, {1})
    >>> task.doubts.keys() == task.pseudo_labels.keys(), len(task.history) == len(task.rounds)
    (True, True)
    >>> task.journal[-1]["event"], task.state.finished
    ('finished', True)
    """

    def __init__(
        self,
        agent: Any,
        pool: Pool,
        budget: float | int | None = None,
        progress: Progress | None = None,
        journal: Journal | None = None,
        overlap: int = 1,
    ) -> None:
        """A new adaptation of `budget`, or the one that a journal tells of."""
        self.agent: Any = agent
        self.pool = pool
        self.progress = progress
        self.timings = Timings(agent.device)
        self.machine = Machine(agent, pool, self.timings, progress)
        self.place = files.Place()
        """Where it was saved."""
        self._next: Any = None
        if journal is None:
            labels = count_labels(budget, len(pool), agent.method.budget_factor)
            unnamed = made_up(agent.names) if agent.method.learner.unnamed else None
            overlap = check_overlap(overlap, labels)
            known_vouched = isinstance(agent.method.believe, BelievesKnown)
            journal = Journal([events.begun(labels, agent.names.names, unnamed, overlap, known_vouched)])
        self._journal = journal

    def __repr__(self) -> str:
        """One line: what it has come to."""
        state = self.state
        going = "finished" if state.finished else f"ended: {state.ended}" if state.ended else "going on"
        if state.open and not state.ended:
            going = f"{len(state.open)} questions open"
        used = f"{state.charged} of {state.budget} labels used"
        return f"<Adaptation: {used}, {len(self.pool)} samples, {going}>"

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

    @property
    def rounds(self) -> list[Round]:
        """What was computed in each round, as arrays; `history` has it as JSON rows."""
        if len(self.machine.rounds) != self.state.opened:  # nothing was kept of it
            self.machine.compute(self._journal.rows)
        return self.machine.rounds

    # -- the contract: ask, tell, stop, finish -----------------------------------------------------------------

    def ask(self) -> Query | None:
        """What should be labelled next, or what is still open of it; None when the loop is over.

        The learner computes in here: `tell` only writes down.

        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> task = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40).adapt(rng.normal(3, 1, (30, 8)), budget=6)
        >>> query = task.ask()
        >>> task.tell(query.id, {query.ids[0]: "owl"})
        >>> task.ask().ids == query.ids[1:]  # what is still open
        True
        """
        rounds = self.rounds
        while self.state.ended is None:
            if self.state.opened > self.state.closed and self.state.open:
                return self._query(rounds[-1])
            self._journal.add(self.machine.step(self.state))
        return None

    def _query(self, current: Round) -> Query:
        waiting = set(self.state.open)
        asked = self.state.of_query(current.query_id)
        rows = [question.asked for sample, question in asked.items() if sample in waiting]
        columns = ([r[key] for r in rows] for key in ("sample", "score", "zone", "suggestion"))
        return Query(current.query_id, current.round, *(tuple(column) for column in columns))

    def tell(self, query_id: str, answers: Mapping[Any, Any], person: Any = None) -> None:
        """Answer a query, in whole or in part: a label, known or new, or `SKIP`, for each sample id.

        Telling the same again changes nothing; telling something else corrects, until `finish`. A correction
        counts from then on: pseudo-labels of a class that nobody vouches for any more go back to the pool.
        With an overlap, a sample is asked about until so many people have answered; say who does.

        >>> import numpy as np
        >>> from cual import SKIP, Agent
        >>> rng = np.random.default_rng(0)
        >>> agent = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40)
        >>> task = agent.adapt(rng.normal(3, 1, (30, 8)), budget=6)
        >>> query = task.ask()
        >>> first, second, *_ = query.ids
        >>> task.tell(query.id, {first: "owl", second: SKIP})
        >>> task.tell(query.id, {first: "fox"})  # a correction, which costs nothing
        >>> task.answers[first], task.labels_used
        ('fox', 1)
        """
        self._tell(query_id, answers, person)

    def _tell(self, query_id: str, answers: Mapping[Any, Any], person: Any, settle: bool = False) -> None:
        self.state.check_going()
        plain = plain_answers(answers, self.agent.names)
        answers_given = self.state.answering(query_id, plain, check.person(person), settle)
        self.state.after(answers_given).check_budget()
        self._add_all(answers_given)

    def settle(self, query_id: str, answers: Mapping[Any, Any], person: Any = None) -> None:
        """Decide what samples are about which people disagree: from now on this counts."""
        self._tell(query_id, answers, person, settle=True)

    def stop(self, person: Any = None) -> None:
        """Ask no more questions: what is open is left unanswered, and pseudo-labelling goes on by itself.

        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> task = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40).adapt(rng.normal(3, 1, (30, 8)), budget=6)
        >>> task.stop("Ada")
        >>> task.ask(), task.finish().version
        (None, 1)
        """
        if not self.state.stopped:
            self._journal.add(events.stopped(check.person(person)))

    def raise_budget(self, budget: float | int, person: Any = None) -> None:
        """Allow more in all, a share of the pool (float) or a number of labels; until `finish`.

        Where the questions had ended, or were stopped, they go on. What was believed since the last of them is
        decided anew, and so is what was computed: that takes as long as it took before.

        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> task = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40).adapt(rng.normal(3, 1, (30, 8)), budget=2)
        >>> while query := task.ask():
        ...     task.tell(query.id, dict.fromkeys(query.ids, "owl"))
        >>> task.raise_budget(4)
        >>> task.budget, len(task.ask()) > 0
        (4, True)
        """
        before, person = self.state.reopened, check.person(person)
        for event in extending(self.state, self.agent.method, budget, len(self.pool), person):
            self._journal.add(event)
        if self.state.reopened > before:
            self.machine.forget()

    def finish(self, person: Any = None, safe: bool = True) -> Any:
        """The next version of the agent, which has learned what was accepted. The old one is unchanged.

        Parameters
        ----------
        person
            Who says so.
        safe
            Whether a version that does worse than the one before (`cual.loop.safety`) learns no pseudo-labels
            of known classes. History says so, under "unlearned".
        """
        person = check.person(person)
        if self._next is None:
            query = self.ask()
            if query is not None:
                raise LabelsMissing(
                    f"query {query.id!r} still waits for {len(query)} answers; tell them, "
                    "tell SKIP for those nobody knows, or call stop() to ask no more"
                )
            names, accepted = self.machine.settled(self.state)
            self._next = self._consolidated(names, accepted, {})
            if safe and self.drift is not None:
                old = accepted.only((accepted.human == 0) & (accepted.classes < len(self.agent.names)))
                compared = comparison(self.agent, self._next, self.pool, accepted)
                if len(old.rows) and compared.worse:
                    less = accepted.only((accepted.human == 1) | (accepted.classes >= len(self.agent.names)))
                    _log.warning(
                        "%s; %d pseudo-labels of known classes are not learned", compared, len(old.rows)
                    )
                    self._next = self._consolidated(names, less, {"unlearned": len(old.rows)})
            if not self.state.finished:
                self._journal.add(events.finished(person))
        return self._next

    def _consolidated(self, names: ClassNames, accepted: Accepted, more: Row) -> Any:
        return self.agent.consolidated(
            self.pool,
            accepted,
            names,
            self.machine.unexplained(self.state),
            {**self.outcome, **more},
            self.timings,
            self.progress,
        )

    # -- review of what was believed ---------------------------------------------------------------------------

    def reject(self, samples: Iterable[Any], person: Any = None) -> None:
        """Send pseudo-labels back to the pool. They are not believed again, but may be asked about.

        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> task = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40).adapt(rng.normal(4, 1, (30, 8)), budget=3)
        >>> while query := task.ask():
        ...     task.tell(query.id, dict.fromkeys(query.ids, "owl"))
        >>> wrong = next(iter(task.pseudo_labels))
        >>> task.reject([wrong], "Ada")
        >>> wrong in task.pseudo_labels, task.labels_used
        (False, 3)
        """
        self._judge(samples, False, person)

    def confirm(self, samples: Iterable[Any], person: Any = None) -> None:
        """Write down that pseudo-labels are right. Nobody was asked, so nothing is charged."""
        self._judge(samples, True, person)

    def unjudge(self, samples: Iterable[Any], person: Any = None) -> None:
        """Take back what was said of pseudo-labels."""
        self._judge(samples, None, person)

    def correct(self, labels: Mapping[Any, Any], person: Any = None) -> Naming:
        """Say what samples are that something else is believed of: answers, which are charged.

        Where the budget has no room, they are rejected, and the class is noted; the learner does not learn it.
        """
        plain = plain_labels(labels, self.agent.names)
        named = naming(self.state, plain, self._believable, self._about, check.person(person))
        self._add_all(named.events)
        return named

    def volunteer(self, labels: Mapping[Any, Any], person: Any = None) -> int:
        """Give labels that are there already, of any samples of the pool: the learner uses them from now on.

        They count as answers. What was asked for is charged, the rest is free, and stated apart. Returns how
        many were new.

        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> task = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40).adapt(rng.normal(3, 1, (30, 8)), budget=2)
        >>> free = next(i for i in range(30) if i not in task.ask().ids)
        >>> task.volunteer({free: "owl"}), task.answers[free], task.labels_used
        (1, 'owl', 0)
        """
        plain, person = plain_labels(labels, self.agent.names), check.person(person)
        _ = self.ask()
        unknown = [sample for sample in plain if sample not in self.pool.ids]
        if unknown:
            raise UnknownSample(f"the pool has no sample {unknown[0]!r}")
        rows = recording(self.state, plain, self._about, person)
        self._add_all(rows)
        return len(rows)

    def _judge(self, samples: Iterable[Any], verdict: bool | None, person: Any) -> None:
        plain, person = plain_samples(samples), check.person(person)
        self._add_all(judging(self.state, plain, verdict, self._believable, person))

    @property
    def _believable(self) -> dict[Label, Label]:
        """Everything that may be reviewed, with what is or was believed of it."""
        return self.foreseen.labels | self.state.pseudo_labels

    def _about(self, sample: Label) -> Row:
        (row,) = self.pool.ids.rows_of([sample]).tolist()
        return self.machine.about(row)

    def _add_all(self, rows: Iterable[Row]) -> None:
        for event in rows:
            self._journal.add(event)

    @property
    def doubts(self) -> dict[Label, float]:
        """How doubtful each pseudo-label is, 0 … 1."""
        _ = self.rounds
        doubt_of = self.machine.doubts()
        return {sample: doubt_of[sample] for sample in self.state.believed}

    @property
    def foreseen(self) -> Foreseen:
        """What would be believed if nobody were asked any more: provisional, and nothing learns of it.

        Empty where the questions have ended, and of methods that believe something in every round: that stands.
        """
        _ = self.rounds
        return self.machine.foreseen(self.state)

    def margins(self, labels: Mapping[Label, Label] | None = None) -> dict[Label, float]:
        """By how much what is believed, or these labels, beats what else each sample could be.

        The lowest are the most doubtful. Of cual-plus it is the lead of the class in its competition; else how
        much more alike a sample is to a known one of its class than to one of another.
        """
        _ = self.rounds
        labels = self.state.believed if labels is None else labels
        return dict(zip(labels, self.machine.margins(self.state, labels).tolist(), strict=True))

    def alike(self, rows: IntArray, n: int = 3) -> dict[int, list[tuple[Label, float, int | None]]]:
        """Of rows of the pool, the `n` classes that a known sample is most like it: class, cosine, and its row.

        Known is what the agent replays, which has no row, and what people answered.
        """
        return self.machine.alike(self.state, rows, n)

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
        _ = self.rounds
        return self.machine.outlook(self.state)

    def evidence(self, folds: int = 5) -> Evidence:
        """What says how good the agent was and the next one is: labels of people, predicted without themselves.

        It is computed, which takes as long as `folds` last rounds.
        """
        names, accepted = self.machine.settled(self.state)
        return gathered(self.agent, self.agent.verified_samples, self.pool, accepted, names, folds)

    def merges(self, least: float = 0.5) -> list[Merge]:
        """Pairs of classes that are one with more than this probability: two names, or a mistake.

        At least one of each pair is new. It is computed, and changes nothing.
        """
        names, accepted = self.machine.settled(self.state)
        pairs = compared(self.agent, self.pool, accepted, names)
        return [merge for merge in pairs if merge.probability > least]

    @property
    def outcome(self) -> Row:
        """What came of it, as one JSON row."""
        state = self.state
        return {
            "ended": state.ended,
            "new_classes": state.new_classes,
            "labels_used": state.charged,
            "volunteered": sum(question.recorded for question in state.questions.values()),
            "budget": state.budget,
            "unspent": state.budget - state.charged,
            "skipped": state.skipped,
            "pseudo_labels": len(state.believed),
            "iterations": len(self.rounds),
            "pool_size": len(self.pool),
            **({} if self.drift is None else {"drift": round(self.drift, 2)}),
        }

    @property
    def drift(self) -> float | None:
        """How far the whole pool has moved, in deviations of known samples; None if it has not drifted."""
        return self.machine.drift

    # -- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the adaptation to a folder: agent and pool once, the journal line by line.

        What was computed lies beside it as a cache, which may be deleted: it is computed again then.

        >>> import tempfile
        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> task = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40).adapt(rng.normal(3, 1, (30, 8)), budget=2)
        >>> query = task.ask()
        >>> task.save(folder := tempfile.mkdtemp())
        >>> Adaptation.load(folder).ask() == query
        True
        """
        folder = Path(path).resolve()
        if self.place.folder != folder:
            files.begin(folder, self.agent, self.pool)
            self._journal.begin(folder / files.JOURNAL)
            self.place = files.Place(folder)
        self._journal.flush()
        self.save_cache(folder)

    def save_cache(self, folder: Path) -> None:
        """Write what was computed to a folder, unless it lies there already."""
        if len(self.machine.rounds) == self.state.opened:
            self.place = files.write_cache(self.place, folder, self.machine, self.state)

    def load_cache(self, folder: Path) -> None:
        """Take over what `save_cache` wrote, if it is whole and of these events; else it is computed again."""
        self.place = files.read_cache(self.place, folder, self.machine, self.state)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        device: str | torch.device = "cpu",
        progress: Progress | None = None,
    ) -> Self:
        """Read an adaptation that `save` wrote; it goes on exactly where it was."""
        import cual  # an agent makes adaptations: its module is above this one, the package knows where

        folder = Path(path).resolve()
        agent, pool = cual.Agent.load(folder / files.AGENT, device), Pool.load(folder / files.POOL)
        journal, written = files.read_journal(folder, agent, pool)
        task = cls(agent, pool, progress=progress, journal=journal)
        task.place = files.Place(folder if written else None)
        task.load_cache(folder)
        return task
