"""What options of the closed-form head are worth on the labels of cual-plus: other heads on the same streams.

    python benchmarks/head_options.py [--data ../shared/data,OUT] [--files cifar100-super-r50,digits]
        [--kinds even,imbalance,rare] [--seeds 10,11,12] [--jobs 2]

A head only predicts: whom cual-plus asks and what it labels does not depend on these options. So every stream
is run once, and after each task the head's sums are seen under each of `OPTIONS`. Differences are paired, and
much less noisy than those of streams that are run again. Files and kinds are those of benchmarks/cual_plus.py.

A table for every kind: accuracy over tasks as it is (mean ± deviation over seeds), and by how many points it
differs with other options. Accuracy, not time.
"""

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cual_plus import FILES, Changes, Job, adapted, load, located, markdown, spread

from cual.bench.runner import fit_first
from cual.heads import Ridge

KINDS: dict[str, Changes] = {"even": {}, "imbalance": {"IMBALANCE": 8.0}, "rare": {"RARITY": 10.0}}
OPTIONS: dict[str, dict[str, float]] = {
    "as it is": {},
    "as it was in 0.2.0 (shrink 0.5, even 0.25, scarce 0)": {"shrink": 0.5, "even": 0.25, "scarce": 0.0},
    "few samples trusted like many (shrink 0.5, scarce 0)": {"shrink": 0.5, "scarce": 0.0},
    "scarce 0.5": {"scarce": 0.5},
    "scarce 2": {"scarce": 2.0},
    "shrink 0.1": {"shrink": 0.1},
    "shrink 0.5": {"shrink": 0.5},
    "even 0": {"even": 0.0},
    "even 0.25": {"even": 0.25},
    "even 0.75": {"even": 0.75},
    "even 1": {"even": 1.0},
}


def stream_row(name: str, path: str, seed: int, kind: str) -> dict[str, float]:
    """One stream, mean over its tasks, under each of the options."""
    torch.set_num_threads(1)
    setting = Job(KINDS[kind], name, seed, path).setting
    data = load(path, FILES[name].labels, 0)
    stream = data.stream(setting, seed)
    agent = fit_first(setting, setting.methods[0], seed, data, stream)
    X, truth = torch.from_numpy(data.features.X), data.truth
    tasks: list[list[float]] = []
    for task in stream.tasks:
        _, agent = adapted(agent, setting, task, stream, data)
        names = np.array(truth.first_names(agent.classes_.tolist()))
        rows = stream.test_rows(task.number)
        labels, state = truth.labels[rows], agent.head.state()
        tasks.append([accuracy(Ridge.from_state(state, **o), X[rows], names, labels) for o in OPTIONS.values()])
    return dict(zip(OPTIONS, np.mean(tasks, axis=0).tolist(), strict=True))


def accuracy(head: Ridge, X: torch.Tensor, names: np.ndarray, labels: np.ndarray) -> float:
    """Mean over classes."""
    right = names[head.logits(X).argmax(dim=1).numpy()] == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def cells(rows: list[dict[str, float]], option: str) -> str:
    if not OPTIONS[option]:
        return spread(row[option] for row in rows)
    return f"{100 * np.mean([row[option] - row['as it is'] for row in rows]):+.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data", help="folders, separated by commas")
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    paths = located(args.files.split(","), [Path(folder) for folder in args.data.split(",")])
    seeds = [int(seed) for seed in args.seeds.split(",")]
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        going: dict[tuple[str, str], list[Any]] = {
            (kind, name): [pool.submit(stream_row, name, path, seed, kind) for seed in seeds]
            for kind in args.kinds.split(",")
            for name, path in paths.items()
        }
        for kind in args.kinds.split(","):
            rows = {name: [job.result() for job in going[kind, name]] for name in paths}
            print(f"\n{kind}, seeds {args.seeds}\n")
            lines = ([option, *(cells(rows[name], option) for name in paths)] for option in OPTIONS)
            for line in markdown(("options of the head", *paths), lines):
                print(line, flush=True)


if __name__ == "__main__":
    main()
