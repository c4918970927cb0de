"""The nearest of many classes by FRE, with and without bounds that rule classes out.

    python benchmarks/nearest.py [--classes 100,1000,10000] [--data ../shared/data] [--device cpu]

For each number of made-up classes (512 features, 48 samples and some 40 components each), and for the files of
--data with 64 classes or more: the share of distances that need not be measured, and how many times faster that
is than measuring all (medians of three, in turn, in the same run); bounds are prepared once for an agent, which
is given as a multiple of one search. Nearest classes are compared, too. Run it on an idle machine.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cual.uncertainty import FRE, ClassSubspace
from cual.uncertainty.nearest import MANY, NearestSubspace

WIDTH, RANK, SAMPLES, SCORED, REPEATS = 512, 40, 48, 10_000, 3
FILES = {"cifar100-super-r50.npz": "fine", "clinc150-minilm.npz": "y", "banking77-minilm.npz": "y"}
"""Files with many classes, and the name of their labels."""


def made_up(n: int, device: str) -> tuple[list[ClassSubspace], Tensor]:
    """Classes with a mean and directions of their own, as far apart as they are wide, and fresh samples.

    All vary as features do, along some directions much more than along others.
    """
    rng = torch.Generator(device).manual_seed(n)
    spread = (torch.arange(WIDTH, device=device) + 6.0) ** -0.9

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, device=device) * (spread if shape[-1] == WIDTH else 1.0)

    models, fresh = list[ClassSubspace](), list[Tensor]()
    each = -(-SCORED // n)
    for _ in range(n):
        mean, directions = normal(WIDTH), normal(RANK, WIDTH) / RANK**0.5
        X = mean + normal(SAMPLES + each, RANK) @ directions + 0.3 * normal(SAMPLES + each, WIDTH)
        models.append(ClassSubspace.fit(X[:SAMPLES]))
        fresh.append(X[SAMPLES:])
    return models, torch.cat(fresh)[:SCORED]


def of_file(path: Path, labels: str, device: str) -> tuple[list[ClassSubspace], Tensor]:
    """The classes of a file from four fifths of their samples, and the others, some of each class."""
    with np.load(path) as arrays:
        X, y = torch.from_numpy(arrays["X"].astype(np.float32)).to(device), arrays[labels]
    rng, models, fresh = np.random.default_rng(0), list[ClassSubspace](), list[Tensor]()
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        models.append(ClassSubspace.fit(X[rows[: len(rows) * 4 // 5]]))
        fresh.append(X[rows[len(rows) * 4 // 5 :]])
    return models, torch.cat(fresh)[:SCORED]


def seconds(work: Callable[[], object], X: Tensor) -> float:
    began = time.perf_counter()
    work()
    if X.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def compare(name: str, models: list[ClassSubspace], X: Tensor) -> None:
    """One line of the table."""
    found = list[NearestSubspace]()
    preparing = seconds(lambda: found.append(NearestSubspace(models)), X)
    find, uncertainty, times = found[0], FRE(), list[tuple[float, float]]()
    for _ in range(REPEATS):
        every = seconds(lambda: uncertainty.distances(X, models).min(dim=1), X)
        times.append((every, seconds(lambda: find(X), X)))
    plain, bounded = (statistics.median(column) for column in zip(*times, strict=True))
    least = uncertainty.distances(X, models).min(dim=1)
    distances, nearest = find(X)
    same = float((nearest == least.indices).float().mean())
    off = float((distances / least.values - 1).abs().max())
    kept = 1 - find.measured / find.bounded
    print(
        f"{name:32} {len(models):6} classes, {statistics.median(m.k for m in models):4.0f} components: "
        f"{100 * kept:5.1f} % not measured, {plain / bounded:5.2f} times faster, "
        f"prepared in {preparing / bounded:.1f} searches; {100 * same:.2f} % the same class, "
        f"distances off by {off:.0e} at most",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default="100,1000", help="how many made-up classes")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    for n in args.classes.split(","):
        compare("made up", *made_up(int(n), args.device))
    for file, labels in FILES.items():
        if (args.data / file).exists():
            models, X = of_file(args.data / file, labels, args.device)
            assert len(models) >= MANY
            compare(file, models, X)


if __name__ == "__main__":
    main()
