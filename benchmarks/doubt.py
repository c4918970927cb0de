"""Which measure sorts what is believed so that the wrong ones come first?

    python benchmarks/doubt.py [--data ../shared/data] [--files eurosat-r50,…] [--seeds 10,11,12] [--tasks 4]
        [--methods cual-plus,cual]

Streams as in `merges.py`. At the end of each adaptation, of everything that is believed: the area under the
curve (AUROC) of "is wrong" by each measure, where 0.5 is chance and 1 has all wrong ones first; pools with
fewer than 5 wrong or right ones are left out. `round` is the same of what is believed provisionally, when the
second half of the questions is asked. "tied" is the share of samples whose doubt is that of another.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.annotators import Recorded
from cual.bench.settings import digits
from cual.bench.streams import Protocol, make_stream
from cual.loop.adaptation import Adaptation
from cual.types import Label

FILES = {  # first, increment, budget, buffer
    "digits": (2, 2, 0.02, 500),
    "eurosat-r50": (2, 2, 0.005, 2500),
    "cifar100-super-r50": (4, 2, 0.005, 2500),
    "places50-r50": (10, 5, 0.0125, 5000),
    "pacs-lite0": (2, 1, 0.02, 2500),
}
FEWEST = 5


def load(data: Path, file: str) -> tuple[np.ndarray, np.ndarray]:
    """Features, and classes as numbers."""
    if file == "digits":
        table = digits()
        X, y = np.asarray(table.X), table.labels()
    else:
        with np.load(data / f"{file}.npz") as arrays:
            X, y = arrays["X"], arrays["y"]
    return X.astype(np.float32), np.unique(y, return_inverse=True)[1]


def auroc(wrong: np.ndarray, doubt: np.ndarray) -> float:
    """How likely a wrong one is more doubtful than a right one; equals count half."""
    order = np.argsort(doubt, kind="stable")
    values, place = np.unique(doubt[order], return_inverse=True)
    ends = np.searchsorted(doubt[order], values, side="right")
    starts = np.searchsorted(doubt[order], values, side="left")
    ranks = np.empty(len(doubt))
    ranks[order] = (starts + ends + 1)[place] / 2
    n = int(wrong.sum())
    return float((ranks[wrong].sum() - n * (n + 1) / 2) / (n * (len(wrong) - n)))


def measured(believed: Mapping[Label, Label], doubts: Mapping[str, Mapping[Label, float]], y: np.ndarray):
    """AUROC of each measure; nothing where too few are wrong or right."""
    samples = list(believed)
    wrong = np.array([believed[s] != y[s] for s in samples], dtype=bool)
    if min(wrong.sum(), (~wrong).sum()) < FEWEST:
        return {}
    found = {}
    for name, doubt_of in doubts.items():
        doubt = np.array([doubt_of[s] for s in samples], np.float64)
        found[name] = auroc(wrong, doubt)
        if name == "doubt":
            _, place, counts = np.unique(doubt, return_inverse=True, return_counts=True)
            found["tied"] = float((counts[place] > 1).mean())
    found["wrong"] = float(wrong.mean())
    return found


def by_margin(task: Adaptation, believed: Mapping[Label, Label]) -> dict[Label, float]:
    return {sample: -margin for sample, margin in task.margins(believed).items()}


def run(X: np.ndarray, y: np.ndarray, file: str, method: str, seed: int, tasks: int) -> list[dict[str, float]]:
    first, increment, budget, buffer = FILES[file]
    stream = make_stream(y, Protocol(first=first, increment=increment), seed)
    agent = Agent.fit(X[stream.first], y[stream.first], method, seed=seed, buffer=buffer)
    rows = []
    for task in stream.tasks[:tasks]:
        annotator = Recorded(y, list(stream.introduced(task.number)), seed, task.number)
        adaptation = agent.adapt(X[task.rows], budget, ids=task.rows)
        found = {}
        while query := adaptation.ask():
            if not found and adaptation.labels_used >= adaptation.budget / 2:
                foreseen = adaptation.foreseen
                believed = foreseen.labels
                doubts = {"round doubt": foreseen.doubts, "round margin": by_margin(adaptation, believed)}
                found = {name: v for name, v in measured(believed, doubts, y).items() if name != "wrong"}
            adaptation.tell(query.id, annotator.answer(query.ids))
        believed = adaptation.pseudo_labels
        doubts = {"doubt": adaptation.doubts, "margin": by_margin(adaptation, believed)}
        rows.append(found | measured(believed, doubts, y))
        agent = adaptation.finish()
    return rows


NAMES = ("wrong", "doubt", "tied", "margin", "round doubt", "round margin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--methods", default="cual-plus,cual")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| method | file | pools | " + " | ".join(NAMES) + " |")
    print("| --- | --- |" + " ---: |" * (len(NAMES) + 1))
    for method in args.methods.split(","):
        for file in args.files.split(","):
            if file != "digits" and not (args.data / f"{file}.npz").exists():
                print(f"skipped: no {args.data / file}.npz")
                continue
            X, y = load(args.data, file)
            values = defaultdict[str, list[float]](list)
            for seed in args.seeds.split(","):
                for row in run(X, y, file, method, int(seed), args.tasks):
                    for name, value in row.items():
                        values[name].append(value)
            cells = [f"{np.mean(values[name]):.3f}" if values[name] else "–" for name in NAMES]
            print(f"| {method} | {file} | {len(values['wrong'])} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
