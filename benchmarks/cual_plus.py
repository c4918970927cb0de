"""What the parts of cual-plus are worth, how flat its options are, and how it stands hard conditions.

    python benchmarks/cual_plus.py ablations|flatness|flatness-rare|conditions|outlook
        [--data ../shared/data] [--seeds 0,1,2] [--files cifar100-super-r50,places50-r50]
        [--variants "20 % wrong answers;rare 1:50"] [--jobs 2] [--device cpu] [--out out/cual-plus.jsonl]

Every line of the table is one variant: accuracy over tasks (mean ± deviation over seeds), classes never found,
precision and recall of the pseudo-labels, and how well the first scores tell novel from old samples (AUROC).
Finished streams are kept in --out and not run again. Accuracy, not time. `flatness` belongs on seeds that no
reported figure uses (10, 11, …).
"""

import argparse
import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.annotators import Recorded
from cual.bench.measures import auroc
from cual.bench.rows import Truth
from cual.bench.streams import Protocol, make_stream
from cual.data.table import Table

FILES = {  # first, increment, budget, buffer: the protocol of ../shared/data/README.md
    "eurosat-r50": (2, 1, 0.005, 2500),
    "cifar100-super-r50": (4, 2, 0.005, 2500),
    "places50-r50": (10, 5, 0.0125, 5000),
}
# Options of the method; capitals change the protocol.
SETTLED = {"learner": {"few": 0, "contradicted": 10**9}}
ONCE = {"RARITY": 10.0, "REUSE": False, "BUDGET": 10.0}  # pools are small then, so ten times the budget
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "ablations": {
        "whole": {},
        "no votes of neighbours": {"learner": {"neighbour_weight": 0.0}},
        "novel classes as frequent as old ones": {"learner": {"estimate_frequency": False}},
        "old classes never learned further": SETTLED,
        "no crowd in the labels": {"learner": {"crowd_weight": 0.0}},
        "no crowd in the novelty": {"learner": {"crowd_in_novelty": False}},
        "no refinement": {"learner": {"refinements": 1}},
        "no second space": {"learner": {"second_space": False}},
        "no whitening": {"learner": {"shrink": 1000.0}},
        "first questions at random": {"first": "random"},
        "later questions at random": {"then": "random"},
        "later questions without company": {"then": {"company": 0}},
        "all questions at once": {"first_share": 1.0, "rounds": 1},
        "no pseudo-labels": {"believe": None},
        "lengths of means as they are": {"head": {"even": 0.0}},
    },
    "flatness": {
        "as it is": {},
        "whitening shrink 0.1": {"learner": {"shrink": 0.1}},
        "whitening shrink 1": {"learner": {"shrink": 1.0}},
        "head shrink 0.25": {"head": {"shrink": 0.25}},
        "head shrink 1": {"head": {"shrink": 1.0}},
        "answers count 1.5": {"learner": {"answer_weight": 1.5}},
        "answers count 6": {"learner": {"answer_weight": 6.0}},
        "least share 0.15": {"learner": {"least_share": 0.15}},
        "least share 0.5": {"learner": {"least_share": 0.5}},
        "neighbours count 1.5": {"learner": {"neighbour_weight": 1.5}},
        "neighbours count 6": {"learner": {"neighbour_weight": 6.0}},
        "lengths evened by 0.1": {"head": {"even": 0.1}},
        "lengths evened by 0.5": {"head": {"even": 0.5}},
        "crowd counts from 0.4": {"learner": {"crowd_edge": 0.4}},
        "crowd counts from 1.2": {"learner": {"crowd_edge": 1.2}},
        "crowd counts 1": {"learner": {"crowd_weight": 1.0}},
        "crowd counts 4": {"learner": {"crowd_weight": 4.0}},
        "5 in the crowd": {"learner": {"crowd": 5}},
        "20 in the crowd": {"learner": {"crowd": 20}},
        "3 refinements": {"learner": {"refinements": 3}},
        "12 refinements": {"learner": {"refinements": 12}},
        "8 voters": {"learner": {"voters": 8}},
        "30 voters": {"learner": {"voters": 30}},
        "first share 0.4": {"first_share": 0.4},
        "first share 0.8": {"first_share": 0.8},
        "contradicted by 1": {"learner": {"contradicted": 1}},
        "contradicted by 4": {"learner": {"contradicted": 4}},
    },
    "flatness-rare": {
        "rare 1:10": {"RARITY": 10.0},
        "few are 50": {"RARITY": 10.0, "learner": {"few": 50}},
        "few are 200": {"RARITY": 10.0, "learner": {"few": 200}},
        "contradicted by 1": {"RARITY": 10.0, "learner": {"contradicted": 1}},
        "contradicted by 4": {"RARITY": 10.0, "learner": {"contradicted": 4}},
        "looks novel from 1": {"RARITY": 10.0, "learner": {"looks_novel": 1.0}},
        "looks novel from 4": {"RARITY": 10.0, "learner": {"looks_novel": 4.0}},
        "what is known counts 6": {"RARITY": 10.0, "learner": {"known_weight": 6.0}},
        "what is known counts 24": {"RARITY": 10.0, "learner": {"known_weight": 24.0}},
    },
    "conditions": {
        "as it is": {},
        "20 % wrong answers": {"WRONG": 0.2},
        "384-d projection": {"WIDTH": 384},
        "64-d projection": {"WIDTH": 64},
        "rare 1:10": {"RARITY": 10.0},
        "rare 1:10, old classes never learned further": {"RARITY": 10.0, **SETTLED},
        "rare 1:50": {"RARITY": 50.0},
        "rare 1:50, old classes never learned further": {"RARITY": 50.0, **SETTLED},
        "rare 1:10, no sample in two pools": ONCE,
        "rare 1:10, no sample in two pools, old classes never learned further": {**ONCE, **SETTLED},
        "half of the budget": {"BUDGET": 0.5},
        "a quarter of the budget": {"BUDGET": 0.25},
        "a tenth of the budget": {"BUDGET": 0.1},
    },
    "outlook": {"as it is": {}, "rare 1:10": {"RARITY": 10.0}},
}


@dataclass(frozen=True)
class Job:
    """One stream: a variant on a file with a seed."""

    changes: dict[str, Any]
    file: str
    seed: int
    data: Path
    device: str


@lru_cache(maxsize=1)
def load(path: str, width: int) -> tuple[Any, Any]:
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(np.float32), arrays["y"].astype(np.int64)
    if width:
        X = X @ (np.random.default_rng(0).standard_normal((X.shape[1], width)).astype(np.float32) / width**0.5)
    return X, y


def run(job: Job) -> dict[str, Any]:
    """One stream, as one row."""
    torch.set_num_threads(1)
    options = {name: value for name, value in job.changes.items() if not name.isupper()}
    changed = {name: value for name, value in job.changes.items() if name.isupper()}
    X, y = load(str(job.data / f"{job.file}.npz"), changed.get("WIDTH", 0))
    first, increment, budget, buffer = FILES[job.file]
    budget *= changed.get("BUDGET", 1.0)
    truth = Truth.of(Table(X, y))
    protocol = Protocol(
        first=first, increment=increment, rarity=changed.get("RARITY"), reuse=changed.get("REUSE", True)
    )
    stream = make_stream(y, protocol, job.seed)
    agent = Agent.fit(
        X[stream.first], y[stream.first], "cual-plus", job.seed, job.device, buffer=buffer, **options
    )
    tasks: list[dict[str, Any]] = []
    for task in stream.tasks:
        classes = truth.classes(stream.introduced(task.number))
        annotator = Recorded(truth.labels, classes, job.seed, task.number, changed.get("WRONG", 0.0))
        count = max(1, round(budget * len(task.rows)))
        adaptation = agent.adapt(X[task.rows], count, ids=task.rows)
        guesses: list[float | None] = []
        while query := adaptation.ask():
            guesses.append(adaptation.outlook.novel)
            adaptation.tell(query.id, annotator.answer(query.ids))
        unknown = ~np.isin(y[task.rows], agent.classes_)
        agent = adaptation.finish()
        tasks.append(row_of(task, unknown, adaptation, agent, stream, X, y) | {"guesses": guesses})
    novel = sum(t["novel"] - t["asked_novel"] for t in tasks)
    right, reached, given = (sum(t[key] for t in tasks) for key in ("right", "reached", "given"))
    return {
        "changes": job.changes,
        "file": job.file,
        "seed": job.seed,
        "accuracy": float(np.mean([t["accuracy"] for t in tasks])),
        "missed": len(np.unique(y)) - len(agent.classes_),
        "precision": right / max(1, given),
        "recall": reached / max(1, novel),
        "auroc": float(np.mean([t["auroc"] for t in tasks if t["auroc"] is not None])),
        "tasks": tasks,
    }


def row_of(
    task: Any, unknown: Any, adaptation: Any, agent: Agent, stream: Any, X: Any, y: Any
) -> dict[str, Any]:
    """One task; `unknown` says which samples of its pool are of classes that the agent did not know before."""
    test = stream.test_rows(task.number)
    predicted = agent.predict(X[test])
    believed, first = adaptation.pseudo_labels, adaptation.rounds[0]
    novel = set(task.rows[unknown].tolist())
    return {
        "accuracy": float(
            np.mean([(predicted[y[test] == c] == c).mean() for c in stream.introduced(task.number)])
        ),
        "auroc": auroc(first.scores, unknown[first.rows]),
        "pool": len(task.rows),
        "novel": len(novel),
        "asked_novel": len(novel & adaptation.answers.keys()),
        "given": len(believed),
        "right": sum(int(y[i]) == c for i, c in believed.items()),
        "reached": sum(int(y[i]) == c and i in novel for i, c in believed.items()),
        "guess_novel": adaptation.outlook.novel,
        "guess_left": adaptation.outlook.left,
        "left": len(novel - believed.keys() - adaptation.answers.keys()),
    }


def table(rows: list[dict[str, Any]], kind: str) -> Iterator[str]:
    files = list(dict.fromkeys(r["file"] for r in rows))
    yield "| variant | " + " | ".join(f"{f} | missed | precision / recall | AUROC" for f in files) + " |"
    yield "| --- |" + " ---: | ---: | ---: | ---: |" * len(files)
    for variant, changes in VARIANTS[kind].items():
        cells: list[str] = []
        for file in files:
            mine = [r for r in rows if r["changes"] == changes and r["file"] == file]
            if not mine:
                cells += [""] * 4
                continue
            accuracy = 100 * np.array([r["accuracy"] for r in mine])
            right, recall = (100 * np.mean([r[k] for r in mine]) for k in ("precision", "recall"))
            missed, novelty = sum(r["missed"] for r in mine), np.mean([r["auroc"] for r in mine])
            cells += [
                f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1 if len(mine) > 1 else 0):.1f}",
                str(missed),
                f"{right:.0f} / {recall:.0f}",
                f"{novelty:.3f}",
            ]
        yield f"| {variant} | " + " | ".join(cells) + " |"


def outlook_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Errors of the estimates, in percent of the pool: mean (bias) and mean absolute."""
    yield "| variant | file | novel before any answer | novel at the end | left at the end | truly left |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    every = [(v, c, f) for v, c in VARIANTS["outlook"].items() for f in dict.fromkeys(r["file"] for r in rows)]
    for variant, changes, file in every:
        tasks = [t for r in rows if (r["changes"], r["file"]) == (changes, file) for t in r["tasks"]]
        if not tasks:
            continue
        cells: list[str] = []
        for guess, truth in (("guesses", "novel"), ("guess_novel", "novel"), ("guess_left", "left")):
            guessed = [(t[guess][0] if guess == "guesses" else t[guess], t) for t in tasks if t[guess]]
            errors = np.array([100 * (g - t[truth]) / t["pool"] for g, t in guessed])
            cells.append(f"{errors.mean():+.1f}, |{np.abs(errors).mean():.1f}|")
        left = np.mean([100 * t["left"] / t["pool"] for t in tasks])
        yield f"| {variant} | {file} | " + " | ".join(cells) + f" | {left:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(VARIANTS), nargs="?", default="outlook")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--variants", help="only these, separated by semicolons")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("out/cual-plus.jsonl"))
    args = parser.parse_args()
    files = [f for f in args.files.split(",") if (args.data / f"{f}.npz").exists()]
    if not files:
        print(f"skipped: no features in {args.data}")
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    seeds = [int(seed) for seed in args.seeds.split(",")]
    wanted = [
        changes
        for variant, changes in VARIANTS[args.kind].items()
        if not args.variants or variant in args.variants.split(";")
    ]
    done = [(r["changes"], r["file"], r["seed"]) for r in rows]
    jobs = [
        Job(changes, file, seed, args.data, args.device)
        for file in files
        for changes in wanted
        for seed in seeds
        if (changes, file, seed) not in done
    ]
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        for n, future in enumerate(as_completed([pool.submit(run, job) for job in jobs]), 1):
            row = future.result()
            rows.append(row)
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"\r{n} of {len(jobs)} streams", end="", flush=True)
    print()
    mine = [r for r in rows if r["file"] in files and r["seed"] in seeds]
    for line in outlook_table(mine) if args.kind == "outlook" else table(mine, args.kind):
        print(line)


if __name__ == "__main__":
    main()
