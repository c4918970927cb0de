"""Is it better to ask several people about the same sample, or one person about more samples?

    python benchmarks/overlap.py [--data ../shared/data] [--files digits,eurosat-r50] [--seeds 0,1,2,3,4]
        [--budgets 1,4] [--variants "one person, 20 % wrong;two people, overlap 2"] [--out out/overlap.jsonl]

Every opinion costs a label of the same budget: with an overlap of 2 half as many samples are asked about.
People err independently, 20 % each, and name any class introduced so far instead. Streams are those of
benchmarks/cual_plus.py; `--budgets` are factors on their budgets, which are small. Finished streams are kept
in --out and not run again. Accuracy (mean ± deviation over seeds, of the mean over tasks), not time; in
brackets the samples asked about per new class, and how many of their labels were right in the end (%).

Choose with seeds 10, 11, …; report seeds 0 … 4.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cual_plus import FILES, Job, load, markdown, spread

from cual.agent import Agent
from cual.bench.annotators import Recorded
from cual.bench.rows import evaluation_row
from cual.bench.runner import Data, fit_first
from cual.bench.settings import DIGITS
from cual.bench.streams import Stream, Task
from cual.data.labels import SKIP
from cual.loop.adaptation import Adaptation


@dataclass(frozen=True)
class Variant:
    """Who is asked: so many people about every sample, who err in this share of their answers.

    `settled` is a reviewer who is never wrong and decides where people disagree, at no charge; `random` asks
    about samples drawn by lot.
    """

    people: int = 1
    wrong: float = 0.2
    settled: bool = False
    random: bool = False


VARIANTS = {
    "one person, no mistakes": Variant(wrong=0.0),
    "one person, 20 % wrong": Variant(),
    "two people, overlap 2": Variant(people=2),
    "three people, overlap 3": Variant(people=3),
    "two people, overlap 2, disagreements settled": Variant(people=2, settled=True),
    "one person, 20 % wrong, random questions": Variant(random=True),
    "two people, overlap 2, random questions": Variant(people=2, random=True),
}


def run(variant: Variant, file: str, path: str, seed: int, budget: float) -> dict[str, Any]:
    """One stream, as one row."""
    changes: dict[str, Any] = {"BUDGET": budget}
    if variant.random:
        changes |= {"first": "random", "then": "random"}
    setting = Job(changes, file, seed, path).setting
    data = load(path, FILES[file].labels, 0)
    stream = data.stream(setting, seed)
    agent = fit_first(setting, "cual-plus", seed, data, stream)
    accuracies: list[float] = []
    asked = right = classes = labels = 0
    for task in stream.tasks:
        count = max(variant.people, round(setting.budget * len(task.rows)))
        adaptation = adapted(agent, variant, task, stream, data, seed, count)
        agent = adaptation.finish()
        evaluation = evaluation_row(agent, data.features, stream, task.number, data.truth, last=False)
        accuracies.append(evaluation["accuracy"])
        told = {i: answer for i, answer in adaptation.answers.items() if answer is not SKIP}
        asked += len(told)
        right += sum(data.truth.labels[i] == answer for i, answer in told.items())
        labels += adaptation.labels_used
        classes += len(task.new)
    return {
        "accuracy": float(np.mean(accuracies)),
        "asked": asked / classes,
        "labels": labels / classes,
        "right": right / max(1, asked),
    }


def adapted(
    agent: Agent, variant: Variant, task: Task, stream: Stream, data: Data, seed: int, budget: int
) -> Adaptation:
    """One task, all of whose questions are answered."""
    classes = data.truth.classes(stream.introduced(task.number))
    people = [
        Recorded(data.truth.labels, classes, seed, task.number, wrong=variant.wrong, person=person)
        for person in range(variant.people)
    ]
    adaptation = agent.adapt(data.features.X[task.rows], budget, ids=task.rows, overlap=variant.people)
    while query := adaptation.ask():
        for number, person in enumerate(people):
            adaptation.tell(query.id, person.answer(query.ids), person=f"person {number}")
        if variant.settled:
            settle(adaptation, query.id, query.ids, data)
    return adaptation


def settle(adaptation: Adaptation, query: str, samples: Sequence[Any], data: Data) -> None:
    """Have a reviewer say the truth where people disagree."""
    torn = [i for i in samples if adaptation.state.questions[i].disagreement]
    truth = {i: data.truth.labels[i].item() for i in torn}
    adaptation.settle(query, truth, person="reviewer")


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for every stream that was asked for, computed unless it is kept."""
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {json.dumps(row["run"], sort_keys=True): row for row in kept}
    for file in options.files.split(","):
        path = DIGITS if file == DIGITS else str(Path(options.data) / FILES[file].file)
        for budget in (float(factor) for factor in options.budgets.split(",")):
            for name in options.variants.split(";") if options.variants else VARIANTS:
                for seed in (int(s) for s in options.seeds.split(",")):
                    key = {"file": file, "budget": budget, "variant": name, "seed": seed}
                    text = json.dumps(key, sort_keys=True)
                    if text not in done:
                        done[text] = {"run": key, **run(VARIANTS[name], file, path, seed, budget)}
                        with out.open("a") as lines:
                            lines.write(json.dumps(done[text]) + "\n")
                    yield done[text]


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line per variant, one column per file and budget."""
    columns = list(dict.fromkeys((row["run"]["file"], row["run"]["budget"]) for row in rows))
    names = list(dict.fromkeys(row["run"]["variant"] for row in rows))

    def cell(name: str, file: str, budget: float) -> str:
        here = {"variant": name, "file": file, "budget": budget}
        mine = [row for row in rows if {k: row["run"][k] for k in here} == here]
        asked, right = (np.mean([row[k] for row in mine]) for k in ("asked", "right"))
        return f"{spread([row['accuracy'] for row in mine])} ({asked:.1f}, {100 * right:.0f})"

    header = ["variant", *(f"{file}, budget × {budget:g}" for file, budget in columns)]
    yield from markdown(header, ([name, *(cell(name, *column) for column in columns)] for name in names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--files", default="digits,eurosat-r50,cifar100-super-r50")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--budgets", default="1,4")
    parser.add_argument("--variants", default="")
    parser.add_argument("--out", default="out/overlap.jsonl")
    torch.set_num_threads(1)
    rows = list(rows_of(parser.parse_args()))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
