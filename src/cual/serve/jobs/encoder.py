"""A process that encodes pictures and texts while somebody waits: ``python -m cual.serve.jobs.encoder``.

Requests come on stdin and answers go to stdout, row by row, as `cual.serve.web.predictions.encoding` writes and
reads them. Encoders stay in memory. Pictures are decoded in further processes, which have limits and may die.
"""

import json
import os
import re
import signal
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from cual.encoders.base import Kind
from cual.errors import BadFeatures, BadImage, BadOption, CualError, PredictionsStopped
from cual.serve.jobs.decoding import DecodeLimits, Decoders, input_of
from cual.serve.jobs.encoding import encoder_of
from cual.serve.jobs.turns import Request, Sample, Turns
from cual.types import FloatArray

if TYPE_CHECKING:
    from cual.encoders.base import Encoder
    from cual.encoders.images import ImageInput

HEAD = struct.Struct("!I")
"""Before a request: the length of its JSON. Its pictures or texts follow, as long as that says."""
ANSWER = struct.Struct("!QIBI")
"""Before an answer: the request, its row, what kind it is, and how many bytes follow."""
GOOD, BAD, FAILED = range(3)
"""Features of a row in float32; what is wrong with a row; what is wrong with all of a request."""
DECODERS = 3
DECODE_LIMITS = DecodeLimits(memory=512 * 2**20, seconds=10.0)
"""Less than pools get: somebody waits, and others behind them."""
WARM = 2
"""Encoders in memory: one for pictures and one for texts, where agents have the usual ones."""
BATCH: dict[Kind, int] = {"image": 32, "text": 64}


def main() -> None:
    """Encode until stdin ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever began us ends us, by closing stdin
        signal.signal(number, signal.SIG_IGN)
    requests, answers = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    with suppress(OSError):  # where memory runs out, this process goes before the one that serves everybody
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    turns = Turns(DECODERS, BATCH)
    work = Work(turns, Answers(answers, turns.drop), Decoders(DECODERS, DECODE_LIMITS, endless=True))
    threading.Thread(target=listen, args=(requests, turns), daemon=True).start()
    for _ in range(DECODERS):
        threading.Thread(target=work.decode, daemon=True).start()
    work.encode()


def listen(requests: IO[bytes], turns: Turns) -> None:
    """Take requests until there are no more; then nobody needs this process, whatever it is at."""
    try:
        while (head := requests.read(HEAD.size)) and len(head) == HEAD.size:
            told: dict[str, Any] = json.loads(requests.read(HEAD.unpack(head)[0]))
            if "drop" in told:
                turns.drop(told["drop"])
                continue
            items = [requests.read(size) for size in told["sizes"]]
            turns.add(Request(told["id"], told["person"], told["encoder"], told["kind"], items))
    finally:
        os._exit(0)  # decoders end when their stdin does


class Answers:
    """What is told of requests, by several threads."""

    def __init__(self, pipe: IO[bytes], drop: Callable[[int], None]) -> None:
        self._pipe, self._drop, self._lock = pipe, drop, threading.Lock()

    def good(self, sample: Sample, features: FloatArray) -> None:
        self._tell(sample.request, sample.row, GOOD, np.ascontiguousarray(features, np.float32).tobytes())

    def bad(self, sample: Sample, error: Exception) -> None:
        self._tell(sample.request, sample.row, BAD, _worded(error))

    def failed(self, request: Request, error: Exception) -> None:
        """Nothing comes of a request."""
        self._tell(request, 0, FAILED, _worded(error))
        self._drop(request.id)

    def _tell(self, request: Request, row: int, kind: int, data: bytes) -> None:
        with self._lock:
            self._pipe.write(ANSWER.pack(request.id, row, kind, len(data)) + data)
            self._pipe.flush()


@dataclass(frozen=True)
class Loaded:
    """An encoder in memory, and how it wants its pictures, if that is all it does to them."""

    encoder: "Encoder"
    given: "ImageInput | None"

    @property
    def shorter(self) -> int:
        """The shorter side that a picture needs."""
        return int(self.encoder.preprocessing.get("resize") or 256)


class Work:
    """What the threads do."""

    def __init__(self, turns: Turns, answers: Answers, decoders: Decoders) -> None:
        self._turns, self._answers, self._decoders = turns, answers, decoders
        self._warm: OrderedDict[str, Loaded] = OrderedDict()

    def decode(self) -> None:
        """Decode one picture after the other."""
        while True:
            sample = self._turns.next_picture()
            prepared = None
            try:
                prepared = self._decoded(sample)
            except BadImage as error:
                self._answers.bad(sample, error)
            except OSError:  # no decoder can be begun: not the picture's fault
                self._answers.failed(
                    sample.request, PredictionsStopped("no picture can be decoded now; try again")
                )
            except Exception as error:
                self._answers.bad(sample, error)
            finally:
                self._turns.decoded(sample, prepared)

    def _decoded(self, sample: Sample) -> Any:
        loaded: Loaded = sample.request.loaded
        if loaded.given is not None:
            return self._decoders.pixels(sample.content, loaded.shorter, loaded.given)
        return loaded.encoder.prepare(self._decoders.rgb(sample.content, loaded.shorter))

    def encode(self) -> None:
        """Find encoders and encode, one batch after the other."""
        while True:
            work = self._turns.next_work()
            if isinstance(work, Request):
                self._begin(work)
            elif work:
                self._encode(work)

    def _begin(self, request: Request) -> None:
        try:
            self._turns.admit(request, self._loaded(request))
        except Exception as error:
            self._answers.failed(request, error)

    def _loaded(self, request: Request) -> Loaded:
        if request.encoder not in self._warm:
            encoder = encoder_of(request.encoder, _quiet, threads=None)
            while len(self._warm) >= WARM:
                self._warm.popitem(last=False)
            self._warm[request.encoder] = Loaded(
                encoder, input_of(encoder) if encoder.kind == "image" else None
            )
        self._warm.move_to_end(request.encoder)
        loaded = self._warm[request.encoder]
        if loaded.encoder.kind != request.kind:
            raise BadOption(
                f"the agent's encoder {loaded.encoder.name} takes {loaded.encoder.kind}s, not {request.kind}s"
            )
        return loaded

    def _encode(self, samples: list[Sample]) -> None:
        """Encode together; where that goes wrong one by one, so that each row has only itself to blame."""
        try:
            features = self._features(samples)
        except Exception as error:
            if len(samples) == 1:
                self._answers.bad(samples[0], error)
                return
            for sample in samples:
                self._encode([sample])
            return
        for sample, row in zip(samples, features, strict=True):
            if np.isfinite(row).all():
                self._answers.good(sample, row)
            else:
                self._answers.bad(sample, BadFeatures("the encoder makes no numbers of it"))

    def _features(self, samples: list[Sample]) -> FloatArray:
        encoder: Encoder = samples[0].request.loaded.encoder
        prepared = [sample.content for sample in samples]
        return encoder.encode(
            [encoder.prepare(text) for text in prepared] if encoder.kind == "text" else prepared
        )


def _quiet(stage: str, done: int, total: int) -> None:
    """Progress of nothing that anybody looks at."""


def _worded(error: Exception) -> bytes:
    """An error of ours by its name; of any other nothing is told but its name, which is for the log."""
    if isinstance(error, CualError):
        detail = re.sub(r" *<_io\.BytesIO[^>]*>", "", str(error))
        return json.dumps({"error": type(error).__name__, "detail": detail[:500]}).encode()
    return json.dumps({"error": "", "detail": f"{type(error).__name__}: {error}"[:500]}).encode()


if __name__ == "__main__":
    main()
