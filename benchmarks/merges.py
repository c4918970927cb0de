"""Are two names of one class found, and how many different classes are taken for one?

    python benchmarks/merges.py [--data ../shared/data] [--files eurosat-r50,…] [--seeds 10,11,12] [--tasks 5]
        [--method cual-plus] [--wrong 0]

Streams whose tasks bring several new classes. Of every class, old or new, half of the samples are called by a
second name; twice the usual budget, so that both names get answers. Before `finish` the answers are told again
with one name, so that the next task starts from one class each. "found" counts the pairs of names of one class
that `Adaptation.merges` calls probable, "falsely" those of two classes; "lone" are pairs where a name has one
answer only. The last columns group all pairs by their probability: how often they were indeed one class.
"""

import argparse
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.annotators import Recorded, second_names
from cual.bench.settings import digits
from cual.bench.streams import Protocol, make_stream
from cual.loop.merges import Merge

FILES = {  # first, increment, budget, buffer: several new classes in a task, and twice the usual budget
    "digits": (2, 2, 0.04, 500),
    "eurosat-r50": (2, 2, 0.01, 2500),
    "cifar100-super-r50": (4, 2, 0.01, 2500),
    "places50-r50": (10, 5, 0.025, 5000),
}
BINS = (0.0, 0.1, 0.5, 0.9, 1.01)

Pair = tuple[Merge, bool, bool]
"""Two names, whether one was known before, and whether they are of one class."""


def load(data: Path, file: str) -> tuple[np.ndarray, np.ndarray]:
    if file == "digits":
        table = digits()
        return np.asarray(table.X, np.float32), np.array([int(name) for name in table.labels()])
    with np.load(data / f"{file}.npz") as arrays:
        return arrays["X"].astype(np.float32), arrays["y"].astype(np.int64)


def pairs(
    X: np.ndarray, y: np.ndarray, file: str, method: str, seed: int, tasks: int, wrong: float
) -> list[Pair]:
    """All pairs of all tasks of a stream."""
    first, increment, budget, buffer = FILES[file]
    first_name = {second: name for name, second in second_names(np.unique(y).tolist()).items()}
    stream = make_stream(y, Protocol(first=first, increment=increment), seed)
    agent = Agent.fit(X[stream.first], y[stream.first], method, seed=seed, buffer=buffer)
    compared: list[Pair] = []
    for task in stream.tasks[:tasks]:
        classes = list(stream.introduced(task.number))
        annotator = Recorded(y, classes, seed, task.number, wrong=wrong, synonyms=0.5)
        adaptation = agent.adapt(X[task.rows], budget, ids=task.rows)
        asked = []
        while query := adaptation.ask():
            asked.append(query)
            adaptation.tell(query.id, annotator.answer(query.ids))
        for merge in adaptation.merges(least=-1):
            one, other = (first_name.get(name, name) for name in (merge.a, merge.b))
            compared.append((merge, merge.b in agent.names, one == other))
        for query in asked:
            answers = annotator.answer(query.ids)
            adaptation.tell(query.id, {i: first_name.get(a, a) for i, a in answers.items()})
        agent = adaptation.finish()
    return compared


def cells(compared: list[Pair]) -> list[str]:
    shown: list[str] = []
    for known in (False, True):
        mine = [(merge.probable, same) for merge, old, same in compared if old == known]
        counts = Counter(mine)
        found, falsely = counts[True, True], counts[True, False]
        shown += [f"{found} of {found + counts[False, True]}", f"{falsely} of {falsely + counts[False, False]}"]
    lone = [(m.probable, same) for m, _, same in compared if 1 in (m.answers_a, m.answers_b)]
    shown.append(f"{lone.count((True, True))} of {sum(same for _, same in lone)}")
    for low, high in itertools.pairwise(BINS):
        inside = [same for merge, _, same in compared if low <= merge.probability < high]
        shown.append(f"{100 * np.mean(inside):.0f} % of {len(inside)}" if inside else "–")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--method", default="cual-plus")
    parser.add_argument("--wrong", type=float, default=0.0, help="share of answers that name another class")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ranges = [f"{low:.1f}–{min(high, 1):.1f}" for low, high in itertools.pairwise(BINS)]
    names = ("file", "new–new found", "falsely", "new–old found", "falsely", "lone found", *ranges)
    print("| " + " | ".join(names) + " |")
    print("| --- |" + " ---: |" * (len(names) - 1))
    every: list[Pair] = []
    for file in args.files.split(","):
        if file != "digits" and not (args.data / f"{file}.npz").exists():
            print(f"skipped: no {args.data / file}.npz")
            continue
        X, y = load(args.data, file)
        compared = [
            pair
            for seed in args.seeds.split(",")
            for pair in pairs(X, y, file, args.method, int(seed), args.tasks, args.wrong)
        ]
        every += compared
        print(f"| {file} | " + " | ".join(cells(compared)) + " |", flush=True)
    print("| all | " + " | ".join(cells(every)) + " |")


if __name__ == "__main__":
    main()
