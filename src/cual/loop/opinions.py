"""One question of an adaptation and what people said of it: which answer counts, what it costs, what it lacks.

A question is put to `overlap` people. What their answers come to together is in `consensus`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cual.data.labels import SKIP, Answer
from cual.loop.consensus import Agreed, Opinions, consensus
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
    """One sample that people were asked about, and what they said.

    >>> ada, bob = Given("Ada", "owl", "2026-03-01", 1), Given("Bob", "fox", "2026-03-02", 2)
    >>> question = Question("q0", 0, {"score": 2.5}, "2026-03-01", (ada, bob), overlap=2)
    >>> question.disagreement, question.counting.answer, question.opinions, question.settled
    (True, 'owl', {'Ada': 'owl', 'Bob': 'fox'}, None)
    >>> question.saying("fox").person, question.latest("Ada").answer, question.unasked
    ('Bob', 'owl', False)
    """

    query: str
    round: int
    asked: Row
    """Its score, threshold, zone and suggestion when it was asked."""
    asked_at: str
    given: tuple[Given, ...] = ()
    """Answers that stand, in the order in which they came."""
    overlap: int = 1
    """How many people it is put to."""

    @property
    def unasked(self) -> bool:
        """Whether nobody was asked: a person said it all the same."""
        return bool(self.asked.get("unasked"))

    @property
    def recorded(self) -> bool:
        """Whether nobody was asked because the label was there already."""
        return bool(self.asked.get("recorded"))

    @property
    def counting(self) -> Given | None:
        """The answer that counts: the latest of who settled it last, else of who answered first."""
        if not self.given:
            return None
        return self.settled or self.latest(self.given[0].person)

    def latest(self, person: Any) -> Given | None:
        """The latest answer of a person."""
        return next((given for given in reversed(self.given) if given.person == person), None)

    @property
    def disagreement(self) -> bool:
        """Whether two people's latest answers differ and nobody has settled it."""
        if self.settled is not None:
            return False
        return len({repr(answer) for answer in self.opinions.values()}) > 1

    @property
    def settled(self) -> Given | None:
        """The latest answer of who settled it last; none where nobody did."""
        settlers = [given.person for given in self.given if given.settles]
        return self.latest(settlers[-1]) if settlers else None

    @property
    def opinions(self) -> dict[Any, Answer]:
        """What each person said last, in the order in which they first answered."""
        return {given.person: given.answer for given in self.given}

    def saying(self, answer: Answer | None) -> Given | None:
        """The first of the latest answers that says this; who settled it before all others."""
        latest = [self.latest(person) for person in self.opinions]
        return next((given for given in [self.settled, *latest] if given and given.answer == answer), None)

    @property
    def missing(self) -> int:
        """How many people more are to be asked: none once it is settled."""
        return 0 if self.settled is not None else max(0, self.overlap - len(self.opinions))

    def concerns(self, person: Any) -> bool:
        """Whether a person is one of several who answered it: settling it would settle their own dispute."""
        mine = any(given.person == person and not given.settles for given in self.given)
        return mine and any(given.person != person for given in self.given)

    @property
    def cost(self) -> int:
        """Labels that it is charged for: each opinion that names a class, at most `overlap` of them.

        Who settles it is paid in the place of who answered last; "cannot tell" is free, and so is a label that
        was there before anybody was asked.
        """
        if self.recorded:
            return 0
        opinions = self.opinions
        if self.settled is not None:
            opinions = {self.settled.person: self.settled.answer} | {
                person: answer for person, answer in opinions.items() if person != self.settled.person
            }
        return sum(answer is not SKIP for answer in list(opinions.values())[: self.overlap])

    @property
    def said(self) -> Opinions | None:
        """What people said who could tell; None where nobody could."""
        settled = None if self.settled is None else self.settled.answer
        by = {person: answer for person, answer in self.opinions.items() if answer is not SKIP}
        if settled is SKIP or (not by and settled is None):
            return None
        return Opinions(by, settled)

    @property
    def row(self) -> Row:
        """What the ledger says of it."""
        counting = self.counting
        mine = [given for given in self.given if counting is not None and given.person == counting.person]
        before = mine[-2].answer if len(mine) > 1 else SKIP
        skipped = counting is not None and counting.answer is SKIP
        return {
            **self.asked,
            "query": self.query,
            "asked_at": self.asked_at,
            "answer": None if counting is None or skipped else counting.answer,
            "skipped": skipped,
            "charged": self.cost,
            "told_at": None if counting is None else counting.at,
            "corrected": None if before is SKIP else before,
            "person": None if counting is None else counting.person,
            "answers": len(self.given),
            "disagreement": self.disagreement,
        }


@dataclass(frozen=True)
class Verdict:
    """What a person said last of what is believed of a sample.

    >>> Verdict.of_event({"event": "rejected", "samples": ["a.jpg"], "labels": ["owl"], "instead": "fox"})
    {'a.jpg': Verdict(right=False, of='owl', instead='fox')}
    """

    right: bool
    of: Label | None
    """The label that it was about; None where that was not written down."""
    instead: Label | None
    """What the person said it is, where the budget had no room for that."""

    @classmethod
    def of_event(cls, event: Row) -> dict[Label, "Verdict"]:
        """By sample."""
        labels = event.get("labels") or [None] * len(event["samples"])
        right, instead = event["event"] == "confirmed", event.get("instead")
        return {s: cls(right, of, instead) for s, of in zip(event["samples"], labels, strict=True)}


def agreed_on(questions: Mapping[Label, Question], known: Iterable[Label]) -> dict[Label, Agreed]:
    """What answers come to together, by sample; samples of which nobody could tell are left out.

    >>> ada, bob = Given("Ada", "owl", "2026-03-01", 1), Given("Bob", "owl", "2026-03-02", 2)
    >>> agreed = agreed_on({7: Question("q0", 0, {}, "2026-03-01", (ada, bob), overlap=2)}, known=["cat"])
    >>> agreed[7].label, agreed[7].weight > 0.9
    ('owl', True)
    """
    asked = {sample: question.said for sample, question in questions.items()}
    told = {sample: said for sample, said in asked.items() if said is not None}
    named = {label for said in told.values() for label in said.by.values()}
    return dict(zip(told, consensus(list(told.values()), len({*known, *named})), strict=True))


def with_consensus(
    rows: Iterable[Row], answers: Mapping[Label, Answer], weights: Mapping[Label, float]
) -> list[Row]:
    """Rows of the ledger with what several people's answers come to, and how sure that is.

    >>> with_consensus([{"sample": 7}], {7: "owl"}, {7: 0.98})
    [{'sample': 7, 'answer': 'owl', 'skipped': False, 'weight': 0.98}]
    """
    whole: list[Row] = []
    for row in rows:
        answer, weight = answers.get(row["sample"]), weights.get(row["sample"])
        skipped = answer is SKIP
        whole.append({**row, "answer": None if skipped else answer, "skipped": skipped, "weight": weight})
    return whole
