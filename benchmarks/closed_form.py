"""What the ridge head's options are worth with all labels: shrinkage, and random ReLU features in front.

    python benchmarks/closed_form.py [--data ../shared/data] [--expand 0,4096]

A random fifth of each file is held out; one split: differences below a point mean little. Accuracy, not time.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from cual.heads import Lesson, Ridge, Samples

FILES = ("eurosat-r50", "cifar100-super-r50", "places50-r50")
SHRINKS = (0.01, 0.03, 0.1, 0.3, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--expand", default="0", help="comma-separated numbers of random features; 0 for none")
    args = parser.parse_args()
    print("file                  expand  " + "  ".join(f"shrink {s:<5g}" for s in SHRINKS))
    for name in FILES:
        path = args.data / f"{name}.npz"
        if not path.exists():
            print(f"{name}: skipped, {path} is not there")
            continue
        with np.load(path) as arrays:
            X = torch.from_numpy(arrays["X"]).float()
            y = torch.from_numpy(arrays["y"].astype(np.int64))
        rows = torch.from_numpy(np.random.default_rng(123).permutation(len(y)))
        kept, learned = rows[: len(y) // 5], rows[len(y) // 5 :]
        none = Samples(X[:0], y[:0])
        lesson = Lesson(int(y.max()) + 1, Samples(X[learned], y[learned]), none, none)
        for expand in map(int, args.expand.split(",")):
            head = Ridge(expand=expand).learn(lesson, np.random.default_rng(0))
            accuracies: list[str] = []
            for shrink in SHRINKS:
                logits = Ridge.from_state(head.state(), shrink=shrink).logits(X[kept])
                accuracies.append(f"{100 * float((logits.argmax(1) == y[kept]).float().mean()):12.1f}")
            print(f"{name:20}  {expand:6}  " + "  ".join(accuracies), flush=True)


if __name__ == "__main__":
    main()
