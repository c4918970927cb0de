"""What was asked and what people said, in order. The journal only grows; all else is read off it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from cual.labels import SKIP, Answer
from cual.types import Label, Row


class Journal:
    """Asked and told, as plain JSON rows.

    >>> journal = Journal()
    >>> journal.asked("q0", [{"sample": "img1", "score": 2.5}])
    >>> journal.told("q0", "img1", "fox"); journal.told("q0", "img1", "wolf")
    >>> journal.answers, journal.charged, [row["corrected"] for row in journal.ledger()]
    ({'img1': 'wolf'}, 1, ['fox'])
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: list[Row] = []
        self.answers: dict[Label, Answer] = {}
        """The answer that counts for each sample, corrections applied."""
        self.verdicts: dict[Label, bool] = {}
        """Pseudo-labels that people looked at: True where it was confirmed last, False where rejected."""
        self.stopped = False
        for row in rows:
            self._append(row)

    @property
    def charged(self) -> int:
        """Labels that the budget has paid for."""
        return sum(answer is not SKIP for answer in self.answers.values())

    def asked(self, query: str, samples: Sequence[Row]) -> None:
        self._append({"event": "asked", "query": query, "at": _now(), "samples": list(samples)})

    def told(self, query: str, sample: Label, answer: Answer) -> None:
        plain = {"skipped": True} if answer is SKIP else {"answer": answer}
        self._append({"event": "told", "query": query, "at": _now(), "sample": sample, **plain})

    def judged(self, samples: Sequence[Label], right: bool) -> None:
        event = "confirmed" if right else "rejected"
        self._append({"event": event, "at": _now(), "samples": list(samples)})

    def stop(self) -> None:
        self._append({"event": "stopped", "at": _now()})

    def question(self, query: str) -> list[Row]:
        """What was asked in one query."""
        return next(r["samples"] for r in self.rows if r["event"] == "asked" and r["query"] == query)

    def _append(self, row: Row) -> None:
        self.rows.append(row)
        if row["event"] == "told":
            self.answers[row["sample"]] = SKIP if row.get("skipped") else row["answer"]
        elif row["event"] in ("confirmed", "rejected"):
            self.verdicts |= dict.fromkeys(row["samples"], row["event"] == "confirmed")
        elif row["event"] == "stopped":
            self.stopped = True

    def ledger(self) -> list[Row]:
        """One row per sample asked about: when, why, what was answered, and what it cost."""
        rows: dict[Label, Row] = {}
        for event in self.rows:
            if event["event"] == "asked":
                for sample in event["samples"]:
                    rows[sample["sample"]] = {
                        **sample,
                        "query": event["query"],
                        "asked_at": event["at"],
                        "answer": None,
                        "skipped": False,
                        "charged": 0,
                        "told_at": None,
                        "corrected": None,
                    }
            elif event["event"] == "told":
                row = rows[event["sample"]]
                skipped = bool(event.get("skipped"))
                row["corrected"] = row["answer"] if row["told_at"] else None
                row |= {"answer": event.get("answer"), "skipped": skipped, "charged": int(not skipped)}
                row["told_at"] = event["at"]
        return list(rows.values())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
