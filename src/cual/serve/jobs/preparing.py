"""Making a pool ready: features, small pictures, the map. A worker's job; killed, it goes on the next time."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
import torch

from cual import storage
from cual.agent import Agent
from cual.data.files import read
from cual.data.folder import FeaturesFolder, is_features_folder
from cual.data.pool import Pool, check_width
from cual.errors import BadFile, BadImage, BadOption, NotAllowed, TooLarge
from cual.serve.jobs import pictures
from cual.serve.jobs.decoding import Decoders, input_of
from cual.serve.rules import agents, jobs, pools, views
from cual.serve.rules.jobs import Claim
from cual.serve.rules.messages import without_paths
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.storage import write_bytes
from cual.types import AnyArray, Progress

if TYPE_CHECKING:
    from cual.encoders.base import Encoder
    from cual.encoders.embedding import Skipped
    from cual.encoders.sources import Item

MOST_BYTES = 16 * 2**30
"""What an .npz may unpack to: it is read into memory."""
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
    kind, skipped = row.kind, list[dict[str, str]]()
    with Decoders() as decoders:
        if not row.source["given"]:
            kind, skipped = _features(folder, row.source, agent, decoders, progress)
        pool = pools.open_pool(home, claim.pool)
        agent.check_encoder(pool.encoder, "pool")
        check_width(pool.width, agent.width, "pool")
        if kind == "pictures":
            given = row.source["given"]
            items = pictures.given(folder) if given else pictures.under(folder, *_where(folder, row.source))
            skipped += pictures.write(folder, items, decoders, progress)
            decoders.check()
    _write_map(folder, pool, progress)
    write_bytes(folder / pools.SKIPPED, json.dumps(skipped).encode())
    settle(folder)
    with home.database.writing() as connection:
        if not jobs.holds(connection, claim):
            return
        values = {"kind": kind, "size": len(pool), "skipped": len(skipped), "state": "ready", "error": None}
        connection.execute(sa.update(db.pools).where(db.pools.c.id == claim.pool).values(**values))
        jobs.finished(connection, claim)
    shutil.rmtree(folder / pools.SOURCE, ignore_errors=True)


def settle(folder: Path) -> None:
    """Have everything on the disk before the database says so: what it was made of is removed then."""
    paths: list[Path] = []
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != pools.SOURCE]
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


def _features(
    folder: Path, source: dict[str, Any], agent: Agent, decoders: Decoders, progress: Progress
) -> tuple[str, list[dict[str, str]]]:
    """Put features into the pool's folder, copied or made; the kind of pool, and what could not be read."""
    path, root = _where(folder, source)
    from cual.encoders.anything import is_features

    if is_features_folder(path):
        _refuse_links_out(path, root)
        _copy_folder(path, folder / pools.FEATURES_FOLDER, progress)
        seen = next(pictures.under(folder, path, root), None)
        return "features" if seen is None else "pictures", []
    if is_features(path):
        _check_unpacked(path)
        table = read(path)
        agent.check_encoder(table.encoder, "pool")
        Pool.of(table).save(folder / pools.FEATURES_FILE)
        return "features", []
    return _encode(folder, path, root, agent, decoders, progress)


def _where(folder: Path, source: dict[str, Any]) -> tuple[Path, Path]:
    """Where the samples lie, and the folder that nothing may lead out of."""
    if source["upload"]:
        return folder / pools.SOURCE / source["path"], folder / pools.SOURCE
    path, root = Path(source["path"]), Path(source["root"])
    if path.resolve() != path:  # a link was put in its place since
        raise NotAllowed(f"{path} has changed since the pool was added; add it again")
    return path, root


def _check_unpacked(path: Path) -> None:
    if path.suffix == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            size = sum(member.file_size for member in packed.infolist())
        if size > MOST_BYTES:
            raise TooLarge(f"{path.name} unpacks to {size:,} bytes; at most {MOST_BYTES:,} are taken")


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


def _encode(
    folder: Path, path: Path, root: Path, agent: Agent, decoders: Decoders, progress: Progress
) -> tuple[str, list[dict[str, str]]]:
    from cual.encoders.base import Setup, default, make, trusted
    from cual.encoders.embedding import embed
    from cual.encoders.sources import Source, open_source

    if (path / "state.json").exists():  # tables that are opened by the names it gives
        _refuse_links_out(path, root)
    source = open_source(path)
    out = {i.source for i in source.items if i.source and not pictures.inside(Path(i.source), root)}
    kept = [i for i in source.items if i.source not in out]
    setup = Setup(threads=1, progress=progress)
    try:
        encoder = trusted(agent.encoder, None, setup) if agent.encoder else make(default(source.kind), setup)
    except NotAllowed:  # what it says is for whoever can name an encoder, which nobody can here
        raise BadOption(
            f"the agent's encoder {agent.encoder} is not one that the service runs; encode with `cual embed` "
            "and add the features"
        ) from None
    outcome = embed(
        Source(source.path, source.kind, kept),
        encoder,
        folder / pools.FEATURES_FOLDER,
        workers=1,
        progress=_of_all(len(kept), progress),
        decode=_apart(encoder, decoders) if source.kind == "image" else None,
    )
    decoders.check()
    if not outcome.encoded + outcome.reused:
        raise BadFile(f"none of the {len(source)} {source.kind}s could be read{_first_reason(outcome.skipped)}")
    skipped = [
        {"source": pictures.short(s.source, path), "reason": without_paths(s.reason, [folder, root])}
        for s in outcome.skipped
    ]
    skipped += [{"source": pictures.short(s, path), "reason": "leads out of the folder"} for s in sorted(out)]
    if source.kind == "image":
        return "pictures", skipped
    texts = {item.id: item.load(0) for item in source.items}
    pools.write_texts(folder, [texts[i] for i in FeaturesFolder.open(folder / pools.FEATURES_FOLDER).ids])
    return "text", skipped


def _of_all(n: int, progress: Progress) -> Progress:
    """Progress of encoding `n` items in all: after a kill, `embed` counts what is left."""

    def report(stage: str, done: int, total: int) -> None:
        progress(stage, n - total + done, n)

    return report


def _apart(encoder: "Encoder", decoders: Decoders) -> Callable[["Item", int], Any]:
    """Have images decoded apart from this process, and if possible all that is done to them there as well."""
    from cual.encoders.sources import Undecoded

    given = input_of(encoder)

    def decode(item: "Item", shorter: int) -> Any:
        if not isinstance(item.load, Undecoded):
            raise BadImage("it cannot be had as a file")
        if given is not None:
            return decoders.pixels(item.load.raw(), shorter, given)
        return encoder.prepare(decoders.rgb(item.load.raw(), shorter))

    return decode


def _first_reason(skipped: "list[Skipped]") -> str:
    return f"; the first: {skipped[0].reason}" if skipped else ""


def _refuse_links_out(path: Path, root: Path) -> None:
    """Files that a reader opens by itself must lie where they seem to lie."""
    for file in path.iterdir():
        if file.is_symlink() and not pictures.inside(file, root):
            raise NotAllowed(f"{file.name} leads out of the folder")


# -- the map ---------------------------------------------------------------------------------------------------


def _write_map(folder: Path, pool: Pool, progress: Progress) -> None:
    progress("map", 0, 3 * len(pool))
    xy = projection(pool, progress)
    storage.write(folder / views.MAP, "map", {}, {"xy": torch.from_numpy(xy)})


def projection(pool: Pool, progress: Progress | None = None) -> AnyArray:
    """The two directions in which the pool varies most (PCA), (n, 2) float32, each scaled to −1 … 1."""
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
    xy = torch.cat([(part.double() - mean) @ axes for part in _parts(pool, 2, progress)])
    signs = torch.sign(xy.gather(0, xy.abs().argmax(dim=0)[None]))[0]  # eigenvectors have no sign of their own
    xy = xy * torch.where(signs == 0, 1.0, signs)
    return (xy / xy.abs().max(dim=0).values.clamp(min=1e-12)).float().numpy()


def _parts(pool: Pool, earlier: int, progress: Progress | None) -> Iterator[torch.Tensor]:
    """All rows, some at a time; `earlier` is how often they were gone through before, of three times."""
    done = earlier * len(pool)
    for _, part in pool.chunks(np.arange(len(pool))):
        yield part
        done += len(part)
        if progress is not None:
            progress("map", done, 3 * len(pool))
