"""Adapting over a features folder larger than memory should be: 500,000 × 2048 float16, peak resident memory.

Makes the folder (2 GB, in a temporary place or in the folder given as argument) and adapts in a process of its
own, whose peak is what counts. Of the pool 1 % is novel: 5 classes that an agent of 10 classes does not know.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cual import Agent
from cual.data.folder import FeaturesFolder, FeaturesWriter
from cual.data.pool import Pool

ROWS, WIDTH, RANK, OLD, NEW = 500_000, 2048, 24, 10, 5
NOVEL = ROWS // 100


class World:
    """Classes with a mean and a few directions of their own."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.means = rng.normal(0, 0.5, (OLD + NEW, WIDTH)).astype(np.float32)
        self.directions = rng.normal(0, 0.05, (OLD + NEW, RANK, WIDTH)).astype(np.float32)

    def draw(self, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = np.empty((len(classes), WIDTH), np.float32)
        for c in np.unique(classes):
            mine = np.flatnonzero(classes == c)
            X[mine] = self.means[c] + rng.standard_normal((len(mine), RANK), np.float32) @ self.directions[c]
        return (X + 0.02 * rng.standard_normal(X.shape, np.float32)).astype(np.float16)


def make(folder: Path) -> None:
    """The pool, its true classes, and an agent of the old ones."""
    world, rng = World(), np.random.default_rng(1)
    classes = rng.permutation(
        np.concatenate([rng.integers(0, OLD, ROWS - NOVEL), OLD + rng.integers(0, NEW, NOVEL)])
    )
    with FeaturesWriter(folder / "pool", WIDTH, "float16") as writer:
        for start in range(0, ROWS, 4096):
            part = classes[start : start + 4096]
            writer.append(world.draw(part, rng), list(range(start, start + len(part))))
    np.save(folder / "classes.npy", classes)
    known = np.repeat(np.arange(OLD), 300)
    Agent.fit(world.draw(known, rng), known).save(folder / "v0.agent")


def adapt(folder: Path) -> None:
    """What is measured: open, adapt with 200 answers, finish."""
    imported = peak()
    began = time.perf_counter()
    features = FeaturesFolder.open(folder / "pool")
    classes = np.load(folder / "classes.npy", mmap_mode="r")
    task = Agent.load(folder / "v0.agent").adapt(Pool.of(features.table()), 200)
    opened = peak()
    while query := task.ask():
        task.tell(query.id, {i: int(classes[i]) for i in query.ids})
        task.save(folder / "task")
    agent = task.finish()
    believed = task.pseudo_labels
    right = np.mean([classes[i] == label for i, label in believed.items()]) if believed else float("nan")
    row = {
        "rows": len(features),
        "seconds": round(time.perf_counter() - began, 1),
        "peak after imports (MB)": imported,
        "peak after opening (MB)": opened,
        "peak (MB)": peak(),
        "classes": len(agent.names),
        "labels": task.labels_used,
        "pseudo-labels": len(believed),
        "pseudo-labels right": round(float(right), 4),
    }
    print(json.dumps(row, indent=1))


def peak() -> int:
    """Most memory that was ever resident, in MB; of this program alone, not of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024


def main() -> None:
    if len(sys.argv) > 2:
        adapt(Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        began = time.perf_counter()
        make(Path(name))
        size = sum(f.stat().st_size for f in (Path(name) / "pool").iterdir())
        print(f"made {size / 2**30:.2f} GiB in {time.perf_counter() - began:.0f} s")
        subprocess.run([sys.executable, __file__, "adapt", name], check=True)


if __name__ == "__main__":
    main()
