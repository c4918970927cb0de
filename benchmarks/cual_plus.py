"""What the parts of cual-plus are worth, how flat its constants are, and how it stands hard conditions.

    python benchmarks/cual_plus.py ablations|flatness|flatness-rare|conditions|outlook
        [--data ../shared/data] [--seeds 0,1,2] [--files cifar100-super-r50,places50-r50]
        [--variants "20 % wrong answers;rare 1:50"] [--jobs 2] [--device cpu] [--out out/cual-plus.jsonl]

Every line of the table is one variant: accuracy over tasks (mean ± deviation over seeds), classes never found,
precision and recall of the pseudo-labels, and how well the first scores tell novel from old samples (AUROC).
Finished streams are kept in --out and not run again. Accuracy, not time. `flatness` belongs on seeds that no
reported figure uses (10, 11, …).
"""

import argparse
import importlib
import json
import multiprocessing
from collections.abc import Iterator
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
from cual.features import Features
from cual.transduction import PrototypeLearner, Space

FILES = {  # first, increment, budget, buffer: the protocol of ../shared/data/README.md
    "eurosat-r50": (2, 1, 0.005, 2500),
    "cifar100-super-r50": (4, 2, 0.005, 2500),
    "places50-r50": (10, 5, 0.0125, 5000),
}
# A key with a dot is a constant of a module, one in lower case an option of the method. Capitals are for `run`,
# which changes the protocol, and for `take_away`.
SETTLED = {"transduction.FEW": 0, "transduction.CONTRADICTED": 10**9}
ONCE = {"RARITY": 10.0, "REUSE": False, "BUDGET": 10.0}  # pools are small then, so ten times the budget
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "ablations": {
        "whole": {},
        "no votes of neighbours": {"transduction.NEIGHBOUR_WEIGHT": 0.0},
        "novel classes as frequent as old ones": {"NO_ODDS": True},
        "old classes never learned further": SETTLED,
        "no crowd in the labels": {"transduction.CROWD_WEIGHT": 0.0},
        "no crowd in the novelty": {"NO_CROWD": True},
        "no refinement": {"transduction.REFINEMENTS": 1},
        "no second space": {"NO_SECOND_SPACE": True},
        "no whitening": {"transduction.SHRINK": 1000.0},
        "first questions at random": {"first": "random"},
        "later questions at random": {"then": "random"},
        "later questions without company": {"NO_COMPANY": True},
        "all questions at once": {"first_share": 1.0, "iterations": 1},
        "no pseudo-labels": {"pseudo": ""},
        "lengths of means as they are": {"head_options": {"expand": -1, "even": 0.0}},
    },
    "flatness": {
        "as it is": {},
        "whitening shrink 0.1": {"transduction.SHRINK": 0.1},
        "whitening shrink 1": {"transduction.SHRINK": 1.0},
        "head shrink 0.25": {"head_options": {"expand": -1, "shrink": 0.25}},
        "head shrink 1": {"head_options": {"expand": -1, "shrink": 1.0}},
        "answers count 1.5": {"transduction.ANSWER_WEIGHT": 1.5},
        "answers count 6": {"transduction.ANSWER_WEIGHT": 6.0},
        "least share 0.15": {"transduction.LEAST_SHARE": 0.15},
        "least share 0.5": {"transduction.LEAST_SHARE": 0.5},
        "neighbours count 1.5": {"transduction.NEIGHBOUR_WEIGHT": 1.5},
        "neighbours count 6": {"transduction.NEIGHBOUR_WEIGHT": 6.0},
        "lengths evened by 0.1": {"head_options": {"expand": -1, "even": 0.1}},
        "lengths evened by 0.5": {"head_options": {"expand": -1, "even": 0.5}},
        "crowd counts from 0.4": {"transduction.CROWD_EDGE": 0.4},
        "crowd counts from 1.2": {"transduction.CROWD_EDGE": 1.2},
        "crowd counts 1": {"transduction.CROWD_WEIGHT": 1.0},
        "crowd counts 4": {"transduction.CROWD_WEIGHT": 4.0},
        "5 in the crowd": {"neighbours.CROWD": 5},
        "20 in the crowd": {"neighbours.CROWD": 20},
        "3 refinements": {"transduction.REFINEMENTS": 3},
        "12 refinements": {"transduction.REFINEMENTS": 12},
        "8 voters": {"neighbours.VOTERS": 8},
        "30 voters": {"neighbours.VOTERS": 30},
        "first share 0.4": {"first_share": 0.4},
        "first share 0.8": {"first_share": 0.8},
        "contradicted by 1": {"transduction.CONTRADICTED": 1},
        "contradicted by 4": {"transduction.CONTRADICTED": 4},
    },
    "flatness-rare": {
        "rare 1:10": {"RARITY": 10.0},
        "few are 50": {"RARITY": 10.0, "transduction.FEW": 50},
        "few are 200": {"RARITY": 10.0, "transduction.FEW": 200},
        "contradicted by 1": {"RARITY": 10.0, "transduction.CONTRADICTED": 1},
        "contradicted by 4": {"RARITY": 10.0, "transduction.CONTRADICTED": 4},
        "looks novel from 1": {"RARITY": 10.0, "transduction.LOOKS_NOVEL": 1.0},
        "looks novel from 4": {"RARITY": 10.0, "transduction.LOOKS_NOVEL": 4.0},
        "what is known counts 6": {"RARITY": 10.0, "transduction.KNOWN_WEIGHT": 6.0},
        "what is known counts 24": {"RARITY": 10.0, "transduction.KNOWN_WEIGHT": 24.0},
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


@lru_cache(maxsize=1)
def load(path: str, width: int) -> tuple[Any, Any]:
    with np.load(path) as held:
        X, y = held["X"].astype(np.float32), held["y"].astype(np.int64)
    if width:
        X = X @ (np.random.default_rng(0).standard_normal((X.shape[1], width)).astype(np.float32) / width**0.5)
    return X, y


def run(job: tuple[dict[str, Any], str, int, Path, str]) -> dict[str, Any]:
    """One stream, as one row."""
    changes, file, seed, data, device = job
    torch.set_num_threads(1)
    options = dict(changes)
    for key in [key for key in options if "." in key]:
        module, constant = key.split(".")
        setattr(importlib.import_module(f"cual.{module}"), constant, options.pop(key))
    take_away(options)
    X, y = load(str(data / f"{file}.npz"), options.pop("WIDTH", 0))
    first, increment, budget, buffer = FILES[file]
    budget *= options.pop("BUDGET", 1.0)
    wrong, rarity = options.pop("WRONG", 0.0), options.pop("RARITY", None)
    truth = Truth.of(Features(X, y))
    protocol = Protocol(first=first, increment=increment, rarity=rarity, reuse=options.pop("REUSE", True))
    stream = make_stream(y, protocol, seed)
    agent = Agent.fit(X[stream.first], y[stream.first], "cual-plus", seed, device, buffer=buffer, **options)
    tasks: list[dict[str, Any]] = []
    for task in stream.tasks:
        annotator = Recorded(
            truth.labels, truth.classes(stream.introduced(task.number)), seed, task.number, wrong
        )
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
        "changes": changes,
        "file": file,
        "seed": seed,
        "accuracy": float(np.mean([t["accuracy"] for t in tasks])),
        "missed": len(np.unique(y)) - len(agent.classes_),
        "precision": right / max(1, given),
        "recall": reached / max(1, novel),
        "auroc": float(np.mean([t["auroc"] for t in tasks if t["auroc"] is not None])),
        "tasks": tasks,
    }


def take_away(options: dict[str, Any]) -> None:
    """Parts that no option of the method leaves out."""
    if options.pop("NO_SECOND_SPACE", False):
        PrototypeLearner._taught = lambda self, space, found: self._agent.head
    if options.pop("NO_CROWD", False):
        Space.novelty = lambda self, seen: self.angle.deviations(1 - seen.to_old.max(dim=1).values)
    if options.pop("NO_ODDS", False):
        PrototypeLearner._odds = lambda self, novel, of_known: 0.0
    if options.pop("NO_COMPANY", False):
        importlib.import_module("cual.acquisition.diverse")._company = lambda view, at: np.ones(len(at))


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
            said = [(t[guess][0] if guess == "guesses" else t[guess], t) for t in tasks if t[guess]]
            errors = np.array([100 * (g - t[truth]) / t["pool"] for g, t in said])
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
        (changes, file, seed, args.data, args.device)
        for file in files
        for changes in wanted
        for seed in seeds
        if (changes, file, seed) not in done
    ]
    context = multiprocessing.get_context("forkserver")  # a fresh process for each: `run` changes constants
    context.set_forkserver_preload(["torch", "cual.agent"])
    with context.Pool(args.jobs, maxtasksperchild=1) as pool:
        for n, row in enumerate(pool.imap_unordered(run, jobs), 1):
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
