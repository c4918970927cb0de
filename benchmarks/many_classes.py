"""cual-plus with 10,000 classes and a memory of 1,000,000 known samples.

    python benchmarks/many_classes.py [--classes 10000] [--memory 1000000] [--pool 100000] [--device cuda]

An agent learns made-up classes (512 features) and keeps `--memory` samples of them; then it adapts to a pool
with 50 classes that it does not know, one sample in ten. Prints how many of the new classes were found, how
many labels and fresh samples are right, the seconds of each stage, and peak memory of the GPU.
"""

import argparse
import time

import numpy as np
import torch

from cual import Agent

WIDTH, NEW, EACH = 512, 50, 4


class World:
    """Classes with a mean and a few directions of their own, as far apart as they are wide."""

    def __init__(self, classes: int) -> None:
        rng = np.random.default_rng(0)
        self.means = rng.normal(0, 0.1, (classes, WIDTH)).astype(np.float32)
        self.directions = rng.normal(0, 0.05, (classes, 8, WIDTH)).astype(np.float32)

    def draw(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = np.empty((len(labels), WIDTH), np.float16)
        for start in range(0, len(labels), 20_000):
            some = labels[start : start + 20_000]
            inside = np.einsum(
                "nk,nkd->nd", rng.standard_normal((len(some), 8), np.float32), self.directions[some]
            )
            noise = 0.1 * rng.standard_normal((len(some), WIDTH), np.float32)
            X[start : start + 20_000] = self.means[some] + inside + noise
        return X


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--memory", type=int, default=1_000_000)
    parser.add_argument("--pool", type=int, default=100_000)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    world, rng = World(args.classes + NEW), np.random.default_rng(1)
    per_class = -(-args.memory * 10 // (9 * args.classes))  # a tenth is held out
    known = np.repeat(np.arange(args.classes), per_class)
    truth = rng.permutation(
        np.concatenate(
            [
                rng.integers(0, args.classes, args.pool - args.pool // 10),
                args.classes + rng.integers(0, NEW, args.pool // 10),
            ]
        )
    )
    X, pool, fresh = world.draw(known, rng), world.draw(truth, rng), np.arange(args.classes + NEW)
    began = time.perf_counter()

    def stage(name: str) -> None:
        nonlocal began
        if args.device == "cuda":
            torch.cuda.synchronize()
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
        began = time.perf_counter()

    agent = Agent.fit(X, known, device=args.device, buffer=args.memory)
    print(f"{args.classes} classes, {len(agent.replay)} known samples, {args.pool} in the pool")
    stage("learning the first classes")
    task = agent.adapt(pool, EACH * NEW)
    while query := task.ask():
        stage(f"round {len(task.rounds)}")
        task.tell(query.id, {i: int(truth[i]) for i in query.ids})
    after = task.finish()
    stage("finishing")
    pseudo_labels = task.pseudo_labels
    right = np.mean([truth[i] == label for i, label in pseudo_labels.items()])
    print(
        f"found {len(after.classes_) - args.classes} of {NEW} new classes with {EACH * NEW} questions; ", end=""
    )
    print(f"{len(pseudo_labels)} pseudo-labels, {100 * right:.1f} % right")
    correct = after.predict(world.draw(fresh, rng)) == fresh
    old, new = 100 * correct[:-NEW].mean(), 100 * correct[-NEW:].mean()
    print(f"fresh samples right: {old:.1f} % of old, {new:.1f} % of new classes")
    if args.device == "cuda":
        print(f"peak memory of the GPU: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
