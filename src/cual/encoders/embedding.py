"""Encoding a source into a features folder: decoding beside the network, resumed, broken items left out."""

import csv
import io
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from cual.data.folder import FeaturesFolder, FeaturesWriter, Made
from cual.data.ids import check_ids
from cual.encoders.base import Described, Encoder
from cual.encoders.sessions import cores
from cual.encoders.sources import Item, Source
from cual.errors import BadFile, BadImage, BadOption
from cual.storage import write_bytes
from cual.types import FloatArray, Progress

SKIPPED = "skipped.csv"
BATCH = {"image": 32, "text": 256}
SHARD_ROWS = 2048
SAFE_AFTER = 30.0
"""Seconds of work that a killed process loses at most, however slow the network is."""


@dataclass(frozen=True)
class Skipped:
    """An item that could not be decoded, and why."""

    source: str
    reason: str


@dataclass
class Outcome:
    """What an embedding did."""

    encoded: int = 0
    reused: int = 0
    """Rows that were there already, of sources that have not changed."""
    others: int = 0
    """Rows of the folder that are of no item that the source has now."""
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Items encoded per second."""
        return self.encoded / self.seconds if self.seconds else 0.0


def embed(
    source: Source,
    encoder: Encoder,
    folder: str | Path,
    dtype: str | None = None,
    batch: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    shard_rows: int = SHARD_ROWS,
    wait: bool = False,
    decode: Callable[[Item, int], Any] | None = None,
) -> Outcome:
    """Encode what is not yet in `folder`. Killed and called again, it goes on after the last whole shard.

    Parameters
    ----------
    source
        What to encode; of the encoder's kind.
    encoder
        How; a folder takes features of one encoder only.
    folder
        The features folder.
    dtype
        "float16" or "float32"; by default what the folder has, float16 for a new one.
    batch
        Items per call of the network.
    workers
        Threads that decode; as many as there are cores by default.
    progress
        Called as ``progress(stage, done, total)``.
    shard_rows
        Rows that are written at a time; fewer, where that many take long.
    wait
        Wait for another process that writes into the folder, instead of raising `FolderInUse`.
    decode
        Makes of an item what the network takes, given the shorter side that an image needs; by default the item
        and the encoder do it, in this process.
    """
    with embedding(source, encoder, folder, dtype, shard_rows, wait) as work:
        writer = work.writer
        flushed = time.perf_counter()
        for rows in encoded(work.waiting, encoder, batch, workers, decode):
            work.outcome.skipped += rows.skipped
            if rows.items:
                writer.append(rows.X, **rows.table(), replace=True)
            work.outcome.encoded += len(rows.items)
            if time.perf_counter() - flushed > SAFE_AFTER:
                writer.flush()
                flushed = time.perf_counter()
            if progress is not None:
                progress("encoding", work.done, len(work.waiting))
    return work.outcome


@dataclass(frozen=True)
class Work:
    """An embedding under way: where rows go, which items wait to be encoded, and what was done so far."""

    writer: FeaturesWriter
    waiting: list[Item]
    outcome: Outcome

    @property
    def done(self) -> int:
        """Items that no longer wait."""
        return self.outcome.encoded + len(self.outcome.skipped)


@contextmanager
def embedding(
    source: Source, encoder: Described, folder: str | Path, dtype: str | None, shard_rows: int, wait: bool
) -> Generator[Work]:
    """What every embedding begins and ends with, in whichever process items are encoded."""
    if source.kind != encoder.kind:
        raise BadOption(f"{source.path} holds {source.kind}s, but {encoder.name} encodes {encoder.kind}s")
    check_ids([item.id for item in source.items], len(source), f"{source.path}")
    made = Made(encoder.fingerprint, encoder.preprocessing)
    began, outcome = time.perf_counter(), Outcome()
    with FeaturesWriter(folder, encoder.dim, dtype, made, shard_rows, wait) as writer:
        waiting = [i for i in source.items if i.id not in writer or writer.stamp(i.id) != i.stamp]
        outcome.reused = len(source) - len(waiting)
        yield Work(writer, waiting, outcome)
        outcome.others = len(writer) - len({i.id for i in source.items if i.id in writer})
    outcome.seconds = time.perf_counter() - began
    _write_skipped(Path(folder) / SKIPPED, outcome.skipped)


@dataclass(frozen=True)
class EncodedRows:
    """One call of the network: its items, their features, and those of the batch that could not be decoded."""

    items: list[Item]
    X: FloatArray
    skipped: list[Skipped]

    def table(self) -> dict[str, list[Any]]:
        """Ids, labels, sources and stamps of the rows."""
        return {
            "ids": [i.id for i in self.items],
            "labels": [i.label for i in self.items],
            "sources": [i.source for i in self.items],
            "stamps": [i.stamp for i in self.items],
        }


def encoded(
    items: Iterable[Item],
    encoder: Encoder,
    batch: int | None = None,
    workers: int | None = None,
    decode: Callable[[Item, int], Any] | None = None,
) -> Iterator[EncodedRows]:
    """Features of items, batch by batch and in order; the parameters are those of `embed`.

    A batch is so many items in a row, fewer where some cannot be decoded. So it depends on nothing before it:
    whoever encodes only some batches, on another machine even, gets the same bits.
    """
    size = batch or BATCH[encoder.kind]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # of odd metadata, and of half a bomb's size
        decoded = _decoded(items, encoder, workers or cores(), decode)
        while together := list(islice(decoded, size)):
            readable = [(item, result) for item, result in together if not isinstance(result, BadImage)]
            prepared = [result for _, result in readable]
            yield EncodedRows(
                [item for item, _ in readable],
                encoder.encode(prepared) if prepared else np.empty((0, encoder.dim), np.float32),
                [Skipped(i.source or str(i.id), str(why)) for i, why in together if isinstance(why, BadImage)],
            )


def current(source: Source, folder: FeaturesFolder) -> FeaturesFolder:
    """Rows of the items that the source has now, in its order; the folder may remember others."""
    known = ((item, folder.row_of.get(item.id)) for item in source.items)
    rows = [row for item, row in known if row is not None and folder.stamps[row] == item.stamp]
    if not rows:
        raise BadFile(f"{source.path}: none of its {len(source)} {source.kind}s could be decoded")
    return folder.select(np.array(rows, dtype=np.int64))


Decoded = tuple[Item, Any | BadImage]


def _decoded(
    items: Iterable[Item], encoder: Encoder, workers: int, decode: Callable[[Item, int], Any] | None
) -> Iterator[Decoded]:
    """Items with what the network takes, or what is wrong with them; in order, decoded ahead by threads.

    Pillow lets go of the interpreter while it decodes and resizes, so threads are enough.
    """
    shorter = int(encoder.preprocessing.get("resize") or 256)

    def work(item: Item) -> Any | BadImage:
        try:
            return encoder.prepare(item.load(shorter)) if decode is None else decode(item, shorter)
        except BadImage as error:
            return error
        except Exception as error:  # one odd item must not end a run of a million
            return BadImage(f"{type(error).__name__}: {error}"[:300])

    ahead = 2 * BATCH["image"] + workers
    with ThreadPoolExecutor(workers, "decode") as pool:
        under_way: deque[tuple[Item, Future[Any]]] = deque()
        try:
            for item in items:
                under_way.append((item, pool.submit(work, item)))
                if len(under_way) > ahead:
                    first, result = under_way.popleft()
                    yield first, result.result()
            while under_way:
                first, result = under_way.popleft()
                yield first, result.result()
        finally:
            for _, result in under_way:
                result.cancel()


def _write_skipped(path: Path, skipped: list[Skipped]) -> None:
    if not skipped:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("source", "reason"))
    writer.writerows((s.source, s.reason) for s in skipped)
    write_bytes(path, text.getvalue().encode(errors="replace"))
