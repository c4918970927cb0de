"""Who sits at which adaptation just now, so that open questions are shared out. In memory: it is about now."""

import math
from collections.abc import Mapping
from typing import Protocol

from cual.serve.rules.records import Person

AT_MOST = 24
"""Tiles on a board: more than an eye takes in does not help."""


class Desk(Protocol):
    """A page on which somebody answers questions."""

    @property
    def person(self) -> Person: ...

    @property
    def on_desk(self) -> int:
        """How many questions lie on it."""
        ...


class Desks:
    """The desks of one adaptation each; one person with two windows counts once."""

    def __init__(self) -> None:
        self._at: dict[tuple[object, int], set[Desk]] = {}

    def sit(self, workspace: object, adaptation: int, desk: Desk) -> None:
        self._at.setdefault((workspace, adaptation), set()).add(desk)

    def leave(self, workspace: object, adaptation: int, desk: Desk) -> None:
        here = self._at.get((workspace, adaptation), set())
        here.discard(desk)
        if not here:
            self._at.pop((workspace, adaptation), None)

    def on_desk(self, workspace: object, adaptation: int) -> dict[int, int]:
        """Person to the number of questions on their desk."""
        counts: dict[int, int] = {}
        for desk in self._at.get((workspace, adaptation), set()):
            counts[desk.person.id] = max(desk.on_desk, counts.get(desk.person.id, 0))
        return counts


def fair_share(open_questions: int, on_desk: Mapping[int, int], person: int) -> int:
    """How many questions a person's desk should hold.

    >>> fair_share(12, {1: 0}, 1), fair_share(12, {1: 12, 2: 0}, 2), fair_share(400, {1: 0, 2: 0}, 1)
    (12, 6, 24)
    """
    people = len({*on_desk, person})
    return max(1, min(AT_MOST, math.ceil(open_questions / people)))


def too_many(open_questions: int, on_desk: Mapping[int, int], person: int) -> int:
    """How many questions a person should hand on, because somebody at another desk has none.

    >>> too_many(12, {1: 12, 2: 0}, 1), too_many(12, {1: 12}, 1), too_many(12, {1: 8, 2: 4}, 1)
    (6, 0, 0)
    """
    if not any(n == 0 for other, n in on_desk.items() if other != person):
        return 0
    return max(0, on_desk.get(person, 0) - fair_share(open_questions, on_desk, person))
