"""What wrong and missing pseudo-labels cost cual-plus: one adaptation, learned from labels that are mended.

    python benchmarks/labelling.py [--data ../shared/data,OUT] [--files cifar100-super-r50,digits]
        [--seeds 10,11,12] [--tasks 1,4] [--imbalance 8]

The agent knows all earlier classes from true labels, and asks as usual. Then its head learns the answers with

    as it is             the pseudo-labels that were given
    right among novel    as they are, but novel samples that a wrong novel class won have their own
    no old ones          as they are, without those of samples that are old
    found classes        the true label of every sample of the novel classes that were asked about, no other

and accuracy over the classes so far is compared, mean over seeds and tasks. Files and budgets are those of
benchmarks/cual_plus.py; `*-minilm.npz` is what benchmarks/text.sh makes in its folder OUT.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from cual_plus import FILES, Job, load

from cual import Agent
from cual.bench.rows import Truth
from cual.bench.runner import Data
from cual.bench.settings import DIGITS
from cual.bench.streams import Stream, Task
from cual.heads import Lesson, Samples

MENDED = ("as it is", "right among novel", "no old ones", "found classes")


def known_before(task: Task, stream: Stream, truth: Truth) -> np.ndarray:
    """Rows of the first classes, and of novel samples of earlier tasks."""
    tasks = [t for t in stream.tasks if t.number < task.number]
    earlier = [t.rows[np.isin(truth.labels[t.rows], truth.classes(t.new))] for t in tasks]
    return np.concatenate([stream.first, *earlier])


def accuracies(job: Job, data: Data, number: int) -> dict[str, float]:
    """Accuracy after one task, by how the pseudo-labels are mended."""
    setting, y = job.setting, data.truth.labels
    stream = data.stream(setting, job.seed)
    task = stream.tasks[number - 1]
    X = torch.from_numpy(data.features.X)
    before = known_before(task, stream, data.truth)
    agent = Agent.fit(X[before], y[before], seed=job.seed, buffer=setting.buffer)
    adaptation = agent.adapt(X[task.rows], max(1, round(setting.budget * len(task.rows))), ids=task.rows)
    while query := adaptation.ask():
        adaptation.tell(query.id, {i: y[i].item() for i in query.ids})
    given, answers = adaptation.pseudo_labels, adaptation.answers
    old, found = set(agent.classes_.tolist()), set(answers.values()) - set(agent.classes_.tolist())
    truth = {i: y[i].item() for i in task.rows.tolist() if i not in answers}
    mended = {
        "as it is": given,
        "right among novel": {i: truth[i] if truth[i] in found and c in found else c for i, c in given.items()},
        "no old ones": {i: c for i, c in given.items() if truth[i] not in old},
        "found classes": {i: c for i, c in truth.items() if c in found},
    }
    names = [*agent.classes_.tolist(), *sorted(found)]
    test = stream.test_rows(task.number)

    def samples(labels: dict[int, int]) -> Samples:
        return Samples(
            X[list(labels)], torch.tensor([names.index(c) for c in labels.values()], dtype=torch.int64)
        )

    def accuracy(labels: dict[int, int]) -> float:
        lesson = Lesson(len(names), samples(answers), samples(labels), samples({}))
        head = agent.head.learn(lesson, np.random.default_rng(0))
        predicted = np.array(names)[head.logits(X[test]).argmax(dim=1).numpy()]
        return float(np.mean([(predicted[y[test] == c] == c).mean() for c in np.unique(y[test])]))

    return {name: accuracy(mended[name]) for name in MENDED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--files", default=DIGITS)
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--tasks", default="1,4")
    parser.add_argument("--imbalance", type=float)
    args = parser.parse_args()
    changes = {} if args.imbalance is None else {"IMBALANCE": args.imbalance}
    print("| |", " | ".join(MENDED), "|\n| --- |", "---: |" * len(MENDED))
    for name in args.files.split(","):
        places = [Path(folder) / FILES[name].file for folder in args.data.split(",")]
        path = name if name == DIGITS else str(next(place for place in places if place.exists()))
        data = load(path, FILES[name].labels, 0)
        rows = [
            accuracies(Job(changes, name, seed, path), data, task)
            for seed in map(int, args.seeds.split(","))
            for task in map(int, args.tasks.split(","))
        ]
        print(
            "|",
            name,
            "|",
            " | ".join(f"{100 * np.mean([row[m] for row in rows]):.1f}" for m in MENDED),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()
