"""Folders of images: DIR/class/image.jpg, links followed once, whatever else lies there left alone."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cual.data.labels import as_text
from cual.encoders.images import SUFFIXES, open_image
from cual.encoders.sources.items import Item, Source
from cual.errors import BadFile, BadImage


def image_folder(path: Path) -> Source:
    """Images below a folder, in order of their names. The first folder below it is the label: DIR/cat/1.jpg.

    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "cat").mkdir()
    >>> Image.new("RGB", (8, 8)).save(folder / "cat" / "1.png")
    >>> [(item.id, item.label) for item in image_folder(folder).items]
    [('cat/1.png', 'cat')]
    """
    files, closed = _images_below(path)
    if not files:
        also = f"; {len(closed)} folders in it cannot be read" if closed else ""
        raise BadFile(f"{path} holds no images ({', '.join(sorted(SUFFIXES))}){also}")
    return Source(path, "image", [_item(path, file) for file in (*files, *closed)])


def one_image(file: Path) -> Source:
    """A single image, called as its file is."""
    return Source(
        file, "image", [Item(as_text(file.name), _Opened(file), None, as_text(str(file)), _stamp(file))]
    )


def _item(path: Path, file: Path) -> Item:
    relative = file.relative_to(path)
    label = as_text(relative.parts[0]) if len(relative.parts) > 1 else None
    return Item(as_text(relative.as_posix()), _Opened(file), label, as_text(str(file)), _stamp(file))


def _images_below(path: Path) -> tuple[list[Path], list[Path]]:
    """Files that are named like images, and folders that cannot be read. No folder is entered twice."""
    images: list[Path] = []
    closed: list[OSError] = []
    seen: set[tuple[int, int]] = set()
    for folder, inside, files in os.walk(path, onerror=closed.append, followlinks=True):
        status = os.stat(folder)
        identity = (status.st_dev, status.st_ino)
        if identity in seen:  # a link back to where we were, or a second one to the same
            inside.clear()
            continue
        seen.add(identity)
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        wanted = (n for n in files if not n.startswith(".") and Path(n).suffix.lower() in SUFFIXES)
        images += [Path(folder) / name for name in sorted(wanted)]
    return images, [Path(error.filename) for error in closed]


def _stamp(file: Path) -> str | None:
    try:
        status = file.stat()
    except OSError:  # a link into nowhere: whoever loads it is told
        return None
    return f"{status.st_size}:{status.st_mtime_ns}"


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
