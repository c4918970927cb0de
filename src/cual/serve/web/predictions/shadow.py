"""Candidates predict in the shadow of the live version: in a thread of its own that nobody waits for.

What the live version answered is offered to it, and it takes what there is room for: the rest is counted and
let go. What is kept of it is in `cual.serve.rules.shadows`.
"""

import hashlib
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from PIL import Image

from cual.agent import Agent
from cual.encoders.base import Kind as SampleKind
from cual.encoders.images import ImageInput
from cual.errors import BadImage, NotFound
from cual.serve.jobs import thumbnails
from cual.serve.jobs.decoding import Decoders
from cual.serve.jobs.encoder import DECODE_LIMITS
from cual.serve.rules import agents, shadows
from cual.serve.rules.shadows import LONGEST_TEXT, MOST_EXAMPLES, MOST_PAIRS, PER_PAIR, Counts, Example, Plan
from cual.serve.storage.home import Home
from cual.serve.web.predictions.outcomes import Judgements, Novelties, Outcome, Predictions, numbers_of, outcome
from cual.serve.web.predictions.queueing import Kind
from cual.types import AnyArray, BoolArray, FloatArray, IntArray, Label

log = logging.getLogger(__name__)
MOST_BYTES = 32 * 2**20
"""Of features, pictures and texts that wait."""
MOST_ROWS = 256
"""Of one request: so few that copying them keeps nobody waiting."""
BLOCK = 64
LOAD = 0.5
"""Share of its time in which the thread computes; it rests after each block."""
FRESH = 1.0
"""Seconds for which it is believed that an agent has no candidate."""
EVERY = 1.0
"""Seconds between two times that counts are written."""
PICTURE = ImageInput(resize=128, crop=128)
"""What is kept of a picture: the middle of it, as encoders see it."""
_END_SECONDS = 10.0
_KIND: dict[type, Kind] = {Predictions: "predict", Novelties: "novelty", Judgements: "judge"}
Comparison = tuple[int, int, int]
"""An agent, its candidate, and the live version."""


@dataclass(frozen=True)
class Originals:
    """What rows were made of: files of pictures, or texts."""

    kind: SampleKind
    items: list[bytes]


@dataclass(frozen=True)
class Said:
    """What a version says of some rows, as far as it was asked."""

    labels: list[Label] | None
    unlike: BoolArray | None


@dataclass(frozen=True, eq=False)
class Offer:
    """Rows that the live version has answered."""

    agent: int
    live: int
    kind: Kind
    X: FloatArray
    said: Said
    false_alarms: float | None
    originals: Originals | None
    sampled: bool
    """Whether only the share of rows is left that the team wants."""

    @property
    def size(self) -> int:
        return self.X.nbytes + (0 if self.originals is None else sum(map(len, self.originals.items)))

    def only(self, rows: IntArray) -> "Offer":
        originals, said = self.originals, self.said
        labels = None if said.labels is None else [said.labels[row] for row in rows.tolist()]
        unlike = None if said.unlike is None else said.unlike[rows]
        if originals is not None:
            originals = Originals(originals.kind, [originals.items[row] for row in rows.tolist()])
        named = (self.agent, self.live, self.kind, self.X[rows], Said(labels, unlike), self.false_alarms)
        return Offer(*named, originals, sampled=True)


class Shadow:
    """Compares candidates with live versions. Nobody waits for it, and nothing that goes wrong leaves it.

    Parameters
    ----------
    load
        An agent's version; by default from its file. Never those of the predictor: it would lose its own.
    most_bytes
        What may wait.
    """

    def __init__(
        self, home: Home, load: Callable[[int, int], Agent] | None = None, most_bytes: int = MOST_BYTES
    ) -> None:
        self._home, self._most_bytes = home, most_bytes
        self._load = load or partial(agents.load, home)
        self._changed = threading.Condition()
        """Held for whatever follows; never while computing."""
        self._waiting: deque[Offer] = deque()
        self._bytes = 0
        self._dropped: Counter[tuple[int, int]] = Counter()
        """Rows by agent and live version."""
        self._plans: dict[int, tuple[Plan, float]] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._rng = np.random.default_rng()
        # only the thread's:
        self._candidate: tuple[tuple[int, int], Agent] | None = None
        self._counts: dict[Comparison, Counts] = {}
        self._examples: dict[Comparison, Counter[tuple[Label, Label]]] = {}
        self._decoders: Decoders | None = None
        self._written = 0.0

    def offer(self, agent: int, X: AnyArray, answered: Outcome, originals: Originals | None = None) -> None:
        """Let a candidate of the agent predict what a version has answered, some time, if there is one."""
        try:
            self._offer(agent, X, answered, originals)
        except Exception:  # the answer is there, and is sent
            log.exception("the shadow takes no rows of agent %d", agent)

    def close(self) -> None:
        """End the thread; what waits is let go, what was counted is written."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def _offer(self, agent: int, X: AnyArray, answered: Outcome, originals: Originals | None) -> None:
        if isinstance(answered, Exception) or self._closed.is_set():
            return
        plan, at = self._plans.get(agent, (None, 0.0))
        if plan is not None and plan.candidate is None and time.monotonic() - at < FRESH:
            return
        share = plan.share if plan is not None and plan.candidate is not None else None
        rows = np.arange(len(X)) if share is None else self._sample(len(X), share)
        left_out = max(0, len(rows) - MOST_ROWS)
        if left_out:
            rows = np.sort(self._rng.choice(rows, MOST_ROWS, replace=False))
        if not len(rows):
            return
        if originals is not None:
            originals = Originals(originals.kind, [originals.items[row] for row in rows.tolist()])
        features = np.array(X[rows], dtype=np.float32, order="C")
        rate = None if isinstance(answered, Predictions) else answered.false_alarms
        offer = Offer(
            agent,
            answered.version,
            _KIND[type(answered)],
            features,
            said_by(answered, rows),
            rate,
            originals,
            share is not None,
        )
        self._put(offer, left_out)

    def _sample(self, n: int, share: float) -> IntArray:
        return np.flatnonzero(self._rng.random(n) < share)

    def _put(self, offer: Offer, left_out: int) -> None:
        with self._changed:
            key = (offer.agent, offer.live)
            if self._bytes + offer.size > self._most_bytes:
                self._dropped[key] += len(offer.X) + left_out
                return
            self._dropped[key] += left_out
            self._waiting.append(offer)
            self._bytes += offer.size
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="shadow", daemon=True)
                self._thread.start()
            self._changed.notify()

    # -- in the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(OSError, AttributeError):  # others come first; Linux has that for each thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not self._closed.is_set():
            try:
                self._step()
            except Exception:
                log.exception("the shadow stumbles, and goes on")
                self._closed.wait(EVERY)
        with suppress(Exception):
            self._write()
        if self._decoders is not None:
            self._decoders.__exit__()

    def _step(self) -> None:
        """Compare what has waited longest; write what was counted, now and then."""
        with self._changed:
            if not self._waiting and not self._closed.is_set():
                # what was counted is written soon, also where nothing more comes
                self._changed.wait(EVERY if self._counts or self._dropped else None)
            offer = self._waiting.popleft() if self._waiting and not self._closed.is_set() else None
            if offer is not None:
                self._bytes -= offer.size
        if offer is not None:
            self._compare(offer)
        if offer is None or time.monotonic() - self._written > EVERY:
            self._write()

    def _plan(self, agent: int, live: int) -> Plan:
        """Who predicts in whose shadow; asked again where it is old, or knows of another live version."""
        known = self._plans.get(agent)
        if known is not None and known[0].live == live and time.monotonic() - known[1] < FRESH:
            return known[0]
        try:
            plan = shadows.plan(self._home, agent)
        except NotFound:  # it was deleted
            plan = Plan(live, None, 1.0)
        if known is None or known[0] != plan:  # examples may have gone meanwhile, and with them what we know
            self._examples = {key: kept for key, kept in self._examples.items() if key[0] != agent}
            self._candidate = None
        self._plans[agent] = plan, time.monotonic()
        return plan

    def _compare(self, offer: Offer) -> None:
        plan = self._plan(offer.agent, offer.live)
        if plan.candidate is None or plan.live != offer.live:
            return
        if not offer.sampled:
            offer = offer.only(self._sample(len(offer.X), plan.share))
        key = (offer.agent, plan.candidate, offer.live)
        counts = self._counts.setdefault(key, Counts())
        for start in range(0, len(offer.X), BLOCK):
            if self._closed.is_set():
                return
            block = offer.only(np.arange(start, min(start + BLOCK, len(offer.X))))
            began = time.perf_counter()
            try:
                said = self._said(plan.candidate, block)
            except Exception:
                counts.failed += len(block.X)
                log.exception(
                    "version %d of agent %d cannot predict in the shadow", plan.candidate, offer.agent
                )
            else:
                self._add(key, counts, block, said)
            self._closed.wait((time.perf_counter() - began) * (1 - LOAD) / LOAD)

    def _said(self, version: int, block: Offer) -> Said:
        key = (block.agent, version)
        if self._candidate is None or self._candidate[0] != key:
            self._candidate = key, self._load(*key)
        agent = self._candidate[1]
        numbers = numbers_of(agent, block.kind, torch.from_numpy(block.X))
        if not np.isfinite(numbers).all():
            raise FloatingPointError("its arithmetic overflows")
        told = outcome(block.kind, numbers, agent, version, block.false_alarms)
        return said_by(told, np.arange(len(block.X)))

    def _add(self, key: Comparison, counts: Counts, block: Offer, said: Said) -> None:
        if block.said.unlike is not None and said.unlike is not None:
            counts.judged += len(block.X)
            counts.live_unlike += int(block.said.unlike.sum())
            counts.unlike += int(said.unlike.sum())
        if block.said.labels is None or said.labels is None:
            return
        for row, pair in enumerate(zip(block.said.labels, said.labels, strict=True)):
            counts.compared += 1
            counts.agreed += pair[0] == pair[1]
            if pair in counts.pairs or len(counts.pairs) < MOST_PAIRS:
                counts.pairs[pair] += 1
            if pair[0] != pair[1] and self._wanted(key, pair):
                counts.examples.append(self._example(block, row, *pair))

    def _wanted(self, key: Comparison, pair: tuple[Label, Label]) -> bool:
        """Whether one more example of two labels is kept; if so, it is counted."""
        if key not in self._examples:
            self._examples[key] = shadows.example_counts(self._home, *key)
        known = self._examples[key]
        if known[pair] >= PER_PAIR or known.total() >= MOST_EXAMPLES:
            return False
        known[pair] += 1
        return True

    def _example(self, block: Offer, row: int, live_label: Label, label: Label) -> Example:
        digest = hashlib.sha256(block.X[row].astype("<f4").tobytes()).hexdigest()
        if block.originals is None:
            return Example(live_label, label, digest)
        item = block.originals.items[row]
        if block.originals.kind == "text":
            return Example(live_label, label, digest, text=item.decode(errors="replace")[:LONGEST_TEXT])
        return Example(live_label, label, digest, picture=self._small(item))

    def _small(self, picture: bytes) -> bytes | None:
        """A small picture of one that a stranger sent: decoded in a process that may die."""
        if self._decoders is None:
            self._decoders = Decoders(1, DECODE_LIMITS, endless=True)
        try:
            pixels = self._decoders.pixels(picture, PICTURE.resize, PICTURE)
        except (BadImage, OSError):
            return None
        return thumbnails.webps(Image.fromarray(pixels))[0]

    def _write(self) -> None:
        """Write what was counted; what is no longer of a candidate and the live version is let go."""
        self._written = time.monotonic()
        with self._changed:
            dropped = [(agent, live, n) for (agent, live), n in self._dropped.items() if n]
            self._dropped.clear()
        for agent, live, n in dropped:
            plan = self._plan(agent, live)
            if plan.candidate is not None and plan.live == live:
                self._counts.setdefault((agent, plan.candidate, live), Counts()).dropped += n
        for key in list(self._counts):
            counts = self._counts[key]
            if not shadows.add(self._home, *key, counts):
                self._examples.pop(key, None)
            del self._counts[key]  # after it is written: an error above keeps it for the next time


def said_by(answered: Outcome, rows: IntArray) -> Said:
    """Labels and verdicts of some rows, as far as they are in an answer."""
    if isinstance(answered, Predictions):
        best = cast(AnyArray, answered.probabilities[rows].argmax(axis=1))
        return Said([answered.classes[number] for number in best.tolist()], None)
    if isinstance(answered, Novelties):
        return Said(None, answered.scores[rows] > answered.threshold)
    if isinstance(answered, Exception):
        raise answered
    labels = [answered.classes[int(number)] for number in answered.best[rows, 0].tolist()]
    if answered.threshold is None:
        return Said(labels, None)
    return Said(labels, answered.best[rows, 3] > answered.threshold)
