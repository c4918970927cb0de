"""What the parts of cual-plus are worth, how flat its options are, and how it stands hard conditions.

    python benchmarks/cual_plus.py KIND[,KIND…] [--data ../shared/data,OUT] [--seeds 0,1,2]
        [--files cifar100-super-r50,digits] [--variants "20 % wrong answers;rare 1:50"]
        [--jobs 2] [--device cpu] [--out out/cual-plus.jsonl]

Kinds (`VARIANTS` says what each variant changes; -imbalance thins out classes by a power law, 8 : 1, and -rare
makes novel ones ten times rarer):

    ablations, -imbalance, -rare      one part taken away at a time
    flatness, flatness-rare           options made smaller and larger
    conditions                        less budget, narrow features, rare classes
    rounds, rounds-imbalance          all questions at once, in rounds, one by one
    bounds, imbalance                 beside other methods, and beside those that are told every label
    rare                              novel classes that are 10 and 50 times rarer, beside the bounds
    mistakes                          wrong answers, also among new classes, and second names
    calibration                       whether shares are probabilities
    precision                         pseudo-labels of which a share is to be right
    outlook                           estimates of how many samples are novel

`flatness` belongs on seeds that no reported figure uses (10, 11, …). Text features, `*-minilm.npz`, are what
benchmarks/text.sh makes in its folder OUT; sections, letters and looks are of benchmarks/unseen.py.

Every file has a table, and every line of it is a variant: accuracy over tasks (mean ± deviation over seeds);
classes never found, and how often a class that was in a pool was still unknown after it, both over all seeds;
questions per new class; how many of the pseudo-labels were right, and how many of the novel samples that nobody
was asked about they reached (%); how well the first scores tell novel from old samples (AUROC). Budgets with
IMBALANCE are larger, because pools are smaller: they make about 2 questions per new class.

Finished streams are kept in --out and not run again, unless the method or the protocol has changed since; code
that changed is not noticed. Accuracy, not time.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.measures import auroc
from cual.bench.rows import Truth, evaluation_row
from cual.bench.runner import Data, annotator_for, fit_first
from cual.bench.settings import DIGITS, Setting, digits
from cual.bench.streams import Stream, Task
from cual.data.table import Table
from cual.learners import Prototypes
from cual.loop.adaptation import Adaptation
from cual.methods import methods


@dataclass(frozen=True)
class Source:
    """A file and its protocol; that of the first three is the one of ../shared/data/README.md.

    Attributes
    ----------
    thinned
        The budget where classes are thinned out (IMBALANCE).
    file, labels
        The `.npz` that the features lie in, and the name of its array of labels.
    natural
        Old samples are drawn as frequent as their classes are.
    """

    first: int
    increment: int
    budget: float
    thinned: float
    file: str
    buffer: int = 2500
    labels: str = "y"
    natural: bool = False


FILES = {
    "eurosat-r50": Source(2, 1, 0.005, 0.005, "eurosat-r50.npz"),
    "cifar100-super-r50": Source(4, 2, 0.005, 0.01, "cifar100-super-r50.npz"),
    "cifar100-fine": Source(20, 10, 0.0125, 0.05, "cifar100-super-r50.npz", labels="fine"),
    "places50-r50": Source(10, 5, 0.0125, 0.03, "places50-r50.npz", buffer=5000),
    "banking77-minilm": Source(17, 10, 0.025, 0.05, "banking77-minilm.npz"),
    "clinc150-minilm": Source(75, 25, 0.025, 0.05, "clinc150-minilm.npz"),
    DIGITS: Source(2, 2, 0.03, 0.03, DIGITS),
    "sections": Source(9, 6, 0.0125, 0.02, "sections-minilm.npz", natural=True),
    "letters": Source(12, 4, 0.0125, 0.03, "letters-lite0.npz"),
    "looks": Source(8, 4, 0.0125, 0.05, "looks-lite0.npz"),
}

Changes = dict[str, Any]
"""Options of the method; capitals change the protocol, the people who answer, or which METHOD it is."""
PROTOCOL = ("RARITY", "REUSE", "NATURAL", "IMBALANCE", "WRONG", "WRONG_AMONG_NEW", "SYNONYMS")
"""What a change in capitals is called in `Setting`, in small letters."""
CAPITALS = (*PROTOCOL, "BUDGET", "WIDTH", "METHOD")
"""BUDGET is a factor, WIDTH that of a random projection."""


def under(variants: Mapping[str, Changes], **changes: Any) -> dict[str, Changes]:
    """All variants under one more change."""
    return {name: {**changes, **variant} for name, variant in variants.items()}


SETTLED: Changes = {"learner": {"few": 0, "contradicted": 10**9}}
ONCE: Changes = {"RARITY": 10.0, "REUSE": False, "BUDGET": 10.0}  # small pools, so ten times the budget
SURE: Changes = {"least_doubt": 1.0}
ABLATIONS: dict[str, Changes] = {
    "whole": {},
    "no class without a name": {"learner": {"none_of_these": False}},
    "a walk of hardly more than one step": {"learner": {"walk": 0.1}},
    "no walk: nothing looks novel at first": {"learner": {"walk": 0.0}},
    "strangeness not in the labels": {"learner": {"strange_weight": 0.0}},
    "no votes of neighbours": {"learner": {"neighbour_weight": 0.0}},
    "novel classes as frequent as old ones": {"learner": {"estimate_frequency": False}},
    "old classes never learned further": SETTLED,
    "no refinement": {"learner": {"refinements": 1}},
    "no whitening": {"learner": {"shrink": 1000.0}},
    "first questions at random": {"first": "random"},
    "later questions at random": {"then": "random"},
    "all questions at random": {"first": "random", "then": "random"},
    "doubts do not count": {"first": SURE, "then": SURE},
    "all questions at once": {"first_share": 1.0, "rounds": 1},
    "questions by k-means": {"first": "diverse", "then": "diverse"},
    "no pseudo-labels": {"believe": None},
    "lengths of means as they are": {"head": {"even": 0.0}},
    "few samples trusted like many": {"head": {"shrink": 0.5, "scarce": 0.0}},
}
ROUNDS: dict[str, Changes] = {
    "all questions at once": {"first_share": 1.0, "rounds": 1},
    "2 rounds": {"rounds": 2},
    "4 rounds, as it is": {},
    "8 rounds": {"rounds": 8},
    "one question at a time": {"first_share": 0.0, "rounds": 10_000},
}
VARIANTS: dict[str, dict[str, Changes]] = {
    "ablations": ABLATIONS,
    "ablations-imbalance": under(ABLATIONS, IMBALANCE=8.0),
    "ablations-rare": under(ABLATIONS, RARITY=10.0),
    "flatness": {
        "as it is": {},
        "whitening shrink 0.1": {"learner": {"shrink": 0.1}},
        "whitening shrink 1": {"learner": {"shrink": 1.0}},
        "head shrink 0.1": {"head": {"shrink": 0.1}},
        "head shrink 0.5": {"head": {"shrink": 0.5}},
        "few samples count half": {"head": {"scarce": 0.5}},
        "few samples count twice": {"head": {"scarce": 2.0}},
        "answers count 1.5": {"learner": {"answer_weight": 1.5}},
        "answers count 6": {"learner": {"answer_weight": 6.0}},
        "least share 0.15": {"learner": {"least_share": 0.15}},
        "least share 0.5": {"learner": {"least_share": 0.5}},
        "neighbours count 1.5": {"learner": {"neighbour_weight": 1.5}},
        "neighbours count 6": {"learner": {"neighbour_weight": 6.0}},
        "8 neighbours": {"learner": {"neighbours": 8}},
        "30 neighbours": {"learner": {"neighbours": 30}},
        "walks go on with 0.8": {"learner": {"walk": 0.8}},
        "walks go on with 0.95": {"learner": {"walk": 0.95}},
        "strangeness counts from 0.4": {"learner": {"strange_edge": 0.4}},
        "strangeness counts from 1.2": {"learner": {"strange_edge": 1.2}},
        "strangeness counts 1": {"learner": {"strange_weight": 1.0}},
        "strangeness counts 4": {"learner": {"strange_weight": 4.0}},
        "least doubt 0.15": {"first": {"least_doubt": 0.15}, "then": {"least_doubt": 0.15}},
        "least doubt 0.6": {"first": {"least_doubt": 0.6}, "then": {"least_doubt": 0.6}},
        "believed from a share of 0.5": {"believe": {"share": 0.5}},
        "lengths evened by 0.25": {"head": {"even": 0.25}},
        "lengths evened by 1": {"head": {"even": 1.0}},
        "3 refinements": {"learner": {"refinements": 3}},
        "12 refinements": {"learner": {"refinements": 12}},
        "first share 0.4": {"first_share": 0.4},
        "first share 0.8": {"first_share": 0.8},
        "contradicted by 1": {"learner": {"contradicted": 1}},
        "contradicted by 4": {"learner": {"contradicted": 4}},
    },
    "flatness-rare": under(
        {
            "rare 1:10": {},
            "few are 50": {"learner": {"few": 50}},
            "few are 200": {"learner": {"few": 200}},
            "contradicted by 1": {"learner": {"contradicted": 1}},
            "contradicted by 4": {"learner": {"contradicted": 4}},
            "looks novel from 1": {"learner": {"looks_novel": 1.0}},
            "looks novel from 4": {"learner": {"looks_novel": 4.0}},
            "what is known counts 6": {"learner": {"known_weight": 6.0}},
            "what is known counts 24": {"learner": {"known_weight": 24.0}},
        },
        RARITY=10.0,
    ),
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
    "rounds": ROUNDS,
    "rounds-imbalance": under(ROUNDS, IMBALANCE=8.0),
    "bounds": {
        "cual-plus": {},
        "er-random": {"METHOD": "er-random"},
        "oracle": {"METHOD": "oracle"},
        "oracle-novel": {"METHOD": "oracle-novel"},
        "oracle-ridge": {"METHOD": "oracle-ridge"},
    },
    "imbalance": under(
        {
            "cual-plus": {},
            "cual": {"METHOD": "cual"},
            "er-random": {"METHOD": "er-random"},
            "oracle-novel": {"METHOD": "oracle-novel"},
            "oracle-ridge": {"METHOD": "oracle-ridge"},
        },
        IMBALANCE=8.0,
    ),
    "rare": {
        "cual-plus, 1:10": {"RARITY": 10.0},
        "oracle, 1:10": {"RARITY": 10.0, "METHOD": "oracle"},
        "oracle-ridge, 1:10": {"RARITY": 10.0, "METHOD": "oracle-ridge"},
        "cual-plus, 1:50": {"RARITY": 50.0},
        "oracle, 1:50": {"RARITY": 50.0, "METHOD": "oracle"},
        "oracle-ridge, 1:50": {"RARITY": 50.0, "METHOD": "oracle-ridge"},
    },
    "mistakes": {
        "none": {},
        "20 % wrong": {"WRONG": 0.2},
        "10 % wrong, new classes taken for one another": {"WRONG": 0.1, "WRONG_AMONG_NEW": True},
        "20 % wrong, new classes taken for one another": {"WRONG": 0.2, "WRONG_AMONG_NEW": True},
        "20 % by a second name": {"SYNONYMS": 0.2},
    },
    "calibration": {
        "as it is": {},
        "no class without a name": {"learner": {"none_of_these": False}},
        "rare 1:10": {"RARITY": 10.0},
        "classes 8 : 1": {"IMBALANCE": 8.0},
    },
    "precision": {
        "as it is": {},
        "at least 80 % right": {"believe": {"precision": 0.8}},
        "at least 90 % right": {"believe": {"precision": 0.9}},
        "at least 95 % right": {"believe": {"precision": 0.95}},
    },
    "outlook": {"as it is": {}, "rare 1:10": {"RARITY": 10.0}},
}


# -- one stream ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One stream: a variant on a file with a seed."""

    changes: Changes
    file: str
    seed: int
    path: str
    device: str = "cpu"

    @property
    def setting(self) -> Setting:
        """The stream as the bench knows it."""
        source, changes = FILES[self.file], self.changes
        width = changes.get("WIDTH")
        return Setting(
            features=source.file,
            name=self.file if width is None else f"{self.file} in {width} dimensions",
            methods=(changes.get("METHOD", "cual-plus"),),
            seeds=(self.seed,),
            first=source.first,
            increment=source.increment,
            budget=(source.thinned if "IMBALANCE" in changes else source.budget) * changes.get("BUDGET", 1.0),
            buffer=source.buffer,
            device=self.device,
            options={name: value for name, value in changes.items() if not name.isupper()},
            **{"natural": source.natural}
            | {name.lower(): changes[name] for name in PROTOCOL if name in changes},
        )

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides on its numbers, as plain JSON, but for the code and the device."""
        setting = self.setting
        row = setting.to_json()
        del row["device"]
        composition = methods[setting.methods[0]].but(**setting.method_options).to_json()
        return row | {"composition": json.loads(json.dumps(composition))}


@lru_cache(maxsize=1)
def load(path: str, labels: str, width: int) -> Data:
    """Features and true labels; the last ones stay in memory for the next stream on them."""
    if path == DIGITS:
        table = digits()
        X, y = table.X, table.labels()
    else:
        with np.load(path) as arrays:
            X, y = arrays["X"].astype(np.float32), arrays[labels]
    if width:
        X = X @ (np.random.default_rng(0).standard_normal((X.shape[1], width)).astype(np.float32) / width**0.5)
    table = Table(X, y.astype(np.int64) if y.dtype.kind in "iu" else y)
    return Data(table, Truth.of(table))


def run(job: Job) -> dict[str, Any]:
    """One stream, as one row."""
    torch.set_num_threads(1)
    setting = job.setting
    data = load(job.path, FILES[job.file].labels, job.changes.get("WIDTH", 0))
    stream = data.stream(setting, job.seed)
    agent = fit_first(setting, setting.methods[0], job.seed, data, stream)
    tasks: list[dict[str, Any]] = []
    confidences: list[dict[str, Confidence]] = []
    for task in stream.tasks:
        adaptation, after = adapted(agent, setting, task, stream, data)
        tasks.append(task_row(task, adaptation, after, stream, data))
        confidences.append(confidence(adaptation, task, data.truth))
        agent = after
    return {
        "run": job.identity,
        "changes": job.changes,
        "file": job.file,
        "seed": job.seed,
        **summary(tasks),
        "calibration": {
            name: calibration_error([told[name] for told in confidences if told])
            for name in ("novel", "class", "pseudo-labels")
        },
        "tasks": tasks,
    }


def adapted(agent: Agent, setting: Setting, task: Task, stream: Stream, data: Data) -> tuple[Adaptation, Agent]:
    """The adaptation to one pool, and the agent after it."""
    annotator = annotator_for(agent, setting, setting.seeds[0], task, stream, data.truth)
    count = max(1, round(setting.budget * len(task.rows)))
    adaptation = agent.adapt(data.features.X[task.rows], count, ids=task.rows)
    while query := adaptation.ask():
        adaptation.tell(query.id, annotator.answer(query.ids))
    return adaptation, adaptation.finish()


def task_row(task: Task, adaptation: Adaptation, after: Agent, stream: Stream, data: Data) -> dict[str, Any]:
    """One task. A sample is novel if the agent did not know its class before."""
    truth, first = data.truth, adaptation.rounds[0]
    labels = truth.labels[task.rows]
    unknown = ~np.isin(labels, truth.first_names(adaptation.agent.classes_.tolist()))
    novel = set(task.rows[unknown].tolist())
    answered, pseudo_labels = adaptation.answers.keys(), adaptation.pseudo_labels
    names = truth.first_names(pseudo_labels.values())
    right = {i for i, name in zip(pseudo_labels, names, strict=True) if truth.labels[i] == name}
    evaluation = evaluation_row(after, data.features, stream, task.number, truth, last=False)
    return {
        "accuracy": evaluation["accuracy"],
        "missed": evaluation["classes_missed"],
        "late": len(set(labels.tolist()) - set(truth.first_names(after.classes_.tolist()))),
        "new_classes": len(task.new),
        "questions": adaptation.labels_used,
        "auroc": auroc(first.scores, unknown[first.rows]),
        "pool": len(task.rows),
        "novel": len(novel),
        "asked_novel": len(novel & answered),
        "given": len(pseudo_labels),
        "right": len(right),
        "reached": len(right & novel),
        "guess_first": first.novel,
        "guess_novel": adaptation.outlook.novel,
        "guess_left": adaptation.outlook.left,
        "left": len(novel - pseudo_labels.keys() - answered),
    }


def summary(tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is said of a whole stream; None where there is nothing to say it of."""

    def ratio(part: str, whole: float) -> float | None:
        return sum(task[part] for task in tasks) / whole if whole else None

    novelty = [task["auroc"] for task in tasks if task["auroc"] is not None]
    return {
        "accuracy": float(np.mean([task["accuracy"] for task in tasks])),
        "missed": tasks[-1]["missed"],
        "late": sum(task["late"] for task in tasks),
        "questions": ratio("questions", sum(task["new_classes"] for task in tasks)),
        "precision": ratio("right", sum(task["given"] for task in tasks)),
        "recall": ratio("reached", sum(task["novel"] - task["asked_novel"] for task in tasks)),
        "auroc": float(np.mean(novelty)) if novelty else None,
    }


# -- calibration -----------------------------------------------------------------------------------------------

Confidence = tuple[np.ndarray, np.ndarray]
"""How probable something was said to be, and whether it was so."""


def shares_of(adaptation: Adaptation, rows: np.ndarray) -> np.ndarray:
    """The share of pool rows that each class holds after the last answer: known classes, then novel ones."""
    return adaptation.machine._short.probabilities(rows)


def confidence(adaptation: Adaptation, task: Task, truth: Truth) -> dict[str, Confidence]:
    """Of the samples that nobody was asked about: P(novel), the share of the likeliest class, and 1 − doubt of
    the pseudo-labels. Nothing where no novel class was found, or where a learner has no shares.
    """
    known, names = adaptation.agent.classes_, np.array(adaptation.state.names.names)
    if not isinstance(adaptation.agent.method.learner, Prototypes) or len(names) == len(known):
        return {}
    rows = np.flatnonzero(~np.isin(task.rows, list(adaptation.answers)))
    labels, shares = truth.labels[task.rows[rows]], shares_of(adaptation, rows)
    likeliest = np.array(truth.first_names(names[shares.argmax(axis=1)].tolist()))
    doubts, believed = adaptation.doubts, adaptation.pseudo_labels
    right = [
        truth.labels[i] == name for i, name in zip(doubts, truth.first_names(believed.values()), strict=True)
    ]
    return {
        "novel": (
            1 - shares[:, : len(known)].sum(axis=1),
            ~np.isin(labels, truth.first_names(known.tolist())),
        ),
        "class": (shares.max(axis=1), labels == likeliest),
        "pseudo-labels": (1 - np.array(list(doubts.values())), np.array(right, dtype=bool)),
    }


def calibration_error(told: Iterable[Confidence], bins: int = 10) -> float | None:
    """Expected calibration error: how far in a bin what was said lies from what was so, weighed by its samples.

    >>> round(calibration_error([(np.array([0.95, 0.95, 0.15]), np.array([True, False, False]))]), 4)
    0.35
    """
    parts = list(told)
    if not parts or not sum(len(said) for said, _ in parts):
        return None
    said, so = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    place = np.clip((said * bins).astype(np.int64), 0, bins - 1)
    return float(np.abs(np.bincount(place, said - so, minlength=bins)).sum() / len(said))


# -- tables ----------------------------------------------------------------------------------------------------

Lines = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows of one file by variant."""


def mean(values: Iterable[float | None], form: str, factor: float = 1.0) -> str:
    present = [value for value in values if value is not None]
    return f"{factor * np.mean(present):{form}}" if present else "–"


def spread(values: Iterable[float | None], form: str = ".1f", factor: float = 100.0) -> str:
    """Mean ± deviation over seeds."""
    present = [value for value in values if value is not None]
    deviation = f" ± {factor * np.std(present, ddof=1):{form}}" if len(present) > 1 else ""
    return mean(present, form, factor) + deviation


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "| --- |" + " ---: |" * (len(header) - 1)
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def usual_table(lines: Lines) -> Iterator[str]:
    def cells(rows: Sequence[Mapping[str, Any]]) -> list[str]:
        column = {name: [row[name] for row in rows] for name in rows[0]}
        return [
            spread(column["accuracy"]),
            str(sum(column["missed"])),
            str(sum(column["late"])),
            mean(column["questions"], ".1f"),
            f"{mean(column['precision'], '.0f', 100)} / {mean(column['recall'], '.0f', 100)}",
            mean(column["auroc"], ".3f"),
        ]

    header = ("variant", "accuracy", "missed", "late", "questions per new class", "right / reached", "AUROC")
    yield from markdown(header, ([variant, *cells(rows)] for variant, rows in lines.items()))


def calibration_table(lines: Lines) -> Iterator[str]:
    """Expected calibration errors, in points of a hundred."""
    names = ("novel", "class", "pseudo-labels")
    header = ("variant", "accuracy", "P(novel)", "share of the likeliest class", "1 − doubt of pseudo-labels")
    yield from markdown(
        header,
        (
            [
                variant,
                spread(row["accuracy"] for row in rows),
                *(spread(row["calibration"][n] for row in rows) for n in names),
            ]
            for variant, rows in lines.items()
        ),
    )


def outlook_table(lines: Lines) -> Iterator[str]:
    """Errors of the estimates, in percent of the pool: mean (bias) and mean absolute."""

    def error(tasks: Sequence[Mapping[str, Any]], guess: str, true: str) -> str:
        errors = np.array([100 * (t[guess] - t[true]) / t["pool"] for t in tasks if t[guess] is not None])
        return f"{errors.mean():+.1f}, {np.abs(errors).mean():.1f}"

    def cells(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
        guesses = (("guess_first", "novel"), ("guess_novel", "novel"), ("guess_left", "left"))
        left = np.mean([100 * task["left"] / task["pool"] for task in tasks])
        return [*(error(tasks, *pair) for pair in guesses), f"{left:.1f}"]

    header = ("variant", "novel before any answer", "novel at the end", "left at the end", "truly left")
    yield from markdown(
        header,
        ([variant, *cells([t for row in rows for t in row["tasks"]])] for variant, rows in lines.items()),
    )


TABLES = {"calibration": calibration_table, "outlook": outlook_table}


# -- all streams -----------------------------------------------------------------------------------------------


class Results:
    """Rows of finished streams, in a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self._rows = {self._key(row["run"]): row for row in rows if "run" in row}  # earlier ones said less

    @staticmethod
    def _key(identity: Mapping[str, Any]) -> str:
        return json.dumps(identity, sort_keys=True)

    def of(self, job: Job) -> dict[str, Any] | None:
        return self._rows.get(self._key(job.identity))

    def add(self, row: dict[str, Any]) -> None:
        self._rows[self._key(row["run"])] = row
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def run_all(jobs: Sequence[Job], results: Results, processes: int) -> int:
    """Run streams and keep their rows; says how many failed."""
    failed = 0
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run, job): job for job in jobs}
        for n, future in enumerate(as_completed(running), 1):
            try:
                results.add(future.result())
            except Exception as error:
                failed += 1
                job = running[future]
                print(
                    f"\rfailed: {job.changes} on {job.file}, seed {job.seed}: {type(error).__name__}: {error}"
                )
            print(f"\r{n} of {len(jobs)} streams", end="", flush=True)
    print()
    return failed


def located(files: Iterable[str], folders: Sequence[Path]) -> dict[str, str]:
    """Where each file lies; those that lie nowhere are said and left out."""
    paths: dict[str, str] = {}
    for file in files:
        name = FILES[file].file
        places = [name] if name == DIGITS else [str(f / name) for f in folders if (f / name).exists()]
        if places:
            paths[file] = places[0]
        else:
            print(f"skipped: {file}, no {name} in {', '.join(map(str, folders))}")
    return paths


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="?", default="outlook", help="one of the above, or several with commas")
    parser.add_argument("--data", action="append", help="folders, separated by commas; may be repeated")
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--variants", help="only these, separated by semicolons")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("out/cual-plus.jsonl"))
    args = parser.parse_args()
    args.files = args.files.split(",")
    args.seeds = [int(seed) for seed in args.seeds.split(",")]
    args.data = [Path(name) for given in args.data or ["../shared/data"] for name in given.split(",")]
    args.kinds = args.kinds.split(",")
    checked(parser, "kind", args.kinds, VARIANTS)
    checked(parser, "file", args.files, FILES)
    known = list(dict.fromkeys(variant for kind in args.kinds for variant in VARIANTS[kind]))
    args.variants = args.variants.split(";") if args.variants else known
    checked(parser, "variant", args.variants, known)
    return args


def checked(parser: argparse.ArgumentParser, what: str, given: Iterable[str], known: Iterable[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        parser.error(f"no {what} is called {', '.join(unknown)}; there are {', '.join(known)}")


def main() -> None:
    args = arguments()
    results = Results(args.out)
    jobs = {
        (kind, file, variant): [Job(changes, file, seed, path, args.device) for seed in args.seeds]
        for file, path in located(args.files, args.data).items()
        for kind in args.kinds
        for variant, changes in VARIANTS[kind].items()
        if variant in args.variants
    }
    left = {json.dumps(job.identity): job for some in jobs.values() for job in some if not results.of(job)}
    failed = run_all(list(left.values()), results, args.jobs)
    for kind, file in dict.fromkeys((kind, file) for kind, file, _ in jobs):
        rows = {
            variant: [row for job in some if (row := results.of(job))]
            for (k, f, variant), some in jobs.items()
            if (k, f) == (kind, file)
        }
        print(f"\n{kind}, {file}, seeds {', '.join(map(str, args.seeds))}\n")
        for line in TABLES.get(kind, usual_table)({v: some for v, some in rows.items() if some}):
            print(line)
    if failed:
        sys.exit(f"{failed} streams failed")


if __name__ == "__main__":
    main()
