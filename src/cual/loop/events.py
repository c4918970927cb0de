"""What happens in an adaptation, as plain JSON rows that are only ever added. What they imply is in `state`.

begun
    The first: ``budget``, ``classes`` known before, ``unnamed`` (a made-up class that vouches for itself),
    ``overlap`` where each question is put to more than one person, and ``known_vouched`` where known classes
    are believed without an answer that names them.
overlapped
    Questions are put to another number of people from now on: ``overlap``. Open ones wait for no more than
    that; what was paid for stays so.
asked
    A round was opened: ``round``, ``query``, ``samples`` with their scores (none where nobody is asked).
told, skipped
    A person's answer: ``sample`` and ``answer``; or that the person cannot tell.
corrected, settled
    A later answer of the same person; one that ends a disagreement. ``answer``, or ``skipped``.
undone
    A person took the latest answer back: ``sample``.
believed
    A round was closed: ``round``, ``samples`` and their ``labels`` (none where nothing is believed).
confirmed, rejected
    Pseudo-labels that a person looked at: ``samples``, and which ``labels`` were believed of them. ``instead``
    is what the person said they are, where the budget had no room for it.
unjudged
    A person took such a verdict back: ``samples``.
volunteered
    A person gave a sample that nobody asked about its class: ``sample``, ``answer``, and what was known of it
    (``about``). It counts as an answer, of the last round in which somebody was asked; ``recorded`` in
    ``about`` says that the label was there before, and costs nothing.
stopped
    Nobody is to be asked any more.
ended
    There is no further round: ``why``. ``asked`` and ``believed`` may say it too, as ``ended``.
reopened
    A round that was closed is open again: ``round``, ``query``. What was computed since counts no more; of
    questions asked since, those that nobody answered are withdrawn, the others belong to this round.
extended
    People may be asked for more: ``labels``, and ``rounds`` to ask them in. Where it has ``again``, what was
    computed from this round on, in which nobody was asked, counts no more.
finished
    The next agent was made.

Each says when (``at``) and, where people have names, who (``person``).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cual.data.labels import SKIP, Answer
from cual.types import Label, Row

FORMAT = 1
"""Of the events; said by the first."""
COMPUTED = ("asked", "believed", "ended")
"""Events that the learner's own steps leave; the others are people's."""
ANSWERS = ("told", "skipped", "corrected", "settled", "volunteered")
KINDS = (
    "begun",
    "overlapped",
    *COMPUTED,
    *ANSWERS,
    "undone",
    "reopened",
    "confirmed",
    "rejected",
    "unjudged",
    "stopped",
    "extended",
    "finished",
)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def begun(
    budget: int,
    classes: Sequence[Label],
    unnamed: Label | None,
    overlap: int = 1,
    known_vouched: bool = False,
) -> Row:
    """An adaptation begins: what may be asked, and what is known.

    >>> row = begun(20, ["cat", "dog"], None, overlap=2)
    >>> row["budget"], row["overlap"]
    (20, 2)
    """
    row: Row = {
        "event": "begun",
        "at": now(),
        "format": FORMAT,
        "budget": budget,
        "classes": list(classes),
        "unnamed": unnamed,
    }
    if overlap != 1:
        row["overlap"] = overlap
    if known_vouched:
        row["known_vouched"] = True
    return row


def overlapped(overlap: int, person: Any = None) -> Row:
    return _by({"event": "overlapped", "at": now(), "overlap": overlap}, person)


def asked(round: int, query: str, samples: Sequence[Row], ended: str | None = None) -> Row:
    row = {"event": "asked", "at": now(), "round": round, "query": query, "samples": list(samples)}
    return row if ended is None else {**row, "ended": ended}


def believed(round: int, samples: Sequence[Label], labels: Sequence[Label], ended: str | None = None) -> Row:
    row = {
        "event": "believed",
        "at": now(),
        "round": round,
        "samples": list(samples),
        "labels": list(labels),
    }
    return row if ended is None else {**row, "ended": ended}


def answered(kind: str, query: str, sample: Label, answer: Answer, person: Any = None) -> Row:
    """An answer of one of the kinds in `ANSWERS`.

    >>> row = answered("told", "q0", "a.jpg", SKIP, "Ada")
    >>> row["skipped"], row["person"], answer_of(row)
    (True, 'Ada', SKIP)
    """
    row: Row = {"event": kind, "query": query, "at": now(), "sample": sample}
    if kind != "skipped":
        row |= {"skipped": True} if answer is SKIP else {"answer": answer}
    return _by(row, person)


def undone(sample: Label, person: Any = None) -> Row:
    return _by({"event": "undone", "at": now(), "sample": sample}, person)


def reopened(round: int, query: str, person: Any = None) -> Row:
    return _by({"event": "reopened", "at": now(), "round": round, "query": query}, person)


def judged(
    samples: Sequence[Label],
    right: bool,
    person: Any = None,
    labels: Sequence[Label | None] = (),
    instead: Label | None = None,
) -> Row:
    """A person looked at what is believed of samples.

    >>> judged(["a.jpg"], False, "Ada", ["owl"], instead="fox")["event"]
    'rejected'
    """
    row: Row = {"event": "confirmed" if right else "rejected", "at": now(), "samples": list(samples)}
    row |= {"labels": list(labels)} if labels else {}
    return _by(row if instead is None else {**row, "instead": instead}, person)


def unjudged(samples: Sequence[Label], person: Any = None) -> Row:
    return _by({"event": "unjudged", "at": now(), "samples": list(samples)}, person)


def volunteered(sample: Label, answer: Label, about: Row, person: Any = None) -> Row:
    row = {"event": "volunteered", "at": now(), "sample": sample, "answer": answer, "about": about}
    return _by(row, person)


def stopped(person: Any = None) -> Row:
    return _by({"event": "stopped", "at": now()}, person)


def extended(labels: int, rounds: int, again: int | None, person: Any = None) -> Row:
    row: Row = {"event": "extended", "at": now(), "labels": labels, "rounds": rounds}
    return _by(row if again is None else {**row, "again": again}, person)


def ended(why: str) -> Row:
    return {"event": "ended", "at": now(), "why": why}


def finished(person: Any = None) -> Row:
    return _by({"event": "finished", "at": now()}, person)


def answer_of(event: Mapping[str, Any]) -> Answer:
    """What one of `ANSWERS` says.

    >>> answer_of({"event": "told", "answer": "owl"}), answer_of({"event": "skipped"})
    ('owl', SKIP)
    """
    return SKIP if event["event"] == "skipped" or event.get("skipped") else event["answer"]


def withdrawn(rows: Sequence[Row]) -> set[int]:
    """Places of computed events that count no more: a round before them was opened again, or more is asked.

    >>> rows = [asked(0, "q0", []), believed(0, [], []), asked(1, "q1", []), reopened(0, "q0")]
    >>> withdrawn([*rows, believed(0, [], [])])
    {1, 2}
    """
    standing: list[int] = []
    gone: set[int] = set()
    for place, row in enumerate(rows):
        if row["event"] in COMPUTED:
            standing.append(place)
        elif row["event"] == "reopened":
            while rows[standing[-1]]["event"] != "asked" or rows[standing[-1]]["round"] != row["round"]:
                gone.add(standing.pop())
        elif row["event"] == "extended" and "again" in row:
            while standing and rows[standing[-1]].get("round", row["again"]) >= row["again"]:
                gone.add(standing.pop())
    return gone


def same_step(one: Row, other: Row) -> bool:
    """Whether two computed events are of the same step: the same round, questions and beliefs, whenever.

    >>> one = {"event": "believed", "at": "2026-03-01", "round": 0, "samples": [3], "labels": ["owl"]}
    >>> same_step(one, {**one, "at": "2026-03-02"}), same_step(one, {**one, "labels": ["fox"]})
    (True, False)
    """
    return {k: v for k, v in one.items() if k != "at"} == {k: v for k, v in other.items() if k != "at"}


def _by(row: Row, person: Any) -> Row:
    return row if person is None else {**row, "person": person}
