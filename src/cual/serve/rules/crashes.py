"""When a job that ends whoever does it is given up. The rule alone: no database and no processes here.

The work is done in a process of its own, the runner, which the worker watches (`cual.serve.jobs.keeping`).

- The runner dies and the worker lives: the job is to blame. From the third crash on, that is the end of it.
- The worker is gone too: somebody killed the service, or the machine restarted. Only the twentieth is the last,
  for a job can be the reason of that as well, in a container that is killed as a whole.
- An end that was asked for (SIGTERM, a job given back or taken away) is no crash.
- A crash that finds the job further than all before it is counted as the first: a long job ends some day,
  however often its machine restarts. Only what outlives a crash counts, so a step of an adaptation never gets
  further: it begins anew.
- After a crash the job goes behind those that have crashed less, and waits: not after the first, then for one
  second, two, four, up to ten minutes. Twenty take an hour and a half.
"""

from dataclasses import dataclass
from datetime import timedelta

from cual.serve.rules.records import JobProgress

MOST_ALONE = 3
MOST_TOGETHER = 20
LONGEST_PAUSE = 600
KEPT = ("encoding", "pictures", "map")
"""Stages whose work outlives a crash, in their order."""
_DOING = {
    "fit": "learned the first classes of this agent",
    "prepare": "prepared this pool",
    "repair": "changed this agent",
    "advance": "worked out the next questions",
    "finish": "made the next version",
}

Mark = list[int]
"""How far a job got: the number of the stage, and how much of it was done. JSON has no tuples."""


@dataclass(frozen=True)
class Crash:
    """That the process which did a job is gone."""

    cause: str
    """What happened to it, as the end of a sentence."""
    alone: bool
    """Whether the worker that kept it lives."""
    reached: JobProgress | None
    """How far the job was."""


@dataclass(frozen=True)
class Verdict:
    """What comes of a crash."""

    crashes: int
    mark: Mark | None
    last: bool
    pause: timedelta
    message: str


def judge(kind: str, crashes: int, mark: Mark | None, crash: Crash) -> Verdict:
    """What a crash means for a job that had `crashes` before and got as far as `mark`.

    >>> again = Crash("it was killed", alone=True, reached=JobProgress("encoding", 32, 100))
    >>> judge("prepare", 2, [0, 32], again).message
    'the worker died 3 times while it prepared this pool, last at stage encoding (32 of 100): it was killed'
    >>> judge("prepare", 2, [0, 32], again).last, judge("prepare", 2, [0, 31], again).last
    (True, False)
    """
    reached = _mark(crash.reached)
    further = reached is not None and (mark is None or reached > mark)
    count = 1 if further else crashes + 1
    return Verdict(
        crashes=count,
        mark=reached if further else mark,
        last=count >= (MOST_ALONE if crash.alone else MOST_TOGETHER),
        pause=timedelta(seconds=0 if count == 1 else min(2 ** (count - 2), LONGEST_PAUSE)),
        message=_message(kind, count, crash),
    )


def _mark(reached: JobProgress | None) -> Mark | None:
    if reached is None or reached.stage not in KEPT:
        return None
    return [KEPT.index(reached.stage), reached.done]


def _message(kind: str, count: int, crash: Crash) -> str:
    times = "once" if count == 1 else f"{count} times"
    sentence = f"the worker died {times} while it {_DOING.get(kind, kind)}"
    if crash.reached is not None:
        how_far = f" ({crash.reached.done} of {crash.reached.total})" if crash.reached.total else ""
        sentence += f", {'last ' if count > 1 else ''}at stage {crash.reached.stage}{how_far}"
    return f"{sentence}: {crash.cause}"
