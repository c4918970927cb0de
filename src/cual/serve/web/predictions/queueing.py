"""Which rows are computed next: large requests are cut into blocks, and people take turns. Order only.

Nothing is computed here, and nothing is locked: both is done by `cual.serve.web.predictions.predicting`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cual.types import AnyArray, FloatArray

Kind = Literal["predict", "novelty", "judge"]
Group = tuple[Kind, int, int | None]
"""What can be computed together: one kind, of one agent, of one version."""


@dataclass(eq=False)
class Request:
    """Rows that somebody waits for."""

    kind: Kind
    agent: int
    version: int | None
    """None for the current one, until the first block is computed: all blocks are of the same version."""
    X: AnyArray
    person: int
    answer: "asyncio.Future[Any]"
    charge: Callable[[int], None]
    """Told the bytes that the answer will take; raises an error where that is too much."""
    taken: int = 0
    """Rows that have been handed out."""
    numbers: FloatArray | None = None
    """What has been computed of them, one row each."""
    over: bool = False
    """Whether its outcome is known, good or bad."""
    false_alarms: float | None = None
    """A rate other than the agent's."""
    counts: bool = True
    """False for what only finds out whether predictions are computed."""

    @property
    def group(self) -> Group:
        return self.kind, self.agent, self.version

    @property
    def left(self) -> int:
        return len(self.X) - self.taken

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return not self.over and not self.answer.done()


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a request."""

    request: Request
    rows: slice

    @property
    def is_last(self) -> bool:
        return self.rows.stop == len(self.request.X)


class Queue:
    """Requests that wait, by person."""

    def __init__(self) -> None:
        self._of: OrderedDict[int, list[Request]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, request: Request) -> None:
        self._of.setdefault(request.person, []).append(request)

    def clear(self) -> list[Request]:
        """All that wait; nobody does afterwards."""
        requests = [request for own in self._of.values() for request in own]
        self._of.clear()
        return requests

    def take(self, room: Callable[[Group], int]) -> list[Piece]:
        """Rows to compute together, at most as many as `room` says that their group may have.

        The first request of the person whose turn it is says which group; whoever waits for the same has a
        share in it.
        """
        self._forget()
        if not self._of:
            return []
        person = next(iter(self._of))
        group = self._of[person][0].group
        together = {p: [r for r in own if r.group == group] for p, own in self._of.items()}
        together = {p: own for p, own in together.items() if own}
        wanted = [sum(request.left for request in own) for own in together.values()]
        pieces: list[Piece] = []
        for own, rows in zip(together.values(), shares(wanted, room(group)), strict=True):
            for request, n in zip(own, shares([r.left for r in own], rows), strict=True):
                pieces += _cut(request, n)
        self._turn({piece.request for piece in pieces})
        self._of.move_to_end(person)
        self._forget()
        return pieces

    def _turn(self, served: set[Request]) -> None:
        """Let those come first, of each person's, that were not served now."""
        for own in self._of.values():
            own.sort(key=lambda request: request in served)

    def _forget(self) -> None:
        """Drop what is handed out, and what nobody waits for any more."""
        for person, own in list(self._of.items()):
            own[:] = [request for request in own if request.left and request.wanted]
            if not own:
                del self._of[person]


def _cut(request: Request, n: int) -> list[Piece]:
    if not n:
        return []
    rows = slice(request.taken, request.taken + n)
    request.taken = rows.stop
    return [Piece(request, rows)]


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Divide `room` rows: who wants little gets it all, the others get the same; one each, if it is that few.

    >>> shares([5000, 3, 10], 1000), shares([5000, 4000], 1000), shares([7, 7, 7], 2)
    ([987, 3, 10], [500, 500], [1, 1, 0])
    """
    n = len(wanted)
    if room < n:
        return [1] * room + [0] * (n - room)
    given, left = [0] * n, room
    for others, place in enumerate(sorted(range(n), key=wanted.__getitem__)):
        given[place] = min(wanted[place], left // (n - others))
        left -= given[place]
    return given


@dataclass
class Pace:
    """How many rows are computed at once, found out block by block: what a row costs, no formula knows.

    >>> pace = Pace(seconds=0.1, first=100)
    >>> pace.note(("novelty", 1, 0), rows=100, seconds=1.0)
    >>> pace.rows(("novelty", 1, 0)), pace.rows(("novelty", 2, 0))
    (10, 100)
    """

    seconds: float = 0.05
    """How long others wait for a block, about."""
    first: int = 64
    most: int = 8192
    _rows: dict[tuple[Kind, int], int] = field(default_factory=dict[tuple[Kind, int], int])

    def rows(self, group: Group) -> int:
        return self._rows.get(group[:2], self.first)

    def note(self, group: Group, rows: int, seconds: float) -> None:
        """Learn from a block: fewer rows where it took too long, more where it was full and quick."""
        before = self.rows(group)
        if seconds > self.seconds:
            self._rows[group[:2]] = max(1, min(before, int(rows * self.seconds / seconds)))
        elif rows >= before:
            self._rows[group[:2]] = min(self.most, 2 * before)
