"""How well an agent tells samples of classes that it does not know, one at a time and in batches.

    python benchmarks/novelty.py [--data ../shared/data] [--seeds 0,1,2,3,4] [--files eurosat-r50,…]
        [--methods cual-plus,cual] [--batch 500] [--novel 0.1]

An agent learns the first classes of a file and is asked about test samples of these and of all other classes.
AUROC; the share of known samples above `Agent.threshold` (false alarms) and of unknown ones (detected);
mean over seeds. "Together": in batches of --batch, --novel of them unknown (`Agent.novelty_together`).
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.measures import auroc
from cual.bench.streams import Protocol, make_stream

FILES = {"eurosat-r50": (2, 1), "cifar100-super-r50": (4, 2), "places50-r50": (10, 5)}


def measured(
    X: np.ndarray, y: np.ndarray, protocol: Protocol, method: str, seed: int, args: argparse.Namespace
) -> Iterator[tuple[str, float, float, float]]:
    stream = make_stream(y, protocol, seed)
    agent = Agent.fit(X[stream.first], y[stream.first], method, seed)
    test = stream.test_rows(stream.tasks[-1].number)
    known = np.isin(y[test], agent.classes_)
    scores = agent.novelty(X[test])
    above = scores > agent.threshold.value
    yield "one at a time", auroc(scores, ~known), above[known].mean(), above[~known].mean()
    rng = np.random.default_rng(seed)
    rows: list[tuple[float, float, float]] = []
    for _ in range(10):
        n_novel = max(1, round(args.novel * args.batch))
        old = rng.choice(test[known], min(args.batch - n_novel, int(known.sum())), replace=False)
        classes = rng.choice(np.unique(y[test[~known]]), 2, replace=False)  # a batch meets few new classes
        new = rng.choice(test[np.isin(y[test], classes)], n_novel, replace=False)
        batch = np.concatenate([old, new])
        unknown = np.arange(len(batch)) >= len(old)
        scores, threshold = agent.novelty_together(X[batch])
        above = scores > threshold.value
        rows.append((auroc(scores, unknown), above[~unknown].mean(), above[unknown].mean()))
    yield "together", *np.mean(rows, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--methods", default="cual-plus,cual")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--novel", type=float, default=0.1)
    args = parser.parse_args()
    torch.set_num_threads(2)
    print(
        "| file | method | seen | AUROC | false alarms | detected |\n| --- | --- | --- | ---: | ---: | ---: |"
    )
    for file in args.files.split(","):
        path = args.data / f"{file}.npz"
        if not path.exists():
            print(f"skipped: no {path}")
            continue
        with np.load(path) as arrays:
            X, y = arrays["X"].astype(np.float32), arrays["y"].astype(np.int64)
        first, increment = FILES[file]
        protocol = Protocol(first=first, increment=increment)
        for method in args.methods.split(","):
            rows: dict[str, list[tuple[float, float, float]]] = {}
            for seed in args.seeds.split(","):
                for seen, *values in measured(X, y, protocol, method, int(seed), args):
                    rows.setdefault(seen, []).append(tuple(values))
            for seen, values in rows.items():
                means, stds = np.mean(values, axis=0), np.std(values, axis=0, ddof=int(len(values) > 1))
                cells = " | ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(means, stds, strict=True))
                print(f"| {file} | {method} | {seen} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
