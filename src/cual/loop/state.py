"""The state of an adaptation: a pure function of its events. Every rule about answers has its one home here.

What an answer costs, which one counts, who vouches for a class, what is believed, the ledger: the library, the
command line and the service ask this module. Nothing here computes scores, reads a file or knows a database.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cual.data.labels import SKIP, Answer, ClassNames
from cual.errors import AlreadyFinished, BudgetExceeded, UnknownQuery, UnknownSample
from cual.loop import events
from cual.types import Label, Row


@dataclass(frozen=True)
class Given:
    """An answer that somebody gave and did not take back."""

    person: Any
    answer: Answer
    at: str
    number: int
    """Of the event: how many came before it."""
    settles: bool = False


@dataclass(frozen=True)
class Question:
    """One sample that people were asked about, and what they said."""

    query: str
    round: int
    asked: Row
    """Its score, threshold, zone and suggestion when it was asked."""
    asked_at: str
    given: tuple[Given, ...] = ()
    """Answers that stand, in the order in which they came."""

    @property
    def counting(self) -> Given | None:
        """The answer that counts: the latest of who settled it last, else of who answered first."""
        if not self.given:
            return None
        settlers = [given.person for given in self.given if given.settles]
        return self.latest(settlers[-1] if settlers else self.given[0].person)

    def latest(self, person: Any) -> Given | None:
        """The latest answer of a person."""
        return next((given for given in reversed(self.given) if given.person == person), None)

    @property
    def disagreement(self) -> bool:
        """Whether two people's latest answers differ and nobody has settled it."""
        if any(given.settles for given in self.given):
            return False
        latest = {given.person: given.answer for given in self.given}
        return len({repr(answer) for answer in latest.values()}) > 1


class State:
    """What the events so far imply. `apply` takes the next event; the same events give the same state.

    >>> state = State.of([events.begun(3, ["cat"], None)])
    >>> state.apply(events.asked(0, "q0", [{"sample": "img1", "score": 2.5}]))
    >>> state.apply(events.answered("told", "q0", "img1", "fox"))
    >>> state.apply(events.answered("corrected", "q0", "img1", "wolf"))
    >>> state.answers, state.charged, [row["corrected"] for row in state.ledger()]
    ({'img1': 'wolf'}, 1, ['fox'])
    """

    def __init__(self) -> None:
        self.budget = 0
        self.known: tuple[Label, ...] = ()
        """Classes that the agent knew before."""
        self.names = ClassNames(())
        """Known classes and those that answers named, numbered whenever a round is closed."""
        self.unnamed: Label | None = None
        self.questions: dict[Label, Question] = {}
        self.answers: dict[Label, Answer] = {}
        """The answer that counts for each sample."""
        self.verdicts: dict[Label, bool] = {}
        """Pseudo-labels that people looked at: True where it was confirmed last, False where rejected."""
        self.pseudo_labels: dict[Label, Label] = {}
        """Everything that was ever believed; `believed` is what still is."""
        self.opened = 0
        """Rounds that were begun."""
        self.closed = 0
        """Rounds that are over."""
        self.ended: str | None = None
        """Why there is no further round."""
        self.stopped = False
        self.finished = False
        self.events = 0
        """How many events there were."""
        self.computed = -1
        """Number of the last event that the learner left: it has used whatever came before."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "State":
        """The state that events imply."""
        state = cls()
        for row in rows:
            state.apply(row)
        return state

    def apply(self, event: Row) -> None:
        """Take the next event."""
        kind = event["event"]
        if kind not in events.KINDS:
            raise ValueError(f"there is no event {kind!r}")
        getattr(self, f"_{kind}")(event)
        if kind in events.COMPUTED:
            self.computed = self.events
        self.events += 1

    def after(self, rows: Iterable[Row]) -> "State":
        """The state after some more events; this one stays as it is."""
        state = State()
        vars(state).update(vars(self))
        state.questions = dict(self.questions)
        state.answers = dict(self.answers)
        for row in rows:
            state.apply(row)
        return state

    # -- what is asked ---------------------------------------------------------------------------------------

    @property
    def charged(self) -> int:
        """Labels that the budget has paid for: "cannot tell" is free."""
        return sum(answer is not SKIP for answer in self.answers.values())

    @property
    def skipped(self) -> int:
        return sum(answer is SKIP for answer in self.answers.values())

    @property
    def open(self) -> list[Label]:
        """Samples that wait for an answer, in the order asked; none once it was stopped."""
        if self.stopped:
            return []
        return [sample for sample in self.questions if sample not in self.answers]

    def of_query(self, query: str) -> dict[Label, Question]:
        """The questions of one query."""
        mine = {sample: asked for sample, asked in self.questions.items() if asked.query == query}
        if not mine:
            known = ", ".join(dict.fromkeys(asked.query for asked in self.questions.values())) or "none"
            raise UnknownQuery(f"no query {query!r} was asked; asked so far: {known}")
        return mine

    def answering(
        self, query: str, answers: Mapping[Label, Answer], person: Any = None, settle: bool = False
    ) -> list[Row]:
        """The events that answers to one query come to; `check_budget` of the state after them is the caller's.

        Saying the same again is no event; saying something else corrects. `settle` ends a disagreement.
        """
        self.check_going()
        asked = self.of_query(query)
        rows: list[Row] = []
        for sample, answer in answers.items():
            if sample not in asked:
                raise UnknownSample(f"query {query!r} did not ask about sample {sample!r}")
            before = asked[sample].latest(person)
            if before is not None and before.answer == answer and before.settles >= settle:
                continue
            first = "skipped" if answer is SKIP else "told"
            kind = "settled" if settle else first if before is None else "corrected"
            rows.append(events.answered(kind, query, sample, answer, person))
        return rows

    def last_answer(self, person: Any) -> tuple[Label, Given] | None:
        """The latest answer of a person that stands, and the sample that it is about."""
        latest = ((sample, question.latest(person)) for sample, question in self.questions.items())
        mine = [(sample, given) for sample, given in latest if given is not None]
        return max(mine, key=lambda answer: answer[1].number, default=None)

    def check_going(self) -> None:
        if self.finished:
            raise AlreadyFinished("this adaptation is finished; start another one with the new agent")

    def check_budget(self) -> None:
        """What is paid for and what is promised to open questions must fit."""
        charged, promised = self.charged, len(self.open)
        if charged + promised > self.budget:
            raise BudgetExceeded(
                f"the budget of {self.budget} labels has no room for an answer in place of a skip: with it "
                f"{charged} would be used and {promised} are promised to open questions"
            )

    # -- what is believed ------------------------------------------------------------------------------------

    @property
    def vouched(self) -> set[Label]:
        """Classes that at least one answer names, and the unnamed one."""
        named = {answer for answer in self.answers.values() if answer is not SKIP}
        return named if self.unnamed is None else {*named, self.unnamed}

    @property
    def rejected(self) -> list[Label]:
        return [sample for sample, right in self.verdicts.items() if not right]

    @property
    def believed(self) -> dict[Label, Label]:
        """Pseudo-labels that nobody answered or rejected, their class still vouched for."""
        vouched = self.vouched
        refused = {*self.answers, *self.rejected}
        return {
            sample: label
            for sample, label in self.pseudo_labels.items()
            if label in vouched and sample not in refused
        }

    @property
    def numbered(self) -> ClassNames:
        """All classes, with those that answers named since: in the order asked, whatever the order told."""
        names = self.names
        for sample in self.questions:
            answer = self.answers.get(sample, SKIP)
            if answer is not SKIP:
                names = names.plus(answer)
        return names

    @property
    def new_classes(self) -> list[Label]:
        """Classes that answers or beliefs name and that were not known before."""
        answers = (self.answers.get(sample, SKIP) for sample in self.questions)
        labels: list[Label] = [answer for answer in answers if answer is not SKIP]
        named = dict.fromkeys([*labels, *self.believed.values()])
        return [label for label in named if label not in self.known]

    # -- the ledger ------------------------------------------------------------------------------------------

    def ledger(self) -> list[Row]:
        """One row per sample asked about: when, why, what was answered, by whom, and what it cost."""
        return [self._ledger_row(question) for question in self.questions.values()]

    def _ledger_row(self, question: Question) -> Row:
        counting = question.counting
        mine = [given for given in question.given if counting is not None and given.person == counting.person]
        before = mine[-2].answer if len(mine) > 1 else SKIP
        skipped = counting is not None and counting.answer is SKIP
        return {
            **question.asked,
            "query": question.query,
            "asked_at": question.asked_at,
            "answer": None if counting is None or skipped else counting.answer,
            "skipped": skipped,
            "charged": int(counting is not None and not skipped),
            "told_at": None if counting is None else counting.at,
            "corrected": None if before is SKIP else before,
            "person": None if counting is None else counting.person,
            "answers": len(question.given),
            "disagreement": question.disagreement,
        }

    # -- one event each --------------------------------------------------------------------------------------

    def _begun(self, event: Row) -> None:
        self.budget = event["budget"]
        self.known = tuple(event["classes"])
        self.unnamed = event["unnamed"]
        self.names = ClassNames(self.known)
        if self.unnamed is not None:
            self.names = self.names.plus(self.unnamed)

    def _asked(self, event: Row) -> None:
        self.opened = event["round"] + 1
        for row in event["samples"]:
            self.questions[row["sample"]] = Question(event["query"], event["round"], row, event["at"])
        if "ended" in event:
            self.closed = self.opened
            self.ended = event["ended"]

    def _answered(self, event: Row) -> None:
        settles = event["event"] == "settled"
        given = Given(event.get("person"), events.answer_of(event), event["at"], self.events, settles)
        self._answer(event["sample"], (*self.questions[event["sample"]].given, given))

    _told = _skipped = _corrected = _settled = _answered

    def _undone(self, event: Row) -> None:
        question = self.questions[event["sample"]]
        last = question.latest(event.get("person"))
        self._answer(event["sample"], tuple(given for given in question.given if given is not last))

    def _answer(self, sample: Label, given: tuple[Given, ...]) -> None:
        """Write down which answers to a question stand, and what they come to."""
        self.questions[sample] = replace(self.questions[sample], given=given)
        counting = self.questions[sample].counting
        if counting is None:
            self.answers.pop(sample, None)
        else:
            self.answers[sample] = counting.answer

    def _believed(self, event: Row) -> None:
        self.names = self.numbered
        self.closed = event["round"] + 1
        new = zip(event["samples"], event["labels"], strict=True)
        self.pseudo_labels = self.pseudo_labels | dict(new)  # others may hold the one before
        self.ended = event.get("ended")

    def _confirmed(self, event: Row) -> None:
        self.verdicts = self.verdicts | dict.fromkeys(event["samples"], True)

    def _rejected(self, event: Row) -> None:
        self.verdicts = self.verdicts | dict.fromkeys(event["samples"], False)

    def _stopped(self, event: Row) -> None:
        self.stopped = True

    def _ended(self, event: Row) -> None:
        self.ended = event["why"]

    def _finished(self, event: Row) -> None:
        self.names = self.numbered
        self.finished = True
