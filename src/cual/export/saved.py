"""The labels of an adaptation that lies in a folder, without a service. Its files are left as they are."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from cual import storage
from cual.errors import BadFile, BadOption
from cual.export.base import Labels
from cual.loop import files
from cual.loop.adaptation import Adaptation
from cual.loop.journal import read_events
from cual.loop.labels import NOWHERE, Origins, Place, label_rows, whole_numbers
from cual.loop.state import State
from cual.types import Label, Row

_READ = ("asked", "pseudo_rows", "pseudo_doubts")
"""What the cache knows beside the events, of each round."""


def saved_labels(folder: str | os.PathLike[str], everything: bool = False) -> Labels:
    """The labels of an adaptation that `Adaptation.save` or `cual adapt` wrote, finished or not.

    Doubts and rows of the pool are those of its cache; without one they are not known, and nothing is computed.
    """
    path = Path(folder)
    if not files.is_saved(path):
        raise BadOption(f"{path} holds no adaptation")
    events = _events(path)
    with storage.rebuilding(path / files.JOURNAL):
        state, origins = State.of(events), Origins.of(events)
    places = _places(path, events, state)
    rows = label_rows(state, origins, everything, lambda sample: places.get(sample, NOWHERE))
    return Labels(rows, whole_numbers(state))


def task_labels(task: Adaptation, everything: bool = False) -> Labels:
    """The labels of an adaptation in memory."""
    state, doubts = task.state, task.doubts

    def place_of(sample: Label) -> Place:
        return Place(int(task.pool.ids.rows_of([sample])[0]), doubts.get(sample))

    rows = label_rows(state, Origins.of(task.journal), everything, place_of)
    return Labels(rows, whole_numbers(state))


def _events(folder: Path) -> list[Row]:
    if (folder / files.JOURNAL).exists():
        return read_events(folder / files.JOURNAL)
    return Adaptation.load(folder).journal  # of release 0.1.0, which kept no journal of its own


def _places(folder: Path, events: list[Row], state: State) -> dict[Label, Place]:
    """Row and doubt of each sample that was asked about or believed, if the cache is of the same events."""
    try:
        body, tensors = storage.read(folder / files.CACHE, "cache", lambda name: name.endswith(_READ))
    except (BadFile, FileNotFoundError):
        return {}
    reopened = sum(event["event"] == "reopened" for event in events)
    steps = (body.get("rounds"), body.get("closed"), body.get("reopened", 0))
    if steps != (state.opened, state.closed, reopened):
        return {}
    places: dict[Label, Place] = {}
    for event in _standing(events):
        places |= _of_event(event, tensors)
    return places


def _standing(events: list[Row]) -> list[Row]:
    """The events that opened and closed rounds, without those that were withdrawn when one was opened again."""
    of_round: dict[tuple[int, str], Row] = {}
    for event in events:
        if event["event"] in ("asked", "believed"):
            of_round[event["round"], event["event"]] = event
        elif event["event"] == "reopened":
            opened = (event["round"], "asked")
            of_round = {key: row for key, row in of_round.items() if key <= opened}
    return list(of_round.values())


def _of_event(event: Row, tensors: Mapping[str, Tensor]) -> dict[Label, Place]:
    """The samples of an event are in the order of the round's arrays."""

    def column(name: str) -> list[Any]:
        tensor = tensors.get(f"round.{event['round']}.{name}")
        return [] if tensor is None else tensor.tolist()

    if event["event"] == "asked":
        samples, rows = [row["sample"] for row in event["samples"]], column("asked")
        doubts: list[float | None] = [None] * len(rows)
    elif event["event"] == "believed":
        samples, rows, doubts = event["samples"], column("pseudo_rows"), column("pseudo_doubts")
    else:
        return {}
    if not len(samples) == len(rows) == len(doubts):
        return {}
    return {sample: Place(row, doubt) for sample, row, doubt in zip(samples, rows, doubts, strict=True)}
