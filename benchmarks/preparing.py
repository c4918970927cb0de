"""What decoding apart costs: pictures of strangers go through a process with limits.

Here and apart, for what the network takes and for what people see, alone and with the network beside it. Images
are the shared EuroSAT ones where they are there, and photographs of 640 × 480 made up here.
"""

import tempfile
import time
from pathlib import Path

from encoding import SHARED, photographs

from cual.encoders import Setup, make
from cual.encoders.embedding import embed
from cual.encoders.images import ImageInput, open_image
from cual.encoders.sources import image_folder
from cual.serve.jobs import thumbnails
from cual.serve.jobs.decoding import Decoders
from cual.serve.jobs.encoding import _apart

REPEATS = 3


def seconds(work, items) -> float:
    """The best of some repeats, after one that does not count."""
    times = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        for item in items:
            work(item)
        times.append(time.perf_counter() - began)
    return min(times[1:])


def told(what: str, here: float, apart: float, n: int) -> None:
    print(f"{what:34} {n / here:7.1f} images/s here, {n / apart:7.1f} apart, {apart / here:.2f} × the time")


def measure(folder: Path, encoder) -> None:
    source, given = image_folder(folder), ImageInput()
    files = [item.load.raw() for item in source.items]
    with Decoders() as decoders:
        told(
            "decoded for the network",
            seconds(lambda file: given.pixels(open_image(file, given.resize)), files),
            seconds(lambda file: decoders.pixels(file, given.resize, given), files),
            len(files),
        )
        told(
            "small pictures for people",
            seconds(lambda file: thumbnails.webp(open_image(file, thumbnails.LONGEST_SIDE)), files),
            seconds(decoders.webp, files),
            len(files),
        )
        with tempfile.TemporaryDirectory() as out:
            here, apart = (
                min(
                    embed(source, encoder, f"{out}/{name}{n}", workers=1, decode=decode).seconds
                    for n in range(2)
                )
                for name, decode in (("here", None), ("apart", _apart(encoder, decoders)))
            )
        told("embed, as the service calls it", here, apart, len(files))


def main() -> None:
    encoder = make("efficientnet-lite0", Setup(threads=1))
    with tempfile.TemporaryDirectory() as name:
        print("photographs of 640 × 480")
        measure(photographs(Path(name)), encoder)
    if SHARED.is_dir():
        print("EuroSAT, 64 × 64")
        measure(SHARED, encoder)


if __name__ == "__main__":
    main()
