"""Work that several processes take from one list, each in its own scratch copy. What it is, others know."""

import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from mutation.kept import KEPT
from mutation.running import CutOff, Scratch

Task = Callable[[Scratch], None]
EVERY = 30.0
"""Seconds from one word about how far it is to the next."""


@contextmanager
def scratches(n: int) -> Iterator[list[Scratch]]:
    """Copies of the sources; in memory where there is plenty, since tests write for good and disks are slow."""
    memory = Path("/dev/shm")
    plenty = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory if plenty else KEPT) as folder:
        first = Scratch(Path(folder) / "0")
        yield [first, *(Scratch(Path(folder) / str(i), first) for i in range(1, n))]


def divide(tasks: Sequence[Task], places: Sequence[Scratch], until: float, what: str) -> None:
    """Does the tasks in their order, one at a time in each place, until all are done or time is over."""
    context = get_context("fork")
    following = context.Value("i", 0)
    begun = time.monotonic()
    parent = os.getpid()

    def work(scratch: Scratch) -> None:
        while time.monotonic() < until and os.getppid() == parent:
            with following.get_lock():
                i = following.value
                following.value += 1
            if i >= len(tasks):
                return
            try:
                tasks[i](scratch)
            except CutOff:
                return
            except Exception:  # one that cannot be run must not stop the others
                traceback.print_exc()

    def say() -> None:
        done = min(following.value, len(tasks))
        print(f"{time.monotonic() - begun:6.0f} s  {what}: {done} of {len(tasks)} begun", flush=True)

    workers = [context.Process(target=work, args=(scratch,)) for scratch in places[: len(tasks)]]
    for worker in workers:
        worker.start()
    said = time.monotonic()
    for worker in workers:
        while worker.is_alive():
            worker.join(1)
            if time.monotonic() - said > EVERY:
                say()
                said = time.monotonic()
    if tasks:
        say()
