"""One process at a time in a folder: a lock file that says whose it is. The kernel frees it in any case."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cual.errors import FolderInUse

if TYPE_CHECKING:
    from filelock import BaseFileLock


def claim(file: Path, doing: str = "used", wait: bool = False) -> "BaseFileLock":
    """The lock of `file`'s folder; `release` it when done.

    Parameters
    ----------
    file
        The lock file. It stays there: removing it would let two processes lock two files of one name.
    doing
        What `FolderInUse` says of the folder: it "is being used by" somebody.
    wait
        Wait for whoever has it, instead of raising `FolderInUse`.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / ".lock"
    >>> lock = claim(file)
    >>> lock.is_locked
    True
    >>> lock.release()
    """
    from filelock import (
        FileLock,
        Timeout,
    )  # here, since it takes a tenth of a second that most commands can save

    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(
        file, thread_local=False
    )  # a writer may be closed by another thread than the one that opened it
    owner = ""
    with suppress(OSError):  # on Windows nobody else can read or write a file that is locked
        owner = file.read_text(encoding="utf-8", errors="replace")[:200].strip()
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise FolderInUse(f"{file.parent} is being {doing} by {owner or 'another process'}") from None
    with suppress(OSError):
        file.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
    return lock


@contextmanager
def alone(file: Path) -> Generator[None]:
    """One process at a time in the block; `file` is the lock, and others wait.

    >>> import tempfile
    >>> with alone(Path(tempfile.mkdtemp()) / ".lock"):
    ...     pass
    """
    lock = claim(file, wait=True)
    try:
        yield
    finally:
        lock.release()
