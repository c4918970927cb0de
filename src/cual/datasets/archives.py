"""What lies in a zip, a tar or a folder, file by file; nothing unpacks to outside, or without end."""

import os
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from cual.errors import BadFile, DamagedFile

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
MOST_BYTES = 500 * 2**30
MOST_FILES = 5_000_000
LARGEST_FILE = 256 * 2**20
LARGEST_HEADER = 2**20
"""Of a tar's own records: they are read whole, and may say that they are as long as they like."""
BLOCK = 2**20
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, OSError)


@dataclass(frozen=True)
class Member:
    """A regular file of an archive or a folder; links and devices are left out."""

    name: str
    """Path inside, with forward slashes, never absolute and without `..`."""
    size: int
    archive: Path
    open: Callable[[], AbstractContextManager[IO[bytes]]]

    def blocks(self) -> Iterator[bytes]:
        """What it holds. That it cannot be read is the archive's fault; what is done with it is not."""
        try:
            with self.open() as file:
                while block := file.read(BLOCK):
                    yield block
        except DAMAGE as error:
            raise DamagedFile(f"{self.archive} is damaged: {error}") from error

    def read(self) -> bytes:
        return b"".join(self.blocks())


Place = Callable[[str], str | None]
"""From a member's name to ``class/file`` in the prepared folder; None for what is not wanted."""


def members(path: Path) -> Iterator[Member]:
    """Files of an archive or a folder. Each must be read before the next one is asked for.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("hello")
    >>> [member.name for member in members(folder)]
    ['a.txt']
    """
    files = _folder(path) if path.is_dir() else _zip(path) if path.suffix == ".zip" else _tar(path)
    total = 0
    try:
        for count, member in enumerate(files):
            _check_name(path, member.name)
            total += member.size
            if member.size > LARGEST_FILE or total > MOST_BYTES or count >= MOST_FILES:
                raise BadFile(f"{path} unpacks to more than is allowed: {member.name} is {member.size:,} bytes")
            yield member
    except DAMAGE as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error


def unpack(path: Path, into: Path, place: Place) -> Counter[str]:
    """Put the wanted files where `place` says, below `into`; how many of each class there are."""
    classes: Counter[str] = Counter()
    for member in members(path):
        target = place(member.name)
        if target is None:
            continue
        _check_name(path, target)
        put(member, into / target)
        classes[PurePosixPath(target).parts[0]] += 1
    return classes


def put(member: Member, file: Path) -> None:
    """Copy a member to a file that is not there yet."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as copy:
            for block in member.blocks():
                copy.write(block)
    except OSError as error:
        raise BadFile(f"{file} cannot be written: {error.strerror or error}") from error


def _check_name(path: Path, name: str) -> None:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name or not pure.parts:
        raise BadFile(f"{path} holds a file that would land outside of its folder: {name!r}")


def _zip(path: Path) -> Iterator[Member]:
    if not zipfile.is_zipfile(path):
        raise DamagedFile(f"{path} is no whole zip file; fetch it again")
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir() and (info.external_attr >> 28) in (0, 0o10):  # no mode, or a regular file

                def opened(info: zipfile.ZipInfo = info) -> Any:
                    return archive.open(info)

                yield Member(info.filename, info.file_size, path, opened)


class _Header(tarfile.TarInfo):
    """A tar's record that is refused before a long name or a comment of it fills the memory."""

    def _proc_member(self, tarfile_: tarfile.TarFile) -> Any:
        if self.type not in tarfile.REGULAR_TYPES and self.size > LARGEST_HEADER:
            raise tarfile.ReadError(f"a record of {self.size:,} bytes that is no file")
        return super()._proc_member(tarfile_)  # pyright: ignore


def _tar(path: Path) -> Iterator[Member]:
    # A stream: nothing is read twice, however large.
    with tarfile.open(path, "r|*", tarinfo=_Header) as archive:
        for info in archive:
            if info.isreg():

                def opened(info: tarfile.TarInfo = info) -> Any:
                    return cast(Any, archive.extractfile(info))

                yield Member(info.name.removeprefix("./"), info.size, path, opened)


def _folder(path: Path) -> Iterator[Member]:
    for folder, inside, files in os.walk(path):
        inside.sort()
        for name in sorted(files):
            file = Path(folder) / name
            if file.is_file():

                def opened(file: Path = file) -> Any:
                    return file.open("rb")

                yield Member(file.relative_to(path).as_posix(), file.stat().st_size, path, opened)
