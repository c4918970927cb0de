"""A process that decodes pictures of strangers: ``python -m cual.serve.jobs.decoder BYTES SECONDS``.

It has so much memory and, for each picture, so much time. Requests come on stdin and answers go to stdout, as
`decoding` writes and reads them. It knows no database and needs no torch, so it begins in no time.
"""

import io
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import cual

HEAD = struct.Struct("!I")
"""Before a request: the length of its JSON. The bytes of a picture follow, if it is not a file.
Before two pictures: the length of the first."""
ANSWER = struct.Struct("!BIII")
"""Before an answer: what kind it is, width and height of the picture, and how many bytes follow."""
GOOD, BAD, NEEDS_MEMORY = range(3)

Answer = tuple[int, int, int, bytes]


def main(most_bytes: int, seconds: float) -> None:
    """Decode until stdin ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever began us ends us, or a picture would be blamed
        signal.signal(number, signal.SIG_IGN)
    requests, answers = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    images = _images()
    _limit(most_bytes)
    while request := _read(requests):
        signal.setitimer(signal.ITIMER_REAL, seconds)  # the signal ends this process, whatever it is at
        kind, width, height, data = _answer(images, *request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(ANSWER.pack(kind, width, height, len(data)))
        answers.write(data)
        answers.flush()


def _images() -> Any:
    """`cual.encoders.images` without the package around it, which would import torch and all encoders."""
    package = ModuleType("cual.encoders")
    package.__path__ = [str(Path(str(cual.__file__)).parent / "encoders")]
    sys.modules["cual.encoders"] = package
    images = import_module("cual.encoders.images")
    from PIL import Image

    import_module("PIL.ImageOps")  # else `images` would when it first needs it
    Image.init()  # all formats now: there may be too little memory later
    return images


def _limit(most_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # where the machine itself runs out of memory, this process goes before the worker
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")
    with suppress(OSError, ValueError):
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + most_bytes, used + most_bytes))


def _read(requests: IO[bytes]) -> tuple[dict[str, Any], Path | IO[bytes]] | None:
    """The next request and its picture; None when there are no more."""
    head = requests.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    request = json.loads(requests.read(HEAD.unpack(head)[0]))
    if request["file"] is not None:
        return request, Path(os.fsdecode(bytes.fromhex(request["file"])))
    return request, io.BytesIO(requests.read(request["size"]))


def _answer(images: Any, request: dict[str, Any], picture: Path | IO[bytes]) -> Answer:
    try:
        return _WORK[request["do"]](images, images.open_image(picture, request["shorter"]), request)
    except MemoryError:
        return NEEDS_MEMORY, 0, 0, b""
    except Exception as error:
        if isinstance(error.__cause__, MemoryError):
            return NEEDS_MEMORY, 0, 0, b""
        named = str(error) if isinstance(error, images.BadImage) else f"{type(error).__name__}: {error}"
        return BAD, 0, 0, named[:300].encode(errors="replace")


def _rgb(images: Any, image: Any, request: dict[str, Any]) -> Answer:
    return GOOD, *image.size, image.tobytes()


def _pixels(images: Any, image: Any, request: dict[str, Any]) -> Answer:
    pixels = images.ImageInput(**request["input"]).pixels(image)
    return GOOD, pixels.shape[1], pixels.shape[0], pixels.tobytes()


def _webp(images: Any, image: Any, request: dict[str, Any]) -> Answer:
    from cual.serve.jobs.thumbnails import webps

    small, large = webps(image)
    return GOOD, *image.size, HEAD.pack(len(small)) + small + large


_WORK: dict[str, Callable[[Any, Any, dict[str, Any]], Answer]] = {"rgb": _rgb, "pixels": _pixels, "webp": _webp}


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
