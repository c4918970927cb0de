"""The worker's two processes: the keeper lives and watches, the runner, which it forks, does jobs and may die.

So a job that ends whoever does it ends the runner alone, and the keeper says which job that was
(`rules.crashes`). What the runner is at lies in memory that both share: it is known to the last report,
whatever became of the runner. The keeper has no threads and no open connections when it forks.
"""

import ctypes
import faulthandler
import json
import logging
import mmap
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from sqlalchemy.exc import SQLAlchemyError

from cual.serve.rules import jobs
from cual.serve.rules.crashes import Crash
from cual.serve.rules.jobs import Claim
from cual.serve.rules.messages import exit_words
from cual.serve.rules.records import JobProgress
from cual.serve.storage.home import Home

LOOK = 0.05
"""Seconds between looks at the runner."""
BEAT = 1.0
"""Seconds between two beats."""
SILENT = 20.0
"""Seconds after which a runner that has not beaten is not well; some computations let no thread run a while."""
LONGEST_LOOK = 90.0
"""Seconds that a look for a job may take: while the database is locked, it waits."""
GRACE = 5.0
"""Seconds that a runner which is asked to end may take to give back its job."""
_ASKED = (signal.SIGTERM, signal.SIGINT)
_WHERE_IT_IS = signal.SIGUSR2
"""Makes the runner write down where it is, even while it does not let go of the interpreter."""

log = logging.getLogger("cual.serve.worker")


@dataclass(frozen=True)
class Doing:
    """What a runner is at."""

    claim: Claim
    progress: JobProgress | None
    since: float
    """When it last told of progress, by the clock of `time.monotonic`, which all processes share."""


class Slip:
    """A note in memory that outlives whoever wrote it: the runner writes, the keeper reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4096)
        self._last: Doing | None = None

    def write(self, claim: Claim | None, progress: JobProgress | None = None) -> None:
        line = b"null"
        if claim is not None:
            reached = None if progress is None else (progress.stage[:200], progress.done, progress.total)
            line = json.dumps([asdict(claim), reached, time.monotonic()]).encode()
        self._memory[: len(line) + 1] = line + b"\n"

    def read(self) -> Doing | None:
        """What was written last; half a note counts for the one before."""
        try:
            line = json.loads(self._memory[:].partition(b"\n")[0])
        except ValueError:
            return self._last
        self._last = None
        if line is not None:
            claim, reached, since = line
            self._last = Doing(Claim(**claim), None if reached is None else JobProgress(*reached), since)
        return self._last


@dataclass(frozen=True)
class Runner:
    """What a runner knows of itself."""

    name: str
    """The worker's, in the database: that of the keeper, which lives longer."""
    slip: Slip
    ending: threading.Event
    """Set when it is to give back its job and go."""
    pulse: "Pulse"


class Pulse:
    """When the runner last showed that it lives, in memory that keeper and runner share.

    It does while it is at a job, as long as its threads run at all, and between jobs while it looks for one:
    how long a job may go on without progress is decided elsewhere.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)
        self._looked = time.monotonic()
        self.beat()

    def beat(self) -> None:
        self._memory[:] = struct.pack("d", time.monotonic())

    @property
    def age(self) -> float:
        return time.monotonic() - struct.unpack("d", self._memory[:])[0]

    def look(self) -> None:
        """The runner looks for a job."""
        self._looked = time.monotonic()

    def keep(self, slip: Slip) -> None:
        """Beat from now on, in a thread of the runner."""
        self.look()

        def run() -> None:
            while True:
                if slip.read() is not None or time.monotonic() - self._looked < LONGEST_LOOK:
                    self.beat()
                time.sleep(BEAT)

        threading.Thread(target=run, name="pulse", daemon=True).start()


class Keeper:
    """Keeps a runner at work until the end.

    Parameters
    ----------
    run
        What the runner does, until it is to end.
    home
        Opens the workspace anew, for what only the keeper can say of a job.
    patience
        Seconds in which a job must tell of progress.
    parent
        Process to end with.
    beat
        A pipe that gets a byte every second while keeper and runner are well.
    """

    def __init__(
        self,
        run: Callable[[Runner], None],
        home: Callable[[], Home],
        patience: float,
        parent: int | None,
        beat: int | None = None,
    ) -> None:
        self._beat, self._beaten, self._pulse = beat, 0.0, Pulse()
        if beat is not None:
            os.set_blocking(beat, False)
        self._run, self._home, self._patience, self._parent = run, home, patience, parent
        self._parent_began = "" if parent is None else jobs.started(parent)
        if parent is not None and not self._parent_began:
            sys.exit(f"process {parent} is not there")
        self._name, self._slip = jobs.identity(), Slip()
        self._asked = False

    def keep(self) -> int:
        """Work until asked to end; the exit status of this process."""
        for number in _ASKED:
            signal.signal(number, self._end)
        while True:
            status, stalled = self._watch(self._forked())
            doing = self._slip.read()
            code = os.waitstatus_to_exitcode(status)
            if self._asked or self._is_orphan():
                self._give_back()
            elif doing is not None:
                self._blame(doing, self._cause(code, stalled))
            elif code != 0:
                return max(code, 1)  # it could not even begin: whoever started us decides when to try again
            if self._asked or self._is_orphan():
                return 0

    def _end(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True

    def _is_orphan(self) -> bool:
        return self._parent is not None and jobs.started(self._parent) != self._parent_began

    # -- the runner --------------------------------------------------------------------------------------------

    def _forked(self) -> int:
        """Begin a runner; its number."""
        self._slip.write(None)
        self._pulse.beat()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED)  # until it has handlers of its own
        keeper, runner = os.getpid(), os.fork()
        if runner == 0:
            self._be_runner(keeper)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED)
        return runner

    def _be_runner(self, keeper: int) -> None:
        """Do the work, and never return into what the keeper was doing."""
        code = 1
        try:
            with suppress(OSError):  # where memory runs out, this process is the one to go
                Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
            faulthandler.register(_WHERE_IT_IS, file=2)
            _die_with_parent()
            end_with(keeper)
            runner = Runner(self._name, self._slip, threading.Event(), self._pulse)
            self._pulse.keep(self._slip)
            for number in _ASKED:
                signal.signal(number, partial(_set, runner.ending))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED)
            self._run(runner)
            code = 0
        except BaseException:
            log.exception("the worker cannot go on")
        finally:
            logging.shutdown()
            os._exit(code)

    def _watch(self, runner: int) -> tuple[int, bool]:
        """Wait for the runner's end: its status, and whether it was ended because it made no progress."""
        stalled, ask_until = False, 0.0
        while True:
            ended, status = os.waitpid(runner, os.WNOHANG)
            if ended:
                return status, stalled
            self._tell()
            if self._asked and not ask_until:
                ask_until = time.monotonic() + GRACE
                os.kill(runner, signal.SIGTERM)
            if self._is_orphan() or (ask_until and time.monotonic() > ask_until):
                os.kill(runner, signal.SIGKILL)
            elif not stalled and self._is_stalled():
                stalled = True
                os.kill(runner, _WHERE_IT_IS)
                time.sleep(LOOK)
                os.kill(runner, signal.SIGKILL)
            time.sleep(LOOK)

    def _tell(self) -> None:
        """Let whoever started us know that all is well, if it is."""
        now = time.monotonic()
        if self._beat is not None and now - self._beaten >= BEAT and self._pulse.age < SILENT:
            self._beaten = now
            with suppress(OSError):  # nobody reads, or nobody is there any more
                os.write(self._beat, b".")

    def _is_stalled(self) -> bool:
        doing = self._slip.read()
        return doing is not None and time.monotonic() - doing.since > self._patience

    # -- what is said of its jobs ------------------------------------------------------------------------------

    def _cause(self, code: int, stalled: bool) -> str:
        if stalled:
            return (
                f"it made no progress for {_duration(self._patience)}. If it only needs longer, start the "
                "service with more CUAL_PATIENCE, in seconds, then try again"
            )
        if code == -signal.SIGKILL:
            return (
                "it was killed, probably because it needs more memory than there is. Take a smaller pool or "
                "give it more memory, then try again"
            )
        if code < 0:
            return f"{exit_words(code)}, a fault in a library that it uses; the log may say more"
        return f"it ended with {exit_words(code)}; the log may say more"

    def _blame(self, doing: Doing, cause: str) -> None:
        """Write down that the job which was under way, of several the innermost, ended the runner."""
        log.error("the job ended its process", extra={"fields": {**asdict(doing.claim), "cause": cause}})
        home = self._home()
        try:
            jobs.crashed(home, doing.claim, Crash(cause, True, doing.progress))
            jobs.give_back(home, self._name)
        finally:
            home.database.close()

    def _give_back(self) -> None:
        try:
            home = self._home()
            try:
                jobs.give_back(home, self._name)
            finally:
                home.database.close()
        except SQLAlchemyError as error:  # then the next worker finds that we are gone
            log.warning("the job is not given back: %s", type(error).__name__)


def _set(event: threading.Event, _signal: int, _frame: FrameType | None) -> None:
    event.set()


def _die_with_parent() -> None:
    """Have the kernel kill this process with its parent, where it does that: no thread is needed for it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # 1: PR_SET_PDEATHSIG


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


def _duration(seconds: float) -> str:
    """
    >>> _duration(1800), _duration(90), _duration(1)
    ('30 minutes', '90 seconds', '1 second')
    """
    whole, unit = (seconds / 60, "minute") if seconds >= 120 else (seconds, "second")
    return f"{whole:g} {unit}{'' if whole == 1 else 's'}"
