"""The worker: takes jobs from the database, one after the other. ``python -m cual.serve.worker WORKSPACE``.

May be killed at any moment. Asked to end (SIGTERM), it gives its job back at the next chance and goes.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from cual.errors import CualError, FolderInUse
from cual.serve import jobs, logs, preparing, steps
from cual.serve.home import Home
from cual.serve.jobs import Claim
from cual.serve.records import Progress
from cual.serve.workspace import Workspace
from cual.types import Progress as Report

BEAT = 1.0
"""Seconds between heartbeats."""
POLL = 0.1
"""Seconds between looks for a job when there is none."""
FOR_PEOPLE = ("advance", "finish")
NICE = 10

log = logging.getLogger("cual.serve.worker")  # also where it is the main module

Work = Callable[[Home, Claim, Report], None]
WORK: dict[str, Work] = {"prepare": preparing.prepare, "advance": steps.advance, "finish": steps.finish}


class GiveUp(Exception):
    """The job is not ours any more, or the worker is to end."""


class Worker:
    """Works off the jobs of a workspace, which was opened in this process."""

    def __init__(self, workspace: Workspace) -> None:
        self._home, self._name = workspace.home, jobs.identity()
        self._ending = threading.Event()

    def end(self) -> None:
        """Begin no more jobs, and give back the one under way."""
        self._ending.set()

    def run_once(self, kinds: tuple[str, ...] = (*FOR_PEOPLE, "prepare")) -> bool:
        """Do the next job that is due; False when there is none."""
        claim = jobs.claim(self._home, self._name, kinds)
        if claim is None:
            return False
        log.info("job begins", extra={"fields": asdict(claim)})
        try:
            with _Heart(self._home, claim) as heart:
                WORK[claim.kind](self._home, claim, self._reporter(claim, heart))
        except GiveUp:
            self._leave(claim)
        except OperationalError:  # the database is gone, or was too busy: the job is not to blame
            with contextlib.suppress(SQLAlchemyError):
                self._leave(claim)
            raise
        except Exception as error:
            self._failed(claim, error)
        return True

    def run_until_idle(self) -> None:
        """Do everything that is due now."""
        while self.run_once():
            pass

    def run_forever(self) -> None:
        """Do jobs as they come, until the end."""
        while not self._ending.is_set():
            try:
                pause = 0.0 if self.run_once() else POLL
            except SQLAlchemyError as error:
                log.error("the database does not answer: %s", type(error).__name__)
                pause = BEAT
            if pause:
                self._ending.wait(pause)

    def _reporter(self, claim: Claim, heart: "_Heart") -> Report:
        looked = time.monotonic()

        def report(stage: str, done: int, total: int) -> None:
            nonlocal looked
            heart.progress = Progress(stage, done, total)
            if claim.kind == "prepare" and time.monotonic() - looked > POLL:
                # A pool may take hours to encode; whoever labels does not wait for that.
                while not self._ending.is_set() and self.run_once(FOR_PEOPLE):
                    pass
                looked = time.monotonic()
            if heart.lost or self._ending.is_set():
                raise GiveUp

        return report

    def _leave(self, claim: Claim) -> None:
        """Leave the job to whoever comes next."""
        with self._home.database.writing() as c:
            jobs.again(c, claim)

    def _failed(self, claim: Claim, error: Exception) -> None:
        expected = isinstance(error, CualError)
        message = str(error) if expected else f"{type(error).__name__}: {error}"
        told = {"fields": {**asdict(claim), "error": message}}
        log.error("job failed", extra=told, exc_info=None if expected else error)
        # What cual says on purpose is said again however often one asks; only a folder in use may come free.
        jobs.failed(self._home, claim, message, for_good=expected and not isinstance(error, FolderInUse))


class _Heart:
    """Tells the database now and then that a job is being worked on, and how far it is."""

    def __init__(self, home: Home, claim: Claim) -> None:
        self.progress: Progress | None = None
        self.lost = False
        self._home, self._claim = home, claim
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heart of job {claim.job}", daemon=True)

    def __enter__(self) -> "_Heart":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            try:
                self.lost = not jobs.beat(self._home, self._claim, self.progress)
            except SQLAlchemyError as error:
                log.warning("no heartbeat: %s", type(error).__name__)


def work_once(workspace: Workspace) -> bool:
    """Do the next job in this process; False when there is none."""
    return Worker(workspace).run_once()


def work_until_idle(workspace: Workspace) -> None:
    """Do everything that is due now, in this process."""
    Worker(workspace).run_until_idle()


def end_with(parent: int) -> None:
    """End this process when `parent` has ended. At once: being killed is what the worker is made for."""
    began = jobs.started(parent)
    if not began:
        sys.exit(f"process {parent} is not there")

    def watch() -> None:
        while jobs.started(parent) == began:
            time.sleep(0.2)
        os._exit(0)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m cual.serve.worker", description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument(
        "--database", default=None, help="else CUAL_DATABASE, else the workspace's own SQLite file"
    )
    parser.add_argument("--parent", type=int, default=None, help="end when this process has ended")
    parser.add_argument("--log-format", choices=("json", "text"), help="text on a terminal if not given")
    given = parser.parse_args(arguments)
    if given.parent is not None:
        end_with(given.parent)
    with contextlib.suppress(OSError):
        os.nice(NICE)
    import torch

    torch.set_num_threads(1)
    logs.set_up(given.log_format or ("text" if sys.stderr.isatty() else "json"))
    worker = Worker(Workspace.open(given.workspace, given.database or os.environ.get("CUAL_DATABASE")))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, partial(_end, worker))
    worker.run_forever()


def _end(worker: Worker, _signal: int, _frame: FrameType | None) -> None:
    worker.end()


if __name__ == "__main__":
    main()
