"""What happens in an adaptation, as plain JSON rows that are only ever added. What they imply is in `state`.

begun
    The first: ``budget``, ``classes`` known before, ``unnamed`` (a made-up class that vouches for itself).
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
    Pseudo-labels that a person looked at: ``samples``.
stopped
    Nobody is to be asked any more.
ended
    There is no further round: ``why``. ``asked`` and ``believed`` may say it too, as ``ended``.
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
ANSWERS = ("told", "skipped", "corrected", "settled")
KINDS = ("begun", *COMPUTED, *ANSWERS, "undone", "confirmed", "rejected", "stopped", "finished")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def begun(budget: int, classes: Sequence[Label], unnamed: Label | None) -> Row:
    return {
        "event": "begun",
        "at": now(),
        "format": FORMAT,
        "budget": budget,
        "classes": list(classes),
        "unnamed": unnamed,
    }


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
    """An answer of one of the kinds in `ANSWERS`."""
    row: Row = {"event": kind, "query": query, "at": now(), "sample": sample}
    if kind != "skipped":
        row |= {"skipped": True} if answer is SKIP else {"answer": answer}
    return _by(row, person)


def undone(sample: Label, person: Any = None) -> Row:
    return _by({"event": "undone", "at": now(), "sample": sample}, person)


def judged(samples: Sequence[Label], right: bool, person: Any = None) -> Row:
    event = "confirmed" if right else "rejected"
    return _by({"event": event, "at": now(), "samples": list(samples)}, person)


def stopped(person: Any = None) -> Row:
    return _by({"event": "stopped", "at": now()}, person)


def ended(why: str) -> Row:
    return {"event": "ended", "at": now(), "why": why}


def finished(person: Any = None) -> Row:
    return _by({"event": "finished", "at": now()}, person)


def answer_of(event: Mapping[str, Any]) -> Answer:
    """What one of `ANSWERS` says."""
    return SKIP if event["event"] == "skipped" or event.get("skipped") else event["answer"]


def same_step(one: Row, other: Row) -> bool:
    """Whether two computed events are of the same step: the same round, questions and beliefs, whenever."""
    return {k: v for k, v in one.items() if k != "at"} == {k: v for k, v in other.items() if k != "at"}


def _by(row: Row, person: Any) -> Row:
    return row if person is None else {**row, "person": person}
