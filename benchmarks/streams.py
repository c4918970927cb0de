"""How much faster a stream of cual-plus is than one of cual: CPU time of all adaptations, in one run.

    python benchmarks/streams.py [--features ../shared/data/eurosat-r50.npz] [--tasks 4]

One thread, so that CPU time is comparable whatever else the machine does. Tests never assert a time.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from cual import Agent
from cual.bench.streams import Protocol, make_stream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("../shared/data/eurosat-r50.npz"))
    parser.add_argument("--tasks", type=int, default=4, help="only the first tasks of the stream")
    args = parser.parse_args()
    if not args.features.exists():
        print(f"skipped: {args.features} is not there")
        return
    torch.set_num_threads(1)
    with np.load(args.features) as held:
        X, y = held["X"], held["y"].astype(np.int64)
    stream = make_stream(y, Protocol(first=2, increment=1), seed=0)
    spent = {
        method: seconds(method, X, y, stream.tasks[: args.tasks], stream.first)
        for method in ("cual-plus", "cual")
    }
    for method, cpu in spent.items():
        print(
            f"{method:10} {cpu / spent['cual-plus']:6.1f} times the CPU time of cual-plus, {args.tasks} tasks"
        )


def seconds(method: str, X: np.ndarray, y: np.ndarray, tasks: tuple, first: np.ndarray) -> float:
    """CPU time of the adaptations; fitting the first classes is not counted."""
    agent = Agent.fit(X[first], y[first], method)
    total = 0.0
    for task in tasks:
        began = time.process_time()
        adaptation = agent.adapt(X[task.rows], 0.005, ids=task.rows)
        while query := adaptation.ask():
            adaptation.tell(query.id, {i: int(y[i]) for i in query.ids})
        agent = adaptation.finish()
        total += time.process_time() - began
    return total


if __name__ == "__main__":
    main()
