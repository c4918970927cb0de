"""How much faster a stream of cual-plus is than one of cual: all adaptations of both, in one run.

    python benchmarks/streams.py [--features ../shared/data/eurosat-r50.npz] [--first 2] [--increment 1]
        [--budget 0.005] [--buffer 2500] [--tasks 4] [--threads 1]

With one thread CPU time is compared, whatever else the machine does; with more, the time on the clock, for
which the machine should be idle. Tests never assert a time.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from cual import Agent
from cual.bench.streams import Protocol, make_stream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("../shared/data/eurosat-r50.npz"))
    parser.add_argument("--first", type=int, default=2)
    parser.add_argument("--increment", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.005)
    parser.add_argument("--buffer", type=int, default=2500)
    parser.add_argument("--tasks", type=int, default=4, help="only the first tasks of the stream")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if not args.features.exists():
        print(f"skipped: {args.features} is not there")
        return
    torch.set_num_threads(args.threads)
    clock, what = (time.process_time, "CPU time") if args.threads == 1 else (time.perf_counter, "time")
    with np.load(args.features) as arrays:
        X, y = arrays["X"], arrays["y"].astype(np.int64)
    stream = make_stream(y, Protocol(first=args.first, increment=args.increment), seed=0)
    spent: dict[str, float] = {}
    for method in ("cual-plus", "cual"):
        agent = Agent.fit(X[stream.first], y[stream.first], method, buffer=args.buffer)
        spent[method] = seconds(agent, X, y, stream.tasks[: args.tasks], args.budget, clock)
    for method, taken in spent.items():
        print(
            f"{method:10} {taken / spent['cual-plus']:6.1f} times the {what} of cual-plus, {args.tasks} tasks"
        )


def seconds(
    agent: Agent, X: np.ndarray, y: np.ndarray, tasks: tuple, budget: float, clock: Callable[[], float]
) -> float:
    """Time of the adaptations; fitting the first classes is not counted."""
    total = 0.0
    for task in tasks:
        began = clock()
        adaptation = agent.adapt(X[task.rows], budget, ids=task.rows)
        while query := adaptation.ask():
            adaptation.tell(query.id, {i: int(y[i]) for i in query.ids})
        agent = adaptation.finish()
        total += clock() - began
    return total


if __name__ == "__main__":
    main()
