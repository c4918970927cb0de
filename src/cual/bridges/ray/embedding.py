"""Encoding by Ray's workers: each makes a shard, the driver puts it in its place. How to encode is elsewhere.

A shard is a piece of work: some whole batches of items in a row. A worker decodes and encodes them and writes
the rows beside the shards of the folder. Only the driver, which holds the folder's lock, makes them part of it,
in the order of the source. So a worker may be lost at any time, work done twice does no harm, and whatever
happens the folder is what one process would have written so far.
"""

import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from cual.bridges.ray.cluster import Cluster, Need, Place, node
from cual.data.folder import Manifest, Part, row_table, write_part
from cual.data.folder.checks import as_rows
from cual.data.folder.writing import LOCK
from cual.encoders import make
from cual.encoders.base import Encoder, Kind, Setup
from cual.encoders.embedding import (
    BATCH,
    SAFE_AFTER,
    SHARD_ROWS,
    Outcome,
    Skipped,
    embedding,
    encoded,
)
from cual.encoders.sources import Inside, Item, Source, Undecoded
from cual.errors import BadFile, BadImage, WrongEncoder
from cual.types import AnyArray, Progress, Row


@dataclass(frozen=True)
class RemoteEncoder:
    """An encoder that the cluster's nodes have; `encoder_on` gives it. What is known of it, not the network."""

    spec: str
    setup: Setup
    cpus: int
    name: str
    kind: Kind
    dim: int
    preprocessing: Row
    fingerprint: str

    @property
    def need(self) -> Need:
        return Need.of(self.setup.device, self.cpus)


def encoder_on(cluster: Cluster, spec: str, setup: Setup | None = None, cpus: int = 1) -> RemoteEncoder:
    """The encoder that `spec` names, made by a worker: code and weights must be on the nodes.

    Parameters
    ----------
    cluster
        The cluster.
    spec, setup
        As `cual.encoders.make` takes them. The device is "cpu" or "cuda", which takes a GPU for each worker.
    cpus
        Cores of each worker: threads that decode, and threads of the network on a CPU.
    """
    sent = replace(setup or Setup(), threads=cpus, progress=None)
    task = cluster.task(_describe, Need.of(sent.device, cpus))
    return cluster.get(task(Place.here(), spec, sent, cpus))


def embed(
    cluster: Cluster,
    source: Source,
    encoder: RemoteEncoder,
    folder: str | Path,
    dtype: str | None = None,
    batch: int | None = None,
    progress: Progress | None = None,
    shard_rows: int = SHARD_ROWS,
    wait: bool = False,
) -> Outcome:
    """Encode what is not yet in `folder`: the same rows in the same order as `embed` gives in one process.

    The folder, and images that are files, must be on storage that all nodes share under the same names; a node
    that does not see them is an error. What lies in a table (texts, images of datasets) is sent along.

    Parameters
    ----------
    cluster, encoder
        From `connected` and `encoder_on`.
    source, folder, dtype, batch, progress, wait
        As in one process.
    shard_rows
        Rows of a shard at most; fewer, where that many take long, or where some workers would get none.
    """
    size = batch or BATCH[encoder.kind]
    with embedding(source, encoder, folder, dtype, shard_rows, wait) as work:
        path = work.writer.path.resolve()
        waiting = work.waiting
        job = Job(
            Place.here(),
            encoder,
            path,
            (path / LOCK).read_text(encoding="utf-8"),
            work.writer.manifest.dtype,
            size,
            _seen(waiting),
        )
        task = cluster.task(_write_shard, encoder.need)
        most = min(shard_rows, -(-len(waiting) // cluster.at_once(encoder.need)))
        rows = size
        begun = 0
        under_way: deque[object] = deque()
        while begun < len(waiting) or under_way:
            while begun < len(waiting) and len(under_way) < cluster.at_once(encoder.need):
                items = waiting[begun : begun + rows]
                under_way.append(task(job, len(work.writer.manifest.shards), [_alone(item) for item in items]))
                begun += len(items)
            written: Written = cluster.get(under_way.popleft())
            if written.part is not None:
                work.writer.adopt(written.part)
            work.outcome.encoded += written.rows
            work.outcome.skipped += written.skipped
            rows = rows_at_once(written.rate, most, size)
            if progress is not None:
                progress("encoding", work.done, len(waiting))
        work.writer.drop_leftovers()  # of workers that were lost
    return work.outcome


def rows_at_once(rate: float, most: int, batch: int) -> int:
    """Rows of the next shard, in whole batches: as many as are encoded in the time that may be lost.

    >>> rows_at_once(rate=10.0, most=2048, batch=32), rows_at_once(rate=0.1, most=2048, batch=32)
    (288, 32)
    """
    return max(batch, int(min(most, rate * SAFE_AFTER)) // batch * batch)


@dataclass(frozen=True)
class Job:
    """What the shards of an embedding have in common."""

    place: Place
    encoder: RemoteEncoder
    folder: Path
    lock: str
    """What the folder's lock file says: a worker that reads something else sees another folder."""
    dtype: str
    batch: int
    files: tuple[tuple[str, int], ...]
    """Some files of the source, with their sizes: a worker without them sees another source."""


@dataclass(frozen=True)
class Written:
    """What a worker did: the rows that it wrote, if any, and what it left out."""

    part: Part | None
    skipped: list[Skipped]
    seconds: float

    @property
    def rows(self) -> int:
        return 0 if self.part is None else len(self.part.ids)

    @property
    def rate(self) -> float:
        """Items per second."""
        return (self.rows + len(self.skipped)) / max(self.seconds, 1e-6)


def _seen(items: list[Item]) -> tuple[tuple[str, int], ...]:
    """Files that workers must see too: a few of the source's, from its beginning, middle and end."""
    return tuple(_sizes([items[0], items[len(items) // 2], items[-1]])) if items else ()


def _sizes(items: list[Item]) -> Iterator[tuple[str, int]]:
    for item in items:
        if isinstance(item.load, Undecoded) and not isinstance(item.load, Inside):
            try:
                raw = item.load.raw()
            except BadImage:  # a file that is no image: workers say so when they come to it
                continue
            if isinstance(raw, Path):
                yield str(raw), raw.stat().st_size


def _alone(item: Item) -> Item:
    """An item as it can be sent: without the table that it lies in."""
    return replace(item, load=item.load.alone()) if isinstance(item.load, Inside) else item


# -- on the nodes ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _encoder(spec: str, setup: Setup) -> Encoder:
    """Kept for the next shard: loading a network takes longer than most shards."""
    return make(spec, setup)


def _describe(place: Place, spec: str, setup: Setup, cpus: int) -> RemoteEncoder:
    place.enter(cpus)
    made = _encoder(spec, setup)
    return RemoteEncoder(
        spec, setup, cpus, made.name, made.kind, made.dim, dict(made.preprocessing), made.fingerprint
    )


def _write_shard(job: Job, number: int, items: list[Item]) -> Written:
    """Decode and encode some items, and write them into the folder, not yet as part of it."""
    job.place.enter(job.encoder.cpus)
    _check_folder(job)
    _check_files(job.files)
    encoder = _encoder(job.encoder.spec, job.encoder.setup)
    if encoder.fingerprint != job.encoder.fingerprint:
        raise WrongEncoder(
            f"{node()} has {encoder.fingerprint}, other nodes have {job.encoder.fingerprint}: "
            "code and weights of the encoder must be the same on every node"
        )
    began = time.perf_counter()
    manifest = Manifest(encoder.dim, job.dtype)
    table: dict[str, list[object]] = row_table([])
    rows: list[AnyArray] = []
    skipped: list[Skipped] = []
    for done in encoded(items, encoder, job.batch, job.encoder.cpus):
        skipped += done.skipped
        if done.items:
            checked = row_table(**done.table())
            rows.append(as_rows(done.X, checked["ids"], manifest))
            for column, values in checked.items():
                table[column] += values
    part = None
    if rows:
        _check_folder(job)  # once more: the driver may have been killed meanwhile, and another have begun
        part = write_part(job.folder, np.concatenate(rows), table, f"{number:06d}")
    return Written(part, skipped, time.perf_counter() - began)


def _check_folder(job: Job) -> None:
    try:
        same = (job.folder / LOCK).read_text(encoding="utf-8") == job.lock
    except OSError:
        same = False
    if not same:
        raise BadFile(
            f"{node()} does not see {job.folder} as it is where the command was given: Ray's workers write the "
            "features, so the folder must be on storage that all nodes share, under the same name"
        )


@lru_cache(maxsize=1)
def _check_files(files: tuple[tuple[str, int], ...]) -> None:
    """Once for a worker: without it, a node that has none of the files would list all of them as unreadable."""
    for file, size in files:
        if not os.path.isfile(file) or os.path.getsize(file) != size:
            raise BadFile(
                f"{node()} does not see {file} as it is where the command was given: Ray's workers read the "
                "images, so they must be on storage that all nodes share, under the same name"
            )
