"""Is the accuracy that people are shown that of fresh samples?

    python benchmarks/accuracy.py [--data ../shared/data] [--files eurosat-r50,…] [--seeds 0,1,2] [--tasks 8]

After every task of a stream: the accuracy on fresh samples of the classes that the evidence names, what the
validation set with its pseudo-labels says (as release 0.1.0 showed it), what `Adaptation.evidence` says, and
how often its interval holds the truth. Mean over tasks and seeds, in percent; "off" is the mean absolute error.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.streams import Protocol, make_stream

FILES = {  # first, increment, budget, buffer: the protocol of ../shared/data/README.md
    "eurosat-r50": (2, 1, 0.005, 2500),
    "cifar100-super-r50": (4, 2, 0.005, 2500),
    "places50-r50": (10, 5, 0.0125, 5000),
}


def measured(X: np.ndarray, y: np.ndarray, file: str, seed: int, tasks: int) -> list[tuple[float, ...]]:
    first, increment, budget, buffer = FILES[file]
    stream = make_stream(y, Protocol(first=first, increment=increment), seed)
    agent = Agent.fit(X[stream.first], y[stream.first], seed=seed, buffer=buffer)
    rows: list[tuple[float, ...]] = []
    for task in stream.tasks[:tasks]:
        adaptation = agent.adapt(X[task.rows], budget, ids=task.rows)
        while query := adaptation.ask():
            adaptation.tell(query.id, {i: int(y[i]) for i in query.ids})
        evidence = adaptation.evidence()
        agent = adaptation.finish()
        shown = evidence.after(agent)
        assert shown is not None
        test = stream.test_rows(task.number)
        predicted = agent.predict(X[test])
        named = sorted(set(evidence.labels))
        truth = float(np.mean([(predicted[y[test] == c] == c).mean() for c in named]))
        validation = agent.predict(agent.validation.X) == agent.classes_[agent.validation.y.numpy()]
        rows.append((truth, float(validation.mean()), shown.value, float(shown.low <= truth <= shown.high)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--tasks", type=int, default=8)
    args = parser.parse_args()
    torch.set_num_threads(2)
    print("| file | fresh samples | validation set | off | evidence | off | interval holds it |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for file in args.files.split(","):
        path = args.data / f"{file}.npz"
        if not path.exists():
            print(f"skipped: no {path}")
            continue
        with np.load(path) as arrays:
            X, y = arrays["X"].astype(np.float32), arrays["y"].astype(np.int64)
        rows = [row for seed in args.seeds.split(",") for row in measured(X, y, file, int(seed), args.tasks)]
        truth, validation, shown, holds = 100 * np.array(rows).T
        off = [float(np.abs(values - truth).mean()) for values in (validation, shown)]
        cells = (truth.mean(), validation.mean(), off[0], shown.mean(), off[1], holds.mean())
        print(f"| {file} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
