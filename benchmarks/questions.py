"""How long it takes to choose whom to ask: `coverage` against k-means as one would write it down.

    python benchmarks/questions.py [--rows 500000] [--questions 10000] [--threads 2]

Of 8,000 candidates × 512, as a ratio in the same run; and many questions of a large pool, which the plain way
could not do. Measured, never asserted. How good the questions are is benchmarks/cual_plus.py's business.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import normalize, one_hot

from cual.acquisition import PoolView
from cual.acquisition.coverage import Coverage

WIDTH, GROUPS, CANDIDATES, TURNS = 512, 200, 8000, 15


def made_up(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Features of overlapping groups, in float16."""
    centres = rng.standard_normal((GROUPS, WIDTH), np.float32)
    X = np.empty((rows, WIDTH), np.float16)
    for start in range(0, rows, 10_000):
        noise = rng.standard_normal((len(X[start : start + 10_000]), WIDTH), np.float32)
        X[start : start + 10_000] = centres[rng.integers(0, GROUPS, len(noise))] + 1.5 * noise
    return X


def view_of(X: np.ndarray, rng: np.random.Generator, looked_at: list[int]) -> PoolView:
    """A pool of which a tenth looks novel; `looked_at` notes of how many samples features are read."""

    def features(at: np.ndarray) -> np.ndarray:
        looked_at.append(len(at))
        return X[at].astype(np.float32)

    scores = rng.standard_normal(len(X), np.float32) + 5 * (rng.random(len(X)) < 0.1)
    return PoolView(scores, 2.0, validation=rng.standard_normal(1000, np.float32), features=features)


def plain(X: np.ndarray, weights: np.ndarray, n: int, rng: np.random.Generator) -> list[int]:
    """k-means over all candidates at once: sums by one-hot products, and a sorted order for every centre."""
    U, w = normalize(torch.from_numpy(X).float(), dim=1), torch.from_numpy(weights)
    starts: list[int] = []
    far = np.ones(len(U))
    for _ in range(n):  # k-means++
        odds = weights * np.maximum(far, 1e-9)
        starts.append(int(rng.choice(len(U), p=odds / odds.sum())))
        far = np.minimum(far, 1 - (U @ U[starts[-1]]).numpy())
    centres, nearest = U[starts], torch.empty(0)
    for _ in range(TURNS):
        before, nearest = nearest, (U @ centres.T).argmax(dim=1)
        if torch.equal(before, nearest):
            break
        centres = normalize((one_hot(nearest, n) * w[:, None]).float().T @ U, dim=1)
    chosen: list[int] = []
    for likeness in (U @ centres.T).T:
        order = likeness.argsort(descending=True).tolist()
        chosen.append(next(i for i in order if i not in chosen))
    return chosen


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """How long it takes, at best."""
    taken: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def compare(rng: np.random.Generator) -> None:
    X = made_up(CANDIDATES, rng)
    view = view_of(X, rng, [])
    weights = np.maximum(view.novelty() ** 4, 1e-4).astype(np.float64)
    weights /= weights.sum()
    strategy = Coverage(candidates=CANDIDATES)
    print(f"{CANDIDATES:,} candidates × {WIDTH}: times faster than plain k-means")
    for n in (100, 400, 1600):
        ours = seconds(lambda n=n: strategy.choose(view, n, np.random.default_rng(0)), times=2)
        theirs = seconds(lambda n=n: plain(X, weights, n, np.random.default_rng(0)), times=2)
        print(f"{n:6,} questions: {theirs / ours:5.1f}  ({ours:.2f} s against {theirs:.2f} s)")


def many(rows: int, questions: int, rng: np.random.Generator) -> None:
    looked_at: list[int] = []
    view = view_of(made_up(rows, rng), rng, looked_at)
    taken = seconds(lambda: Coverage().choose(view, questions, np.random.default_rng(0)))
    print(f"{questions:,} questions of {rows:,} × {WIDTH}: {sum(looked_at):,} candidates, {taken:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    compare(np.random.default_rng(0))
    many(args.rows, args.questions, np.random.default_rng(1))


if __name__ == "__main__":
    main()
