"""Pools of a workspace: rows in the database, a folder each, and how to get at what lies there.

Adding one only puts down what came; everything that takes time is a job (`cual.serve.jobs.preparing`).
"""

import io
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.agent import Agent
from cual.data.folder import FeaturesFolder, is_features_folder
from cual.data.pool import Pool, check_width
from cual.errors import BadFile, BadOption, Conflict, NotAllowed, NotFound
from cual.serve.rules import audit, jobs
from cual.serve.rules.checks import check_name, needs
from cual.serve.rules.records import Person, PoolKind, PoolRecord, Role
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.storage import write_bytes
from cual.types import AnyArray, LazyRows

FEATURES_FILE, FEATURES_FOLDER = "features.safetensors", "features"
SOURCE, PICTURES = "source", "pictures"
TEXTS, OFFSETS = "texts.jsonl", "texts.npy"
SKIPPED = "skipped.json"
_SUFFIXES = re.compile(r"(\.[a-z0-9]{1,10}){1,2}")

Pictures = AnyArray | Sequence[Any]
"""(n, height, width) or (n, height, width, 3) bytes, or one PIL image or encoded file (bytes) per row."""


def every(home: Home) -> list[PoolRecord]:
    """All of them, the latest first."""
    with home.database.reading() as connection:
        rows = connection.execute(sa.select(db.pools).order_by(db.pools.c.id.desc())).all()
        return [_record(connection, row) for row in rows]


def one(home: Home, pool: int) -> PoolRecord:
    with home.database.reading() as connection:
        return _record(connection, get(connection, pool))


def get(connection: Connection, pool: int) -> Row[Any]:
    return one_row(connection, sa.select(db.pools).where(db.pools.c.id == pool), f"pool {pool}")


def add(
    home: Home,
    name: str,
    source: Path | Pool,
    agent: int,
    loaded: Agent,
    person: Person,
    pictures: Pictures | None = None,
    texts: Sequence[str] | None = None,
) -> PoolRecord:
    """Put down a new pool and have it prepared.

    Parameters
    ----------
    source
        A `Pool`, or where its samples lie: images, text or features, under an allowed root or in `uploads`.
    agent, loaded
        Whose encoder makes, or made, the features.
    pictures, texts
        What to show of each row, for a `Pool`.
    """
    needs(person, Role.admin)
    name = check_name(name, "a pool's name")
    size, where = 0, dict[str, Any](given=True)
    if isinstance(source, Pool):
        kind, size = _check_given(source, loaded, pictures, texts), len(source)
    else:
        where = _allowed(home, source)
        kind = _kind_of(Path(where["path"]))
    values = {"name": name, "agent": agent, "kind": kind, "size": size, "source": where, "state": "preparing"}
    with home.database.writing() as connection:
        inserted = connection.execute(sa.insert(db.pools).values(**values))
        number: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        folder = home.pool_folder(number)
        shutil.rmtree(folder, ignore_errors=True)  # of one that was never committed
        folder.mkdir(parents=True)
        if isinstance(source, Pool):
            _put_down(folder, source, pictures, texts)
        elif where["upload"]:
            moved = {**where, "path": _take_over(Path(where["path"]), folder / SOURCE)}
            connection.execute(sa.update(db.pools).where(db.pools.c.id == number).values(source=moved))
        jobs.add(connection, "prepare", pool=number)
        audit.write(connection, person, "add pool", "pool", number, name=name, agent=agent, kind=kind)
        return _record(connection, get(connection, number))


def _check_given(pool: Pool, agent: Agent, pictures: Pictures | None, texts: Sequence[str] | None) -> PoolKind:
    """What kind of pool it is, once everything fits."""
    agent.check_encoder(pool.encoder, "pool")
    check_width(pool.width, agent.width, "pool")
    for what, shown in (("pictures", pictures), ("texts", texts)):
        if shown is not None and len(shown) != len(pool):
            raise BadOption(f"{len(pool)} samples came with {len(shown)} {what}")
    return "pictures" if pictures is not None else "text" if texts is not None else "features"


def _put_down(folder: Path, pool: Pool, pictures: Pictures | None, texts: Sequence[str] | None) -> None:
    """Keep what was given in memory, as it came; turning it into small pictures is the job's work."""
    whole = Pool(np.asarray(pool.data), pool.ids, pool.encoder) if isinstance(pool.data, LazyRows) else pool
    whole.save(folder / FEATURES_FILE)
    if texts is not None:
        write_texts(folder, texts)
    if isinstance(pictures, np.ndarray):
        if pictures.dtype != np.uint8 or pictures.ndim not in (3, 4):
            raise BadOption(
                f"pictures are (n, height, width[, 3]) of uint8, not {pictures.dtype} {pictures.shape}"
            )
        buffer = io.BytesIO()
        np.save(buffer, pictures, allow_pickle=False)
        write_bytes(folder / SOURCE / "pictures.npy", buffer.getvalue())
    elif pictures is not None:
        (folder / SOURCE).mkdir()
        for row, picture in enumerate(pictures):
            data = picture if isinstance(picture, bytes) else _png(picture)
            (folder / SOURCE / str(row)).write_bytes(data)


def _png(picture: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _allowed(home: Home, source: Path) -> dict[str, Any]:
    """Where to read from, links resolved; refused unless it lies under a root or was uploaded."""
    try:
        path = Path(source).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        path = None
    uploads = home.uploads.resolve()
    for root in (uploads, *home.roots):
        # Whether a path outside exists is nobody's business: both get the same answer.
        if path is not None and path.is_relative_to(root) and path != uploads:
            return {"given": False, "path": str(path), "root": str(root), "upload": root == uploads}
    allowed = ", ".join(str(root) for root in home.roots) or "none"
    raise NotAllowed(f"{source} does not lie under a folder that pools may be read from ({allowed})")


def _take_over(upload: Path, target: Path) -> str:
    """Move what was uploaded to the pool; what it is called there."""
    suffixes = "".join(upload.suffixes[-2:]).lower()
    name = "items" if upload.is_dir() else "file" + (suffixes if _SUFFIXES.fullmatch(suffixes) else "")
    target.mkdir()
    upload.rename(target / name)
    return name


def _kind_of(source: Path) -> PoolKind:
    """What a path seems to hold; the job knows better."""
    if is_features_folder(source) or source.suffix in (".npz", ".npy"):
        return "features"
    return "pictures" if source.is_dir() else "text"


# -- tried again, deleted --------------------------------------------------------------------------------------


def retry(home: Home, pool: int, person: Person) -> int:
    """Have a pool prepared that could not be; the number of the job."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = one_row(connection, _locked(pool), f"pool {pool}")
        if row.state != "failed":
            raise Conflict(f"the pool {row.name!r} has not failed: it is {row.state}")
        audit.write(connection, person, "retry", "pool", pool)
        anew = {"state": "preparing", "error": None}
        connection.execute(sa.update(db.pools).where(db.pools.c.id == pool).values(**anew))
        return jobs.add(connection, "prepare", pool=pool)


def delete(home: Home, pool: int, person: Person) -> None:
    """Remove a pool: first from the database, then its folder. Refused while an adaptation needs it."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        j = db.jobs.c
        connection.execute(
            sa.select(j.id).where(j.pool == pool).with_for_update()
        )  # jobs before pools, as always
        row = one_row(connection, _locked(pool), f"pool {pool}")
        _refuse_in_use(connection, row)
        audit.write(connection, person, "delete pool", "pool", pool, name=row.name)
        connection.execute(sa.delete(db.jobs).where(j.pool == pool))
        connection.execute(sa.delete(db.pools).where(db.pools.c.id == pool))
        _marker(home, pool).touch()  # whoever is killed before the folder is gone leaves word
    sweep(home)


def sweep(home: Home) -> None:
    """Remove what is left of pools that were deleted.

    A folder goes only if it is marked and has no row. That a database knows nothing of it is not enough: it may
    have been given by mistake.
    """
    for marker in (home.folder / "pools").glob("[0-9]*.deleted"):
        number = int(marker.stem)
        if not _is_there(home, number):
            shutil.rmtree(home.pool_folder(number), ignore_errors=True)
            if not home.pool_folder(number).exists():
                marker.unlink(missing_ok=True)


def forget(home: Home, pool: int) -> None:
    """Remove what a worker wrote for a pool that was deleted meanwhile."""
    if not _is_there(home, pool):
        shutil.rmtree(home.pool_folder(pool), ignore_errors=True)


def _is_there(home: Home, pool: int) -> bool:
    with home.database.reading() as connection:
        return (
            connection.execute(sa.select(db.pools.c.id).where(db.pools.c.id == pool)).one_or_none() is not None
        )


def _locked(pool: int) -> sa.Select[Any]:
    return sa.select(db.pools).where(db.pools.c.id == pool).with_for_update()


def _marker(home: Home, pool: int) -> Path:
    return home.folder / "pools" / f"{int(pool)}.deleted"


def _refuse_in_use(connection: Connection, pool: Row[Any]) -> None:
    a = db.adaptations.c
    users = connection.execute(sa.select(a.id, a.state).where(a.pool == pool.id).order_by(a.id)).all()
    if users:
        names = ", ".join(f"adaptation {row.id} ({row.state})" for row in users)
        raise Conflict(f"the pool {pool.name!r} is needed by {names}, which show what was asked of it")


# -- what lies in the folder -----------------------------------------------------------------------------------


def open_pool(home: Home, pool: int) -> Pool:
    """The features of a pool that is ready."""
    folder = home.pool_folder(pool)
    if (folder / FEATURES_FILE).exists():
        return Pool.load(folder / FEATURES_FILE)
    features = FeaturesFolder.open(folder / FEATURES_FOLDER)
    return Pool(features.X, features.ids)


def picture(home: Home, pool: int, row: int) -> Path:
    """The file of a row's picture."""
    file = home.pool_folder(pool) / PICTURES / f"{int(row)}.webp"
    if row < 0 or not file.is_file():
        raise NotFound(f"row {row} of pool {pool} has no picture")
    return file


def text(home: Home, pool: int, row: int) -> str:
    """The text of a row."""
    folder = home.pool_folder(pool)
    if not (folder / OFFSETS).is_file():
        raise NotFound(f"pool {pool} has no texts")
    offsets = np.load(folder / OFFSETS, mmap_mode="r", allow_pickle=False)
    if not 0 <= row < len(offsets) - 1:
        raise NotFound(f"row {row} of pool {pool} has no text")
    with (folder / TEXTS).open("rb") as file:
        file.seek(int(offsets[row]))
        return str(json.loads(file.read(int(offsets[row + 1]) - int(offsets[row]))))


def write_texts(folder: Path, texts: Sequence[str]) -> None:
    """One JSON line per row, and where each begins."""
    lines = [json.dumps(str(text)).encode() + b"\n" for text in texts]
    offsets = np.cumsum([0, *(len(line) for line in lines)], dtype=np.int64)
    buffer = io.BytesIO()
    np.save(buffer, offsets, allow_pickle=False)
    write_bytes(folder / TEXTS, b"".join(lines))
    write_bytes(folder / OFFSETS, buffer.getvalue())


def skipped(home: Home, pool: int) -> list[dict[str, str]]:
    """Items that could not be read, and why."""
    one(home, pool)
    file = home.pool_folder(pool) / SKIPPED
    try:
        return json.loads(file.read_bytes()) if file.exists() else []
    except ValueError as error:
        raise BadFile(f"{file} is damaged: {error}") from error


def _record(connection: Connection, row: Row[Any]) -> PoolRecord:
    progress = None
    if row.state == "preparing":
        j = db.jobs.c
        wanted = sa.select(db.jobs).where(j.pool == row.id, j.state == "running").order_by(j.id.desc())
        progress = jobs.progress_of(connection.execute(wanted.limit(1)).one_or_none())
    same = ("id", "name", "kind", "size", "state", "error", "created_at", "agent", "skipped")
    return PoolRecord(**{k: getattr(row, k) for k in same}, progress=progress)
