"""Features folders: shards that memory-map, a table of rows beside each, one manifest. No encoding here.

Layout::

    FOLDER/manifest.json      width, type, encoder, and the shards that are whole, with their hashes
    FOLDER/000000.npy         (rows, width) features, float16 or float32
    FOLDER/000000.json        ids, labels, sources and stamps of those rows
    FOLDER/lock               held by whoever writes

A shard never changes once the manifest names it, and the manifest is replaced in one step: readers see what was
whole when they opened the folder, however a writer ends. A row whose id comes again later is replaced by it.
"""

import fcntl
import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np

from cual.errors import (
    BadFeatures,
    BadFile,
    BadLabels,
    BadOption,
    DamagedFile,
    DuplicateIds,
    FolderInUse,
    ForeignFile,
    NewerFormat,
    WrongEncoder,
)
from cual.features import Features
from cual.storage import open_beside, write_bytes
from cual.types import AnyArray, IntArray, Label, LazyRows, Row

FORMAT = 1
MANIFEST = "manifest.json"
SHARD_ROWS = 4096
"""Rows that a writer gathers before they are safe on disk."""
TYPES = ("float16", "float32")
_SHARD_NAME = re.compile(r"\d{6,9}")
_COLUMNS = ("ids", "labels", "sources", "stamps")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Made:
    """How features were made: the encoder's fingerprint, and what is worth knowing beside it."""

    fingerprint: str
    preprocessing: Row = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Shard:
    """One whole shard, as the manifest names it."""

    name: str
    rows: int
    bytes: int
    """Size of the features file; another size means that it is cut short."""
    features_sha256: str
    table_sha256: str


@dataclass(frozen=True)
class Manifest:
    width: int
    dtype: str
    made: Made | None = None
    shards: tuple[Shard, ...] = ()

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.shards)

    def to_json(self) -> Row:
        return {
            "cual": "features",
            "format": FORMAT,
            "rows": self.rows,
            "width": self.width,
            "dtype": self.dtype,
            "encoder": None if self.made is None else asdict(self.made),
            "shards": [asdict(s) for s in self.shards],
        }


def is_features_folder(path: str | Path) -> bool:
    """Whether `path` is a folder that a `FeaturesWriter` made."""
    return (Path(path) / MANIFEST).is_file()


class ShardedRows(LazyRows):
    """The features of a folder as one table. Rows are copied out; no shard stays mapped after that.

    Only that keeps resident memory small: a mapped page counts as the process' own until it is unmapped.
    """

    def __init__(self, path: Path, manifest: Manifest, rows: IntArray | None = None) -> None:
        self._path, self._manifest, self._rows = path, manifest, rows
        self._starts = np.cumsum([0, *(s.rows for s in manifest.shards)])
        self.shape = (manifest.rows if rows is None else len(rows), manifest.width)
        self.dtype = np.dtype(manifest.dtype)
        self.encoder = None if manifest.made is None else manifest.made.fingerprint

    def __getitem__(self, rows: Any) -> AnyArray:
        if isinstance(rows, int | np.integer):
            return self[[rows]][0]
        wanted = self._resolve(rows)
        out = np.empty((len(wanted), self.shape[1]), self.dtype)
        shard_of = np.searchsorted(self._starts, wanted, side="right") - 1
        for number in np.unique(shard_of).tolist():
            mine = np.flatnonzero(shard_of == number)
            mapped = _map_shard(self._path, self._manifest, self._manifest.shards[number])
            local = wanted[mine] - self._starts[number]
            if len(mine) == mine[-1] - mine[0] + 1 == local[-1] - local[0] + 1 and (np.diff(local) == 1).all():
                out[mine[0] : mine[-1] + 1] = mapped[local[0] : local[-1] + 1]
            else:
                out[mine] = mapped[local]
        return out

    def _resolve(self, rows: Any) -> IntArray:
        """Row numbers of the shards laid end to end, for a slice, a mask or row numbers of this table."""
        n = len(self)
        if isinstance(rows, slice):
            wanted = np.arange(n)[rows]
        else:
            wanted = np.asarray(rows)
            if wanted.dtype == np.bool_ and wanted.shape == (n,):
                wanted = np.flatnonzero(wanted)
            elif wanted.ndim != 1 or (wanted.dtype.kind not in "iu" and len(wanted)):
                raise TypeError(f"rows come as a slice, a mask of {n} or whole numbers, not {rows!r}")
        wanted = wanted.astype(np.int64)
        if len(wanted) and not (-n <= wanted.min() and wanted.max() < n):
            raise IndexError(f"there are {n} rows; asked for {wanted.min()} … {wanted.max()}")
        wanted = np.where(wanted < 0, wanted + n, wanted)
        return wanted if self._rows is None else self._rows[wanted]

    def select(self, rows: IntArray) -> "ShardedRows":
        """Some of the rows as a table of their own; nothing is read."""
        return ShardedRows(self._path, self._manifest, self._resolve(rows))

    def reference(self) -> Row:
        return {
            "path": str(self._path.resolve()),
            "shards": [s.features_sha256 for s in self._manifest.shards],
            "rows": None if self._rows is None else self._rows.tolist(),
        }


def reopen(reference: Row) -> ShardedRows:
    """What `ShardedRows.reference` told of: the same rows, even if the folder has grown since."""
    path = Path(reference["path"])
    manifest = read_manifest(path)
    n = len(reference["shards"])
    if [s.features_sha256 for s in manifest.shards[:n]] != reference["shards"]:
        raise DamagedFile(f"{path} no longer holds the features that the adaptation began with")
    rows = reference["rows"]
    kept = Manifest(manifest.width, manifest.dtype, manifest.made, manifest.shards[:n])
    return ShardedRows(path, kept, None if rows is None else np.array(rows, dtype=np.int64))


@dataclass(frozen=True)
class FeaturesFolder:
    """What a features folder held when it was opened.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with FeaturesWriter(folder, width=2) as writer:
    ...     writer.append(np.eye(2), ids=["a.jpg", "b.jpg"], labels=["cat", "dog"])
    >>> held = FeaturesFolder.open(folder)
    >>> held.X.shape, held.X.dtype, held.ids, held.labels
    ((2, 2), dtype('float16'), ['a.jpg', 'b.jpg'], ['cat', 'dog'])
    """

    path: Path
    manifest: Manifest
    X: ShardedRows
    ids: list[Label]
    labels: list[Label | None]
    sources: list[str | None]
    stamps: list[str | None]
    """Whatever tells a changed source from the one that was encoded."""

    @classmethod
    def open(cls, path: str | Path) -> "FeaturesFolder":
        """Read manifest and tables; features are read when they are asked for."""
        path = Path(path)
        manifest = read_manifest(path)
        columns: dict[str, list[Any]] = {c: [] for c in _COLUMNS}
        for shard in manifest.shards:
            _check_size(path, shard)
            table = _read_table(path, shard)
            for c in _COLUMNS:
                columns[c] += table[c]
        rows = _last_of_each(columns["ids"])
        if rows is not None:
            columns = {c: [values[r] for r in rows.tolist()] for c, values in columns.items()}
        return cls(path, manifest, ShardedRows(path, manifest, rows), *(columns[c] for c in _COLUMNS))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def row_of(self) -> Mapping[Label, int]:
        return {sample: row for row, sample in enumerate(self.ids)}

    def select(self, rows: IntArray) -> "FeaturesFolder":
        """Some of the rows; nothing is read."""
        parts = ([values[r] for r in rows.tolist()] for values in (getattr(self, c) for c in _COLUMNS))
        return FeaturesFolder(self.path, self.manifest, self.X.select(rows), *parts)

    def features(self) -> Features:
        """As `cual.features.Features`: labels where every row has one, features left on disk."""
        y = np.array(self.labels) if self.labels and None not in self.labels else None
        # Whoever takes Features slices, indexes and measures X; a table on disk does all three.
        return Features(
            cast(AnyArray, self.X), y, np.array(self.ids) if self.ids else None, encoder=self.X.encoder
        )

    def verify(self) -> None:
        """Read everything and compare it with the hashes of the manifest."""
        for shard in self.manifest.shards:
            for suffix, expected in ((".npy", shard.features_sha256), (".json", shard.table_sha256)):
                file = self.path / f"{shard.name}{suffix}"
                with file.open("rb") as opened:
                    if hashlib.file_digest(opened, "sha256").hexdigest() != expected:
                        raise DamagedFile(f"{file} is not what was written; delete it and embed again")


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
    """

    def __init__(
        self,
        path: str | Path,
        width: int,
        dtype: str | None = None,
        made: Made | None = None,
        shard_rows: int = SHARD_ROWS,
    ) -> None:
        self.path = Path(path)
        if dtype is not None and dtype not in TYPES:
            raise BadOption(f"features are kept as {' or '.join(TYPES)}, not {dtype}")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / "lock").open("a+")
        try:
            self._claim()
            self.manifest = self._begin(width, dtype, made)
            self._drop_leftovers()
            self._stamps = self._known()
        except BaseException:
            self._lock.close()
            raise
        self._shard_rows = shard_rows
        self._waiting: list[AnyArray] = []
        self._table: dict[str, list[Any]] = {c: [] for c in _COLUMNS}

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
        n = len(ids)
        rows = _as_rows(X, n, self.manifest)
        if not replace:
            twice = next((i for i in ids if i in self._stamps), None)
            if twice is not None or len(set(ids)) < n:
                raise DuplicateIds(f"{self.path}: the id {twice!r} is there already, or given twice")
        none: list[None] = [None] * n
        columns = (ids, labels or none, sources or none, stamps or none)
        if any(len(c) != n for c in columns):
            raise BadLabels(f"{n} ids, but labels, sources or stamps of another number")
        for name, values in zip(_COLUMNS, columns, strict=True):
            self._table[name] += [v.item() if isinstance(v, np.generic) else v for v in values]
        self._stamps |= dict(zip(ids, columns[3], strict=True))
        self._waiting.append(rows)
        while len(self._table["ids"]) >= self._shard_rows:
            self._write_shard(self._shard_rows)

    def flush(self) -> None:
        """Make everything appended so far safe on disk."""
        while self._table["ids"]:
            self._write_shard(min(self._shard_rows, len(self._table["ids"])))

    def close(self) -> None:
        """Flush, and let others write."""
        if not self._lock.closed:
            try:
                self.flush()
                if not (self.path / MANIFEST).exists():
                    self._write_manifest(self.manifest)
            finally:
                self._lock.close()

    # -- inside ------------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            who = self._lock.read(200).strip() or "another process"
            raise FolderInUse(f"{self.path} is being written by {who}") from None
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()}\n")
        self._lock.flush()

    def _begin(self, width: int, dtype: str | None, made: Made | None) -> Manifest:
        if not (self.path / MANIFEST).exists():
            others = [p.name for p in self.path.iterdir() if p.name != "lock" and not _ours(p)]
            if others:
                raise ForeignFile(f"{self.path} holds {others[0]} and no features; choose another folder")
            return Manifest(width, dtype or TYPES[0], made)
        there = read_manifest(self.path)
        if there.made != made and (
            there.made is None or made is None or there.made.fingerprint != made.fingerprint
        ):
            raise WrongEncoder(
                f"{self.path} holds features of {_told(there.made)}, not of {_told(made)}; choose another"
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

    def _drop_leftovers(self) -> None:
        """Files of a writer that was killed: not yet in their place, or not yet named by the manifest."""
        named = {s.name for s in self.manifest.shards}
        for file in self.path.iterdir():
            if _ours(file) and file.stem not in named:
                file.unlink()

    def _known(self) -> dict[Label, str | None]:
        known: dict[Label, str | None] = {}
        for shard in self.manifest.shards:
            table = _read_table(self.path, shard)
            known |= dict(zip(table["ids"], table["stamps"], strict=True))
        return known

    def _write_shard(self, n: int) -> None:
        together = np.concatenate(self._waiting)
        rows, rest = together[:n], together[n:]
        last = self.manifest.shards[-1].name if self.manifest.shards else "-1"
        name = f"{int(last) + 1:06d}"
        table = {c: values[:n] for c, values in self._table.items()}
        text = json.dumps(table, ensure_ascii=False).encode()
        write_bytes(self.path / f"{name}.json", text)
        size, digest = _write_npy(self.path / f"{name}.npy", rows)
        shard = Shard(name, n, size, digest, hashlib.sha256(text).hexdigest())
        manifest = Manifest(
            self.manifest.width, self.manifest.dtype, self.manifest.made, (*self.manifest.shards, shard)
        )
        self._write_manifest(manifest)  # only now do the rows exist
        self.manifest, self._waiting = manifest, [rest.copy()] if len(rest) else []
        self._table = {c: values[n:] for c, values in self._table.items()}

    def _write_manifest(self, manifest: Manifest) -> None:
        text = json.dumps(manifest.to_json(), ensure_ascii=False, indent=1)
        write_bytes(self.path / MANIFEST, (text + "\n").encode())


def read_manifest(path: Path) -> Manifest:
    """The manifest of a features folder, checked."""
    file = path / MANIFEST
    if not file.is_file():
        raise ForeignFile(f"{path} is not a features folder: it has no {MANIFEST}")
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        if held.get("cual") != "features":
            raise ForeignFile(f"{file} was not written by cual")
        if held["format"] > FORMAT:
            raise NewerFormat(
                f"{path} has format {held['format']}, this cual reads up to {FORMAT}: update cual"
            )
        shards = tuple(Shard(**s) for s in held["shards"])
        made = None if held["encoder"] is None else Made(**held["encoder"])
        manifest = Manifest(int(held["width"]), held["dtype"], made, shards)
    except BadFile:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{file} is damaged: {error!r}") from error
    for shard in manifest.shards:
        if not _SHARD_NAME.fullmatch(shard.name):  # nothing that could lead out of the folder
            raise DamagedFile(f"{file} names a shard {shard.name!r}")
    if manifest.dtype not in TYPES or manifest.width < 1:
        raise DamagedFile(f"{file} tells of features {manifest.width!r} wide of the type {manifest.dtype!r}")
    return manifest


def _map_shard(path: Path, manifest: Manifest, shard: Shard) -> AnyArray:
    file = path / f"{shard.name}.npy"
    try:
        mapped = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DamagedFile(f"{file} is gone; embed again") from None
    except (ValueError, EOFError, OSError) as error:
        raise DamagedFile(f"{file} cannot be read ({error}); embed again") from error
    if mapped.shape != (shard.rows, manifest.width) or mapped.dtype != np.dtype(manifest.dtype):
        raise DamagedFile(f"{file} holds {mapped.dtype} {mapped.shape}; the manifest says otherwise")
    return mapped


def _read_table(path: Path, shard: Shard) -> dict[str, list[Any]]:
    file = path / f"{shard.name}.json"
    try:
        data = file.read_bytes()
        table = json.loads(data)
        whole = hashlib.sha256(data).hexdigest() == shard.table_sha256
        whole = whole and all(len(table[c]) == shard.rows for c in _COLUMNS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{file} cannot be read ({error}); embed again") from error
    if not whole:
        raise DamagedFile(f"{file} is not what was written; embed again")
    return table


def _check_size(path: Path, shard: Shard) -> None:
    file = path / f"{shard.name}.npy"
    try:
        size = file.stat().st_size
    except OSError as error:
        raise DamagedFile(f"{file} is gone; embed again") from error
    if size != shard.bytes:
        raise DamagedFile(f"{file} is {size} bytes long, not {shard.bytes}; embed again")


def _is_whole(path: Path, shard: Shard) -> bool:
    with suppress(DamagedFile):
        _check_size(path, shard)
        _read_table(path, shard)
        return True
    return False


def _ours(file: Path) -> bool:
    """Shards, and files of ours that were never put in their place."""
    if file.name.startswith("."):
        return bool(re.match(rf"\.(\d{{6,9}}\.(npy|json)|{re.escape(MANIFEST)})\.", file.name))
    return file.suffix in (".npy", ".json") and bool(_SHARD_NAME.fullmatch(file.stem))


def _as_rows(X: AnyArray, n: int, manifest: Manifest) -> AnyArray:
    rows = np.asarray(X)
    if rows.shape != (n, manifest.width):
        raise BadFeatures(
            f"{n} ids with features of the shape {rows.shape}; they must be {manifest.width} wide"
        )
    with np.errstate(over="ignore"):
        kept = rows.astype(manifest.dtype)
    bad = np.flatnonzero(~np.isfinite(kept).all(axis=1))
    if len(bad):
        lost = np.isfinite(rows[bad]).all()
        why = f"do not fit into {manifest.dtype}; use float32" if lost else "are NaN or infinite"
        raise BadFeatures(f"the features of {len(bad)} of {n} samples (the first is row {bad[0]}) {why}")
    return kept


def _write_npy(path: Path, rows: AnyArray) -> tuple[int, str]:
    """Put an array in its place in one step; its size and hash."""
    handle, temporary = open_beside(path)
    try:
        with os.fdopen(handle, "w+b") as file:
            np.save(file, rows, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return size, digest


def _last_of_each(ids: Sequence[Label]) -> IntArray | None:
    """Rows that no later row with the same id replaces, in order; None where that is all of them."""
    last = {sample: row for row, sample in enumerate(ids)}
    return None if len(last) == len(ids) else np.array(sorted(last.values()), dtype=np.int64)


def _told(made: Made | None) -> str:
    return "an unknown encoder" if made is None else f"the encoder {made.fingerprint}"
