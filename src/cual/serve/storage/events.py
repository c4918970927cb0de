"""Events of adaptations in the database: appended, read back, and the state that they imply, kept in memory.

Nothing here decides anything: what events mean is said in `cual.loop.state`.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.loop.state import State
from cual.serve.storage import tables as db
from cual.types import Label, Row

KEPT = 64
"""States in memory: of the adaptations that were looked at last."""
_COLUMNS = ("event", "at", "person")
e = db.events.c


def append(
    connection: Connection, adaptation: int, rows: Sequence[Row], questions: Mapping[Label, int] | None = None
) -> None:
    """Add events; `questions` says which question a sample is. The adaptation's row must be locked."""
    if not rows:
        return
    numbers = questions or {}
    connection.execute(
        sa.insert(db.events),
        [
            {
                "adaptation": adaptation,
                "kind": row["event"],
                "at": datetime.fromisoformat(row["at"]),
                "person": row.get("person"),
                "question": numbers.get(row["sample"]) if "sample" in row else None,
                "body": {k: v for k, v in row.items() if k not in _COLUMNS},
            }
            for row in rows
        ],
    )


def read(connection: Connection, adaptation: int, after: int = 0) -> list[tuple[int, Row]]:
    """Events with their ids, in order: all, or those after an id."""
    wanted = sa.select(db.events).where(e.adaptation == adaptation, e.id > after)
    return [(row.id, as_event(row)) for row in connection.execute(wanted.order_by(e.id))]


def stream(connection: Connection, adaptation: int, kinds: Sequence[str]) -> Iterator[Row]:
    """Events of some kinds, in order; few are in memory at a time, for one can be as long as a pool."""
    wanted = sa.select(db.events).where(e.adaptation == adaptation, e.kind.in_(kinds)).order_by(e.id)
    for row in connection.execute(wanted.execution_options(yield_per=8)):
        yield as_event(row)


def as_event(row: Any) -> Row:
    """A row of the table as `cual.loop.events` has it."""
    at = row.at.astimezone(UTC).isoformat(timespec="milliseconds")
    person = {} if row.person is None else {"person": row.person}
    return {"event": row.kind, "at": at, **person, **row.body}


class States:
    """States in memory, each brought up to date by the events that came since."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[int, State]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, connection: Connection, adaptation: int) -> State:
        """The state as this transaction sees it: ask before you append, for what you append may not be kept."""
        with self._lock:
            last, state = self._kept.get(adaptation, (0, State()))
        new = read(connection, adaptation, last)
        if new:
            last, state = new[-1][0], state.after([row for _, row in new])
        with self._lock:
            if last >= self._kept.get(adaptation, (0, state))[0]:
                self._kept[adaptation] = (last, state)
            self._kept.move_to_end(adaptation)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return state
