"""Making a pool ready: features, small pictures, the map. A worker's job; killed, it goes on the next time."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import torch

from cual import storage
from cual.agent import Agent
from cual.data.files import read
from cual.data.folder import FeaturesFolder, is_features_folder
from cual.data.plain import chosen
from cual.data.plain_files import plain_columns
from cual.data.pool import Pool, check_width
from cual.serve.jobs import encoding, example, pictures
from cual.serve.jobs.decoding import Decoders
from cual.serve.jobs.encoding import Place
from cual.serve.rules import agents, jobs, pool_columns, pools, views
from cual.serve.rules.inbox import closing
from cual.serve.rules.inbox import files as inbox_files
from cual.serve.rules.jobs import Claim
from cual.serve.rules.sources import SOURCE
from cual.serve.storage import sums
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.storage import write_bytes
from cual.types import AnyArray, Progress, Row

_AT_ONCE = 32


def prepare(home: Home, claim: Claim, progress: Progress) -> None:
    """Make one pool ready."""
    assert claim.pool is not None
    with home.database.reading() as connection:
        row = pools.get(connection, claim.pool)
        current = connection.execute(
            sa.select(db.agents.c.current).where(db.agents.c.id == row.agent)
        ).scalar_one()
    agent, folder = agents.load(home, row.agent, current), home.pool_folder(claim.pool)
    (folder / sums.NAME).unlink(missing_ok=True)  # of an attempt whose files are made anew
    made = Made(row.kind, [], row.shown)
    if row.source.get("example"):
        _put_down_example(folder)
    if row.source.get("inbox"):
        _put_down_inbox(home, row.agent, row.source["inbox"], folder, agent)
    at = None if row.source["given"] else encoding.place(folder, row.source, progress)
    with Decoders() as decoders:
        if at is not None:
            made = _features(folder, row.source, at, agent, decoders, progress)
        pool = pools.open_pool(home, claim.pool)
        agent.check_encoder(pool.encoder, "pool")
        check_width(pool.width, agent.width, "pool")
        skipped = made.skipped
        if made.kind == "pictures":
            items = pictures.given(folder) if at is None else pictures.under(folder, at.path, at.root)
            skipped += pictures.write(folder, items, decoders, progress)
            decoders.check()
    _write_map(folder, pool, progress)
    write_bytes(folder / pools.SKIPPED, json.dumps(skipped).encode())
    digest = sums.write(folder, leave=[SOURCE])
    settle(folder)
    with home.database.writing() as connection:
        if not jobs.holds(connection, claim):
            return
        values = {"kind": made.kind, "size": len(pool), "skipped": len(skipped), "shown": made.shown}
        values |= {"state": "ready", "error": None, "sums": digest}
        connection.execute(sa.update(db.pools).where(db.pools.c.id == claim.pool).values(**values))
        jobs.finished(connection, claim)
        emptied = closing.empty(connection, claim.pool)
    if emptied is not None:
        inbox_files.remove(home, *emptied)
    shutil.rmtree(folder / SOURCE, ignore_errors=True)


def _put_down_example(folder: Path) -> None:
    data = example.demo_data()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pools.put_down(folder, example.demo_pool(data), example.drawn(data.images[data.pool]), None)


def _put_down_inbox(home: Home, owner: int, inbox: int, folder: Path, agent: Agent) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that was killed
    folder.mkdir(parents=True)
    closing.put_down(home, owner, inbox, folder, agent.encoder)


def settle(folder: Path) -> None:
    """Have everything on the disk before the database says so: what it was made of is removed then."""
    paths: list[Path] = []
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != SOURCE]
        paths += [*(Path(where, name) for name in files), Path(where)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:  # those that wait together are written together
        list(threads.map(_sync, paths))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- features --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """What a pool was made of, as it turned out."""

    kind: str
    skipped: list[dict[str, str]]
    """What could not be read."""
    shown: Row | None
    """What the database is to know of columns for people to read."""


def _features(
    folder: Path, source: dict[str, Any], at: Place, agent: Agent, decoders: Decoders, progress: Progress
) -> Made:
    """Put features into the pool's folder, copied or made, and what people are shown beside them."""
    from cual.encoders.anything import is_features
    from cual.encoders.sources import Columns, plain_source_columns

    wanted: list[str] | None = source.get("shown")
    if is_features_folder(at.path):
        _refuse_columns(at, wanted)
        encoding.refuse_links_out(at)
        _copy_folder(at.path, folder / pools.FEATURES_FOLDER, progress)
        seen = next(pictures.under(folder, at.path, at.root), None)
        return Made("features" if seen is None else "pictures", [], None)
    encoding.check_unpacked(at.path)
    if is_features(at.path):
        table = read(at.path, unpack=folder)
        agent.check_encoder(table.encoder, "pool")
        encoding.check_rows(len(table))
        Pool.of(table).save(folder / pools.FEATURES_FILE)
        columns = plain_columns(at.path, len(table), wanted)
        shown = pool_columns.keep(folder, columns, range(len(table)), len(table), progress)
        return Made("features", [], shown)
    items, skipped = encoding.open_items(at, source.get("columns", {}))
    if items.kind == "image":
        _refuse_columns(at, wanted)
    if agent.encoder:
        encoder = encoding.encoder_of(agent.encoder, progress)
    else:
        encoder = encoding.chosen_encoder(None, items.kind, progress)
    skipped += encoding.encode(items, encoder, folder / pools.FEATURES_FOLDER, at, decoders, progress)
    if items.kind == "image":
        return Made("pictures", skipped, None)
    ids = FeaturesFolder.open(folder / pools.FEATURES_FOLDER).ids
    items_by_id = {item.id: item for item in items.items}
    pools.write_texts(folder, [items_by_id[sample].load(0) for sample in ids])  # others have no text to load
    columns = plain_source_columns(at.path, Columns(**source.get("columns", {})), wanted)
    row_of = {sample: row for row, sample in enumerate(ids)}
    rows = [row_of.get(item.id) for item in items.items]
    return Made("text", skipped, pool_columns.keep(folder, columns, rows, len(ids), progress))


def _refuse_columns(at: Place, wanted: Sequence[str] | None) -> None:
    """Refuse columns by name of what has none; nobody is told of an empty wish."""
    chosen(at.path.name, {}, wanted)


def _copy_folder(source: Path, target: Path, progress: Progress) -> None:
    """Copy a features folder; the manifest comes last, as whoever reads it expects."""
    target.mkdir(exist_ok=True)
    features_folder = FeaturesFolder.open(source)
    for done, shard in enumerate(features_folder.manifest.shards):
        progress("copying", done, len(features_folder.manifest.shards))
        for suffix in (".npy", ".json"):
            write_bytes(target / f"{shard.name}{suffix}", (source / f"{shard.name}{suffix}").read_bytes())
    write_bytes(target / "manifest.json", json.dumps(features_folder.manifest.to_json()).encode())
    FeaturesFolder.open(target).verify()


# -- the map ---------------------------------------------------------------------------------------------------


def _write_map(folder: Path, pool: Pool, progress: Progress) -> None:
    progress("map", 0, 3 * len(pool))
    xy = projection(pool, progress)
    storage.write(folder / views.MAP, "map", {}, {"xy": torch.from_numpy(xy)})


def projection(pool: Pool, progress: Progress | None = None) -> AnyArray:
    """The two directions in which the pool varies most (PCA), (n, 2) float32, each scaled to −1 … 1.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 4)) * [9, 3, 0.1, 0.1]
    >>> places = projection(Pool(X))
    >>> places.shape, float(np.abs(places).max())
    ((50, 2), 1.0)
    """
    width = pool.width
    total = torch.zeros(width, dtype=torch.float64)
    for part in _parts(pool, 0, progress):
        total += part.double().sum(dim=0)
    mean = total / len(pool)
    spread = torch.zeros(width, width, dtype=torch.float64)
    for part in _parts(pool, 1, progress):
        centred = part.double() - mean
        spread += centred.T @ centred
    _, vectors = torch.linalg.eigh(spread)
    axes = torch.zeros(width, 2, dtype=torch.float64)
    axes[:, : min(2, width)] = vectors.flip(1)[:, :2]
    xy = torch.empty(len(pool), 2, dtype=torch.float64)
    done = 0
    for part in _parts(pool, 2, progress):
        xy[done : done + len(part)] = (part.double() - mean) @ axes
        done += len(part)
    lowest, highest = xy.amin(dim=0), xy.amax(dim=0)
    farthest = torch.maximum(-lowest, highest)
    signs = torch.where(-lowest > highest, -1.0, 1.0)  # eigenvectors have no sign of their own
    return xy.mul_(signs).div_(farthest.clamp(min=1e-12)).float().numpy()


def _parts(pool: Pool, earlier: int, progress: Progress | None) -> Iterator[torch.Tensor]:
    """All rows, some at a time; `earlier` is how often they were gone through before, of three times."""
    done = earlier * len(pool)
    for _, part in pool.chunks():
        yield part
        done += len(part)
        if progress is not None:
            progress("map", done, 3 * len(pool))
