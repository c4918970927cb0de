"""How good a stream gets whose questions are chosen by one who knows the class of every sample.

    python benchmarks/clairvoyant.py [--data ../shared/data,OUT] [--files cifar100-super-r50,digits]
        [--seeds 0,1,2,3,4] [--imbalance 8] [--rarity 10] [--jobs 2]

In each task the same number of labels, all of new classes, without cual-plus's choice of questions:

    medoids     dealt out evenly over the new classes, and in each the middles of as many groups (k-means)
    by lot      drawn from the novel samples, each as likely as another

beside those that cual-plus asks for, all at once. What it lacks of the medoids is what better questions could
bring, or nearly so: nobody knows classes before asking. Prints accuracy, and how often a class that was in
a pool was still unknown after it. Files are those of benchmarks/cual_plus.py. Accuracy, not time.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from cual_plus import FILES, Changes, Job, adapted, load, located, markdown, spread, summary, task_row
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from cual.agent import Agent
from cual.bench.runner import Data, fit_first
from cual.bench.settings import DIGITS, Setting
from cual.bench.streams import Stream, Task
from cual.loop.adaptation import Adaptation

AT_ONCE: Changes = {"first_share": 1.0, "rounds": 1}
TURNS = 10
LINES = ("as cual-plus asks, all at once", "medoids of the new classes", "novel samples by lot")


def middles(D: Tensor, n: int, rng: np.random.Generator) -> list[int]:
    """The directions nearest to the centres of `n` groups, all different."""
    centres = D[torch.from_numpy(rng.choice(len(D), n, replace=False))]
    for _ in range(TURNS):
        sums = one_hot((D @ centres.T).argmax(dim=1), n).to(D).T @ D
        centres = torch.where(sums.any(dim=1, keepdim=True), normalize(sums, dim=1), centres)
    chosen: list[int] = []
    for centre in centres:
        likeness = D @ centre
        likeness[chosen] = -torch.inf
        chosen.append(int(likeness.argmax()))
    return chosen


def dealt(n: int, sizes: list[int], rng: np.random.Generator) -> list[int]:
    """`n` questions, one to each class in turn while it has samples left."""
    counts, order = [0] * len(sizes), rng.permutation(len(sizes)).tolist()
    n = min(n, sum(sizes))
    while sum(counts) < n:
        for c in order:
            if counts[c] < sizes[c] and sum(counts) < n:
                counts[c] += 1
    return counts


def chosen(adaptation: Adaptation, labels: np.ndarray, n: int, by_lot: bool, seed: int) -> list[int]:
    """Rows of the pool, whose true labels are `labels`."""
    rng = np.random.default_rng((seed, adaptation.agent.version))
    rows = np.flatnonzero(~np.isin(labels, adaptation.agent.classes_))
    if by_lot:
        return rng.choice(rows, min(n, len(rows)), replace=False).tolist()
    groups = [rows[labels[rows] == c] for c in np.unique(labels[rows])]
    D = normalize(torch.from_numpy(adaptation.machine._short.features(np.arange(len(labels)))), dim=1)
    counts = dealt(n, [len(group) for group in groups], rng)
    return [
        int(group[i]) for group, m in zip(groups, counts, strict=True) if m for i in middles(D[group], m, rng)
    ]


def told(agent: Agent, setting: Setting, task: Task, data: Data, by_lot: bool) -> tuple[Adaptation, Agent]:
    """The adaptation to one pool by labels that nobody asked for, and the agent after it."""
    labels = data.truth.labels[task.rows]
    n = max(1, round(setting.budget * len(task.rows)))
    adaptation = agent.adapt(data.features.X[task.rows], n, ids=task.rows)
    _ = adaptation.ask()
    rows = chosen(adaptation, labels, n, by_lot, setting.seeds[0])
    _ = adaptation.volunteer({int(task.rows[row]): labels[row].item() for row in rows})
    adaptation.stop()
    return adaptation, adaptation.finish()


def stream_row(name: str, path: str, seed: int, changes: Changes, line: str) -> dict[str, float]:
    """One stream under one of the ways to choose questions."""
    torch.set_num_threads(1)
    setting = Job(changes | AT_ONCE, name, seed, path).setting
    data = load(path, FILES[name].labels, 0)
    stream: Stream = data.stream(setting, seed)
    agent = fit_first(setting, setting.methods[0], seed, data, stream)
    rows = []
    for task in stream.tasks:
        if line == LINES[0]:
            adaptation, after = adapted(agent, setting, task, stream, data)
        else:
            adaptation, after = told(agent, setting, task, data, by_lot=line == LINES[2])
        rows.append(task_row(task, adaptation, after, stream, data))
        agent = after
    return summary(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data", help="folders, separated by commas")
    parser.add_argument("--files", default=DIGITS)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--imbalance", type=float)
    parser.add_argument("--rarity", type=float)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    changes = {"IMBALANCE": args.imbalance, "RARITY": args.rarity}
    changes = {name: value for name, value in changes.items() if value is not None}
    paths = located(args.files.split(","), [Path(folder) for folder in args.data.split(",")])
    seeds = [int(seed) for seed in args.seeds.split(",")]
    with ProcessPoolExecutor(args.jobs) as pool:
        going = {
            name: {
                line: [pool.submit(stream_row, name, path, s, changes, line) for s in seeds] for line in LINES
            }
            for name, path in paths.items()
        }
        for name, lines in going.items():
            rows = {line: [job.result() for job in jobs] for line, jobs in lines.items()}
            print(f"\n{name}, {changes or 'as it is'}, seeds {args.seeds}\n")
            table = [
                (line, spread(row["accuracy"] for row in some), str(sum(row["late"] for row in some)))
                for line, some in rows.items()
            ]
            for text in markdown(("", "accuracy", "unknown after its pool"), table):
                print(text, flush=True)


if __name__ == "__main__":
    main()
