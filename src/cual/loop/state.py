"""The state of an adaptation: a pure function of its events. Every rule about answers has its one home here.

What an answer costs, which one counts, who vouches for a class, what is believed, the ledger: the library, the
command line and the service ask this module. Nothing here computes scores, reads a file or knows a database.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cual.data.labels import SKIP, Answer, ClassNames
from cual.errors import AlreadyFinished, BadOption, BudgetExceeded, UnknownQuery, UnknownSample
from cual.loop import events
from cual.loop.consensus import Agreed
from cual.loop.opinions import Given, Question, Verdict, agreed_on, with_consensus
from cual.types import Label, Row


@dataclass(frozen=True)
class Closing:
    """What was so before a round was closed, for whoever opens it again."""

    number: int
    """Of the event that closed it."""
    round: int
    query: str
    asked: int
    """Number of the event that opened it."""
    names: ClassNames
    pseudo_labels: dict[Label, Label]


class State:
    """What the events so far imply. `apply` takes the next event; the same events give the same state.

    >>> state = State.of([events.begun(3, ["cat"], None)])
    >>> state.apply(events.asked(0, "q0", [{"sample": "img1", "score": 2.5}]))
    >>> state.apply(events.answered("told", "q0", "img1", "fox"))
    >>> state.apply(events.answered("corrected", "q0", "img1", "wolf"))
    >>> state.answers, state.charged, [row["corrected"] for row in state.ledger()]
    ({'img1': 'wolf'}, 1, ['fox'])
    >>> state.budget, list(state.questions), state.open, state.ended
    (3, ['img1'], [], None)
    """

    def __init__(self) -> None:
        self.budget = 0
        self.overlap = 1
        """How many people each question is put to."""
        self.several = False
        """Whether it ever was more than one: what counts is their consensus then."""
        self.known: tuple[Label, ...] = ()
        """Classes that the agent knew before."""
        self.names = ClassNames(())
        """Known classes and those that answers named, numbered whenever a round is closed."""
        self.unnamed: Label | None = None
        self.known_vouched = False
        """Whether known classes are believed without an answer that names them."""
        self.questions: dict[Label, Question] = {}
        self._counting: dict[Label, Answer] = {}
        """The answer that counts for each sample, where one person's does."""
        self._agreed: dict[Label, Agreed] | None = None
        """What answers of several people come to; worked out when somebody looks."""
        self.verdicts: dict[Label, Verdict] = {}
        """Of pseudo-labels that people looked at, what was said last."""
        self.pseudo_labels: dict[Label, Label] = {}
        """Everything that was ever believed; `believed` is what still is."""
        self.opened = 0
        """Rounds that were begun."""
        self.closed = 0
        """Rounds that are over."""
        self.ended: str | None = None
        """Why there is no further round."""
        self.rounds_added = 0
        """Rounds that came with labels added to the budget."""
        self.stopped = False
        self.finished = False
        self.events = 0
        """How many events there were."""
        self.computed = -1
        """Number of the last event that the learner left: it has used whatever came before."""
        self.reopened = 0
        """How often a round was opened again."""
        self._opening = (-1, "")
        """Number of the event that opened the last round, and its query."""
        self._closings: tuple[Closing, ...] = ()

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
        state._counting = dict(self._counting)
        for row in rows:
            state.apply(row)
        return state

    # -- what is asked ---------------------------------------------------------------------------------------

    @property
    def charged(self) -> int:
        """Labels that the budget has paid for: each opinion that was asked for; "cannot tell" is free."""
        return sum(question.cost for question in self.questions.values())

    @property
    def promised(self) -> int:
        """Labels that answers to open questions may cost."""
        if self.stopped:
            return 0
        return sum(question.missing for question in self.questions.values())

    @property
    def affordable(self) -> int:
        """Questions that what is left of the budget pays for, each put to `overlap` people."""
        return max(0, self.budget - self.charged) // self.overlap

    @property
    def skipped(self) -> int:
        return sum(answer is SKIP for answer in self.answers.values())

    @property
    def open(self) -> list[Label]:
        """Samples that wait for an answer, in the order asked; none once it was stopped."""
        if self.stopped:
            return []
        return [sample for sample, question in self.questions.items() if question.missing]

    def of_query(self, query: str) -> dict[Label, Question]:
        """The questions of one query."""
        mine: dict[Label, Question] = {}
        if isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            mine = {sample: asked for sample, asked in self.questions.items() if asked.query == query}
        if not mine:
            known = ", ".join(dict.fromkeys(asked.query for asked in self.questions.values())) or "none"
            raise UnknownQuery(f"no query {query!r:.200} was asked; asked so far: {known}")
        return mine

    def answering(
        self, query: str, answers: Mapping[Label, Answer], person: Any = None, settle: bool = False
    ) -> list[Row]:
        """The events that answers to one query come to; `check_budget` of the state after them is the caller's.

        Saying the same again is no event; saying something else corrects. `settle` ends a disagreement.
        """
        self.check_going()
        if self.overlap > 1 and person is None:
            raise BadOption(
                f"each question is put to {self.overlap} people: say whose answers these are (person)"
            )
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
        """The latest answer of a person to a question that stands, and the sample that it is about."""
        asked = ((sample, question) for sample, question in self.questions.items() if not question.unasked)
        latest = ((sample, question.latest(person)) for sample, question in asked)
        mine = [(sample, given) for sample, given in latest if given is not None]
        return max(mine, key=lambda answer: answer[1].number, default=None)

    def reopening(self, answer: Given, person: Any = None) -> Row | None:
        """The event that makes the learner forget an answer it has used; none where it has not used it.

        The round is opened again whose end used the answer first.
        """
        closing = next((closing for closing in self._closings if closing.number > answer.number), None)
        return None if closing is None else events.reopened(closing.round, closing.query, person)

    def check_going(self) -> None:
        if self.finished:
            raise AlreadyFinished("this adaptation is finished; start another one with the new agent")

    def check_budget(self) -> None:
        """What is paid for and what is promised to open questions must fit."""
        charged, promised = self.charged, self.promised
        if charged + promised > self.budget:
            raise BudgetExceeded(
                f"the budget of {self.budget} labels has no room for an answer in place of a skip: with it "
                f"{charged} would be used and {promised} are promised to open questions"
            )

    # -- what answers come to ----------------------------------------------------------------------------------

    @property
    def answers(self) -> dict[Label, Answer]:
        """The answer that counts for each sample: of several people, their consensus."""
        if not self.several:
            return self._counting
        agreed = self._consensus
        return {sample: agreed[sample].label if sample in agreed else SKIP for sample in self._counting}

    @property
    def weights(self) -> dict[Label, float]:
        """How sure the answers are that several people gave, by sample; empty where one person's counts."""
        return {sample: agreed.weight for sample, agreed in self._consensus.items()} if self.several else {}

    @property
    def _consensus(self) -> dict[Label, Agreed]:
        if self._agreed is None:
            self._agreed = agreed_on(self.questions, self.known)
        return self._agreed

    # -- what is believed ------------------------------------------------------------------------------------

    @property
    def vouched(self) -> set[Label]:
        """Classes that an answer names, the unnamed one, and known ones where the method has it so."""
        named = {answer for answer in self.answers.values() if answer is not SKIP}
        if self.known_vouched:
            named.update(self.known)
        return named if self.unnamed is None else {*named, self.unnamed}

    @property
    def rejected(self) -> list[Label]:
        return [sample for sample, verdict in self.verdicts.items() if not verdict.right]

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
        rows = [question.row for question in self.questions.values()]
        return with_consensus(rows, self.answers, self.weights) if self.several else rows

    # -- one event each --------------------------------------------------------------------------------------

    def _begun(self, event: Row) -> None:
        self.budget = event["budget"]
        self._put_to(event.get("overlap", 1))
        self.known = tuple(event["classes"])
        self.unnamed = event["unnamed"]
        self.known_vouched = event.get("known_vouched", False)
        self.names = ClassNames(self.known)
        if self.unnamed is not None:
            self.names = self.names.plus(self.unnamed)

    def _overlapped(self, event: Row) -> None:
        self._put_to(event["overlap"])
        for sample in self.open:
            question = self.questions[sample]
            overlap = min(question.overlap, max(self.overlap, len(question.opinions)))
            self.questions[sample] = replace(question, overlap=overlap)

    def _put_to(self, overlap: int) -> None:
        """Put questions that are asked from now on to so many people."""
        self.overlap = overlap
        self.several = self.several or overlap > 1
        self._agreed = None

    def _asked(self, event: Row) -> None:
        self.opened = event["round"] + 1
        self._opening = (self.events, event["query"])
        for row in event["samples"]:
            question = Question(event["query"], event["round"], row, event["at"], overlap=self.overlap)
            self.questions[row["sample"]] = question
        if "ended" in event:
            self.closed = self.opened
            self.ended = event["ended"]

    def _answered(self, event: Row) -> None:
        settles = event["event"] in ("settled", "volunteered")
        given = Given(event.get("person"), events.answer_of(event), event["at"], self.events, settles)
        self._answer(event["sample"], (*self.questions[event["sample"]].given, given))

    _told = _skipped = _corrected = _settled = _answered

    def _volunteered(self, event: Row) -> None:
        last = next(reversed(self.questions.values()), None)
        query, round = (self._opening[1], self.opened - 1) if last is None else (last.query, last.round)
        self.questions[event["sample"]] = Question(query, round, event["about"], event["at"])
        self._answered(event)

    def _undone(self, event: Row) -> None:
        question = self.questions[event["sample"]]
        last = question.latest(event.get("person"))
        self._answer(event["sample"], tuple(given for given in question.given if given is not last))
        if question.unasked and not self.questions[event["sample"]].given:
            del self.questions[event["sample"]]

    def _answer(self, sample: Label, given: tuple[Given, ...]) -> None:
        """Write down which answers to a question stand, and what they come to."""
        self.questions[sample] = replace(self.questions[sample], given=given)
        self._agreed = None
        counting = self.questions[sample].counting
        if counting is None:
            self._counting.pop(sample, None)
        else:
            self._counting[sample] = counting.answer

    def _believed(self, event: Row) -> None:
        asked, query = self._opening
        closing = Closing(self.events, event["round"], query, asked, self.names, self.pseudo_labels)
        self._closings = (*self._closings, closing)
        self.names = self.numbered
        self.closed = event["round"] + 1
        new = zip(event["samples"], event["labels"], strict=True)
        self.pseudo_labels = self.pseudo_labels | dict(new)  # others may hold the one before
        self.ended = event.get("ended")

    def _reopened(self, event: Row) -> None:
        round = event["round"]
        before = next(closing for closing in self._closings if closing.round == round)
        self._closings = tuple(closing for closing in self._closings if closing.round < round)
        self.names = before.names
        self.pseudo_labels = before.pseudo_labels
        self.computed = before.asked
        self._opening = (before.asked, before.query)
        self.opened = round + 1
        self.closed = round
        self.ended = None
        self.reopened += 1
        self.questions = {
            sample: question
            if question.round <= round
            else replace(question, round=round, query=event["query"])
            for sample, question in self.questions.items()
            if question.round <= round or question.given
        }

    def _judged(self, event: Row) -> None:
        self.verdicts = self.verdicts | Verdict.of_event(event)

    _confirmed = _rejected = _judged

    def _unjudged(self, event: Row) -> None:
        gone = set(event["samples"])
        self.verdicts = {sample: verdict for sample, verdict in self.verdicts.items() if sample not in gone}

    def _stopped(self, event: Row) -> None:
        self.stopped = True

    def _extended(self, event: Row) -> None:
        self.budget += event["labels"]
        self.rounds_added += event["rounds"]
        self.stopped = False
        again = event.get("again")
        if again is None:
            return
        self.ended = None
        for closing in reversed(self._closings):
            if closing.round >= again:
                self.names, self.pseudo_labels = closing.names, closing.pseudo_labels
        self._closings = tuple(closing for closing in self._closings if closing.round < again)
        self.computed = self._closings[-1].number if self._closings else -1
        self.reopened += self.opened > again
        self.opened = self.closed = again

    def _ended(self, event: Row) -> None:
        self.ended = event["why"]

    def _finished(self, event: Row) -> None:
        self.names = self.numbered
        self.finished = True
