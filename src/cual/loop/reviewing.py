"""What people say of what is believed, and of samples that nobody asked about: the events that it comes to.

One rule for every door: a class that a person names is an answer, and an answer is charged, whether it was
asked for or not; only labels that a team has already cost nothing, as nobody is asked for them. Confirming and
rejecting name no class, so they are free. Where the budget has no room, the class is noted with the rejection:
it is kept and exported, but the learner does not learn it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from cual.data.labels import SKIP
from cual.errors import Conflict, UnknownSample
from cual.loop import events
from cual.loop.state import State
from cual.types import Label, Row

About = Callable[[Label], Row]
"""What the learner knows of a sample: score, threshold, zone, as `asked` writes it down."""


class Naming(NamedTuple):
    """What naming classes comes to."""

    events: list[Row]
    charged: int
    """Samples whose class is an answer now that was paid for."""
    noted: int
    """Those for which the budget had no room: rejected, the class noted."""
    confirmed: int
    """Those that are believed to be what was said."""


def judging(
    state: State, samples: Iterable[Label], verdict: bool | None, believed: Mapping[Label, Label], person: Any
) -> list[Row]:
    """The events of a verdict on samples that are believed: right, wrong, or (None) taken back.

    >>> state, believed = State(), {"a.jpg": "owl"}
    >>> (event,) = judging(state, ["a.jpg"], True, believed, "Ada")
    >>> event["event"], event["labels"], event["person"]
    ('confirmed', ['owl'], 'Ada')
    >>> judging(state.after([event]), ["a.jpg"], True, believed, "Ada")  # said already
    []
    """
    state.check_going()
    new: list[Label] = []
    for sample in dict.fromkeys(samples):
        before = state.verdicts.get(sample)
        if sample not in believed and before is None:
            raise UnknownSample(f"sample {sample!r} has no pseudo-label")
        same = before is not None and before.right is verdict and before.of == believed.get(sample, before.of)
        if not (before is None if verdict is None else same and before is not None and before.instead is None):
            new.append(sample)
    if not new:
        return []
    labels = [believed.get(sample) for sample in new]
    return [events.unjudged(new, person) if verdict is None else events.judged(new, verdict, person, labels)]


def naming(
    state: State, labels: Mapping[Label, Label], believed: Mapping[Label, Label], about: About, person: Any
) -> Naming:
    """The events of a person giving samples that are believed their classes.

    >>> state = State.of([events.begun(1, ["cat"], None)])
    >>> named = naming(state, {"a": "fox", "b": "fox"}, {"a": "owl", "b": "owl"}, lambda sample: {}, "Ada")
    >>> named.charged, named.noted, [event["event"] for event in named.events]
    (1, 1, ['volunteered', 'rejected'])
    """
    state.check_going()
    rows: list[Row] = []
    room = state.budget - state.charged - state.promised
    charged = noted = confirmed = 0
    for sample, label in labels.items():
        question = state.questions.get(sample)
        if question is not None and not question.unasked:
            raise Conflict(f"sample {sample!r} was asked about: answer the question, or correct the answer")
        if question is None and sample not in believed:
            raise UnknownSample(f"sample {sample!r} has no pseudo-label")
        if question is not None:  # named before: another class in its place costs nothing more
            rows += state.answering(question.query, {sample: label}, person, settle=True)
            charged += not question.recorded
        elif believed[sample] == label:
            rows += judging(state, [sample], True, believed, person)
            confirmed += 1
        elif room > 0:
            about_it = {**about(sample), "sample": sample, "suggestion": believed[sample], "unasked": True}
            rows.append(events.volunteered(sample, label, about_it, person))
            room, charged = room - 1, charged + 1
        else:
            rows.append(events.judged([sample], False, person, [believed[sample]], label))
            noted += 1
    return Naming(rows, charged, noted, confirmed)


def recording(state: State, labels: Mapping[Label, Label], about: About, person: Any) -> list[Row]:
    """The events of labels that are there already: answers, free unless somebody was asked for them."""
    state.check_going()
    rows: list[Row] = []
    for sample, label in labels.items():
        question = state.questions.get(sample)
        if question is None:
            known = {**about(sample), "sample": sample, "suggestion": None, "unasked": True, "recorded": True}
            rows.append(events.volunteered(sample, label, known, person))
        else:
            rows += state.answering(question.query, {sample: label}, person, settle=question.unasked)
    state.after(rows).check_budget()
    return rows


def withdrawing(state: State, samples: Iterable[Label], person: Any) -> list[Row]:
    """The events of a person taking back classes that nobody asked for, while the learner has not used them."""
    state.check_going()
    rows: list[Row] = []
    for sample in samples:
        question = state.questions.get(sample)
        given = None if question is None or not question.unasked else question.latest(person)
        if given is None:
            raise UnknownSample(f"nothing was said of sample {sample!r} that could be taken back")
        if state.reopening(given) is not None:
            raise Conflict("the learner has used that label since; correct it instead")
        rows.append(events.undone(sample, person))
    return rows


def unasked_answers(state: State) -> dict[Label, Label]:
    """What people said of samples that nobody asked about."""
    answers = ((sample, state.answers.get(sample, SKIP)) for sample, q in state.questions.items() if q.unasked)
    return {sample: answer for sample, answer in answers if answer is not SKIP}
