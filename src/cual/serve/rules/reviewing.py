"""What people say of what is believed without asking: verdicts, and classes that nobody asked for.

What that comes to, and what it costs, is decided in `cual.loop.reviewing`; here it is written down.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.data.labels import SKIP
from cual.errors import BadOption, Conflict, NotFound
from cual.loop.reviewing import judging, naming, withdrawing
from cual.loop.state import State
from cual.serve.rules import adaptations, audit, views
from cual.serve.rules.checks import check_labels, needs
from cual.serve.rules.questions import append, class_names, numbers_of
from cual.serve.rules.records import NamingRecord, Person, Role
from cual.serve.rules.views import View, Views
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label
from cual.types import Row as Event
from cual.uncertainty import Zone

VERDICTS: Mapping[str | None, bool | None] = {"confirm": True, "reject": False, None: None}
q = db.questions.c


class OfReviews:
    """What a workspace tells of beliefs, and is told of them."""

    home: Home
    _views: Views

    def pseudo_labels(self, adaptation: int, label: Label | None = None) -> list[Event]:
        """What is believed without asking, or would be if it ended now (``provisional``), most doubtful first.

        Each has ``sample, row, label, doubt, margin, provisional, verdict, instead``; the order is that of the
        margin, by which its class beats the others.
        """
        return views.pseudo_labels(self.home, adaptation, self._views.get(adaptation), label)

    def alike(self, adaptation: int, rows: Sequence[int]) -> dict[int, list[views.Alike]]:
        """Of those of these rows of which it is known, the classes with the most alike known samples."""
        view = self._views.get(adaptation)
        return {} if view is None else {row: view.alike[row] for row in rows if row in view.alike}

    def review(self, adaptation: int, person: Person, verdicts: Mapping[int, str | None]) -> None:
        """Say "confirm" or "reject" of pseudo-labels, by the row of the pool; None takes it back."""
        review(self.home, adaptation, person, verdicts, self._views.get(adaptation))

    def name_classes(
        self, adaptation: int, person: Person, labels: Mapping[int, Any], meant: bool = False
    ) -> NamingRecord:
        """Say what samples are that something else is believed of, by the row of the pool.

        That is an answer, and charged. Where the budget has no room, the belief is rejected, the class noted.
        `meant` is as in `answer`.
        """
        return name_classes(self.home, adaptation, person, labels, self._views.get(adaptation), meant)

    def withdraw_classes(self, adaptation: int, person: Person, rows: Sequence[int]) -> None:
        """Take back what `name_classes` charged, while the learner has not used it."""
        withdraw_classes(self.home, adaptation, person, rows)


def review(
    home: Home, adaptation: int, person: Person, verdicts: Mapping[int, str | None], view: View | None
) -> None:
    """Confirm pseudo-labels, reject them, or take that back; the learner hears of it at its next step."""
    needs(person, Role.annotator)
    for verdict in verdicts.values():
        if verdict not in VERDICTS:
            raise BadOption(f"a verdict is confirm or reject, or none to take it back, not {verdict!r}")
    with home.database.writing() as connection:
        task, state = _going(home, connection, adaptation)
        believed = _believed(view, state, verdicts)
        new: list[Event] = []
        counts: dict[str, int] = {}
        for verdict, right in VERDICTS.items():
            mine = [sample for row, sample in _samples(view, verdicts) if verdicts[row] == verdict]
            judged = judging(state, mine, right, believed, person.id)
            new += judged
            counts["taken back" if verdict is None else f"{verdict}ed"] = sum(len(e["samples"]) for e in judged)
        if new:
            events.append(connection, adaptation, new)
            adaptations.changed(connection, task)
            audit.write(connection, person, "review", "adaptation", adaptation, **counts)


def name_classes(
    home: Home,
    adaptation: int,
    person: Person,
    labels: Mapping[int, Any],
    view: View | None,
    meant: bool = False,
) -> NamingRecord:
    """Give samples that are believed their classes."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        task, state = _going(home, connection, adaptation)
        names = class_names(home, connection, task)
        wanted = {sample: labels[row] for row, sample in _samples(view, labels)}
        given = {s: label for s, label in check_labels(wanted, names, meant).items() if label is not SKIP}
        believed = _believed(view, state, labels)
        row_of = {sample: row for row, sample in _samples(view, labels)}
        assert view is not None
        named = naming(state, given, believed, lambda sample: _about(view, row_of[sample]), person.id)
        if not named.events:
            return NamingRecord(named.charged, named.noted, named.confirmed)
        answers = [event for event in named.events if "answer" in event]
        verdicts = [event for event in named.events if "answer" not in event]
        events.append(connection, adaptation, verdicts)
        after = state.after(verdicts)
        if answers:
            unasked = [event for event in answers if event["event"] == "volunteered"]
            _put_down(connection, task, after.after(unasked), unasked, row_of)
            numbers = numbers_of(connection, adaptation, [event["sample"] for event in answers])
            append(connection, task, after, answers, numbers)
        else:
            adaptations.changed(connection, task)
        counts = {"charged": named.charged, "noted": named.noted, "confirmed": named.confirmed}
        audit.write(connection, person, "name classes", "adaptation", adaptation, **counts)
        return NamingRecord(**counts)


def withdraw_classes(home: Home, adaptation: int, person: Person, rows: Sequence[int]) -> None:
    """Take back classes that nobody asked for: their samples are of no question any more."""
    needs(person, Role.annotator)
    with home.database.writing() as connection:
        task, state = _going(home, connection, adaptation)
        wanted = sa.select(q.row, q.sample).where(q.adaptation == adaptation, q.row.in_(list(rows)[:1000]))
        samples = {found.row: found.sample for found in connection.execute(wanted)}
        missing = next((row for row in rows if row not in samples), None)
        if missing is not None:
            raise NotFound(f"nobody gave row {missing} of the pool a class")
        new = withdrawing(state, [samples[row] for row in rows], person.id)
        numbers = numbers_of(connection, adaptation, [event["sample"] for event in new])
        after = append(connection, task, state, new, numbers)
        gone = [number for sample, number in numbers.items() if sample not in after.questions]
        told = db.events.c.question.in_(gone)
        connection.execute(sa.update(db.events).where(told).values(question=None))
        connection.execute(sa.delete(db.questions).where(q.id.in_(gone)))
        audit.write(connection, person, "withdraw classes", "adaptation", adaptation, classes=len(new))


# -- inside ----------------------------------------------------------------------------------------------------


def _going(home: Home, connection: Connection, adaptation: int) -> tuple[Row[Any], State]:
    task = adaptations.locked(connection, adaptation)
    adaptations.check_going(task)
    if task.state == "failed":
        raise Conflict(f"adaptation {adaptation} has failed; try again first")
    return task, home.states.of(connection, adaptation)


def _samples(view: View | None, rows: Iterable[int]) -> list[tuple[int, Label]]:
    """Rows with their ids; all must be believed."""
    for row in rows:
        if view is None or row not in view.samples:
            raise NotFound(f"row {row} of the pool has no pseudo-label")
    return [] if view is None else [(row, view.samples[row]) for row in rows]


def _believed(view: View | None, state: State, rows: Iterable[int]) -> dict[Label, Label]:
    """What is or would be believed of the samples of some rows."""
    found: dict[Label, Label] = {}
    for row, sample in _samples(view, rows):
        assert view is not None
        label = view.names[int(view.believed[row])]
        if bool(view.provisional[row]) or sample in state.pseudo_labels:
            found[sample] = label
    return found


def _about(view: View, row: int) -> Event:
    history, zone = view.history[-1], int(view.zones[row])
    return {
        "iteration": history["iteration"],
        "score": float(view.scores[row]),
        "threshold": history["t_inner"],
        "zone": Zone(max(0, zone)).name.lower(),
    }


def _put_down(
    connection: Connection, task: Row[Any], after: State, new: Sequence[Event], row_of: Mapping[Label, int]
) -> None:
    """Write down questions that nobody asked, for what was answered to them."""
    if not new:
        return
    last = sa.select(sa.func.max(q.position)).where(q.adaptation == task.id)
    position: int = connection.execute(last).scalar_one_or_none() or 0
    same = ("score", "threshold", "zone", "suggestion")
    rows: list[Event] = []
    for place, event in enumerate(new):
        question = after.questions[event["sample"]]
        rows.append(
            {
                **{name: event["about"][name] for name in same},
                "adaptation": task.id,
                "query": question.query,
                "round": question.round,
                "position": position + 1 + place,
                "sample": event["sample"],
                "row": row_of[event["sample"]],
                "created_at": db.now(),
            }
        )
    connection.execute(sa.insert(db.questions), rows)
