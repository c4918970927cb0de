"""Folders of images: DIR/class/image.jpg, links followed once, whatever else lies there left alone."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cual.encoders.images import SUFFIXES, open_image
from cual.encoders.sources.items import Item, Source, readable
from cual.errors import BadFile, BadImage


def image_folder(path: Path) -> Source:
    """Images below a folder, in order of their names. The first folder below it is the label: DIR/cat/1.jpg."""
    files, closed = _found(path)
    if not files:
        also = f"; {len(closed)} folders in it cannot be read" if closed else ""
        raise BadFile(f"{path} holds no images ({', '.join(sorted(SUFFIXES))}){also}")
    return Source(path, "image", [_item(path, file) for file in (*files, *closed)])


def _item(path: Path, file: Path) -> Item:
    relative = file.relative_to(path)
    label = readable(relative.parts[0]) if len(relative.parts) > 1 else None
    return Item(readable(relative.as_posix()), _Opened(file), label, readable(str(file)), _stamp(file))


def _found(path: Path) -> tuple[list[Path], list[Path]]:
    """Files that are named like images, and folders that cannot be read. No folder is entered twice."""
    found: list[Path] = []
    closed: list[OSError] = []
    seen: set[tuple[int, int]] = set()
    for folder, inside, files in os.walk(path, onerror=closed.append, followlinks=True):
        this = os.stat(folder)
        if (this.st_dev, this.st_ino) in seen:  # a link back to where we were, or a second one to the same
            inside.clear()
            continue
        seen.add((this.st_dev, this.st_ino))
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        wanted = (n for n in files if not n.startswith(".") and Path(n).suffix.lower() in SUFFIXES)
        found += [Path(folder) / name for name in sorted(wanted)]
    return found, [Path(error.filename) for error in closed]


def _stamp(file: Path) -> str | None:
    try:
        found = file.stat()
    except OSError:  # a link into nowhere: whoever loads it is told
        return None
    return f"{found.st_size}:{found.st_mtime_ns}"


@dataclass(frozen=True)
class _Opened:
    file: Path

    def __call__(self, shorter: int) -> Any:
        return open_image(self.raw(), shorter)

    def raw(self) -> Path:
        try:
            kind = self.file.stat().st_mode
            if stat.S_ISDIR(kind):
                os.listdir(self.file)  # says why it could not be entered
            if not stat.S_ISREG(kind):  # a pipe would be waited for, a device never ends
                raise BadImage("it is no regular file")
        except OSError as error:
            raise BadImage(f"{type(error).__name__}: {error.strerror}") from error
        return self.file
