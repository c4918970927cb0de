"""Pictures of strangers, decoded in processes of their own, which have so much memory and time and may die.

A picture that takes more becomes a `BadImage`, as a broken one does, and the next is decoded by a new process.
What comes back is bytes of a length that is known, or checked: a decoder has seen what strangers sent.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from cual.encoders.base import Encoder
from cual.encoders.images import MOST_PIXELS, ImageInput, Pixels
from cual.errors import BadFile, BadImage
from cual.serve.jobs import thumbnails
from cual.serve.jobs.decoder import ANSWER, BAD, GOOD, HEAD
from cual.serve.rules.messages import exit_words

Raw = Path | bytes
"""A picture that is not decoded: a file, or what is in one."""
MOST_ENDED = 20
"""Decoders that one source may cost: each takes a minute, and somebody may have sent a hundred thousand."""
_LONGEST_WEBPS = 16 * 2**20
_HIDDEN = ("CUAL_DATABASE",)


@dataclass(frozen=True)
class DecodeLimits:
    """What one picture may take."""

    memory: int = 2**30
    """Bytes, beside those of an idle decoder. 100 million pixels of RGB fit, 178 million are the most that any
    picture may have."""
    seconds: float = 60.0


class Decoders:
    """Some processes that decode, begun when they are needed. For several threads; use with `with`.

    Parameters
    ----------
    number, limits
        How many at once, and what one picture may take.
    endless
        Go on however many decoders were ended by pictures: for people who take turns, not for one source.
    """

    def __init__(self, number: int = 1, limits: DecodeLimits | None = None, endless: bool = False) -> None:
        self._limits = limits or DecodeLimits()
        self._endless = endless
        self._free: queue.SimpleQueue[_Decoder | None] = queue.SimpleQueue()
        for _ in range(number):
            self._free.put(None)
        self._number = number
        self._ended, self._lock = 0, threading.Lock()
        self._trouble: OSError | None = None

    def __enter__(self) -> "Decoders":
        return self

    def __exit__(self, *_: object) -> None:
        for _place in range(self._number):
            decoder = self._free.get()
            if decoder is not None:
                decoder.end()

    def check(self) -> None:
        """Raise what was wrong with more than a picture: then those that were not decoded are not to blame."""
        if self._trouble is not None:
            raise self._trouble
        if self._too_many:
            raise BadFile(
                f"{self._ended} pictures took longer than {self._limits.seconds:g} seconds to decode or ended "
                "whatever decoded them; leave out such pictures"
            )

    def webps(self, picture: Raw) -> tuple[bytes, bytes]:
        """The small picture that people see, and the large one; no bytes where it would not be larger."""
        _, data = self._ask(picture, "webp", thumbnails.LONGEST_SIDE, None, _LONGEST_WEBPS)
        small, length = data[HEAD.size :], int.from_bytes(data[: HEAD.size])
        if not 0 < length <= len(small):
            raise BadImage("its decoder answers something else")
        return small[:length], small[length:]

    def pixels(self, picture: Raw, shorter: int, given: ImageInput) -> Pixels:
        """What a network takes: resized and cropped."""
        size, data = self._ask(picture, "pixels", shorter, given, 3 * given.crop**2)
        if size != (given.crop, given.crop):
            raise BadImage("its decoder answers something else")
        return np.frombuffer(data, np.uint8).reshape(given.crop, given.crop, 3)

    def rgb(self, picture: Raw, shorter: int) -> Image.Image:
        """The picture itself, for whoever wants something else of it."""
        size, data = self._ask(picture, "rgb", shorter, None, 3 * MOST_PIXELS)
        if len(data) != 3 * size[0] * size[1]:
            raise BadImage("its decoder answers something else")
        return Image.frombytes("RGB", size, data)

    def _ask(
        self, picture: Raw, do: str, shorter: int, given: ImageInput | None, most: int
    ) -> tuple[tuple[int, int], bytes]:
        """The size of a picture and what was made of it; asked twice if a decoder dies for no known reason."""
        request = {"do": do, "shorter": shorter, "input": None if given is None else asdict(given)}
        for last in (False, True):
            if self._too_many:
                raise BadImage("not decoded, for too many before it ended their decoder")
            decoder = self._free.get()
            try:
                decoder = decoder or _Decoder(self._limits)
                kind, size, data = decoder.ask(request, picture, most)
            except _Ended as error:
                decoder = None
                if error.number == signal.SIGALRM:
                    self._count_ended()
                    raise BadImage(f"takes more than {self._limits.seconds:g} seconds to decode") from error
                if last:
                    self._count_ended()
                    raise BadImage(f"ends whatever decodes it ({error}); probably {self._too_much}") from error
            except OSError as error:  # no process can be begun
                self._trouble = error
                raise
            else:
                if kind == GOOD:
                    return size, data
                raise BadImage(data.decode(errors="replace") if kind == BAD else self._too_much)
            finally:
                self._free.put(decoder)
        raise AssertionError("the second time is the last")

    @property
    def _too_many(self) -> bool:
        return not self._endless and self._ended >= MOST_ENDED

    @property
    def _too_much(self) -> str:
        return f"needs more than {_amount(self._limits.memory)} to decode"

    def _count_ended(self) -> None:
        with self._lock:
            self._ended += 1


def input_of(encoder: Encoder) -> ImageInput | None:
    """How an encoder wants its pictures, if that is all it does to them; None if only it can prepare them."""
    names = {field.name for field in fields(ImageInput)}
    settings: dict[str, Any] = {name: encoder.preprocessing[name] for name in names & {*encoder.preprocessing}}
    if set(settings) != names:
        return None
    given = ImageInput(**settings)
    probe = Image.linear_gradient("L").rotate(30).resize((97, 61)).convert("RGB")
    return given if np.array_equal(given.pixels(probe), encoder.prepare(probe)) else None


class _Ended(Exception):
    """A decoder is gone."""

    def __init__(self, code: int) -> None:
        self.number = -code
        super().__init__(exit_words(code))


class _Decoder:
    """One process."""

    def __init__(self, limits: DecodeLimits) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each thread would take of its memory
        command = [sys.executable, "-m", "cual.serve.jobs.decoder", str(limits.memory), str(limits.seconds)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries print of a file may be anything
            env={**environment, **one},
        )

    def ask(self, request: dict[str, Any], picture: Raw, most: int) -> tuple[int, tuple[int, int], bytes]:
        """What kind of answer it is, the size of the picture, and the bytes of it."""
        file = os.fsencode(picture).hex() if isinstance(picture, Path) else None
        data = b"" if isinstance(picture, Path) else picture
        head = json.dumps({**request, "file": file, "size": len(data)}).encode()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(HEAD.pack(len(head)) + head + data)
            self._process.stdin.flush()
            kind, width, height, length = ANSWER.unpack(_whole(self._process.stdout, ANSWER.size))
            if length > most:
                raise EOFError
            return kind, (width, height), _whole(self._process.stdout, length)
        except (OSError, EOFError):
            raise _Ended(self.end()) from None

    def end(self) -> int:
        """End it; how it ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # something is left in it that nobody will read
                pass
        try:
            return self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _whole(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data


def _amount(size: int) -> str:
    """
    >>> _amount(2**30), _amount(64 * 2**20)
    ('1 GiB', '64 MiB')
    """
    return f"{size / 2**30:g} GiB" if size >= 2**30 else f"{size / 2**20:g} MiB"
