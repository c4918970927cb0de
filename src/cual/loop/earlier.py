"""Adaptations as release 0.1.0 saved them: everything in one file. They load, and are saved in today's way.

Everything that knows the old form is here; when it is no longer read, this file goes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cual import storage
from cual.data.labels import SKIP, Answer
from cual.loop import events
from cual.loop.rounds import Round
from cual.types import Label, Row

STATE = "state.safetensors"


def events_of(file: Path, agent: Any, ids: Sequence[Label]) -> list[Row]:
    """The events of an adaptation that release 0.1.0 saved."""
    body, tensors = storage.read(file, "adaptation")
    rounds = [Round.from_state(i, storage.section(tensors, f"round.{i}.")) for i in range(body["rounds"])]
    unnamed = body["names"][len(agent.names)] if agent.method.learner.unnamed else None
    return [
        events.begun(body["budget"], agent.names.names, unnamed),
        *_events(body, rounds, ids),
    ]


def _events(body: Row, rounds: Sequence[Round], ids: Sequence[Label]) -> list[Row]:
    """Today's events: a round is closed before the next one is opened, and `told` says what kind of answer."""
    old: list[Row] = body["journal"]
    asked = {row["query"]: row for row in old if row["event"] == "asked"}
    rows: list[Row] = []
    given: dict[Label, Answer] = {}
    opened = 0
    ended: str | None = body["ended"]
    below = ended == "nothing lies above T_inner"

    def close(last: bool) -> None:
        """Write down that the round before was closed."""
        if 0 < opened <= body["closed"]:
            round_ = rounds[opened - 1]
            samples = [ids[row] for row in round_.pseudo_rows.tolist()]
            labels = [body["names"][c] for c in round_.pseudo_classes.tolist()]
            why = ended if last and _closes(ended) else None
            rows.append({**events.believed(opened - 1, samples, labels, why)})

    def open_rounds(until: int) -> None:
        """Write down rounds up to and including `until`; those without questions left no event."""
        nonlocal opened
        while opened <= until:
            close(last=False)
            question = asked.get(f"q{opened}")
            at = question["at"] if question else (rows[-1]["at"] if rows else events.now())
            samples = question["samples"] if question else []
            why = ended if below and opened == len(rounds) - 1 else None
            rows.append({**events.asked(opened, f"q{opened}", samples, why), "at": at})
            opened += 1

    for row in old:
        if row["event"] == "asked":
            open_rounds(int(row["query"][1:]))
        elif row["event"] == "told":
            answer = SKIP if row.get("skipped") else row["answer"]
            kind = "corrected" if row["sample"] in given else "skipped" if answer is SKIP else "told"
            given[row["sample"]] = answer
            rows.append({**events.answered(kind, row["query"], row["sample"], answer), "at": row["at"]})
        else:
            rows.append(row)
    open_rounds(len(rounds) - 1)
    if not below:
        close(last=True)
    if ended is not None and not below and not _closes(ended):
        rows.append(events.ended(ended))
    return rows


def _closes(ended: str | None) -> bool:
    """Whether it is the closing of a round that ends the loop for this reason."""
    return ended in ("the pool is labelled", "nothing more to ask or to believe")
