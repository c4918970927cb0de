"""Large pools: the memory that adapting over a features folder takes, and whether a rare class is found.

    python benchmarks/large_pool.py [FOLDER] [--case memory|rare|huge] [--rows N] [--threads 2] [--expand 0]

`memory`: 500,000 × 2048 float16, peak resident memory. Of the pool 1 % is novel: 5 classes that an agent of 10
classes does not know. `rare`: 200,000 × 512, classes that overlap, and one of the 5 novel ones has 20 samples.
Was it asked about, and how many of its samples got a label? `huge`: 10,000,000 × 512 and 10,000 questions, only
when it is asked for. All tell whether 30,000 rows give the same from disk, in chunks, as in memory.

Makes the folder (2, 0.2 and 10 GB, in a temporary place or in the folder given as argument) and adapts in a
process of its own, whose peak is what counts. Temporary files lie where TMPDIR says. `--expand 0` does without
the random features that stand in for narrow ones: less memory, and a fraction of the time.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cual import Agent
from cual.bench.measures import auroc
from cual.data.folder import FeaturesFolder, FeaturesWriter
from cual.data.pool import Pool
from cual.loop import rounds
from cual.loop.adaptation import Adaptation

RANK, OLD, NEW = 24, 10, 5
SUBSET = 30_000
"""Rows of which the whitened directions just stay in memory."""
RARE = OLD + NEW - 1
"""The class that may be rare."""


@dataclass(frozen=True)
class Case:
    """A pool.

    Attributes
    ----------
    apart, noise
        Deviation of the coordinates of class means, and of those of samples: how much classes overlap.
    rare
        Samples of the rarest novel class; None if all are equally frequent.
    """

    rows: int
    width: int
    apart: float
    noise: float
    rare: int | None = None
    answers: int = 200


CASES = {
    "memory": Case(500_000, 2048, 0.5, 0.02),
    "rare": Case(200_000, 512, 0.06, 0.25, rare=20),
    "huge": Case(10_000_000, 512, 0.06, 0.25, answers=10_000),
}


class World:
    """Classes with a mean and a few directions of their own."""

    def __init__(self, case: Case) -> None:
        rng = np.random.default_rng(0)
        self.case = case
        self.means = rng.normal(0, case.apart, (OLD + NEW, case.width)).astype(np.float32)
        self.directions = rng.normal(0, 0.05, (OLD + NEW, RANK, case.width)).astype(np.float32)

    def draw(self, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = np.empty((len(classes), self.case.width), np.float32)
        for c in np.unique(classes):
            mine = np.flatnonzero(classes == c)
            X[mine] = self.means[c] + rng.standard_normal((len(mine), RANK), np.float32) @ self.directions[c]
        return (X + self.case.noise * rng.standard_normal(X.shape, np.float32)).astype(np.float16)


def classes_of(case: Case, rng: np.random.Generator) -> np.ndarray:
    """The true class of each row of the pool: 1 % is novel."""
    novel = case.rows // 100
    if case.rare is None:
        new = OLD + rng.integers(0, NEW, novel)
    else:
        new = np.concatenate([OLD + rng.integers(0, NEW - 1, novel - case.rare), np.full(case.rare, RARE)])
    return rng.permutation(np.concatenate([rng.integers(0, OLD, case.rows - novel), new]))


def make(folder: Path, case: Case, expand: int) -> None:
    """The pool, its true classes, and an agent of the old ones."""
    world, rng = World(case), np.random.default_rng(1)
    classes = classes_of(case, rng)
    with FeaturesWriter(folder / "pool", case.width, "float16") as writer:
        for start in range(0, case.rows, 4096):
            part = classes[start : start + 4096]
            writer.append(world.draw(part, rng), list(range(start, start + len(part))))
    np.save(folder / "classes.npy", classes)
    known = np.repeat(np.arange(OLD), 300)
    agent = Agent.fit(world.draw(known, rng), known, head={"expand": expand})
    agent.save(folder / "v0.agent")
    right = np.mean(agent.predict(world.draw(known, rng)) == known)
    print(f"the agent recognises {100 * right:.1f} % of fresh samples of the classes that it knows")


class Clock:
    """Seconds and peak memory of stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peaks: dict[str, int] = {}
        self._since = time.perf_counter()

    def stage(self, name: str, without: float = 0.0) -> None:
        """What happened since the last call was this stage, but for some seconds."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since - without
        self.peaks[name] = peak()
        self._since = now


def adapt(folder: Path, answers: int) -> None:
    """What is measured: open, adapt, finish."""
    imported = peak()
    clock = Clock()
    features = FeaturesFolder.open(folder / "pool")
    clock.stage("opening the folder")
    pool = Pool.of(features.table())
    clock.stage("checking every number")
    classes = np.load(folder / "classes.npy", mmap_mode="r")
    task = Agent.load(folder / "v0.agent").adapt(pool, answers)
    opened, scoring = peak(), 0.0
    while query := task.ask():
        scored = task.timings["scoring"] - scoring
        clock.seconds["scoring"] = scoring = task.timings["scoring"]
        clock.stage("choosing", without=scored)
        task.tell(query.id, {i: int(classes[i]) for i in query.ids})
        clock.stage("telling")
        task.save(folder / "task")
        clock.stage("saving")
    clock.stage("believing", without=task.timings["scoring"] - scoring)
    clock.seconds["scoring"] = task.timings["scoring"]
    agent = task.finish()
    clock.stage("learning")
    believed = task.pseudo_labels
    right = sum(int(classes[i]) == label for i, label in believed.items())
    row = {
        "rows": len(features),
        "seconds": round(sum(clock.seconds.values()), 1),
        "seconds by stage": {name: round(s, 1) for name, s in clock.seconds.items()},
        "seconds per million rows": {
            name: round(s / len(features) * 1e6, 1) for name, s in clock.seconds.items()
        },
        "peak after each stage (MB)": clock.peaks,
        "peak after imports (MB)": imported,
        "peak after opening (MB)": opened,
        "peak (MB)": peak(),
        "classes": len(agent.names),
        "labels": task.labels_used,
        "pseudo-labels": len(believed),
        "pseudo-labels right": round(right / len(believed), 4) if believed else None,
        "the rarest class": of_rarest(task, np.asarray(classes)),
    }
    print(json.dumps(row, indent=1))


def of_rarest(task: Adaptation, classes: np.ndarray) -> dict[str, Any]:
    """What became of the last novel class; how well the first scores tell its samples from known classes."""
    mine = set(np.flatnonzero(classes == RARE).tolist())
    first, believed = task.rounds[0], task.pseudo_labels
    others = (classes < OLD) | (classes == RARE)
    novelty = auroc(first.scores[others], classes[others] == RARE)
    return {
        "samples": len(mine),
        "AUROC of the first scores": None if novelty is None else round(novelty, 4),
        "questions": len(mine & task.answers.keys()),
        "pseudo-labels right": sum(believed.get(i) == RARE for i in mine),
        "pseudo-labels wrong": sum(i in believed and believed[i] != RARE for i in mine),
        "others taken for it": sum(label == RARE and i not in mine for i, label in believed.items()),
    }


def compare(folder: Path) -> None:
    """The same rows from disk, in chunks, with temporary files, and in memory: is the outcome the same?"""
    features = FeaturesFolder.open(folder / "pool")
    classes = np.load(folder / "classes.npy", mmap_mode="r")
    n = min(SUBSET, len(features))
    on_disk, in_memory = features.select(np.arange(n)).table(), features.X[:n]
    rounds.KEPT_ROWS = 0
    agent = Agent.load(folder / "v0.agent")
    lean = replace(agent, method=agent.method.but(learner={"keep_bytes": 0}))
    tasks = [lean.adapt(Pool.of(on_disk), 300), agent.adapt(Pool(in_memory), 300)]
    for task in tasks:
        while query := task.ask():
            task.tell(query.id, {i: int(classes[i]) for i in query.ids})
    one, other = tasks
    heads = [task.finish().head.state() for task in tasks]
    pairs = list(zip(one.rounds, other.rounds, strict=True))
    same = {
        "questions": one.answers == other.answers,
        "scores": all(np.array_equal(a.scores, b.scores) for a, b in pairs),
        "pseudo-labels": one.pseudo_labels == other.pseudo_labels,
        "doubts": one.doubts == other.doubts,
        "head": all(torch.equal(tensor, heads[1][name]) for name, tensor in heads[0].items()),
    }
    farthest = max(float(np.abs(a.scores - b.scores).max()) for a, b in pairs)
    print(f"{n} rows from disk, bit by bit as in memory: {json.dumps(same)}; scores differ by {farthest:.1e}")


def peak() -> int:
    """Most memory that was ever resident, in MB; of this program alone, not of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024


def measure(case: Case, place: Path | None, threads: int, expand: int) -> None:
    """Make a pool, adapt to it in another process, and forget it."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        began = time.perf_counter()
        make(Path(name), case, expand)
        size = sum(f.stat().st_size for f in (Path(name) / "pool").iterdir())
        print(f"made {size / 2**30:.2f} GiB in {time.perf_counter() - began:.0f} s", flush=True)
        ours = [sys.executable, __file__, "--threads", str(threads)]
        subprocess.run([*ours, "--adapt", name, "--answers", str(case.answers)], check=True)
        subprocess.run([*ours, "--compare", name], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where to make the pool")
    parser.add_argument("--case", choices=list(CASES), help="only this one")
    parser.add_argument("--rows", type=int, help="another size of the pool")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--expand", type=int, default=-1, help="random features of the head; 0 for none")
    parser.add_argument("--adapt", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--compare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--answers", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.adapt:
        adapt(args.adapt, args.answers)
        return
    if args.compare:
        compare(args.compare)
        return
    for name in [args.case] if args.case else ("memory", "rare"):
        print(f"== {name}", flush=True)
        measure(
            replace(CASES[name], rows=args.rows or CASES[name].rows), args.folder, args.threads, args.expand
        )


if __name__ == "__main__":
    main()
