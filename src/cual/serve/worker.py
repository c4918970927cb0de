"""The worker: takes jobs from the database, one after the other. ``python -m cual.serve.worker WORKSPACE``.

May be killed at any moment. Asked to end (SIGTERM), it gives its job back at the next chance and goes. As a
process of its own it is two: `cual.serve.keeping` says why.
"""

import argparse
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from cual.errors import CualError, FolderInUse
from cual.serve import jobs, logs, pools, preparing, steps
from cual.serve.home import Home, open_home
from cual.serve.jobs import Claim
from cual.serve.keeping import Keeper, Runner, end_with
from cual.serve.records import Progress
from cual.serve.workspace import Workspace
from cual.types import Progress as Report

BEAT = 1.0
"""Seconds between heartbeats."""
POLL = 0.1
"""Seconds between looks for a job when there is none."""
PATIENCE = 1800.0
"""Seconds in which a job must tell of progress. A step tells once a round; with a million samples that is a
matter of minutes."""
LEAVING = 5.0
"""Seconds in which a job that was taken away, as by somebody who cancels it, must have stopped."""
FOR_PEOPLE = ("advance", "finish")
NICE = 10
__all__ = ["WORK", "GiveUp", "Worker", "end_with", "main", "work_once", "work_until_idle"]

log = logging.getLogger("cual.serve.worker")  # also where it is the main module

Work = Callable[[Home, Claim, Report], None]
WORK: dict[str, Work] = {"prepare": preparing.prepare, "advance": steps.advance, "finish": steps.finish}


class GiveUp(Exception):
    """The job is not ours any more, or the worker is to end."""


class Worker:
    """Works off the jobs of a workspace, which was opened in this process, as the runner that it may be."""

    def __init__(self, workspace: Workspace, runner: Runner | None = None) -> None:
        self._home, self._runner = workspace.home, runner
        self._name = jobs.identity() if runner is None else runner.name
        self._ending = threading.Event() if runner is None else runner.ending

    def end(self) -> None:
        """Begin no more jobs, and give back the one under way."""
        self._ending.set()

    def run_once(self, kinds: tuple[str, ...] = (*FOR_PEOPLE, "prepare")) -> bool:
        """Do the next job that is due; False when there is none."""
        claim = jobs.claim(self._home, self._name, kinds)
        if claim is None:
            return False
        log.info("job begins", extra={"fields": asdict(claim)})
        self._note(claim)
        try:
            with _Heart(self._home, claim, self._runner) as heart:
                WORK[claim.kind](self._home, claim, self._reporter(claim, heart))
        except GiveUp:
            self._leave(claim)
        except OperationalError:  # the database is gone, or was too busy: the job is not to blame
            with contextlib.suppress(SQLAlchemyError):
                self._leave(claim)
            self._note(None)
            raise
        except (Exception, SystemExit) as error:
            self._failed(claim, error)
        self._note(None)
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
            self._note(claim, heart.progress)
            if claim.kind == "prepare" and time.monotonic() - looked > POLL:
                # A pool may take hours to encode; whoever labels does not wait for that.
                while not self._ending.is_set() and self.run_once(FOR_PEOPLE):
                    pass
                self._note(claim, heart.progress)
                looked = time.monotonic()
            if heart.lost or self._ending.is_set():
                raise GiveUp

        return report

    def _note(self, claim: Claim | None, progress: Progress | None = None) -> None:
        """Let the keeper know, whatever happens next."""
        if self._runner is not None:
            self._runner.slip.write(claim, progress)

    def _leave(self, claim: Claim) -> None:
        """Leave the job to whoever comes next."""
        with self._home.database.writing() as c:
            jobs.again(c, claim)
        self._tidy(claim)

    def _tidy(self, claim: Claim) -> None:
        if claim.pool is not None:
            pools.forget(self._home, claim.pool)

    def _failed(self, claim: Claim, error: Exception | SystemExit) -> None:
        expected = isinstance(error, CualError)
        message = str(error) if expected else f"{type(error).__name__}: {error}"
        told = {"fields": {**asdict(claim), "error": message}}
        log.error("job failed", extra=told, exc_info=None if expected else error)
        # What cual says on purpose is said again however often one asks; only a folder in use may come free.
        jobs.failed(self._home, claim, message, for_good=expected and not isinstance(error, FolderInUse))
        self._tidy(claim)


class _Heart:
    """Tells the database now and then that a job is being worked on, and how far it is."""

    def __init__(self, home: Home, claim: Claim, runner: Runner | None) -> None:
        self.progress: Progress | None = None
        self.lost = False
        self._home, self._claim, self._runner = home, claim, runner
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
        had = time.monotonic()
        while not self._over.wait(BEAT):
            try:
                self.lost = not jobs.beat(self._home, self._claim, self.progress)
            except SQLAlchemyError as error:
                log.warning("no heartbeat: %s", type(error).__name__)
            if not self.lost:
                had = time.monotonic()
            elif self._is_under_way() and time.monotonic() - had > LEAVING:
                os._exit(0)  # it does not listen, and nobody wants what it computes; the keeper begins anew

    def _is_under_way(self) -> bool:
        """Whether this is what a runner is at, and not a job that is done in between."""
        doing = None if self._runner is None else self._runner.slip.read()
        return doing is not None and doing.claim == self._claim


def work_once(workspace: Workspace) -> bool:
    """Do the next job in this process; False when there is none."""
    return Worker(workspace).run_once()


def work_until_idle(workspace: Workspace) -> None:
    """Do everything that is due now, in this process."""
    Worker(workspace).run_until_idle()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m cual.serve.worker", description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument(
        "--database", default=None, help="else CUAL_DATABASE, else the workspace's own SQLite file"
    )
    parser.add_argument("--parent", type=int, default=None, help="end when this process has ended")
    parser.add_argument(
        "--patience",
        type=float,
        default=float(os.environ.get("CUAL_PATIENCE", PATIENCE)),
        help="seconds in which a job must tell of progress; else CUAL_PATIENCE, else half an hour",
    )
    parser.add_argument("--log-format", choices=("json", "text"), help="text on a terminal if not given")
    given = parser.parse_args(arguments)
    database = given.database or os.environ.get("CUAL_DATABASE")
    keeper = Keeper(
        lambda runner: _run(Workspace.open(given.workspace, database), runner),
        lambda: open_home(given.workspace, database),
        given.patience,
        given.parent,
    )
    with contextlib.suppress(OSError):
        os.nice(NICE)
    import torch

    torch.set_num_threads(1)
    logs.set_up(given.log_format or ("text" if sys.stderr.isatty() else "json"))
    code = keeper.keep()
    if code:
        sys.exit(code)


def _run(workspace: Workspace, runner: Runner) -> None:
    pools.sweep(workspace.home)
    Worker(workspace, runner).run_forever()


if __name__ == "__main__":
    main()
