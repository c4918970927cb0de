"""What a dataset is: where it comes from, under which terms, and how its files become a folder per class."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from cual.datasets.archives import ARCHIVES
from cual.encoders.weights import Download, check, fetch
from cual.errors import BadFile, BadOption, Unavailable
from cual.registry import Registry
from cual.storage import write_bytes
from cual.types import Progress, Row

TOLD = "dataset.json"
AUTOMATIC_BYTES = 2 * 2**30
"""Larger downloads are left to the user, who knows where there is room and time for them."""


@dataclass(frozen=True)
class Prepared:
    """What a preparation found: images per class, and how the classes were chosen where that was a choice."""

    classes: Counter[str]
    selection: Row | None = None


@dataclass(frozen=True)
class Dataset:
    """A dataset of the paper.

    `prepare` takes the archive or the folder with the official files, and an empty folder that it fills with
    ``class/image``.
    """

    name: str
    summary: str
    homepage: str
    licence: str
    download: Download | None
    """None where the publisher asks for an account first."""
    by_hand: str
    """What to download where, for a machine without a network."""
    prepare: Callable[[Path, Path], Prepared]
    expected: str
    """Classes and images of the official files, as they are told."""
    splits: str
    """Which of the official splits are taken."""


datasets = Registry[Dataset]("dataset")


def get(name: str, out: Path, root: Path | None = None, progress: Progress | None = None) -> Row:
    """Prepare a dataset as a folder per class in `out`; what it holds is told there in `dataset.json`.

    Parameters
    ----------
    name
        One of `datasets`.
    out
        The folder to make.
    root
        A local copy: the official archive, a folder that holds it, or the folder it unpacks to. Downloaded into
        `out`'s parent if not given.
    progress
        Called as ``progress(stage, done, total)``.
    """
    dataset = datasets[name]
    if out.exists():
        raise BadOption(f"{out} exists; delete it, or give another name with -o")
    source = _local(dataset, root) if root is not None else _fetched(dataset, out.parent, progress)
    unfinished = out.with_name(f".{out.name}.parts")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    prepared = dataset.prepare(source, unfinished)
    if not prepared.classes:
        shutil.rmtree(unfinished)
        raise BadFile(f"{source} holds nothing of {name}. {dataset.by_hand}")
    summary: Row = {
        "dataset": name,
        "summary": dataset.summary,
        "homepage": dataset.homepage,
        "licence": dataset.licence,
        "from": str(source),
        "splits": dataset.splits,
        "download": None if dataset.download is None else asdict(dataset.download),
        "images": prepared.classes.total(),
        "classes": dict(sorted(prepared.classes.items())),
        "selection": prepared.selection,
    }
    write_bytes(unfinished / TOLD, json.dumps(summary, ensure_ascii=False, indent=1).encode())
    unfinished.rename(out)
    return summary


def _local(dataset: Dataset, root: Path) -> Path:
    """The archive in `root` if it is there, else `root` itself."""
    if not root.exists():
        raise BadFile(f"{root}: no such file or folder. {dataset.by_hand}")
    if root.is_file() and not root.name.endswith(ARCHIVES):
        raise BadFile(f"{root} is no archive ({', '.join(ARCHIVES)})")
    if dataset.download is None:
        return root
    archive = root if root.name == dataset.download.file else root / dataset.download.file
    if not archive.is_file():
        return root
    check(archive, dataset.download.sha256, dataset.download.md5)
    return archive


def _fetched(dataset: Dataset, folder: Path, progress: Progress | None) -> Path:
    if dataset.download is None or dataset.download.most_bytes > AUTOMATIC_BYTES:
        raise Unavailable(f"{dataset.name} is not downloaded by itself. {dataset.by_hand}")
    return fetch(dataset.download, folder, progress=progress, otherwise="or name its folder with --root DIR")
