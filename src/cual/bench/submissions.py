"""Folders of results that somebody hands in: read with limits, and refused where they contradict themselves.

What they amount to side by side is `leaderboard`'s business.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cual.bench.folder import NOT_RECORDED, read_rows, summarise
from cual.bench.settings import DEFAULTS, VARIED
from cual.errors import BadFile
from cual.types import Row

LARGEST = {"results.jsonl": 256 * 2**20, "run.json": 4 * 2**20, "summary.json": 4 * 2**20}
"""Bytes of the files that are read: rows of a thousand classes are a few megabytes."""
LONGEST_NAME = 200
CLOSE = 1e-9
"""Between a figure and the same one computed again: sums of the same numbers, in another order at most."""
COUNTS = ("seed", "task", "pool_size", "labels_used", "classes_missed")


@dataclass(frozen=True)
class Submission:
    """One folder, whose figures follow from its rows."""

    name: str
    """Its path, from the folder on that was handed in."""
    dataset: str
    protocol: str
    """The version of the protocol, in words."""
    features_sha256: str
    varied: Mapping[str, Any]
    """The setting of the stream."""
    changed: Row
    """Options that were changed in all methods."""
    origins: Mapping[str, Row]
    """By method: packages and all options, where they are written down."""
    cual: str
    streams: Mapping[str, Mapping[int, list[Row]]]
    """Rows of finished streams in the order of tasks, by method and seed."""


def read_submissions(folders: Sequence[str | Path]) -> list[Submission]:
    """All result folders in some folders; one error names every folder that is refused, and why."""
    found: dict[Path, str] = {}
    for given in map(Path, folders):
        files = sorted(given.rglob("results.jsonl"))
        if not files:
            raise BadFile(f"{given} holds no results.jsonl; make some with `cual bench run --out {given} …`")
        top = given.resolve().name
        for file in files:
            inside = file.parent.relative_to(given).as_posix()
            found.setdefault(file.parent.resolve(), top if inside == "." else f"{top}/{inside}")
    submissions: list[Submission] = []
    refused: list[str] = []
    for folder, name in found.items():
        try:
            submissions.append(read_submission(folder, name))
        except BadFile as error:
            refused.append(f"{folder} is refused: {error}")
    if refused:
        raise BadFile("\n".join(refused))
    return submissions


def read_submission(folder: Path, name: str) -> Submission:
    """The results in one folder, checked: rows against the setting, the summary against the rows."""
    run = _json(folder, "run.json")
    summary = _json(folder, "summary.json")
    setting = _dict(run.get("setting"), "setting of run.json")
    _limit(folder / "results.jsonl")
    rows = _rows(folder / "results.jsonl")
    dataset = _name(setting.get("name"), "name of the dataset")
    sha256 = run.get("features_sha256")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise BadFile("run.json has no SHA-256 of the features")
    varied = {field: _value(setting.get(field, DEFAULTS[field]), field) for field in VARIED}
    _check_budget(varied)
    for row in rows:
        _check_row(row, dataset, varied, run.get("protocol"))
    streams = _streams(rows)
    expected = _expected(streams)
    _check_summary(summary, summarise(rows, expected))
    finished = {
        method: {seed: mine for seed, mine in seeds.items() if len(mine) == expected}
        for method, seeds in streams.items()
    }
    versions = _dict(run.get("versions", {}), "versions of run.json")
    return Submission(
        name,
        dataset,
        _protocol(run.get("protocol")),
        sha256,
        varied,
        _options(setting.get("options", {}), "options of run.json"),
        _origins(run.get("methods", {})),
        _name(versions.get("cual", "not recorded"), "version of cual"),
        {method: seeds for method, seeds in sorted(finished.items()) if seeds},
    )


def _protocol(version: Any) -> str:
    """
    >>> _protocol(2), _protocol(None)
    ('2', '1 (not recorded)')
    """
    if version is None:
        return f"{NOT_RECORDED} (not recorded)"
    if not _is_count(version):
        raise BadFile(f"run.json says {version!r:.50} for the version of the protocol, which is a whole number")
    return str(version)


def _check_row(row: Any, dataset: str, varied: Mapping[str, Any], protocol: Any) -> None:
    """Refuse a row that is none, or is one of another run."""
    row = _dict(row, "row of results.jsonl")
    where = f"the row of {row.get('method')!r:.50}, seed {row.get('seed')!r:.20}, task {row.get('task')!r:.20}"
    _name(row.get("method"), "name of a method")
    for field in COUNTS:
        if not _is_count(row.get(field)):
            raise BadFile(f"{where} has {row.get(field)!r:.50} for {field}")
    accuracy = row.get("accuracy")
    if not isinstance(accuracy, float | int) or isinstance(accuracy, bool) or not 0 <= accuracy <= 1:
        raise BadFile(f"{where} has the accuracy {accuracy!r:.50}, which is a share between 0 and 1")
    if row["labels_used"] > row["pool_size"]:
        raise BadFile(f"{where} used {row['labels_used']} labels in a pool of {row['pool_size']} samples")
    if protocol is None:  # a folder from before versions were written down, which a later cual has gone on with
        protocol = NOT_RECORDED
        row = {"protocol": NOT_RECORDED, **row}
    for field, value in {"dataset": dataset, "protocol": protocol, **varied}.items():
        if _plain(row.get(field, DEFAULTS.get(field))) != value:
            raise BadFile(f"{where} has {row.get(field)!r:.50} for {field}, but run.json says {value!r:.50}")


def _streams(rows: Iterable[Row]) -> dict[str, dict[int, list[Row]]]:
    """Rows by method and seed, in the order of tasks, which are 1, 2, …"""
    streams: dict[str, dict[int, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: row["task"]):
        mine = streams.setdefault(row["method"], {}).setdefault(row["seed"], [])
        mine.append(row)
        if row["task"] != len(mine):
            raise BadFile(
                f"results.jsonl has task {len(mine)} of {row['method']}, seed {row['seed']}, not once"
            )
    return streams


def _expected(streams: Mapping[str, Mapping[int, list[Row]]]) -> int:
    """Tasks of a whole stream: the last task has the confusions; where no row has any, the most there are."""
    every = [rows for seeds in streams.values() for rows in seeds.values()]
    marked = {row["task"] for rows in every for row in rows if "confusion" in row}
    if len(marked) > 1:
        raise BadFile("streams of results.jsonl end after different tasks")
    return marked.pop() if marked else max(map(len, every), default=0)


def _check_summary(said: Row, follows: Row) -> None:
    """Refuse a summary that is not that of the rows; what it says beside, nobody looks at."""
    if set(said) != set(follows):
        different = ", ".join(sorted(set(said) ^ set(follows)))
        raise BadFile(f"summary.json does not follow from results.jsonl: not both have {different:.200}")
    for method, right in follows.items():
        given = _dict(said[method], f"entry of {method} in summary.json")
        seeds = _dict(given.get("seeds"), f"seeds of {method} in summary.json")
        if set(seeds) != set(right["seeds"]):
            raise BadFile(f"summary.json does not follow from results.jsonl: {method} has other seeds there")
        figures = {"mean": (given.get("mean"), right["mean"]), "std": (given.get("std"), right["std"])}
        figures |= {f"seed {seed}": (seeds[seed], value) for seed, value in right["seeds"].items()}
        for what, (figure, value) in figures.items():
            if not isinstance(figure, float | int) or not math.isclose(figure, value, abs_tol=CLOSE):
                raise BadFile(
                    f"summary.json does not follow from results.jsonl: {what} of {method} is {figure!r:.30} "
                    f"there, but the rows give {value!r}"
                )


def _origins(given: Any) -> dict[str, Row]:
    """Packages and options by method, as text and plain JSON."""
    origins: dict[str, Row] = {}
    for method, origin in _dict(given, "methods of run.json").items():
        origin = _dict(origin, f"entry of {method:.50} in run.json")
        packages = _dict(origin.get("packages"), f"packages of {method:.50} in run.json")
        origins[method] = {
            "packages": {
                _name(key, "package"): _name(value or "?", "version") for key, value in packages.items()
            },
            "options": _options(origin.get("options"), f"options of {method:.50} in run.json"),
        }
    return origins


def _check_budget(varied: Mapping[str, Any]) -> None:
    for field in ("first", "increment", "budget"):
        value = varied[field]
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise BadFile(f"run.json says {value!r:.50} for {field}")


def _value(value: Any, field: str) -> Any:
    """A value of the protocol: a number, a word, or a list of words."""
    plain = _plain(value)
    words = cast("tuple[Any, ...]", plain) if isinstance(plain, tuple) else (plain,)
    for word in words:
        if isinstance(word, str):
            _name(word, field)
        elif word is not None and not (isinstance(word, int | float) and math.isfinite(word)):
            raise BadFile(f"run.json says {value!r:.50} for {field}")
    return plain


def _plain(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _name(value: Any, what: str) -> str:
    """Words that people can read: a page and a terminal show them."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise BadFile(f"{what}: {value!r:.50} is no readable text of at most {LONGEST_NAME} characters")
    return value


def _dict(value: Any, what: str) -> Row:
    if not isinstance(value, dict):
        raise BadFile(f"{what}: {value!r:.50} is no JSON object")
    return cast(Row, value)


def _options(value: Any, what: str, deepest: int = 8) -> Row:
    """Options that parts of parts may have, and no deeper: a page shows them."""
    _check_depth(value, what, deepest)
    return _dict(value, what)


def _check_depth(value: Any, what: str, deepest: int) -> None:
    if deepest < 0:
        raise BadFile(f"{what}: options are nested too deeply")
    if isinstance(value, dict | list):
        inner = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
        for each in inner:
            _check_depth(each, what, deepest - 1)


def _rows(path: Path) -> list[Row]:
    try:
        return read_rows(path)
    except (RecursionError, UnicodeDecodeError) as error:
        raise BadFile(f"{path.name} is damaged: {error}") from error


def _limit(path: Path) -> None:
    if path.is_symlink() or not path.is_file():
        raise BadFile(f"{path.name} is missing, or no plain file")
    if path.stat().st_size > LARGEST[path.name]:
        raise BadFile(f"{path.name} has {path.stat().st_size} bytes, more than {LARGEST[path.name]}")


def _json(folder: Path, name: str) -> Row:
    _limit(folder / name)
    try:
        return _dict(json.loads((folder / name).read_text(encoding="utf-8")), name)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, BadFile) else BadFile(f"{name} is damaged: {error}") from error
