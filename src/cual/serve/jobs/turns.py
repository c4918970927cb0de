"""Which pictures are decoded next, and what is encoded together: people take turns. Order only.

Nothing is decoded or encoded here; `cual.serve.jobs.encoder` does both, in several threads.
"""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cual.encoders.base import Kind


@dataclass(eq=False)
class Request:
    """Pictures or texts that somebody waits for."""

    id: int
    person: int
    encoder: str
    """The fingerprint of the one that makes features of them."""
    kind: Kind
    items: list[bytes]
    dropped: bool = False
    """Whether nobody waits any more."""
    loaded: Any = None
    """The encoder itself, once it is there."""


@dataclass(eq=False)
class Sample:
    """One row of a request."""

    request: Request
    row: int
    content: Any
    """Bytes of a picture, then what the network takes; a text at once."""


class Line:
    """Samples that wait, by person; people take turns.

    >>> line, own = Line(), [Request(i, person, "e", "text", []) for i, person in enumerate((1, 1, 2))]
    >>> for request in own: line.add(Sample(request, 0, ""))
    >>> [line.take().request.person for _ in range(3)], line.take()
    ([1, 2, 1], None)
    """

    def __init__(self) -> None:
        self._of: OrderedDict[int, deque[Sample]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def add(self, sample: Sample) -> None:
        self._of.setdefault(sample.request.person, deque()).append(sample)

    def take(self, may: Callable[[int], bool] = lambda person: True) -> Sample | None:
        """The next sample of the first person who `may` have a turn."""
        person = next((person for person in self._of if may(person)), None)
        if person is None:
            return None
        sample = self._of[person].popleft()
        self._of.move_to_end(person)
        if not self._of[person]:
            del self._of[person]
        return sample

    def drop(self, request: Request) -> None:
        """Forget all samples of a request."""
        own = deque(sample for sample in self._of.pop(request.person, ()) if sample.request is not request)
        if own:
            self._of[request.person] = own


@dataclass
class Turns:
    """Requests on their way: their encoder is found, then pictures are decoded, then rows encoded together.

    For several threads: one that adds, some that decode, one that encodes.
    """

    decoders: int
    """Pictures that are decoded at once; one person has one fewer, so that nobody can keep all others out."""
    batch: Mapping[Kind, int]
    """Rows that are encoded together, at most."""
    ahead: int = 64
    """Decoded pictures that wait to be encoded, at most: each takes memory."""
    wait: float = 0.005
    """Seconds that the first row of a batch waits for others that are being decoded."""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _new: deque[Request] = field(default_factory=deque[Request])
    _requests: dict[int, Request] = field(default_factory=dict[int, Request])
    _pictures: Line = field(default_factory=Line)
    _ready: OrderedDict[str, Line] = field(default_factory=OrderedDict[str, Line])
    _decoding: Counter[int] = field(default_factory=Counter[int])

    def add(self, request: Request) -> None:
        with self._changed:
            self._requests[request.id] = request
            self._new.append(request)
            self._changed.notify_all()

    def drop(self, id: int) -> None:
        """Nobody waits for a request any more, or all of it is answered."""
        with self._changed:
            request = self._requests.pop(id, None)
            if request is None:
                return
            request.dropped = True
            request.items = []
            if request in self._new:
                self._new.remove(request)
            for line in (self._pictures, *self._ready.values()):
                line.drop(request)
            self._changed.notify_all()

    def admit(self, request: Request, loaded: Any) -> None:
        """The encoder of a request is there: its pictures can be decoded, its texts encoded."""
        with self._changed:
            if request.dropped:
                return
            request.loaded = loaded
            for row, item in enumerate(request.items):
                if request.kind == "image":
                    self._pictures.add(Sample(request, row, item))
                else:
                    self._put(Sample(request, row, item.decode()))
            request.items = []
            self._changed.notify_all()

    def next_picture(self) -> Sample:
        """A picture to decode; waits for one."""
        with self._changed:
            while True:
                if self._n_ready() < self.ahead:
                    sample = self._pictures.take(lambda person: self._decoding[person] < self.decoders - 1)
                    if sample is not None:
                        self._decoding[sample.request.person] += 1
                        return sample
                self._changed.wait()

    def decoded(self, sample: Sample, prepared: Any | None) -> None:
        """A picture has been decoded, or cannot be (None)."""
        with self._changed:
            self._decoding[sample.request.person] -= 1
            if not self._decoding[sample.request.person]:
                del self._decoding[sample.request.person]
            if prepared is not None and not sample.request.dropped:
                self._put(Sample(sample.request, sample.row, prepared))
            self._changed.notify_all()

    def next_work(self) -> Request | list[Sample]:
        """A request whose encoder is to be found, or rows to encode together; waits for either."""
        with self._changed:
            while not self._new and not self._ready:
                self._changed.wait()
            if self._new:
                return self._new.popleft()
            self._wait_for_others()
            return [] if self._new else self._together()

    def _wait_for_others(self) -> None:
        end = time.monotonic() + self.wait
        while self._decoding and not self._new and (left := end - time.monotonic()) > 0:
            if self._n_ready() >= min(self.batch.values()):
                return
            self._changed.wait(left)

    def _together(self) -> list[Sample]:
        """Rows of the encoder whose turn it is."""
        if not self._ready:  # dropped meanwhile
            return []
        encoder, line = next(iter(self._ready.items()))
        first = line.take()
        samples: list[Sample] = []
        while first is not None:
            samples.append(first)
            first = line.take() if len(samples) < self.batch[first.request.kind] else None
        self._ready.move_to_end(encoder)
        if not len(line):
            del self._ready[encoder]
        self._changed.notify_all()  # there is room for decoded pictures again
        return samples

    def _put(self, sample: Sample) -> None:
        self._ready.setdefault(sample.request.encoder, Line()).add(sample)

    def _n_ready(self) -> int:
        return sum(map(len, self._ready.values()))
