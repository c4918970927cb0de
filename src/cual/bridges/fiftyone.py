"""A pool in FiftyOne and back: what an adaptation knows of each sample, and labels that people set there.

The folder that `export_folder` writes is in a JSON format of FiftyOne, so writing and reading it needs no
FiftyOne; a live dataset does, and FiftyOne needs a MongoDB server.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from cual.bridges.pools import needed
from cual.data.labels import SKIP
from cual.errors import BadFile, BadLabels, BadOption
from cual.export.base import new_folder
from cual.loop.adaptation import Adaptation
from cual.types import AnyArray, IntArray, Label
from cual.uncertainty import Zone

SAMPLES = "samples.json"
METADATA = "metadata.json"
TAG = "label:"
"""A tag that begins so is a label that a person set: in FiftyOne's app, samples are tagged with two clicks."""
LARGEST = 2**30
"""Bytes of a file of samples that is read."""
_FIELD = "fiftyone.core.fields."
_CLASS = f"{_FIELD}EmbeddedDocumentField(fiftyone.core.labels.Classification)"
FIELDS = {
    "cual_id": f"{_FIELD}StringField",
    "score": f"{_FIELD}FloatField",
    "threshold": f"{_FIELD}FloatField",
    "zone": f"{_FIELD}StringField",
    "round": f"{_FIELD}IntField",
    "suggestion": _CLASS,
    "answer": _CLASS,
    "pseudo_label": _CLASS,
    "doubt": f"{_FIELD}FloatField",
    "label": _CLASS,
}
"""What samples have there. ``label`` is empty: it is for people."""

Files = str | os.PathLike[str] | Mapping[Any, Any] | Callable[[Label], Any]
"""Where the file of a sample is: a folder below which ids are paths, files by id, or a function of the id."""


class Exported(NamedTuple):
    """What a dataset holds."""

    samples: int
    without_file: int
    """Samples whose files were not found, which FiftyOne cannot show: they are left out."""


def export_folder(task: Adaptation, path: str | os.PathLike[str], files: Files) -> Exported:
    """Write a new folder that ``fo.Dataset.from_dir(path, fo.types.LegacyFiftyOneDataset)`` reads.

    Paths of files in it are relative to it, and the files stay where they are.

    Parameters
    ----------
    files
        The folder below which the pool's ids are paths; or files by id; or a function that gives them.
    """
    place = Path(os.path.abspath(path))
    find = _finder(files)
    counts = {"samples": 0, "missing": 0}
    with new_folder(place) as folder:
        with (folder / SAMPLES).open("w", encoding="utf-8") as file:
            file.write('{"samples": [')
            for row in _rows(task):
                found = find(row["cual_id"])
                counts["missing" if found is None else "samples"] += 1
                if found is not None:
                    file.write(",\n" if counts["samples"] > 1 else "\n")
                    relative = os.path.relpath(found, place)
                    file.write(json.dumps({"filepath": relative, **row, "cual_id": str(row["cual_id"])}))
            file.write("\n]}\n")
        if not counts["samples"]:
            raise BadOption(f"none of the {counts['missing']} samples has a file there: {files!r:.200}")
        metadata = {"media_type": None, "sample_fields": FIELDS, "info": {"cual": _about(task)}}
        (folder / METADATA).write_text(json.dumps(metadata, indent=1), encoding="utf-8")
    return Exported(counts["samples"], counts["missing"])


def dataset(task: Adaptation, files: Files, name: str | None = None) -> Any:
    """A live ``fiftyone.Dataset`` of a pool; it is gone with FiftyOne's session unless made ``persistent``."""
    fo: Any = needed("fiftyone", "fiftyone", "fiftyone")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "dataset"
        _ = export_folder(task, folder, files)
        return fo.Dataset.from_dir(
            dataset_dir=str(folder), dataset_type=fo.types.LegacyFiftyOneDataset, name=name, progress=False
        )


def labels_set(source: Any, field: str = "label") -> dict[Label, Label]:
    """Labels that people set in FiftyOne, by id: for `tell`, `volunteer` or `correct`, or to teach an agent.

    Parameters
    ----------
    source
        A live dataset or view, or a folder of `export_folder` or of FiftyOne's own export as JSON.
    field
        The Classification that people set; a tag ``label:NAME`` does as well.
    """
    if isinstance(source, str | os.PathLike):
        info, rows = _read(Path(source), field)
    else:
        info, rows = _live(source, field)
    numbers = cast("dict[str, Any]", info.get("cual") or {}).get("numbers") or []
    found: dict[Label, Label] = {}
    for sample, label, tags in rows:
        tagged = {tag.removeprefix(TAG).strip() for tag in tags if tag.startswith(TAG)}
        said = tagged | ({label} if label is not None else set[str]())
        if len(said) > 1:
            raise BadLabels(f"sample {sample!r} has several labels in FiftyOne: {', '.join(sorted(said))}")
        for name in said:
            found[_typed(sample, "id", numbers)] = _typed(name, "label", numbers)
    return found


# -- out -------------------------------------------------------------------------------------------------------


def _rows(task: Adaptation) -> Iterator[dict[str, Any]]:
    """What is known of each sample of the pool, as FiftyOne writes it."""
    known = _Known.of(task)
    answers, believed, doubts = task.answers, task.pseudo_labels, task.doubts
    for row in range(len(task.pool)):
        sample = task.pool.ids[row]
        answer = answers.get(sample)
        tags = ["asked"] if sample in task.state.questions else []
        tags += ["pseudo-labelled"] if sample in believed else []
        doubt = doubts.get(sample)
        yield {
            "tags": tags,
            "cual_id": sample,
            **known.at(row),
            "answer": _classification(None if answer is SKIP else answer),
            "pseudo_label": _classification(believed.get(sample), None if doubt is None else 1 - doubt),
            "doubt": doubt,
            "label": None,
        }


class _Known(NamedTuple):
    """Scores of a pool, each of the last round that looked at the sample."""

    scores: AnyArray
    thresholds: AnyArray
    zones: AnyArray
    rounds: IntArray
    suggestions: list[Label | None]

    @classmethod
    def of(cls, task: Adaptation) -> "_Known":
        n = len(task.pool)
        scores, thresholds = np.full(n, np.nan), np.full(n, np.nan)
        zones, rounds, classes = (np.full(n, -1) for _ in range(3))
        for round_ in task.rounds:
            scores[round_.rows] = round_.scores
            thresholds[round_.rows] = round_.threshold.value
            zones[round_.rows] = round_.zones
            classes[round_.rows] = round_.classes
            rounds[round_.rows] = round_.round
        names = task.state.numbered.names
        suggestions: list[Label | None] = [names[c] if c >= 0 else None for c in classes.tolist()]
        old = np.flatnonzero((zones == Zone.OLD) | (zones < 0))
        for part, X in task.pool.chunks(old):
            for row, label in zip(old[part].tolist(), task.agent.predict(X).tolist(), strict=True):
                suggestions[row] = label
        return cls(scores, thresholds, zones, rounds, suggestions)

    def at(self, row: int) -> dict[str, Any]:
        scored = int(self.rounds[row]) >= 0
        return {
            "score": float(self.scores[row]) if scored else None,
            "threshold": float(self.thresholds[row]) if scored else None,
            "zone": Zone(int(self.zones[row])).name.lower() if scored else None,
            "round": int(self.rounds[row]) if scored else None,
            "suggestion": _classification(self.suggestions[row]),
        }


def _classification(label: Any, confidence: float | None = None) -> dict[str, Any] | None:
    if label is None:
        return None
    plain: dict[str, Any] = {"_cls": "Classification", "tags": [], "label": str(label)}
    return plain if confidence is None else {**plain, "confidence": confidence}


def _about(task: Adaptation) -> dict[str, Any]:
    """What it takes to read ids and labels back: FiftyOne knows texts only."""
    ids = (task.pool.ids[row] for row in range(len(task.pool)))
    columns: dict[str, Iterable[Label]] = {"id": ids, "label": task.state.numbered.names}
    numbers = [name for name, values in columns.items() if all(isinstance(value, int) for value in values)]
    return {"numbers": numbers, "classes": [str(name) for name in task.state.numbered.names]}


def _finder(files: Files) -> Callable[[Label], Path | None]:
    if isinstance(files, str | os.PathLike):
        root = Path(files).resolve(strict=True)
        return lambda sample: _below(root, sample)
    get = cast("Callable[[Label], Any]", files.get if isinstance(files, Mapping) else files)

    def find(sample: Label) -> Path | None:
        given = get(sample)
        return None if given is None else Path(given).resolve()

    return find


def _below(root: Path, sample: Label) -> Path | None:
    """The file of a sample whose id is its path below a folder; none where that leads out of it."""
    try:
        file = (root / str(sample)).resolve(strict=True)
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


# -- back ------------------------------------------------------------------------------------------------------

Set = tuple[str, str | None, list[str]]
"""Of a sample: its id, the label that a person set, and its tags."""


def _live(source: Any, field: str) -> tuple[dict[str, Any], Iterable[Set]]:
    samples, tags = source.values(["cual_id", "tags"])
    labels = [None] * len(samples)
    if source.get_field(field) is not None:
        labels = source.values(f"{field}.label")
    rows = [(s, la, list(t or [])) for s, la, t in zip(samples, labels, tags, strict=True) if s is not None]
    return dict(source.info), rows


def _read(folder: Path, field: str) -> tuple[dict[str, Any], Iterable[Set]]:
    info: Any = _json(folder / METADATA).get("info") if (folder / METADATA).exists() else None
    samples: Any = _json(folder / SAMPLES).get("samples")
    if not isinstance(samples, list):
        raise BadFile(f"{folder / SAMPLES} has no list of samples; export as FiftyOneDataset")
    rows: list[Set] = []
    for number, sample in enumerate(cast("list[Any]", samples)):
        given: Any = sample.get(field) if isinstance(sample, dict) else None
        name: Any = cast("dict[str, Any]", given).get("label") if isinstance(given, dict) else None
        tags: Any = sample.get("tags") if isinstance(sample, dict) else None
        called: Any = sample.get("cual_id") if isinstance(sample, dict) else None
        if called is None:
            continue  # somebody added it there: it is none of the pool
        if not isinstance(called, str) or not (name is None or isinstance(name, str)):
            raise BadFile(f"{folder / SAMPLES}, sample {number}: cual_id and {field} must be texts")
        rows.append((called, name, [str(t) for t in cast("list[Any]", tags or [])]))
    return cast("dict[str, Any]", info) if isinstance(info, dict) else {}, rows


def _json(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > LARGEST:
            raise BadFile(f"{file} is larger than {LARGEST} bytes")
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadFile(f"{file} is no JSON object")
    return cast("dict[str, Any]", content)


def _typed(text: str, what: str, numbers: Any) -> Label:
    """An id or a label as the adaptation knows it."""
    if what not in numbers:
        return text
    try:
        return int(text)
    except ValueError:
        raise BadLabels(f"{what} {text!r} is none: there they are whole numbers") from None
