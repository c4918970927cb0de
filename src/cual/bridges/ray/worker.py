"""The service's worker, with pools scored on Ray: `python -m cual.bridges.ray.worker --ray ADDRESS WORKSPACE`.

All else is `cual.serve.worker`'s. Ray is connected to when the first adaptation goes on, by the process that
does the jobs, and for as long as that lives.
"""

import argparse
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial

from cual.bridges.ray.cluster import Cluster, check_address, connected
from cual.bridges.ray.scoring import Scoring
from cual.serve import worker
from cual.serve.jobs.worker import Scorer
from cual.types import Progress


@contextmanager
def scored_on(address: str) -> Generator[Scorer]:
    """Where the pools of a worker are scored."""
    with ExitStack() as connection:
        cluster: Cluster | None = None

        def scoring(progress: Progress) -> Scoring:
            nonlocal cluster
            if cluster is None:
                asked_to_end = signal.getsignal(signal.SIGTERM)
                cluster = connection.enter_context(connected(address))
                signal.signal(signal.SIGTERM, asked_to_end)  # Ray takes it for itself
            return Scoring(cluster, progress)

        yield scoring


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m cual.bridges.ray.worker", add_help=False)
    parser.add_argument("--ray", required=True)
    given, others = parser.parse_known_args(sys.argv[1:])
    check_address(given.ray)
    worker.main(others, partial(scored_on, given.ray))


if __name__ == "__main__":
    main()
