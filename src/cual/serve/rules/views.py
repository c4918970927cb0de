"""What the learner leaves for people to look at: zones, pseudo-labels and histories, as one small file a step.

The worker writes it beside the saved adaptation; the page only reads it, so nobody waits for a computation.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sqlalchemy as sa
import torch

from cual import storage
from cual.errors import BadOption, Conflict, NotFound
from cual.loop import events as loop_events
from cual.loop.adaptation import Adaptation
from cual.serve.rules import adaptations, audit
from cual.serve.rules.checks import needs
from cual.serve.rules.records import Person, Role
from cual.serve.storage import events
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import AnyArray, IntArray, Label, Row
from cual.uncertainty import Zone

FILE = "view.safetensors"
MAP = "map.safetensors"
SHOWN = 5000
"""Samples on a map at most."""
KEPT = 8


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
    """Ids of the rows that are believed."""


def write(folder: Path, task: Adaptation) -> None:
    """Leave what `read` gives in the folder of a saved adaptation."""
    n = len(task.pool)
    zones = np.full(n, -1, np.int8)
    for round_ in task.rounds:
        zones[round_.rows] = round_.zones
    names: dict[Label, int] = {}
    believed, doubts = np.full(n, -1, np.int64), np.zeros(n, np.float32)
    row_of = {sample: row for row, sample in enumerate(task.pool.ids)}
    doubt_of = task.doubts
    samples: dict[int, Label] = {}
    for sample, label in task.pseudo_labels.items():
        row = row_of[sample]
        believed[row] = names.setdefault(label, len(names))
        doubts[row], samples[row] = doubt_of[sample], sample
    body = {"names": list(names), "history": task.history, "samples": [[r, s] for r, s in samples.items()]}
    arrays = {"zones": zones, "believed": believed, "doubts": doubts}
    storage.write(folder / FILE, "view", body, {k: torch.from_numpy(v) for k, v in arrays.items()})


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
                folder = adaptations.get(connection, adaptation).folder
            if folder is None:
                return None
            key = (adaptation, folder)
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            try:
                view = _read(self._home.adaptation_folder(adaptation) / folder / FILE)
            except FileNotFoundError:  # the worker has gone on and removed it since
                continue
            with self._lock:
                self._kept[key] = view
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return view
        raise NotFound(f"what the learner left of adaptation {adaptation} is gone; restore a backup")


def _read(file: Path) -> View:
    body, tensors = storage.read(file, "view")
    with storage.rebuilding(file):
        samples = {int(row): sample for row, sample in body["samples"]}
        zones, believed, doubts = (tensors[k].numpy() for k in ("zones", "believed", "doubts"))
        return View(tuple(body["names"]), body["history"], zones, believed, doubts, samples)


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
    """What is believed without asking, most doubtful first, with what people said of it."""
    if view is None:
        return []
    with home.database.reading() as connection:
        state = home.states.of(connection, adaptation)
    vouched = state.vouched
    rows: list[Row] = []
    for row, sample in view.samples.items():
        name = view.names[int(view.believed[row])]
        if name in vouched and (label is None or name == label):
            doubt = float(view.doubts[row])
            right = state.verdicts.get(sample)
            verdict = None if right is None else "confirm" if right else "reject"
            rows.append({"sample": sample, "row": row, "label": name, "doubt": doubt, "verdict": verdict})
    return sorted(rows, key=lambda r: (-r["doubt"], r["row"]))


def review(home: Home, adaptation: int, person: Person, verdicts: Mapping[int, str], view: View | None) -> None:
    """Confirm pseudo-labels, or send them back to the pool; the learner is told at its next step."""
    needs(person, Role.annotator)
    for verdict in verdicts.values():
        if verdict not in ("confirm", "reject"):
            raise BadOption(f"a verdict is confirm or reject, not {verdict!r}")
    with home.database.writing() as connection:
        task = adaptations.locked(connection, adaptation)
        adaptations.check_going(task)
        if task.state == "failed":
            raise Conflict(f"adaptation {adaptation} has failed; try again first")
        before = home.states.of(connection, adaptation).verdicts
        new: dict[bool, list[Label]] = {True: [], False: []}
        for row, verdict in verdicts.items():
            if view is None or row not in view.samples:
                raise NotFound(f"row {row} of the pool has no pseudo-label")
            sample, right = view.samples[row], verdict == "confirm"
            if before.get(sample) is not right:
                new[right].append(sample)
        judged = [loop_events.judged(samples, right, person.id) for right, samples in new.items() if samples]
        if judged:
            events.append(connection, adaptation, judged)
            adaptations.changed(connection, task)
            details = {"confirmed": len(new[True]), "rejected": len(new[False])}
            audit.write(connection, person, "review", "adaptation", adaptation, **details)


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
