"""Encoding a source into a features folder: decoding beside the network, resumed, broken items left out."""

import csv
import io
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cual.encoders.base import Encoder
from cual.encoders.sessions import cores
from cual.encoders.sources import Item, Source
from cual.errors import BadImage, BadOption, DuplicateIds
from cual.features_folder import FeaturesWriter, Made
from cual.storage import write_bytes
from cual.types import Progress

SKIPPED = "skipped.csv"
BATCH = {"image": 32, "text": 256}


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
    shard_rows: int = 2048,
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
        Rows that are written at a time, and at most lost when the process is killed.
    """
    if source.kind != encoder.kind:
        raise BadOption(f"{source.path} holds {source.kind}s, but {encoder.name} encodes {encoder.kind}s")
    if len({item.id for item in source.items}) < len(source):
        raise DuplicateIds(f"{source.path}: two items have the same id")
    made = Made(encoder.fingerprint, encoder.preprocessing)
    began, outcome = time.perf_counter(), Outcome()
    with warnings.catch_warnings(), FeaturesWriter(folder, encoder.dim, dtype, made, shard_rows) as writer:
        warnings.filterwarnings("ignore", module="PIL")  # of odd metadata, and of half a bomb's size
        waiting = [i for i in source.items if i.id not in writer or writer.stamp(i.id) != i.stamp]
        outcome.reused = len(source) - len(waiting)
        decoded = _decoded(waiting, encoder, workers or cores())
        for items, prepared in _batches(decoded, batch or BATCH[encoder.kind], outcome):
            writer.append(
                encoder.encode(prepared),
                [i.id for i in items],
                [i.label for i in items],
                [i.source for i in items],
                [i.stamp for i in items],
                replace=True,
            )
            outcome.encoded += len(items)
            if progress is not None:
                progress("encoding", outcome.encoded + len(outcome.skipped), len(waiting))
    outcome.seconds = time.perf_counter() - began
    _write_skipped(Path(folder) / SKIPPED, outcome.skipped)
    return outcome


Decoded = tuple[Item, Any | BadImage]


def _decoded(items: Iterable[Item], encoder: Encoder, workers: int) -> Iterator[Decoded]:
    """Items with what the network takes, or what is wrong with them; in order, decoded ahead by threads.

    Pillow lets go of the interpreter while it decodes and resizes, so threads are enough.
    """
    shorter = int(encoder.preprocessing.get("resize") or 256)

    def work(item: Item) -> Any | BadImage:
        try:
            return encoder.prepare(item.load(shorter))
        except BadImage as error:
            return error

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


def _batches(decoded: Iterator[Decoded], size: int, outcome: Outcome) -> Iterator[tuple[list[Item], list[Any]]]:
    items: list[Item] = []
    prepared: list[Any] = []
    for item, result in decoded:
        if isinstance(result, BadImage):
            outcome.skipped.append(Skipped(item.source or str(item.id), str(result)))
            continue
        items.append(item)
        prepared.append(result)
        if len(items) == size:
            yield items, prepared
            items, prepared = [], []
    if items:
        yield items, prepared


def _write_skipped(path: Path, skipped: list[Skipped]) -> None:
    if not skipped:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("source", "reason"))
    writer.writerows((s.source, s.reason) for s in skipped)
    write_bytes(path, text.getvalue().encode(errors="replace"))
