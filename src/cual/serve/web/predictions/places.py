"""How much requests for predictions may hold at once: those of one person, and all together. Counting only."""

import threading
from collections import Counter

from cual.errors import Overloaded, TooManyRequests
from cual.serve.web.settings import Limits

LEAST = 64 * 1024
"""Bytes that even the smallest request counts for, so that a bound on memory is one on their number too."""


class Place:
    """What one request holds until its answer is sent."""

    def __init__(self, places: "Places", person: int, memory: int) -> None:
        self._places, self.person, self.memory = places, person, memory

    def grow(self, memory: int) -> None:
        """Hold so many bytes more, or the error that says why not."""
        self._places.grow(self, memory)

    def leave(self) -> None:
        """Give it back; doing so again changes nothing."""
        self._places.give_back(self)


class Places:
    """Places for requests, by the memory that they take.

    One person gets so little of all there is that the others are still let in.

    >>> places = Places(Limits(requests_person=1))
    >>> place = places.take(person=1, memory=1000)
    >>> places.take(person=1, memory=1000)
    Traceback (most recent call last):
    cual.errors.TooManyRequests: you wait for 1 prediction already, ...
    >>> place.leave(); places.take(person=1, memory=1000).memory
    65536
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._taken: set[Place] = set()
        self._requests, self._memory = Counter[int](), Counter[int]()
        self._total = 0

    def take(self, person: int, memory: int) -> Place:
        """A place for a request that takes `memory` bytes at most, or the error that says why there is none."""
        place = Place(self, person, max(LEAST, memory))
        with self._lock:
            if self._requests[person] >= self._limits.requests_person:
                raise self._too_many(person)
            self._check(person, place.memory)
            self._taken.add(place)
            self._count(person, 1, place.memory)
        return place

    def grow(self, place: Place, memory: int) -> None:
        with self._lock:
            if place in self._taken:
                self._check(place.person, memory)
                self._count(place.person, 0, memory)
                place.memory += memory

    def give_back(self, place: Place) -> None:
        with self._lock:
            if place in self._taken:
                self._taken.remove(place)
                self._count(place.person, -1, -place.memory)

    def _check(self, person: int, memory: int) -> None:
        if self._memory[person] + memory > self._limits.memory_person:
            raise self._too_many(person)
        if self._total + memory > self._limits.memory:
            raise Overloaded("others wait for as many predictions as there is room for; try again")

    def _too_many(self, person: int) -> TooManyRequests:
        n = self._requests[person]
        return TooManyRequests(
            f"you wait for {n} prediction{'' if n == 1 else 's'} already, of which some must be answered first"
        )

    def _count(self, person: int, requests: int, memory: int) -> None:
        self._requests[person] += requests
        self._memory[person] += memory
        self._total += memory
        if not self._requests[person]:  # people come and go; only those who wait are remembered
            del self._requests[person], self._memory[person]
