"""Files of an inbox: what was kept of one request, written before the row that names it. No rules here."""

import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from cual import storage
from cual.errors import DamagedFile
from cual.serve.storage.home import Home
from cual.types import AnyArray

NAME = re.compile(r"[0-9a-f]{32}")
_KIND, _SUFFIX = "inbox batch", ".safetensors"


@dataclass(frozen=True, eq=False)
class Batch:
    """What a file holds, row by row."""

    X: AnyArray
    originals: list[bytes]
    """Empty where they are not kept."""


def folder_of(home: Home, agent: int) -> Path:
    return home.agent_folder(agent) / "inbox"


def file_of(home: Home, agent: int, name: str) -> Path:
    """Where a batch lies; names are ours, and nothing else becomes a path."""
    if not NAME.fullmatch(name):
        raise DamagedFile(f"{name!r} is not the name of a batch")
    return folder_of(home, agent) / f"{name}{_SUFFIX}"


def write(home: Home, agent: int, X: AnyArray, originals: Sequence[bytes]) -> str:
    """Write a batch; it is on the disk, under the name that is given back, when this returns."""
    name = uuid.uuid4().hex
    file = file_of(home, agent, name)
    tensors = {"X": torch.from_numpy(np.ascontiguousarray(X, np.float32))}
    if originals:
        tensors["ends"] = torch.from_numpy(np.cumsum([len(original) for original in originals], dtype=np.int64))
        tensors["originals"] = torch.from_numpy(np.frombuffer(bytearray(b"".join(originals)), np.uint8))
    storage.write(file, _KIND, {}, tensors)
    _sync(file.parent)
    return name


def read(home: Home, agent: int, name: str, originals: bool = False) -> Batch:
    """What a file holds; `originals` only where they are asked for."""
    _, tensors = storage.read(file_of(home, agent, name), _KIND, lambda tensor: originals or tensor == "X")
    parts: list[bytes] = []
    if "originals" in tensors:
        ends = tensors["ends"].tolist()
        whole = tensors["originals"].numpy().tobytes()
        parts = [whole[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return Batch(tensors["X"].numpy(), parts)


def size(home: Home, agent: int, name: str) -> int:
    return file_of(home, agent, name).stat().st_size


def remove(home: Home, agent: int, names: Iterable[str]) -> None:
    for name in names:
        file_of(home, agent, name).unlink(missing_ok=True)


def remove_orphans(home: Home, named: Mapping[int, set[str]]) -> int:
    """Remove files that no row names, of sends that were killed; how many. `named` is by agent.

    Only while nobody sends: a file is there before its row is.
    """
    removed = 0
    for folder in (home.folder / "agents").glob("*/inbox"):
        if not folder.parent.name.isdecimal():
            continue
        names = named.get(int(folder.parent.name), set())
        for file in folder.iterdir():
            if file.name.removesuffix(_SUFFIX) not in names:
                file.unlink(missing_ok=True)
                removed += 1
    return removed


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
