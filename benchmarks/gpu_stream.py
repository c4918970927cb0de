"""What a whole stream of a method takes on a GPU: now, one step after the other, and in an earlier version.

    python benchmarks/gpu_stream.py [--features ../shared/data/eurosat-r50.npz | --classes 100]
        [--method cual] [--before OTHER/src] [--seeds 0,1,2]

"One by one" is this version without kernels and recorded steps: FRE class after class in float32, and a
launch for every operation of a training step. `--before` takes the sources of another version (``git worktree
add OTHER COMMIT``). Every way has its own process, which runs a stream that does not count first: libraries
start and kernels are compiled in it. Without a file, classes of about 200 dimensions are made up. Needs torch,
numpy and safetensors only (PYTHONPATH=src); run it while nothing else uses the GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

WIDTH, SAMPLES = 2048, 1000
HERE = Path(__file__).parent.parent / "src"


def made_up(classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    spread = 4 * np.arange(1, 401, dtype=np.float32) ** -0.88
    X = np.empty((classes * SAMPLES, WIDTH), dtype=np.float32)
    for c in range(classes):
        directions = np.linalg.qr(rng.standard_normal((WIDTH, 400), dtype=np.float32))[0].T
        some = rng.standard_normal((SAMPLES, 400), dtype=np.float32) * spread @ directions
        X[c * SAMPLES : (c + 1) * SAMPLES] = some + 0.5 * rng.standard_normal(WIDTH, dtype=np.float32)
    return X, np.repeat(np.arange(classes), SAMPLES)


def load(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    if args.classes:
        return made_up(args.classes)
    with np.load(args.features) as arrays:
        return arrays["X"].astype(np.float32), arrays["y"].astype(np.int64)


def one_by_one() -> None:
    """Turn kernels and recorded steps off."""
    from cual import kernels
    from cual.heads import training

    kernels.usable = lambda X: False
    training.MIN_RECORDED = sys.maxsize


def run(args: argparse.Namespace, seed: int, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Seconds to fit the first classes and of all adaptations, and how many labels are right at the end."""
    import torch

    from cual import Agent
    from cual.bench.streams import Protocol, make_stream

    classes = len(np.unique(y))
    increment = max(1, classes // 20)
    stream = make_stream(y, Protocol(first=classes - 4 * increment, increment=increment), seed=seed)
    torch.cuda.synchronize()
    began = time.perf_counter()
    agent = Agent.fit(X[stream.first], y[stream.first], args.method, seed=seed, device="cuda")
    torch.cuda.synchronize()
    fitted = time.perf_counter()
    for task in stream.tasks:
        adaptation = agent.adapt(X[task.rows], 0.01, ids=task.rows)
        while query := adaptation.ask():
            adaptation.tell(query.id, {i: int(y[i]) for i in query.ids})
        agent = adaptation.finish()
    torch.cuda.synchronize()
    ended = time.perf_counter()
    rows = stream.test_rows(len(stream.tasks))
    right = float(np.mean(np.asarray(agent.predict(X[rows])) == y[rows]))
    return {"fit": fitted - began, "adapt": ended - fitted, "right": right}


def child(args: argparse.Namespace) -> None:
    X, y = load(args)
    if args.one_by_one:
        one_by_one()
    run(args, 10, X, y)
    print(json.dumps([run(args, seed, X, y) for seed in args.seeds]))


def measured(source: Path, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "--child", *sys.argv[1:], *options]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(source)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("../shared/data/eurosat-r50.npz"))
    parser.add_argument("--classes", type=int, default=0, help="made-up classes instead of a file")
    parser.add_argument("--method", default="cual")
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--seeds", type=lambda said: [int(seed) for seed in said.split(",")], default=[0, 1, 2])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one-by-one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args)
        return
    if not args.classes and not args.features.exists():
        sys.exit(f"{args.features} is not there")
    ways = {"now": measured(HERE), "one by one": measured(HERE, "--one-by-one")}
    if args.before:
        ways["before"] = measured(args.before)
    print(f"{args.method}, {args.classes or args.features}, seeds {args.seeds}")
    for name, runs in ways.items():
        fit, adapt = (mean(one[part] for one in runs) for part in ("fit", "adapt"))
        against = mean(one["adapt"] / now["adapt"] for one, now in zip(runs, ways["now"], strict=True))
        right = [100 * one["right"] for one in runs]
        spread = stdev(right) if len(right) > 1 else 0.0
        print(
            f"{name:10}  first classes {fit:6.2f} s, adaptations {adapt:6.2f} s, {against:5.2f} times now; "
            f"{mean(right):.1f} ± {spread:.1f} % right"
        )


if __name__ == "__main__":
    main()
