"""The worker: takes jobs from the database, one after the other. The process is `cual.serve.worker`.

May be killed at any moment. Asked to end (SIGTERM), it gives its job back at the next chance and goes. As a
process of its own it is two: `cual.serve.jobs.keeping` says why.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from cual.data.pool import Elsewhere
from cual.errors import CualError, FolderInUse
from cual.serve.jobs import founding, preparing, repairing, steps
from cual.serve.jobs.keeping import Runner
from cual.serve.rules import jobs, leftovers, removing, retention
from cual.serve.rules.jobs import FOR_PEOPLE, LONG, Claim
from cual.serve.rules.records import JobProgress
from cual.serve.rules.workspace import Workspace
from cual.serve.storage.home import Home, is_no_room
from cual.types import Progress

BEAT = 1.0
"""Seconds between heartbeats."""
POLL = 0.1
"""Seconds between looks for a job when there is none."""
CLEAN = 3600.0
"""Seconds between looks for what may go."""
LEAVING = 5.0
"""Seconds in which a job that was taken away, as by somebody who cancels it, must have stopped."""

log = logging.getLogger("cual.serve.worker")  # also where it is the main module

WORK: dict[str, Callable[..., None]] = {
    "fit": founding.fit,
    "prepare": preparing.prepare,
    "repair": repairing.repair,
    "advance": steps.advance,
    "finish": steps.finish,
}
Scorer = Callable[[Progress], Elsewhere]
"""Where a pool is scored; what it gives tells how far it is."""


class GiveUp(Exception):
    """The job is not ours any more, or the worker is to end."""


class Worker:
    """Works off the jobs of a workspace, which was opened in this process, as the runner that it may be.

    Parameters
    ----------
    scorer
        Where adaptations score their pools, if not here.
    """

    def __init__(
        self, workspace: Workspace, runner: Runner | None = None, scorer: Scorer | None = None
    ) -> None:
        self._scorer = scorer
        self._home, self._runner = workspace.home, runner
        self._name = jobs.identity() if runner is None else runner.name
        self._ending = threading.Event() if runner is None else runner.ending
        self._cleaned = float("-inf")

    def end(self) -> None:
        """Begin no more jobs, and give back the one under way."""
        self._ending.set()

    def run_once(self, kinds: tuple[str, ...] = (*FOR_PEOPLE, *LONG)) -> bool:
        """Do the next job that is due; False when there is none."""
        claim = jobs.claim(self._home, self._name, kinds)
        if claim is None:
            return False
        log.info("job begins", extra={"fields": asdict(claim)})
        self._note(claim)
        try:
            with _Heart(self._home, claim, self._runner) as heart:
                report = self._reporter(claim, heart)
                if self._scorer is not None and claim.kind in FOR_PEOPLE:
                    WORK[claim.kind](self._home, claim, report, self._scorer(report))
                else:
                    WORK[claim.kind](self._home, claim, report)
        except GiveUp:
            self._leave(claim)
        except OperationalError:  # the database is gone, or was too busy: the job is not to blame
            with contextlib.suppress(SQLAlchemyError):
                self._leave(claim)
            self._note(None)
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, OSError) and is_no_room(error):  # nor is it to blame for a full disk
                self._leave(claim)
                self._note(None)
                raise
            self._failed(claim, error)
        else:
            self._tidy(claim)
        self._note(None)
        return True

    def run_until_idle(self) -> None:
        """Do everything that is due now."""
        while self.run_once():
            pass

    def run_forever(self) -> None:
        """Do jobs as they come, until the end."""
        while not self._ending.is_set():
            if self._runner is not None:
                self._runner.pulse.look()
            try:
                pause = 0.0 if self.run_once() else POLL
                if pause:
                    self._clean()
            except SQLAlchemyError as error:
                log.error("the database does not answer: %s", type(error).__name__)
                pause = BEAT
            except OSError as error:
                if not is_no_room(error):
                    raise
                log.error("there is no room for files: %s", error)
                pause = BEAT
            if pause:
                self._ending.wait(pause)

    def _clean(self) -> None:
        """Let go what the rule says, now and then, while there is nothing else to do."""
        if time.monotonic() - self._cleaned < CLEAN:
            return
        self._cleaned = time.monotonic()
        try:
            retention.by_itself(self._home)
        except (CualError, OSError) as error:
            log.warning("what is not needed any more could not be removed: %s", error)

    def _reporter(self, claim: Claim, heart: "_Heart") -> Progress:
        looked = time.monotonic()

        def report(stage: str, done: int, total: int) -> None:
            nonlocal looked
            heart.progress = JobProgress(stage, done, total)
            self._note(claim, heart.progress)
            if claim.kind in LONG and time.monotonic() - looked > POLL:
                # A pool may take hours to encode; whoever labels does not wait for that.
                while not self._ending.is_set() and self.run_once(FOR_PEOPLE):
                    pass
                self._note(claim, heart.progress)
                looked = time.monotonic()
            if heart.lost or self._ending.is_set():
                raise GiveUp

        return report

    def _note(self, claim: Claim | None, progress: JobProgress | None = None) -> None:
        """Let the keeper know, whatever happens next."""
        if self._runner is not None:
            self._runner.slip.write(claim, progress)

    def _leave(self, claim: Claim) -> None:
        """Leave the job to whoever comes next."""
        with self._home.database.writing() as connection:
            jobs.again(connection, claim)
        self._tidy(claim)

    def _tidy(self, claim: Claim) -> None:
        """Remove what was written for something that is over, or was deleted meanwhile."""
        removing.forget(self._home, claim)
        if claim.adaptation is not None:
            leftovers.tidy(self._home, claim.adaptation)

    def _failed(self, claim: Claim, error: Exception | SystemExit) -> None:
        expected = isinstance(error, CualError)
        message = str(error) if expected else f"{type(error).__name__}: {error}"
        fields = {"fields": {**asdict(claim), "error": message}}
        log.error("job failed", extra=fields, exc_info=None if expected else error)
        # What cual says on purpose is said again however often one asks; only a folder in use may come free.
        jobs.failed(self._home, claim, message, for_good=expected and not isinstance(error, FolderInUse))
        self._tidy(claim)


class _Heart:
    """Tells the database now and then that a job is being worked on, and how far it is."""

    def __init__(self, home: Home, claim: Claim, runner: Runner | None) -> None:
        self.progress: JobProgress | None = None
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


def work_forever(workspace: Workspace, runner: Runner, scorer: Scorer | None = None) -> None:
    """What the runner of a worker process does."""
    removing.sweep(workspace.home)
    Worker(workspace, runner, scorer).run_forever()
