"""Pictures of a pool's rows, small and large, which are all that people ever see of the files that came.

They are decoded and written anew: nothing of a file that a stranger sent is served, its EXIF data least.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cual.data.folder import FeaturesFolder
from cual.errors import BadImage
from cual.serve.jobs import thumbnails
from cual.serve.jobs.decoding import Decoders
from cual.serve.rules import pools
from cual.serve.rules.messages import without_paths
from cual.serve.rules.sources import SOURCE
from cual.types import AnyArray, Progress

Item = tuple[int, str, Path | AnyArray]
"""A row, what to call its picture in a message, and the picture."""
MOST_LARGE = 10_000
"""Pools of more pictures have only small ones: large ones take about 0.5 MB each."""


def write(folder: Path, items: Iterator[Item], decoders: Decoders, progress: Progress) -> list[dict[str, str]]:
    """Put pictures of each item into the pool's folder, small and large; those that could not be decoded."""
    target = folder / pools.PICTURES
    target.mkdir(exist_ok=True)
    skipped: list[dict[str, str]] = []
    every = list(items)
    for done, (row, what, source) in enumerate(every):
        progress("pictures", done, len(every))
        file = target / f"{row}.webp"
        if file.exists():
            continue
        try:
            small, large = decoders.webps(source) if isinstance(source, Path) else _webps(source)
        except BadImage as error:
            skipped.append({"source": what, "reason": without_paths(str(error), [folder])})
            continue
        if large and len(every) <= MOST_LARGE:
            _put(target / pools.LARGE.format(row=row), large)
        _put(file, small)  # last: where it is, the row is done
    return skipped


def _put(file: Path, data: bytes) -> None:
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(data)
    unfinished.replace(file)


def given(folder: Path) -> Iterator[Item]:
    """Pictures that came with a pool."""
    whole = folder / SOURCE / "pictures.npy"
    if whole.exists():
        for row, pixels in enumerate(np.load(whole, mmap_mode="r", allow_pickle=False)):
            yield row, f"row {row}", pixels
        return
    for row in sorted(int(file.name) for file in (folder / SOURCE).iterdir()):
        yield row, f"row {row}", folder / SOURCE / str(row)


def under(folder: Path, path: Path, root: Path) -> Iterator[Item]:
    """The image files that rows of a features folder were made of, where they are there and may be read."""
    for row, name in enumerate(FeaturesFolder.open(folder / pools.FEATURES_FOLDER).sources):
        file = Path(name) if name else None
        if file is not None and file.is_file() and inside(file, root):
            yield row, short(name or "", path), file


def inside(file: Path, root: Path) -> bool:
    """Whether a file lies under a folder, links resolved.

    >>> inside(Path("/data/photos/../secrets.txt"), Path("/data/photos"))
    False
    """
    return file.resolve().is_relative_to(root.resolve())


def short(source: str, path: Path) -> str:
    """A source as people know it, without where it lies on this machine.

    >>> short("/data/photos/cat/1.jpg", Path("/data/photos"))
    'cat/1.jpg'
    """
    file = Path(source)
    return file.relative_to(path).as_posix() if file.is_relative_to(path) else file.name


def _webps(pixels: AnyArray) -> tuple[bytes, bytes]:
    from PIL import Image

    return thumbnails.webps(Image.fromarray(np.asarray(pixels)))
