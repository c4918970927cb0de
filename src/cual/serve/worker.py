"""The worker as a process: ``python -m cual.serve.worker WORKSPACE``. What it does is in `cual.serve.jobs`.

One that scores pools on a Ray cluster is `cual.bridges.ray.worker`.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from cual.serve.jobs.keeping import Keeper, Runner
from cual.serve.jobs.worker import Scorer, work_forever
from cual.serve.operations import logs
from cual.serve.rules.workspace import Workspace
from cual.serve.storage.home import open_home
from cual.storage import keep_private

PATIENCE = 1800.0
"""Seconds in which a job must tell of progress. A step tells once a round; with a million samples that is a
matter of minutes."""
NICE = 10


def main(
    arguments: list[str] | None = None,
    scored_on: Callable[[], AbstractContextManager[Scorer | None]] = contextlib.nullcontext,
) -> None:
    """Work until the end. `scored_on` is entered by the process that does the jobs, for as long as it lives."""
    parser = argparse.ArgumentParser(prog="python -m cual.serve.worker", description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument(
        "--database", default=None, help="else CUAL_DATABASE, else the workspace's own SQLite file"
    )
    parser.add_argument("--parent", type=int, default=None, help="end when this process has ended")
    parser.add_argument("--beat", type=int, default=None, help="a pipe to tell each second that all is well")
    parser.add_argument(
        "--patience",
        type=float,
        default=float(os.environ.get("CUAL_PATIENCE", PATIENCE)),
        help="seconds in which a job must tell of progress; else CUAL_PATIENCE, else half an hour",
    )
    parser.add_argument("--log-format", choices=("json", "text"), help="text on a terminal if not given")
    given = parser.parse_args(arguments)
    keep_private()
    database = given.database or os.environ.get("CUAL_DATABASE")

    def run(runner: Runner) -> None:
        with scored_on() as scorer:
            work_forever(Workspace.open(given.workspace, database), runner, scorer)

    keeper = Keeper(
        run,
        lambda: open_home(given.workspace, database),
        given.patience,
        given.parent,
        given.beat,
    )
    with contextlib.suppress(OSError):
        os.nice(NICE)
    import torch

    torch.set_num_threads(1)
    logs.set_up(given.log_format or ("text" if sys.stderr.isatty() else "json"))
    code = keeper.keep()
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
