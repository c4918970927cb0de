"""Reading a features folder: its rows as one table on disk, and what belongs to each. Writing is beside it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.data.compact import Column, Mixed, Store, store
from cual.data.folder.manifest import Manifest, Shard, read_manifest
from cual.data.ids import Ids
from cual.data.table import Table
from cual.errors import DamagedFile
from cual.storage import seen, unchanged
from cual.types import AnyArray, IntArray, Label, LazyRows, Row

COLUMNS = ("ids", "labels", "sources", "stamps")
"""What a shard's table holds of each row."""


class ShardedRows(LazyRows):
    """The features of a folder as one table. Rows are copied out; no shard stays mapped after that.

    Only that keeps resident memory small: a mapped page counts as the process' own until it is unmapped.

    >>> import tempfile
    >>> from cual.data.folder import FeaturesWriter
    >>> folder = tempfile.mkdtemp()
    >>> with FeaturesWriter(folder, width=2, shard_rows=1) as writer:
    ...     writer.append(np.eye(2), ids=["a.jpg", "b.jpg"])
    >>> rows = FeaturesFolder.open(folder).X
    >>> rows[[1, 0]].tolist(), rows.select(np.array([1])).shape
    ([[0.0, 1.0], [1.0, 0.0]], (1, 2))
    >>> reopen(rows.reference())[0].tolist()
    [1.0, 0.0]
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
        order = np.argsort(shard_of, kind="stable")
        starts = np.unique(shard_of[order], return_index=True)[1]
        for mine in np.split(order, starts[1:]) if len(order) else []:
            number = int(shard_of[mine[0]])
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
            wanted = np.arange(*rows.indices(n))
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
    >>> from cual.data.folder import FeaturesWriter
    >>> folder = tempfile.mkdtemp()
    >>> with FeaturesWriter(folder, width=2) as writer:
    ...     writer.append(np.eye(2), ids=["a.jpg", "b.jpg"], labels=["cat", "dog"])
    >>> opened = FeaturesFolder.open(folder)
    >>> opened.X.shape, opened.X.dtype, opened.ids, opened.labels
    ((2, 2), dtype('float16'), ('a.jpg', 'b.jpg'), ('cat', 'dog'))
    >>> opened.select(np.array([1])).table().ids.tolist(), opened.row_of["b.jpg"]
    (['b.jpg'], 1)
    """

    path: Path
    manifest: Manifest
    X: ShardedRows
    ids: Ids
    labels: Column[Label | None]
    sources: Column[str | None]
    stamps: Column[str | None]
    """Whatever tells a changed source from the one that was encoded."""

    @classmethod
    def open(cls, path: str | Path) -> "FeaturesFolder":
        """Read manifest and tables; features are read when they are asked for."""
        path = Path(path)
        manifest = read_manifest(path)
        parts: dict[str, list[Store]] = {c: [] for c in COLUMNS}
        for shard in manifest.shards:
            check_size(path, shard)
            table = read_table(path, shard)
            for c in COLUMNS:
                parts[c].append(store(table[c]))
        ids = Ids.joined(parts["ids"])
        columns = [Column[Any].joined(parts[c]) for c in COLUMNS[1:]]
        rows = ids.last_of_each()
        if rows is not None:
            ids, columns = ids.take(rows), [column.take(rows) for column in columns]
        return cls(path, manifest, ShardedRows(path, manifest, rows), ids, *columns)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def row_of(self) -> Mapping[Label, int]:
        """Rows by id, as objects; `ids.rows_of` needs none."""
        return {sample: row for row, sample in enumerate(self.ids)}

    def select(self, rows: IntArray) -> "FeaturesFolder":
        """Some of the rows; nothing is read."""
        columns = (getattr(self, c).take(rows) for c in COLUMNS)
        return FeaturesFolder(self.path, self.manifest, self.X.select(rows), *columns)

    def table(self, source: str | None = None) -> Table:
        """As a `Table`: labels where every row has one, features left on disk; `source` is else the folder."""
        bare = np.flatnonzero(np.fromiter((label is None for label in self.labels), np.bool_, len(self)))
        why = None
        if len(bare):
            why = f"{len(bare)} of {len(self)} samples have no label, the first is {self.ids[int(bare[0])]!r}"
        return Table(
            # Whoever takes a Table slices, indexes and measures X; rows on disk do all three.
            cast(AnyArray, self.X),
            None if len(bare) or not self.ids else np.array(self.labels),
            self._ids_of_one_kind(),
            encoder=self.X.encoder,
            unlabelled=why,
            source=source or str(self.path),
        )

    def _ids_of_one_kind(self) -> AnyArray | None:
        """Ids as an array, or as what behaves like one and is far smaller; numbers among names become names."""
        if isinstance(self.ids.store, Mixed):
            return np.array(self.ids) if self.ids else None
        return cast(AnyArray, self.ids)

    def verify(self, once: bool = False) -> None:
        """Read everything and compare it with the hashes of the manifest.

        Parameters
        ----------
        once
            Leave out what this process has compared and nobody has changed since.
        """
        for shard in self.manifest.shards:
            for suffix, expected in ((".npy", shard.features_sha256), (".json", shard.table_sha256)):
                file = self.path / f"{shard.name}{suffix}"
                if once and unchanged(file, least=0):
                    continue
                with file.open("rb") as opened:
                    if hashlib.file_digest(opened, "sha256").hexdigest() != expected:
                        raise DamagedFile(f"{file} is not what was written; delete it and embed again")
                seen(file, least=0)


def read_table(path: Path, shard: Shard) -> dict[str, list[Any]]:
    """Ids, labels, sources and stamps of a shard's rows, checked by their hash."""
    file = path / f"{shard.name}.json"
    try:
        data = file.read_bytes()
        table = json.loads(data)
        whole = hashlib.sha256(data).hexdigest() == shard.table_sha256
        whole = whole and all(len(table[c]) == shard.rows for c in COLUMNS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{file} cannot be read ({error}); embed again") from error
    if not whole:
        raise DamagedFile(f"{file} is not what was written; embed again")
    return table


def check_size(path: Path, shard: Shard) -> None:
    """Refuse a shard whose features are cut short; their hash is left to `FeaturesFolder.verify`."""
    file = path / f"{shard.name}.npy"
    try:
        size = file.stat().st_size
    except OSError as error:
        raise DamagedFile(f"{file} is gone; embed again") from error
    if size != shard.bytes:
        raise DamagedFile(f"{file} is {size} bytes long, not {shard.bytes}; embed again")


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
