"""What the learner leaves for people to look at: zones, pseudo-labels and histories, as one small file a step.

The worker writes it beside the saved adaptation; the page only reads it, so nobody waits for a computation.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import sqlalchemy as sa
import torch

from cual import storage
from cual.errors import BadFile, FileLost, NotFound
from cual.loop.adaptation import Adaptation
from cual.loop.state import State
from cual.serve.rules import adaptations, lost
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import AnyArray, IntArray, Label, Row
from cual.uncertainty import Zone

FILE = "view.safetensors"
MAP = "map.safetensors"
SHOWN = 5000
"""Samples on a map at most."""
KEPT = 8
EXPLAINED = 500
"""Of what is believed, samples of which it is kept what they are most like."""


Alike = tuple[Label, float, int | None]
"""A class, the cosine to its most alike known sample, and the row of that where it is one of the pool."""


@dataclass(frozen=True)
class View:
    """What an adaptation knew after a step; arrays are as long as the pool."""

    names: tuple[Label, ...]
    history: list[Row]
    zones: AnyArray
    """`Zone` when the sample was scored last; -1 before the first round."""
    believed: IntArray
    """Class of the pseudo-label, an index of `names`; -1 where there is none."""
    doubts: AnyArray
    samples: dict[int, Label]
    """Ids of the rows that are believed, would be, or were rejected."""
    margins: AnyArray
    """By how much the class beats the others (`Adaptation.margins`): the lowest are the most doubtful."""
    provisional: AnyArray
    """Where it would be believed if nobody were asked any more."""
    scores: AnyArray
    """When the sample was scored last."""
    alike: dict[int, list[Alike]]
    """Of rows that people are likely to look at, the most alike known sample of a few classes."""


def write(folder: Path, task: Adaptation) -> None:
    """Leave what `read` gives in the folder of a saved adaptation."""
    n = len(task.pool)
    zones, scores = np.full(n, -1, np.int8), np.zeros(n, np.float32)
    for round_ in task.rounds:
        zones[round_.rows], scores[round_.rows] = round_.zones, round_.scores
    labels, doubt_of, foreseen = _reviewable(task)
    names: dict[Label, int] = {}
    believed, doubts = np.full(n, -1, np.int64), np.zeros(n, np.float32)
    margins, provisional = np.zeros(n, np.float32), np.zeros(n, np.bool_)
    rows = task.pool.ids.rows_of(labels)
    believed[rows] = [names.setdefault(label, len(names)) for label in labels.values()]
    doubts[rows] = [doubt_of.get(sample, 1.0) for sample in labels]
    margins[rows] = list(task.margins(labels).values())
    provisional[rows] = [sample in foreseen for sample in labels]
    looked_at = np.concatenate([task.pool.ids.rows_of(task.state.questions), _doubtful(rows, margins)])
    body = {
        "names": list(names),
        "history": task.history,
        "samples": [[row, sample] for row, sample in zip(rows.tolist(), labels, strict=True)],
        "alike": [[row, alike] for row, alike in task.alike(np.unique(looked_at)).items()],
    }
    arrays = {"zones": zones, "believed": believed, "doubts": doubts, "margins": margins, "scores": scores}
    arrays["provisional"] = provisional.astype(np.int8)
    storage.write(folder / FILE, "view", body, {k: torch.from_numpy(v) for k, v in arrays.items()})


def _reviewable(task: Adaptation) -> tuple[dict[Label, Label], dict[Label, float], set[Label]]:
    """What people may review, how doubtful it is, and what of it is provisional. What they rejected stays."""
    foreseen, believed = task.foreseen, task.pseudo_labels
    known = set(task.state.numbered.names)
    rejected = {
        sample: verdict.of
        for sample, verdict in task.state.verdicts.items()
        if not verdict.right and verdict.of in known and sample not in task.state.questions
    }
    labels = {**rejected, **foreseen.labels, **believed}
    provisional = {sample for sample in labels if sample not in task.state.pseudo_labels}
    return labels, foreseen.doubts | task.doubts, provisional


def _doubtful(rows: IntArray, margins: AnyArray) -> IntArray:
    """The most doubtful of some rows."""
    return rows[np.argsort(margins[rows], kind="stable")[:EXPLAINED]]


class Views:
    """Views in memory: the few that were looked at last."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._kept: OrderedDict[tuple[int, str], View] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, adaptation: int) -> View | None:
        """The view after the last step that was committed; None before the first."""
        for _ in range(10):
            with self._home.database.reading() as connection:
                task = adaptations.get(connection, adaptation)
            folder: str | None = task.folder
            if folder is None:
                return None
            key = (adaptation, folder)
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return _until(self._kept[key], task.round)
            file = self._home.adaptation_folder(adaptation) / folder / FILE
            try:
                view = _read(file)
            except FileNotFoundError:  # the worker has gone on and removed it since
                continue
            except BadFile:
                with lost.reading(self._home):
                    raise
            with self._lock:
                self._kept[key] = view
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return _until(view, task.round)
        raise FileLost(f"what the learner left of adaptation {adaptation} is gone; restore a backup")


def _until(view: View, round: int) -> View:
    """Without rounds that were taken back since: somebody opened an earlier one again."""
    if len(view.history) <= round + 1:
        return view
    samples = {row: sample for row, sample in view.samples.items() if not view.provisional[row]}
    return replace(view, history=view.history[: round + 1], samples=samples)


def _read(file: Path) -> View:
    body, tensors = storage.read(file, "view")
    with storage.rebuilding(file):
        samples = {int(row): sample for row, sample in body["samples"]}
        zones, believed, doubts = (tensors[k].numpy() for k in ("zones", "believed", "doubts"))
        nothing = torch.zeros(len(zones))  # views of earlier releases know less
        margins = tensors["margins"].numpy() if "margins" in tensors else -doubts
        provisional, scores = (tensors.get(k, nothing).numpy() for k in ("provisional", "scores"))
        alike = {int(row): [(a[0], a[1], a[2]) for a in most] for row, most in body.get("alike", [])}
        names, history = tuple(body["names"]), body["history"]
        return View(
            names, history, zones, believed, doubts, samples, margins, provisional.astype(bool), scores, alike
        )


def scores(view: View | None, round: int | None = None) -> Row:
    """The histogram of a round's scores, the last one's by default."""
    history = [] if view is None else view.history
    if not history:
        return {"edges": [], "counts": [], "t_inner": None, "round": None, "rounds": 0}
    if round is not None and not 0 <= round < len(history):
        raise NotFound(f"there is no round {round}; there are {len(history)}")
    row = history[-1 if round is None else round]
    return {
        "edges": row["histogram"]["edges"],
        "counts": row["histogram"]["counts"],
        "t_inner": row["t_inner"],
        "round": row["iteration"],
        "rounds": len(history),
    }


def pseudo_labels(home: Home, adaptation: int, view: View | None, label: Label | None = None) -> list[Row]:
    """What is believed without asking, or would be, most doubtful first, with what people said of it."""
    if view is None:
        return []
    with home.database.reading() as connection:
        state = home.states.of(connection, adaptation)
    vouched, ever = state.vouched, state.pseudo_labels
    rows: list[Row] = []
    for row, sample in view.samples.items():
        name = view.names[int(view.believed[row])]
        question, provisional = state.questions.get(sample), bool(view.provisional[row])
        asked = question is not None and not question.unasked
        standing = (provisional or sample in ever) and name in vouched and not asked
        if standing and (label is None or name == label):
            rows.append(
                {
                    "sample": sample,
                    "row": row,
                    "label": name,
                    "doubt": float(view.doubts[row]),
                    "margin": float(view.margins[row]),
                    "provisional": provisional,
                    **_said(state, sample, name),
                }
            )
    return sorted(rows, key=lambda r: (r["margin"], r["row"]))


def _said(state: State, sample: Label, name: Label) -> Row:
    """What people said of it that is believed to be `name`: a verdict, and what it is instead."""
    answer = state.answers.get(sample)
    if answer is not None:
        return {"verdict": "correct", "instead": answer}
    verdict = state.verdicts.get(sample)
    if verdict is None or (verdict.right and verdict.of not in (None, name)):
        return {"verdict": None, "instead": None}
    return {"verdict": "confirm" if verdict.right else "reject", "instead": verdict.instead}


def map_of(home: Home, adaptation: int, view: View | None) -> Row:
    """Where samples of the pool lie in two dimensions, and what is known of each."""
    with home.database.reading() as connection:
        task = adaptations.get(connection, adaptation)
        q = db.questions.c
        asked = {
            r.row: r.label
            for r in connection.execute(sa.select(q.row, q.label).where(q.adaptation == adaptation))
        }
        believed_now = home.states.of(connection, adaptation).believed
    file = home.pool_folder(task.pool) / MAP
    if not file.exists():
        return {"x": [], "y": [], "row": [], "state": [], "label": []}
    with lost.reading(home):
        _, tensors = storage.read(file, "map")
    xy = tensors["xy"].numpy()
    rows = _shown(len(xy), list(asked))
    state: list[str] = []
    label: list[Label | None] = []
    for row in rows.tolist():
        sample = None if view is None else view.samples.get(row)
        name = None if sample is None else believed_now.get(sample)
        believed = name is not None
        zone = -1 if view is None else int(view.zones[row])
        if row in asked:
            state.append("asked")
            label.append(asked[row])
        else:
            state.append("pseudo" if believed else "old" if zone < 0 else Zone(zone).name.lower())
            label.append(name if believed else None)
    return {
        "x": [round(float(v), 4) for v in xy[rows, 0]],
        "y": [round(float(v), 4) for v in xy[rows, 1]],
        "row": rows.tolist(),
        "state": state,
        "label": label,
    }


def _shown(n: int, always: list[int]) -> IntArray:
    """Rows on the map: what was asked about, and an even choice of the others."""
    if n <= SHOWN:
        return np.arange(n)
    others = np.setdiff1d(np.arange(n), always)
    room = max(0, SHOWN - len(always))
    even = others[np.linspace(0, len(others) - 1, room).astype(np.int64)] if room else others[:0]
    return np.unique(np.concatenate([np.array(always, dtype=np.int64), even]))[:SHOWN]
