"""How good a stream gets whose pools are labelled as well as the fully supervised head would label them.

    python benchmarks/supervised_labels.py [--data ../shared/data,OUT] [--files cifar100-super-r50,digits]
        [--seeds 0,1,2,3,4] [--imbalance 8] [--rarity 10] [--even] [--jobs 2]

A teacher labels every pool: the closed-form head that is told every label of the first classes, of all pools
before, and of four fifths of this pool. It labels the last fifth, five times, so that every sample is labelled
by a teacher that was not told it. It also knows how frequent each class is in the pool, unless `--even`. What
the teacher takes for novel a second head learns, under the teacher's label, and nothing else but the true
labels of the first classes.

So the pseudo-labels of this stream are those of the supervised classifier itself, and what its accuracy lacks
of `oracle-ridge`, which is told all labels, is lacking to every method that labels no better than that
classifier does. Files are those of benchmarks/cual_plus.py. Accuracy, not time.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from cual_plus import FILES, Changes, Job, load, spread

from cual.bench.settings import DIGITS
from cual.heads import Lesson, Ridge, Samples

FOLDS = 5
COLUMNS = ("labels of the supervised head", "all labels", "right", "reached")


def stream_row(name: str, path: str, seed: int, changes: Changes, even: bool) -> dict[str, float]:
    """One stream, mean over its tasks."""
    torch.set_num_threads(1)
    job = Job(changes, name, seed, path)
    data = load(path, FILES[name].labels, 0)
    stream = data.stream(job.setting, seed)
    X = torch.from_numpy(data.features.X)
    numbers = {label: number for number, label in enumerate(data.truth.classes(stream.order))}
    y = np.array([numbers[label] for label in data.truth.labels.tolist()])
    rng = np.random.default_rng(seed)

    def samples(rows: Sequence[int], labels: np.ndarray) -> Samples:
        return Samples(X[list(rows)], torch.from_numpy(labels))

    def taught(head: Ridge, n_classes: int, rows: Sequence[int], labels: np.ndarray) -> Ridge:
        none = samples([], y[:0])
        return head.learn(Lesson(n_classes, samples(rows, labels), none, none), rng)

    def labelled(rows: np.ndarray, n_classes: int) -> np.ndarray:
        """The teacher's labels of a pool."""
        others = sorted(told - set(rows.tolist()))
        start = taught(Ridge(expand=-1), n_classes, others, y[others])
        frequent = torch.from_numpy(np.log(np.bincount(y[rows], minlength=n_classes) / len(rows) + 1e-9))
        labels, fold = np.zeros_like(rows), rng.permutation(len(rows)) % FOLDS
        for number in range(FOLDS):
            here, rest = rows[fold == number], rows[fold != number]
            teacher = taught(start, n_classes, rest.tolist(), y[rest])
            sureness = teacher.sureness(samples(here.tolist(), y[here]))
            logits = sureness * teacher.logits(X[here]).double() + (0 if even else frequent)
            labels[fold == number] = logits.argmax(dim=1).numpy()
        return labels

    def accuracy(head: Ridge, number: int) -> float:
        test = stream.test_rows(number)
        right = head.logits(X[test]).argmax(dim=1).numpy() == y[test]
        return float(np.mean([right[y[test] == c].mean() for c in np.unique(y[test])]))

    known = job.setting.first
    student = bound = taught(Ridge(expand=-1), known, stream.first.tolist(), y[stream.first])
    told = set(stream.first.tolist())
    tasks: list[tuple[float, ...]] = []
    for task in stream.tasks:
        rows, n_classes = task.rows, known + len(task.new)
        given = labelled(rows, n_classes)
        won = given >= known
        right = won & (given == y[rows])
        student = taught(student, n_classes, rows[won].tolist(), given[won])
        fresh = sorted(set(rows.tolist()) - told)
        bound = taught(bound, n_classes, fresh, y[fresh])
        told |= set(fresh)
        tasks.append(
            (
                accuracy(student, task.number),
                accuracy(bound, task.number),
                right.sum() / max(won.sum(), 1),
                right.sum() / (y[rows] >= known).sum(),
            )
        )
        known = n_classes
    return dict(zip(COLUMNS, np.mean(tasks, axis=0).tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--files", default=DIGITS)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--imbalance", type=float)
    parser.add_argument("--rarity", type=float)
    parser.add_argument(
        "--even", action="store_true", help="the teacher takes all classes for equally frequent"
    )
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    changes = {"IMBALANCE": args.imbalance, "RARITY": args.rarity}
    changes = {name: value for name, value in changes.items() if value is not None}
    seeds = [int(seed) for seed in args.seeds.split(",")]
    print("| |", " | ".join(COLUMNS), "|\n| --- |", "---: |" * len(COLUMNS))
    for name in args.files.split(","):
        places = [Path(folder) / FILES[name].file for folder in args.data.split(",")]
        path = name if name == DIGITS else str(next(place for place in places if place.exists()))
        with ProcessPoolExecutor(args.jobs) as pool:
            going = [pool.submit(stream_row, name, path, seed, changes, args.even) for seed in seeds]
            rows = [job.result() for job in going]
        cells = " | ".join(spread(row[column] for row in rows) for column in COLUMNS)
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
