"""How long an agent of many classes takes to load, beside reading its tensors alone.

    python benchmarks/loading.py [--classes 1000,5000] [--method cual]

The file is one of `Agent.save`: several tensors for each class. Processor time, the median of three runs: of
`Agent.load`; of safetensors' own `load_file`, which builds no agent; and of one look through all tensors for
each class, as loading did at first, which is timed over some classes and multiplied.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from cual import Agent, storage

WIDTH, EACH, RUNS, SAMPLED = 64, 4, 3, 100


def agent_of(classes: int, method: str) -> Agent:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(classes), EACH)
    X = rng.normal(0, 3, (classes, WIDTH))[y] + rng.normal(0, 0.3, (len(y), WIDTH))
    options = {"head_options": {"hidden": 16, "epochs": 1}} if method == "cual" else {}
    return Agent.fit(X, y, method=method, buffer=len(y), **options)


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, the median."""
    runs: list[float] = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        runs.append(time.process_time() - began)
    return statistics.median(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default="1000,5000")
    parser.add_argument("--method", default="cual")
    args = parser.parse_args()
    for classes in map(int, args.classes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "agent"
            agent_of(classes, args.method).save(file)
            tensors = load_file(file)
            loaded, bare = seconds(lambda f=file: Agent.load(f)), seconds(lambda f=file: load_file(f))
            some = range(0, classes, max(1, classes // SAMPLED))
            looks = seconds(lambda t=tensors, s=some: [storage.section(t, f"model.{c}.") for c in s])
            one_by_one = bare + looks * classes / len(some)
        print(
            f"{classes} classes, {len(tensors)} tensors: Agent.load {loaded:.2f} s, load_file {bare:.2f} s ",
            end="",
        )
        print(f"({loaded / bare:.2f} of it); one look for each class {one_by_one:.1f} s ", end="")
        print(f"({one_by_one / loaded:.1f} times as long)", flush=True)


if __name__ == "__main__":
    main()
