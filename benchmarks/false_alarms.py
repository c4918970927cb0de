"""How many known samples are taken for unlike anything known, at the rate of false alarms that was set.

    OMP_NUM_THREADS=1 python benchmarks/false_alarms.py [--data ../shared/data] [--texts OUT]
        [--seeds 0,1,2,3,4] [--files eurosat-r50,…] [--method cual-plus] [--rates 0.01,0.05,0.1] [--batch 500]
        [--novel 0.1]

An agent learns the first classes of a file and is asked about fresh samples of these: one at a time
(`Agent.novelty`, `threshold_at`), and in batches of --batch of which --novel are of two unknown classes
(`Agent.novelty_together`). Mean over seeds, with Student's 95 % interval, and where that mean lies in 95 of 100
cases if the rate is kept exactly: a threshold from n validation samples, tried on m others, is itself a draw.
Features of texts are those that benchmarks/text.sh makes in OUT.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.streams import Protocol, make_stream

FILES = {
    "eurosat-r50": (2, 1),
    "cifar100-super-r50": (4, 2),
    "places50-r50": (10, 5),
    "pacs-lite0": (3, 1),
    "banking77-minilm": (17, 10),
    "clinc150-minilm": (75, 25),
}
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
"""97.5 % points of Student's distribution, by degrees of freedom from 1 on."""
BATCHES = 10


def measured(
    X: np.ndarray, y: np.ndarray, protocol: Protocol, seed: int, args: argparse.Namespace
) -> Iterator[tuple[str, float, float, tuple[int, int]]]:
    """How samples were seen, the rate that was set, the share of known samples above it, and n, m."""
    stream = make_stream(y, protocol, seed)
    agent = Agent.fit(X[stream.first], y[stream.first], args.method, seed)
    test = stream.test_rows(stream.tasks[-1].number)
    known = test[np.isin(y[test], agent.classes_)]
    unknown = np.setdiff1d(test, known)
    scores, sizes = agent.novelty(X[known]), (len(agent.validation), len(known))
    for rate in args.rates:
        yield "one at a time", rate, float((scores > agent.threshold_at(rate).value).mean()), sizes
    rng = np.random.default_rng(seed)
    n_novel = max(1, round(args.novel * args.batch))
    shares: dict[float, list[float]] = {rate: [] for rate in args.rates}
    at_rates = {
        rate: replace(agent, method=agent.method.but(learner={"false_alarms": rate})) for rate in shares
    }
    for _ in range(BATCHES):
        old = rng.choice(known, min(args.batch - n_novel, len(known)), replace=False)
        classes = rng.choice(np.unique(y[unknown]), 2, replace=False)  # a batch meets few new classes
        there = unknown[np.isin(y[unknown], classes)]
        new = rng.choice(there, min(n_novel, len(there)), replace=False)
        batch = X[np.concatenate([old, new])]
        for rate, set_so in at_rates.items():
            scores, threshold = set_so.novelty_together(batch)
            shares[rate].append(float((scores[: len(old)] > threshold.value).mean()))
    for rate, values in shares.items():
        yield "together", rate, float(np.mean(values)), sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--texts", type=Path, default=Path("."))
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--method", default="cual-plus")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument(
        "--rates", type=lambda text: [float(r) for r in text.split(",")], default="0.01,0.05,0.1"
    )
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--novel", type=float, default=0.1)
    args = parser.parse_args()
    seeds = [int(seed) for seed in args.seeds.split(",")]
    torch.set_num_threads(1)
    print("| file | seen | set | false alarms | 95 % interval | if kept exactly |")
    print("| --- | --- | ---: | ---: | --- | --- |")
    for file in args.files.split(","):
        path = (args.texts if file.endswith("minilm") else args.data) / f"{file}.npz"
        if not path.exists():
            print(f"skipped: no {path}")
            continue
        with np.load(path) as arrays:
            X, y = arrays["X"].astype(np.float32), np.unique(arrays["y"], return_inverse=True)[1]
        first, increment = FILES[file]
        protocol = Protocol(first=first, increment=increment)
        shares: dict[tuple[str, float], list[float]] = {}
        sizes: list[tuple[int, int]] = []
        for seed in seeds:
            rows = list(measured(X, y, protocol, seed, args))
            sizes.append(rows[0][3])
            for seen, rate, share, _ in rows:
                shares.setdefault((seen, rate), []).append(share)
        for (seen, rate), values in shares.items():
            mean, width = float(np.mean(values)), interval(values)
            low, high = by_chance(rate, sizes)
            span = f"{max(0, mean - width):.1%} to {mean + width:.1%}"
            print(
                f"| {file} | {seen} | {rate:.0%} | {mean:.1%} | {span} | {low:.1%} to {high:.1%} |", flush=True
            )


def interval(values: list[float]) -> float:
    """Half of the 95 % interval of a mean."""
    n = len(values)
    return float("nan") if n < 2 else STUDENT[n - 2] * float(np.std(values, ddof=1)) / n**0.5


def by_chance(rate: float, sizes: list[tuple[int, int]]) -> tuple[float, float]:
    """Where the mean share of false alarms lies in 95 of 100 cases, if known samples are like validation ones.

    The share of all known samples above the k-th lowest of n is Beta(n + 1 − k, k), that of m of them binomial.
    """
    rng, draws = np.random.default_rng(0), np.zeros(100_000)
    for n, m in sizes:
        k = min(n, math.ceil((n + 1) * (1 - rate)))
        draws += rng.binomial(m, rng.beta(n + 1 - k, k, len(draws))) / m / len(sizes)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
