"""Small pictures of samples that wait, and that anybody may have sent: made by a process with limits."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from cual.errors import BadImage, NotFound
from cual.serve.jobs.decoding import DecodeLimits, Decoders

KEPT = 512
"""Pictures that are kept: some kilobytes each."""
SECONDS = 10.0
"""That one picture may take."""


class Thumbnails:
    """Small pictures, by sample; one is made at a time, and only when somebody looks."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, bytes | None] = OrderedDict()
        self._lock = threading.Lock()
        self._decoders: Decoders | None = None

    def of(self, sample: int, original: Callable[[], bytes]) -> bytes:
        """The WebP of a sample; `NotFound` where none can be made of its original."""
        with self._lock:
            if sample not in self._kept:
                self._kept[sample] = self._made(original())
            self._kept.move_to_end(sample)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            picture = self._kept[sample]
        if picture is None:
            raise NotFound(f"no picture can be made of sample {sample}")
        return picture

    def _made(self, original: bytes) -> bytes | None:
        if self._decoders is None:
            self._decoders = Decoders(limits=DecodeLimits(seconds=SECONDS), endless=True)
        try:
            return self._decoders.webps(original)[0]
        except BadImage:
            return None

    def close(self) -> None:
        with self._lock:
            if self._decoders is not None:
                self._decoders.__exit__()
                self._decoders = None
