"""What a label row is: one thing that was said of a sample, by whom, when, and whether it counts.

The one rule for exports of the library, the command line and the service. How rows are written to files is the
business of `cual.export`; what counts is decided in `state`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from cual.data.labels import SKIP
from cual.loop.opinions import Given, Question, Verdict
from cual.loop.state import State
from cual.types import Label, Row

Source = Literal["answer", "pseudo-label", "verdict"]


class LabelRow(NamedTuple):
    """One label. Of each sample that has one, exactly one row counts."""

    sample: Label
    label: Label | None
    """None where somebody could not tell."""
    source: Source
    """An answer; what the learner believes; or what a person said of what it believes."""
    counts: bool
    verdict: Literal["confirm", "reject"] | None
    """What was said of the pseudo-label, where the source is a verdict."""
    person: Any
    """Who said it; None where nobody did, or people have no names."""
    at: str
    """When, in UTC."""
    round: int
    """In which it was asked or believed, from 0."""
    doubt: float | None
    """How doubtful a pseudo-label is, 0 … 1, where that is known."""
    score: float | None
    """Of a sample that was asked about, when it was, as are the next two."""
    zone: str | None
    suggestion: Label | None
    row: int | None
    """Of the pool, where it is known."""
    adaptation: int | None = None
    """This and what follows: numbers in a workspace; None without one."""
    agent: int | None = None
    pool: int | None = None
    version: int | None = None
    """The version of the agent that has learned it; None while it is not finished."""
    instead: Label | None = None
    """What a person said who rejected a pseudo-label, where the budget had no room for that as an answer."""


class Place(NamedTuple):
    """What is known of a sample beside the events: its row of the pool, and the doubt of its pseudo-label."""

    row: int | None = None
    doubt: float | None = None


NOWHERE = Place()


class Belief(NamedTuple):
    """The closing of a round."""

    round: int
    at: str


class Judgement(NamedTuple):
    """What a person said of a pseudo-label."""

    right: bool
    person: Any
    at: str
    belief: int
    """Of which belief, by its number: one that came later was not looked at …"""
    of: Label | None
    """… unless it was of the same label; None where that was not written down."""
    instead: Label | None


class Origins:
    """Where pseudo-labels and verdicts come from, which the state does not keep. `apply` takes the next event.

    >>> from cual.loop import events
    >>> rows = [events.begun(3, ["cat"], None), events.asked(0, "q0", [{"sample": "a", "score": 2.5}])]
    >>> rows += [events.answered("told", "q0", "a", "fox", "Ada")]
    >>> rows += [events.believed(0, ["b", "c"], ["fox", "fox"])]
    >>> rows += [events.judged(["c"], True, "Bob"), events.judged(["b"], False, "Bob")]
    >>> for row in label_rows(State.of(rows), Origins.of(rows)):
    ...     print(row.sample, row.label, row.source, row.person)
    a fox answer Ada
    c fox verdict Bob
    """

    def __init__(self) -> None:
        self.beliefs: list[Belief] = []
        self.believed_in: dict[Label, int] = {}
        """The number of the latest belief that names a sample and was not withdrawn."""
        self._earlier: dict[Label, list[int]] = {}
        """Those before it, of the few samples that have some."""
        self.judged: dict[Label, Judgement] = {}

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Origins":
        origins = cls()
        for row in rows:
            origins.apply(row)
        return origins

    def apply(self, event: Row) -> None:
        """Take the next event; those that are neither beliefs nor verdicts are of no interest here."""
        kind = event["event"]
        if kind == "believed":
            for sample in event["samples"]:
                if sample in self.believed_in:
                    self._earlier.setdefault(sample, []).append(self.believed_in[sample])
                self.believed_in[sample] = len(self.beliefs)
            self.beliefs.append(Belief(event["round"], event["at"]))
        elif kind == "reopened":
            self._withdraw(event["round"])
        elif kind in ("confirmed", "rejected"):
            for sample, verdict in Verdict.of_event(event).items():
                belief = self.believed_in.get(sample, -1)
                by, at = event.get("person"), event["at"]
                self.judged[sample] = Judgement(verdict.right, by, at, belief, verdict.of, verdict.instead)
        elif kind == "unjudged":
            for sample in event["samples"]:
                self.judged.pop(sample, None)

    def _withdraw(self, round: int) -> None:
        """Forget the beliefs of a round that is open again, and of those after it."""
        gone = [sample for sample, belief in self.believed_in.items() if self.beliefs[belief].round >= round]
        for sample in gone:
            del self.believed_in[sample]
            standing = [b for b in self._earlier.pop(sample, []) if self.beliefs[b].round < round]
            if standing:
                *self._earlier[sample], self.believed_in[sample] = standing

    def verdict_on(self, sample: Label, label: Label) -> Judgement | None:
        """What was said of the latest belief about a sample, that it is `label`."""
        judged = self.judged.get(sample)
        if judged is None or label == judged.of:
            return judged
        return judged if judged.of is None and judged.belief == self.believed_in[sample] else None


def label_rows(
    state: State,
    origins: Origins,
    everything: bool = False,
    place_of: Callable[[Label], Place] = lambda sample: NOWHERE,
) -> Iterator[LabelRow]:
    """The labels of an adaptation: answers in the order asked, then pseudo-labels in the order believed.

    Parameters
    ----------
    everything
        Also what does not count: answers that were corrected or overruled, "cannot tell", pseudo-labels that
        somebody answered or rejected. What a person took back is not among them.
    place_of
        What is known of a sample beside the events.
    """
    answers = state.answers
    for sample, question in state.questions.items():
        counting = question.saying(answers.get(sample)) if state.several else question.counting
        for row in _answers(sample, question, counting, place_of(sample)):
            if everything or row.counts:
                yield row
    believed = state.believed
    for sample, label in state.pseudo_labels.items():
        for row in _beliefs(sample, label, sample in believed, origins, place_of(sample)):
            if everything or row.counts:
                yield row


def whole_numbers(state: State) -> frozenset[str]:
    """Which of the columns ``sample`` and ``label`` hold whole numbers only: both may, or may hold names."""
    columns: dict[str, tuple[Iterable[Label], ...]] = {
        "sample": (state.questions, state.pseudo_labels),
        "label": (state.numbered.names, [v.instead for v in state.verdicts.values() if v.instead is not None]),
    }
    return frozenset(
        name
        for name, parts in columns.items()
        if all(isinstance(value, int) for values in parts for value in values)
    )


def _answers(sample: Label, question: Question, counting: Given | None, place: Place) -> Iterator[LabelRow]:
    for given in question.given:
        skipped = given.answer is SKIP
        yield LabelRow(
            sample,
            label=None if given.answer is SKIP else given.answer,
            source="answer",
            counts=given is counting and not skipped,
            verdict=None,
            person=given.person,
            at=given.at,
            round=question.round,
            doubt=None,
            score=question.asked.get("score"),
            zone=question.asked.get("zone"),
            suggestion=question.asked.get("suggestion"),
            row=place.row,
        )


def _beliefs(sample: Label, label: Label, stands: bool, origins: Origins, place: Place) -> Iterator[LabelRow]:
    belief, judged = origins.beliefs[origins.believed_in[sample]], origins.verdict_on(sample, label)
    row = LabelRow(
        sample,
        label=label,
        source="pseudo-label",
        counts=stands and judged is None,
        verdict=None,
        person=None,
        at=belief.at,
        round=belief.round,
        doubt=place.doubt,
        score=None,
        zone=None,
        suggestion=None,
        row=place.row,
    )
    yield row
    if judged is not None:
        word: Literal["confirm", "reject"] = "confirm" if judged.right else "reject"
        said = {"verdict": word, "person": judged.person, "at": judged.at, "instead": judged.instead}
        yield row._replace(source="verdict", counts=stands, **said)
