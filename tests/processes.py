"""Which processes run, read from /proc, where threads and processes may end while one reads."""

import os
from pathlib import Path


def _told(pid: int) -> tuple[str, int] | None:
    """A process's state and its parent."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return state, int(parent)


def alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and is not yet waited for does not."""
    told = _told(pid)
    return told is not None and told[0] not in "ZX"


def children(pid: int | None = None) -> list[int]:
    """Running processes that one, in whichever thread, has begun; without a number, this one."""
    parent = os.getpid() if pid is None else pid
    found = [int(name.name) for name in Path("/proc").iterdir() if name.name.isdigit()]
    return sorted(n for n in found if (told := _told(n)) and told[1] == parent and told[0] not in "ZX")
