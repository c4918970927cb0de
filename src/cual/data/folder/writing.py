"""Writing a features folder: one writer at a time, shard by shard, so that a killed one leaves whole shards."""

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from cual.data.folder.checks import as_rows, check_table
from cual.data.folder.manifest import MANIFEST, SHARD_NAME, TYPES, Made, Manifest, Shard, read_manifest
from cual.data.folder.reading import COLUMNS, check_size, read_table
from cual.errors import (
    BadFeatures,
    BadFile,
    BadLabels,
    BadOption,
    DamagedFile,
    DuplicateIds,
    ForeignFile,
    WrongEncoder,
)
from cual.locks import claim
from cual.storage import beside, write_bytes
from cual.types import AnyArray, Label

SHARD_ROWS = 4096
"""Rows that a writer gathers before they are safe on disk."""
LOCK = "lock"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """Rows that lie in the folder, written by whichever process, and are not yet part of it.

    `FeaturesWriter.adopt` makes a shard of them. Until then they are left over from a writer that was killed.
    """

    features: str
    table: str
    """Names of the two files, without their folder."""
    ids: tuple[Label, ...]
    stamps: tuple[str | None, ...]
    bytes: int
    features_sha256: str
    table_sha256: str


def write_part(path: Path, rows: AnyArray, table: Mapping[str, Sequence[Any]], name: str = "000000") -> Part:
    """Write rows into a features folder without making them part of it; any number of processes may.

    Parameters
    ----------
    path
        The folder.
    rows
        Features, as `as_rows` gives them.
    table
        Ids, labels, sources and stamps of the rows.
    name
        Number of a shard, for the names of the files; these are unique in any case.
    """
    # Names of files may hold what is no text at all; json.loads takes it back as it is.
    text = json.dumps(dict(table), ensure_ascii=False).encode(errors="surrogatepass")
    listed = _write_beside(path / f"{name}.json", text)
    try:
        features, size, digest = _write_npy(path / f"{name}.npy", rows)
    except BaseException:
        listed.unlink(missing_ok=True)
        raise
    return Part(
        features.name,
        listed.name,
        tuple(table["ids"]),
        tuple(table["stamps"]),
        size,
        digest,
        hashlib.sha256(text).hexdigest(),
    )


def row_table(
    ids: Sequence[Label],
    labels: Sequence[Label | None] | None = None,
    sources: Sequence[str | None] | None = None,
    stamps: Sequence[str | None] | None = None,
) -> dict[str, list[Any]]:
    """The table of some rows, checked: as many of each, ids and labels that last.

    >>> row_table(np.array([3, 5]), labels=["cat", None])
    {'ids': [3, 5], 'labels': ['cat', None], 'sources': [None, None], 'stamps': [None, None]}
    """
    n = len(ids)
    none: list[None] = [None] * n
    table: dict[str, list[Any]] = {
        column: [v.item() if isinstance(v, np.generic) else v for v in values]
        for column, values in zip(COLUMNS, (ids, labels or none, sources or none, stamps or none), strict=True)
    }
    if any(len(values) != n for values in table.values()):
        raise BadLabels(f"{n} ids, but labels, sources or stamps of another number")
    check_table(table["ids"], table["labels"])
    return table


class FeaturesWriter:
    """Appends to a features folder, or begins one. One writer at a time; readers need not wait.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    width
        Width of the features.
    dtype
        "float16" or "float32"; by default what the folder has, float16 for a new one.
    made
        How the features are made. A folder takes features of one encoder only.
    shard_rows
        Rows per shard; what is not yet in a shard is lost if the process is killed.
    wait
        Wait for another writer to end, instead of raising `FolderInUse`.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with FeaturesWriter(folder, width=2) as writer:
    ...     writer.append(np.eye(2), ids=["a.jpg", "b.jpg"])
    >>> with FeaturesWriter(folder, width=2) as writer:  # another day
    ...     writer.append(np.zeros((1, 2)), ids=["c.jpg"])
    ...     print(len(writer), "a.jpg" in writer)
    3 True
    """

    def __init__(
        self,
        path: str | Path,
        width: int,
        dtype: str | None = None,
        made: Made | None = None,
        shard_rows: int = SHARD_ROWS,
        wait: bool = False,
    ) -> None:
        self.path = Path(path)
        if dtype is not None and dtype not in TYPES:
            raise BadOption(f"features are kept as {' or '.join(TYPES)}, not {dtype}")
        if self.path.exists() and not self.path.is_dir():
            raise ForeignFile(f"{self.path} is a file, not a features folder; choose another name")
        self._lock = claim(self.path / LOCK, "written", wait)
        try:
            self.manifest = self._begin(width, dtype, made)
            self.drop_leftovers()
            self._stamps = self._known()
        except BaseException:
            self._lock.release()
            raise
        self._shard_rows = shard_rows
        self._failed = False
        self._waiting: list[AnyArray] = []
        self._table: dict[str, list[Any]] = {c: [] for c in COLUMNS}

    def __enter__(self) -> "FeaturesWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __contains__(self, sample: object) -> bool:
        return sample in self._stamps

    def __len__(self) -> int:
        """Rows with an id of their own, written or waiting to be."""
        return len(self._stamps)

    def stamp(self, sample: Label) -> str | None:
        """The stamp that a sample's source had when it was encoded."""
        return self._stamps.get(sample)

    def append(
        self,
        X: AnyArray,
        ids: Sequence[Label],
        labels: Sequence[Label | None] | None = None,
        sources: Sequence[str | None] | None = None,
        stamps: Sequence[str | None] | None = None,
        replace: bool = False,
    ) -> None:
        """Add rows. An id that is there already is an error, unless it may `replace` the row it had."""
        table = row_table(ids, labels, sources, stamps)
        rows = as_rows(X, table["ids"], self.manifest)
        if not replace:
            self._check_new(table["ids"])
        for name, values in table.items():
            self._table[name] += values
        self._stamps |= dict(zip(table["ids"], table["stamps"], strict=True))
        self._waiting.append(rows)
        while len(self._table["ids"]) >= self._shard_rows:
            self._write_shard(self._shard_rows)

    def adopt(self, part: Part) -> None:
        """Make a shard of rows that `write_part` has written. They replace rows of the same ids."""
        try:
            self._put_part(part)
        except OSError as error:
            raise self._unwritable(error) from error
        self._stamps |= dict(zip(part.ids, part.stamps, strict=True))

    def drop_leftovers(self) -> None:
        """Remove files of writers that were killed: not yet in their place, or not named by the manifest."""
        named = {s.name for s in self.manifest.shards}
        for file in self.path.iterdir():
            if _ours(file) and file.stem not in named:
                file.unlink(missing_ok=True)

    def flush(self) -> None:
        """Make everything appended so far safe on disk."""
        while self._table["ids"]:
            self._write_shard(min(self._shard_rows, len(self._table["ids"])))

    def close(self) -> None:
        """Flush, and let others write."""
        if self._lock.is_locked:
            try:
                if self._failed:  # whoever closes is told already, and once more would fail once more
                    return
                self.flush()
                if not (self.path / MANIFEST).exists():
                    self._write_manifest(self.manifest)
            finally:
                self._lock.release()

    # -- inside ------------------------------------------------------------------------------------------------

    def _begin(self, width: int, dtype: str | None, made: Made | None) -> Manifest:
        if not (self.path / MANIFEST).exists():
            others = [p.name for p in self.path.iterdir() if p.name != LOCK and not _ours(p)]
            if others:
                raise ForeignFile(f"{self.path} holds {others[0]} and no features; choose another folder")
            return Manifest(width, dtype or TYPES[0], made)
        there = read_manifest(self.path)
        if there.made != made and (
            there.made is None or made is None or there.made.fingerprint != made.fingerprint
        ):
            raise WrongEncoder(
                f"{self.path} holds features of {_named(there.made)}, not of {_named(made)}; choose another"
            )
        if there.width != width:
            raise BadFeatures(f"{self.path} holds features {there.width} wide, not {width}")
        if dtype is not None and there.dtype != dtype:
            raise BadOption(f"{self.path} holds {there.dtype} features, not {dtype}")
        whole = tuple(s for s in there.shards if _is_whole(self.path, s))
        if len(whole) < len(there.shards):
            log.warning("%s: %d damaged shards dropped", self.path, len(there.shards) - len(whole))
            there = Manifest(there.width, there.dtype, there.made, whole)
            self._write_manifest(there)
        return there

    def _known(self) -> dict[Label, str | None]:
        known: dict[Label, str | None] = {}
        for shard in self.manifest.shards:
            table = read_table(self.path, shard)
            known |= dict(zip(table["ids"], table["stamps"], strict=True))
        return known

    def _check_new(self, ids: Sequence[Label]) -> None:
        given: set[Label] = set()
        for sample in ids:
            if sample in self._stamps or sample in given:
                raise DuplicateIds(f"{self.path}: the id {sample!r} is there already, or given twice")
            given.add(sample)

    def _write_shard(self, n: int) -> None:
        together = np.concatenate(self._waiting)
        rows, rest = together[:n], together[n:]
        table = {c: values[:n] for c, values in self._table.items()}
        try:
            self._put_part(write_part(self.path, rows, table, self._next_name()))
        except OSError as error:
            raise self._unwritable(error) from error
        self._waiting = [rest.copy()] if len(rest) else []
        self._table = {c: values[n:] for c, values in self._table.items()}

    def _unwritable(self, error: OSError) -> BadFile:
        self._failed = True
        return BadFile(
            f"{self.path} cannot be written ({error.strerror or error}). The {self.manifest.rows} rows "
            "that are there are whole: make room, and give the same command again to go on"
        )

    def _next_name(self) -> str:
        last = self.manifest.shards[-1].name if self.manifest.shards else "-1"
        return f"{int(last) + 1:06d}"

    def _put_part(self, part: Part) -> None:
        name = self._next_name()
        os.replace(self.path / part.table, self.path / f"{name}.json")
        os.replace(self.path / part.features, self.path / f"{name}.npy")
        shard = Shard(name, len(part.ids), part.bytes, part.features_sha256, part.table_sha256)
        manifest = Manifest(
            self.manifest.width, self.manifest.dtype, self.manifest.made, (*self.manifest.shards, shard)
        )
        self._write_manifest(manifest)  # only now do the rows exist
        self.manifest = manifest

    def _write_manifest(self, manifest: Manifest) -> None:
        text = json.dumps(manifest.to_json(), ensure_ascii=False, indent=1)
        write_bytes(self.path / MANIFEST, (text + "\n").encode())


def _is_whole(path: Path, shard: Shard) -> bool:
    with suppress(DamagedFile):
        check_size(path, shard)
        read_table(path, shard)
        return True
    return False


def _ours(file: Path) -> bool:
    """Shards, and files of ours that were never put in their place."""
    if file.name.startswith("."):
        return bool(re.match(rf"\.(\d{{6,9}}\.(npy|json)|{re.escape(MANIFEST)})\.", file.name))
    return file.suffix in (".npy", ".json") and bool(SHARD_NAME.fullmatch(file.stem))


def _write_npy(path: Path, rows: AnyArray) -> tuple[Path, int, str]:
    """Write an array beside where it will be; the file, its size and hash."""
    with beside(path) as file:
        np.save(file, rows, allow_pickle=False)
    written = Path(file.name)
    with written.open("rb") as file:
        return written, written.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _write_beside(path: Path, data: bytes) -> Path:
    """Write a file beside where it will be."""
    with beside(path) as file:
        file.write(data)
    return Path(file.name)


def _named(made: Made | None) -> str:
    return "an unknown encoder" if made is None else f"the encoder {made.fingerprint}"
